package trial

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/protocol"
	"github.com/kbisect/kbisect/pipeline/compilers"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Job is one build. It is a value that the goroutine of a build ahead may keep.
type Job struct {
	Recipe    Recipe
	Request   bisect.Request
	Bounds    Bounds
	Clean     bool                                    // from a clean export, and not from the cache
	Suspected bool                                    // a step of this candidate was blamed on another process before
	Report    func(doing string, limit time.Duration) // progress; may be nil
	Working   sync.Locker                             // held while kbisect itself works, not the build; may be nil
	Opened    func(opened []string, after float64)    // called with the files opened so far, and the seconds since it began, while it runs and when it has ended; may be nil

	objects *workspace.Objects // that the build may use; nil for none
	apart   bool               // it may not
}

// working holds Working until the returned function is called.
func (j *Job) working() (end func()) {
	if j.Working == nil {
		return func() {}
	}
	j.Working.Lock()
	return j.Working.Unlock
}

// telling returns a callback that passes on what a build has opened, with the seconds since it began; nil if nobody listens.
func (j *Job) telling(began time.Time) func(opened []string) {
	if j.Opened == nil {
		return nil
	}
	return func(opened []string) { j.Opened(opened, time.Since(began).Seconds()) }
}

// Built is how a build went.
type Built struct {
	Outcome    bisect.Outcome // its Class is "" if the workspace holds the candidate, built
	Warnings   []string       // of the export, each beginning with the path that it is about
	Suspicious bool           // another process may have ended it
	Missing    string         // a file that the repository lacks, if that may be why it failed, see Excuse
	Crowded    bool           // it failed by its limit or for memory, which may be due to what ran beside it
	Processors float64        // that the build command kept busy on average; 0: it did not run
	Memory     int64          // peak bytes; 0: unknown
}

// Holds reports whether a workspace holds a candidate, built, and nothing that a failed process left.
func (p Recipe) Holds(w *workspace.Workspace, c bisect.Candidate) bool {
	return w.Contents.Candidate == p.buildOf(w, c) && w.Contents.Built && !w.Contents.Dirty
}

// Build brings a workspace to a candidate and builds it there. The outcome has a class if that is how the trial
// ends already: the candidate could not be exported or built. An error is the machine's fault, or the user's: a
// *CommandError, or a good or bad end that cannot be exported.
//
// A workspace that holds the candidate is used as it is. Otherwise the build starts from what was built there
// before, if the build tool tracks changes (Plan.Incremental), and else from a clean tree. An incremental build
// that fails is repeated clean, so that no candidate is blamed for what another one left.
func Build(ctx context.Context, w *workspace.Workspace, j Job) (Built, error) {
	p := j.Recipe
	if j.Report == nil {
		j.Report = func(string, time.Duration) {}
	}
	if _, err := os.Stat(w.Dir); err == nil && len(p.Plan.Build) > 0 && p.Holds(w, j.Request.Candidate) {
		return Built{}, nil // launched again as it is
	}
	if err := w.Open(p.Opening()); err != nil {
		return Built{}, err
	}
	incremental, err := j.mayBuildOn(ctx, w)
	if err != nil {
		return Built{}, err
	}
	b, err := j.export(ctx, w, !incremental)
	if err != nil || b.Outcome.Class != "" {
		return b, err
	}
	if len(p.Plan.Build) == 0 { // a dirty workspace was exported anew
		w.Contents.Built, w.Contents.Dirty = true, false
		return b, nil
	}
	done, err := j.compile(ctx, w)
	stale := done.Outcome.Class == bisect.BuildFailed && incremental // it may have failed on stale objects
	if j.apart = j.perhapsLate(done); err == nil && (stale || j.apart) {
		p.Log.Info("building clean", "candidate", j.Request.Candidate.Brief(), "incremental build failed", stale, "alone it may take too long", j.apart)
		if b, err = j.export(ctx, w, true); err != nil || b.Outcome.Class != "" {
			return b, err
		}
		done, err = j.compile(ctx, w)
	}
	done.Warnings = b.Warnings
	workspace.Seal(w, err == nil && done.Outcome.Class == "")
	return done, err
}

// perhapsLate reports that the build of an end might have run into its limit without the objects that it found: these
// took no longer to compile than the job is old. Whether an end is built in time decides what the search is about.
func (j *Job) perhapsLate(b Built) bool {
	limit, took := j.Bounds.inForce("build"), time.Duration(b.Outcome.Build*float64(time.Second))
	return j.Request.Purpose.IsEnd() && b.Outcome.Class == "" && took > 0 && limit > 0 && j.objects != nil && time.Since(j.objects.Since)+took > limit
}

// mayBuildOn reports whether the build may start from what the workspace holds. Build tools notice changed files;
// they do not notice changed options, and often not that files came, went or were renamed.
func (j *Job) mayBuildOn(ctx context.Context, w *workspace.Workspace) (bool, error) {
	p, c, held := j.Recipe, j.Recipe.buildOf(w, j.Request.Candidate), w.Contents.Candidate
	if !p.Plan.Incremental || j.Clean || w.Contents.Dirty || held.Commit == "" || c.Assign != held.Assign {
		return false, nil
	}
	changed, err := p.Repo.Changes(ctx, held.Commit, c.Commit)
	if workspace.Refused(err) { // as its export will be
		return false, nil
	}
	if err != nil {
		return false, &bisect.InfraError{What: "comparing trees for " + bisect.ShortID(c.Commit), Err: err}
	}
	for _, c := range changed {
		if c.Kind == "added" || c.Kind == "deleted" || c.Kind == "renamed" || p.Plan.IsBuildFile(c.Path) {
			return false, nil
		}
	}
	return true, nil
}

// export writes the commit and the files of the plan into the workspace. It counts against the limit of the build.
// Contents is updated in two steps because buildOf has to read the exported files.
func (j *Job) export(ctx context.Context, w *workspace.Workspace, clean bool) (b Built, err error) {
	defer j.working()()
	p, r := j.Recipe, j.Request
	j.Report("export", 0)
	within := ctx
	if limit := j.Bounds.limit("build"); limit > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	stats, err := w.Switch(within, r.Candidate.Commit, clean)
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		b.Outcome = bisect.Outcome{Class: bisect.Skip, Phase: "export", Why: fmt.Sprintf("its files were not written within %v, the limit of the build", j.Bounds.limit("build"))}
		return b, nil
	case !workspace.Refused(err):
		return b, err
	case r.Purpose.IsEnd(): // the user must name another end
		return b, fmt.Errorf("exporting commit %s: %w", bisect.ShortID(r.Candidate.Commit), err)
	default:
		b.Outcome = bisect.Outcome{Class: bisect.Skip, Phase: "export", Why: firstLine(err.Error())}
		return b, nil
	}
	p.Log.Debug("exported", "commit", bisect.ShortID(r.Candidate.Commit), "written", stats.Written, "removed", stats.Removed, "kept", stats.Kept, "workspace", w.Name)
	b.Warnings = w.Warnings()
	if err := w.Bring(ctx, p.Repo.WorkDir(), p.Plan.Keep); err != nil {
		return b, err
	}
	w.Contents.Candidate = r.Candidate
	w.Contents.Candidate = p.buildOf(w, r.Candidate) // now there are files to look at
	b.Outcome, b.Missing, err = p.writeFiles(ctx, w, r.Candidate)
	return b, err
}

// compile runs the build command, or fetches from the cache what it would make. Trouble with the cache only costs
// time: it is logged, and the candidate is built.
func (j *Job) compile(ctx context.Context, w *workspace.Workspace) (b Built, err error) {
	p, r, o := j.Recipe, j.Request, &b.Outcome
	rest := j.working()
	defer func() { rest() }()
	key := j.cacheKey(w)
	if key != "" && !j.Clean && !j.Suspected && !j.apart {
		if kept, hit, err := p.Cache.Get(ctx, key, w.Dir); err != nil {
			p.Log.Warn("build cache", "err", err)
		} else if hit {
			w.Contents.Facts, w.Contents.Made = factsOf(kept), true
			w.Notes.Add(w.Contents.Facts.Opened, len(w.Contents.Facts.Opened) > 0)
			o.CacheHit = true
			return b, nil
		}
	}
	limit := j.Bounds.inForce("build")
	j.Report("build", limit)
	if j.objects = objects(p, w); j.apart {
		j.objects = nil
	}
	env, err := p.buildEnv(ctx, w, r, j.objects)
	if err != nil {
		return b, err
	}
	log, noted, tell := p.LogFile(r, "build"), func() {}, j.telling(time.Now())
	if p.Learn {
		noted = w.Note(false, tell)
	}
	rest()
	res, err := w.Run(ctx, proc.Spec{
		Argv: j.argv(), Dir: p.WorkDir(w), Env: env, Output: log, OutputMax: p.outputMax(),
		Phase: "build", Limit: limit, MemoryMax: j.Bounds.Limits.BuildMemory,
	})
	rest = j.working()
	noted()
	if err != nil {
		b.Outcome, err = p.cannotStart(w, r, p.Plan.Build[0], err)
		b.Missing = p.missing(w, p.Plan.Build[0])
		return b, err
	}
	res.Tail = ownPaths(w, protocol.Unescape(res.Tail))
	ended := endedBuild{res: res, bounds: j.Bounds, suspected: j.Suspected, missing: missingOutputs(w.Dir, p.Plan.Outputs)}
	b.Outcome, b.Suspicious, b.Missing = classifyBuild(ended), ended.suspicious() != "", p.missing(w, string(res.Tail))
	w.Contents.Made = !ended.failed()
	b.Crowded = res.Timeout != nil || res.OOMWhere != "" || res.Signal == syscall.SIGKILL
	b.Processors, b.Memory = (res.User+res.System).Seconds()/max(res.Wall.Seconds(), 1e-3), max(res.MemoryPeak, res.MaxRSS)
	o.Warnings = strayWords(res.Strays)
	o.Build, o.Built, o.Tail, o.Log, o.Exit, o.Signal = res.Wall.Seconds(), true, string(res.Tail), log, res.Exit, signalName(res.Signal)
	if o.Class != "" {
		o.Phase, o.Phases = "build", []bisect.PhaseTime{{Name: "build", Seconds: o.Build}}
		return b, nil
	}
	look := examiner{recipe: p, w: w, env: env, log: log}
	if w.Contents.Facts, err = look.examine(ctx, r.Candidate); err != nil {
		return b, err
	}
	if p.Learn {
		if w.Contents.Facts.Opened = w.Notes.Opened(); tell != nil {
			tell(w.Contents.Facts.Opened)
		}
	}
	if key != "" && !j.perhapsLate(b) {
		meta := map[string]string{"commit": r.Candidate.Commit, "candidate": r.Candidate.String(), metaFacts: asJSON(w.Contents.Facts)}
		if err := p.Cache.Put(key, w.Dir, p.Plan.Outputs, meta); err != nil {
			p.Log.Warn("build cache", "err", err)
		}
	}
	return b, nil
}

// metaFacts is the key of the facts in the metadata of a build cache entry.
const metaFacts = "facts"

func factsOf(meta map[string]string) (f workspace.Facts) {
	_ = json.Unmarshal([]byte(meta[metaFacts]), &f) // entries of earlier versions have none
	return f
}

func asJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}

// missingOutputs are the patterns that match nothing below dir.
func missingOutputs(dir string, patterns []string) (missing []string) {
	for _, out := range patterns {
		found, err := filepath.Glob(filepath.Join(dir, out))
		if err != nil || len(found) == 0 {
			missing = append(missing, out)
		}
	}
	return missing
}

// Removed names what a trial in a workspace needs and what was removed, see [workspace.Removed], outputs of a
// successful build included.
func Removed(ctx context.Context, p Recipe, w *workspace.Workspace) []string {
	removed := workspace.Removed(ctx, w)
	if w.Contents.Made {
		removed = append(removed, missingOutputs(w.Dir, p.Plan.Outputs)...)
	}
	return removed
}

// argv is the build command. A compiler that it names by an absolute path gets the candidate's options here; others
// get them by the wrappers on PATH.
func (j *Job) argv() []string {
	argv := j.Recipe.Plan.Build
	if !filepath.IsAbs(argv[0]) || !slices.Contains(compilers.Names, filepath.Base(argv[0])) {
		return argv
	}
	set, _ := j.Recipe.settings(j.Request.Candidate)
	return slices.Concat(argv, set.Compile())
}

// toolVariables change what a build makes and are not among its inputs.
var toolVariables = []string{"PATH", "CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "NVCC", "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "CUDA_HOME", "CUDA_PATH", "CUDAARCHS", "MAKEFLAGS", "CMAKE_ARGS"}

// cacheKey identifies everything that a build depends on: what the commit holds at the chosen paths, what the plan
// does with it, the flags, the environment of the tools, and the tools themselves by path, size and time. It is ""
// if builds are not kept.
func (j *Job) cacheKey(w *workspace.Workspace) string {
	p, r := j.Recipe, j.Request
	if p.Cache == nil || len(p.Plan.Outputs) == 0 {
		return ""
	}
	if key := p.Keys[r.Candidate.String()]; key != "" { // made where the tools are, perhaps not here
		return key
	}
	inputs, err := p.Repo.Key(r.Candidate.Commit, p.Paths)
	if err != nil {
		p.Log.Warn("build cache", "err", err)
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q\n%q\n%v %v\n", inputs, p.Plan.Digest(), p.Static(), p.wantsSASS())
	if set := p.buildOf(w, r.Candidate).Assign; set != "" {
		fmt.Fprintf(h, "%q\n", set)
		for _, f := range p.Flags {
			fmt.Fprintf(h, "%q\n", f)
		}
	}
	env := p.Environ(w, r, "")
	for _, name := range toolVariables {
		i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if i >= 0 {
			fmt.Fprintf(h, "%q\n", env[i])
		}
	}
	for _, tool := range append([]string{p.Plan.Build[0]}, "cc", "gcc", "g++", "c++", "clang", "nvcc", "ld", "ptxas", "python3") {
		path, err := exec.LookPath(tool)
		if err != nil {
			continue
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			continue
		}
		if st, err := os.Stat(path); err == nil {
			fmt.Fprintf(h, "%q %d %d\n", path, st.Size(), st.ModTime().UnixNano())
		}
	}
	key := hex.EncodeToString(h.Sum(nil))
	if p.Keys != nil {
		p.Keys[r.Candidate.String()] = key
	}
	return key
}

// CommandError is a command that cannot be started at the good end: the user's mistake and not the candidate's.
type CommandError struct {
	Command string
	Commit  string
	Hint    string // replaces the hint of Err unless it is ""
	Dir     string // of the export; removed from the text, since it means nothing to the user
	Err     error
}

// Error names the commit, and paths relative to the export.
func (e *CommandError) Error() string {
	s := fmt.Sprintf("commit %s: %v", bisect.ShortID(e.Commit), e.Err)
	if e.Dir != "" {
		s = strings.ReplaceAll(s, e.Dir+"/", "")
	}
	if e.Hint != "" {
		s = firstLine(s) + "\nhint: " + e.Hint
	}
	return s
}

// Unwrap returns the cause.
func (e *CommandError) Unwrap() error { return e.Err }

// cannotStart sorts an error of starting a command. At the good end it is the user's mistake, as the command works
// nowhere then; another candidate counts as not built, since a commit that lacks its own program cannot be judged;
// everything else is the machine's fault.
func (p Recipe) cannotStart(w *workspace.Workspace, r bisect.Request, command string, err error) (bisect.Outcome, error) {
	if err := w.Check(); err != nil {
		return bisect.Outcome{}, err
	}
	var start *proc.StartError
	switch {
	case !errors.As(err, &start):
		if errors.Is(err, context.Canceled) {
			return bisect.Outcome{}, err
		}
		return bisect.Outcome{}, &bisect.InfraError{What: "running " + command + " for " + r.Candidate.Brief(), Err: err}
	case r.Purpose == bisect.EndGood:
		return bisect.Outcome{}, &CommandError{command, r.Candidate.Commit, commandHint(command, w.Dir, len(p.Plan.Build) > 0, err), w.Dir, err}
	}
	return bisect.Outcome{Class: bisect.BuildFailed, Phase: "build", Why: "it cannot be started: " + withoutDir(w, err)}, nil
}

// commandHint is advice about a command that cannot be started; "" if there is none.
func commandHint(command, dir string, built bool, err error) string {
	var disk unix.Statfs_t
	switch {
	case errors.Is(err, fs.ErrPermission) && unix.Statfs(dir, &disk) == nil && disk.Flags&unix.ST_NOEXEC != 0:
		return "candidates lie on a file system that is mounted noexec: set XDG_CACHE_HOME to a folder where programs can be run"
	case errors.Is(err, fs.ErrPermission) && strings.Contains(command, "/"):
		return fmt.Sprintf("the file is not executable in this commit: use its interpreter (sh %s), or commit it as executable (git add --chmod=+x)", command)
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, exec.ErrNotFound):
		return ""
	case strings.ContainsAny(command, " \t"):
		return fmt.Sprintf("%q is one argument: pass the words of the command separately", command)
	case strings.Contains(command, "/") && !built:
		return "nothing is built: use --build 'SHELL COMMAND' or [build] command; a candidate contains committed files only, and paths are relative to the top of the repository"
	case strings.Contains(command, "/"):
		return "does the build make it? a candidate contains committed files and what the build makes; paths are relative to the top of the repository"
	}
	return ""
}
