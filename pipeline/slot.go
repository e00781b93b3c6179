package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/protocol"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source"
)

// slot is one private export with what was built in it.
type slot struct {
	*Pipeline
	name   string
	dir    string // root of the export
	tmp    string // TMPDIR of its processes, emptied after each
	caches roots  // of its trials; builds have others
	export *source.Export
	held   bisect.Candidate // what the slot holds, as far as its build depends on it; empty while that is unknown
	built  bool             // and has been built
	facts  facts            // what the build has said besides
	clean  bool             // from a clean export
	dirty  bool             // a build was killed or failed here: start the next one clean
	full   bool             // the disk was, when the last process ended
	pause  chan bool        // lets a build ahead stand still; nil for what is asked for now
}

// holds reports whether the slot holds a candidate, built, and nothing that a failed process left.
func (s *slot) holds(c bisect.Candidate) bool { return s.held == s.buildOf(c) && s.built && !s.dirty }

// slotName gives the ends slots of their own, since they are launched again and again, and each
// side of a confirmation a fresh one.
func slotName(r bisect.Request) string {
	switch r.Purpose {
	case bisect.EndGood:
		return "good"
	case bisect.EndBad:
		return "bad"
	case bisect.ConfirmCulprit, bisect.ConfirmParent:
		return "confirm-" + fileName(r.Candidate)
	}
	return "search"
}

func (p *Pipeline) slot(r bisect.Request) (*slot, error) {
	name := slotName(r)
	if r.Clean && r.Nth == 0 {
		if err := p.drop(name); err != nil {
			return nil, err
		}
	}
	if s, ok := p.slots[name]; ok {
		return s, nil
	}
	if lost := p.removed(name); lost != nil {
		return nil, lost
	}
	s := p.newSlot(name)
	if err := s.open(); err != nil {
		return nil, err
	}
	p.slots[name] = s
	return s, nil
}

func (p *Pipeline) newSlot(name string) *slot {
	s := &slot{Pipeline: p, name: name, dir: filepath.Join(p.Dir, name, "tree"), tmp: filepath.Join(p.Dir, name, "tmp")}
	s.caches = newRoots(filepath.Join(p.Dir, name), s.dir, filepath.Join(p.Dir, "python"))
	return s
}

// open makes the folder of a slot, once.
func (s *slot) open() error {
	if s.export != nil {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o777); err != nil {
		return &bisect.InfraError{What: "making the slot " + s.dir, Err: err}
	}
	export, err := s.Repo.Export(s.dir)
	if err != nil {
		return &bisect.InfraError{What: "making the slot " + s.dir, Err: err}
	}
	export.Paths = s.Paths
	s.export = export
	return nil
}

// remove removes a slot and all that is in it.
func (s *slot) remove() error {
	if s.export == nil {
		return nil
	}
	if err := s.export.Remove(); err != nil && !errors.Is(err, fs.ErrNotExist) { // somebody was quicker
		return err
	}
	return removeAll(filepath.Dir(s.dir))
}

// drop removes a slot.
func (p *Pipeline) drop(name string) error {
	s, ok := p.slots[name]
	if !ok {
		return nil
	}
	delete(p.slots, name)
	return s.remove()
}

// prepare brings the slot to the wanted commit and builds it there. ready is false when the
// outcome says already how the trial ends: it could not be exported or built.
func (s *slot) prepare(ctx context.Context, r bisect.Request) (o bisect.Outcome, ready bool, err error) {
	if _, err := os.Stat(s.dir); err == nil && s.holds(r.Candidate) && len(s.Plan.Build) > 0 {
		return o, true, nil // launched again as it is
	}
	if err := s.open(); err != nil {
		return o, false, err
	}
	incremental, err := s.mayBuildOn(r)
	if err != nil {
		return o, false, err
	}
	if o, ok, err := s.checkout(ctx, r, !incremental); err != nil || !ok {
		return o, false, err
	}
	if o, err := s.write(r); err != nil || o.Class != "" {
		return o, false, err
	}
	if len(s.Plan.Build) == 0 {
		s.built = true
		return o, true, nil
	}
	o, err = s.build(ctx, r)
	if err == nil && o.Class == bisect.BuildFailed && incremental {
		s.Log.Info("incremental build failed, building clean", "candidate", r.Candidate.Brief())
		if o, ok, err := s.checkout(ctx, r, true); err != nil || !ok {
			return o, false, err
		}
		if o, err := s.write(r); err != nil || o.Class != "" {
			return o, false, err
		}
		o, err = s.build(ctx, r)
	}
	s.built = err == nil && o.Class == ""
	s.dirty = !s.built
	return o, s.built, err
}

// write puts the files of the plan into the export. A class says that the candidate lacks one.
func (s *slot) write(r bisect.Request) (o bisect.Outcome, err error) {
	plan := s.Plan.At(func(commit string) bool {
		before, err := s.Repo.IsAncestor(commit, r.Candidate.Commit)
		return err != nil || before // a commit that was made in memory
	})
	err = plan.Write(s.dir)
	var missing *kernels.MissingSourceError
	switch {
	case err == nil:
		return o, nil
	case errors.As(err, &missing):
		why := strings.ReplaceAll(firstLine(err.Error()), s.dir+"/", "")
		return bisect.Outcome{Class: bisect.BuildFailed, Phase: "build", Why: why}, nil
	}
	if lost := s.ground(r); lost != nil {
		return o, lost
	}
	return o, &bisect.InfraError{What: "preparing " + r.Candidate.Brief(), Err: err}
}

// workDir is where builds and trials run.
func (s *slot) workDir() string { return filepath.Join(s.dir, filepath.FromSlash(s.Plan.Dir)) }

// mayBuildOn reports whether the build of a candidate may start from what the slot holds. Build tools
// know of changed files, not of changed options.
func (s *slot) mayBuildOn(r bisect.Request) (bool, error) {
	c := s.buildOf(r.Candidate)
	if !s.Plan.Incremental || s.Pipeline.clean || r.Clean || s.dirty || s.held.Commit == "" || c.Assign != s.held.Assign {
		return false, nil
	}
	changed, err := s.Repo.Changes(s.held.Commit, c.Commit)
	if err != nil {
		return false, &bisect.InfraError{What: "comparing trees for " + short(c.Commit), Err: err}
	}
	for _, c := range changed {
		if c.Kind == "added" || c.Kind == "deleted" || c.Kind == "renamed" || isBuildFile(s.Plan, c.Path) {
			return false, nil
		}
	}
	return true, nil
}

func isBuildFile(p kernels.Plan, file string) bool {
	return slices.ContainsFunc(p.BuildFiles, func(pattern string) bool {
		ok, err := path.Match(pattern, path.Base(file))
		return err == nil && ok
	})
}

// checkout exports the commit. ok is false when the commit cannot be exported faithfully: that is
// the candidate's, not the machine's fault.
func (s *slot) checkout(ctx context.Context, r bisect.Request, clean bool) (o bisect.Outcome, ok bool, err error) {
	commit := r.Candidate.Commit
	s.tell(r, "export", 0)
	s.held, s.built, s.facts = bisect.Candidate{}, false, facts{}
	stats, err := s.export.Switch(ctx, commit, clean)
	if err != nil {
		if refused(err) {
			if r.Purpose == bisect.EndGood || r.Purpose == bisect.EndBad { // the user must name another end
				return o, false, fmt.Errorf("exporting commit %s: %w", short(commit), err)
			}
			return bisect.Outcome{Class: bisect.Skip, Phase: "export", Why: firstLine(err.Error())}, false, nil
		}
		if ctx.Err() != nil {
			return o, false, ctx.Err()
		}
		if lost := s.removed(s.name); lost != nil {
			return o, false, lost
		}
		return o, false, &bisect.InfraError{What: "exporting commit " + short(commit) + " to " + s.dir, Err: err}
	}
	if s.pause == nil {
		s.tellExport()
	}
	s.Log.Debug("exported", "commit", short(commit), "written", stats.Written, "removed", stats.Removed, "kept", stats.Kept, "slot", s.name)
	s.held, s.clean = r.Candidate, clean
	s.held = s.buildOf(r.Candidate)
	return o, true, nil
}

// tellExport tells what of a commit could not be written, of each path once: the next commit pins another version
// of the same submodule.
func (s *slot) tellExport() {
	const most = 3
	var all []string
	for _, w := range s.export.Warnings() {
		if where, _, _ := strings.Cut(w, ": "); !s.Pipeline.unwritten[where] {
			s.Pipeline.unwritten[where] = true
			all = append(all, w)
		}
	}
	for _, w := range all[:min(most, len(all))] {
		s.warnOnce(w)
	}
	if len(all) > most {
		s.warnOnce(fmt.Sprintf("and %d files more could not be written as they are", len(all)-most))
	}
}

// refused tells a commit that cannot be exported from a machine that cannot export.
func refused(err error) bool {
	var unsupported *source.UnsupportedError
	var missing *source.MissingError
	return errors.As(err, &unsupported) || errors.As(err, &missing)
}

// tell reports what is being done, unless it is done ahead.
func (s *slot) tell(r bisect.Request, doing string, limit time.Duration) {
	if s.pause == nil {
		s.activity(r, doing, limit)
	}
}

// build builds what the slot holds; a zero class means that it was built.
func (s *slot) build(ctx context.Context, r bisect.Request) (o bisect.Outcome, err error) {
	key := s.buildKey(r)
	if key != "" && !r.Clean && !s.Pipeline.clean {
		if kept, hit, err := s.Cache.Get(key, s.dir); err != nil {
			s.Log.Warn("build cache", "err", err)
		} else if hit {
			s.facts = factsOf(kept.Meta)
			o.CacheHit = true
			return o, nil
		}
	}
	limit := s.bound(r, "build")
	s.tell(r, "build", limit)
	log := s.logFile(r, "build")
	env, err := s.buildEnv(r)
	if err != nil {
		return o, err
	}
	res, err := s.run(ctx, proc.Spec{
		Argv: s.buildArgv(r.Candidate), Dir: s.workDir(), Env: env, Output: log, OutputMax: s.outputMax(),
		Phase: "build", Limit: limit,
	})
	if err != nil {
		return s.cannotStart(r, s.Plan.Build[0], err)
	}
	o.Build, o.Built, o.Tail, o.Log, o.Exit = res.Wall.Seconds(), true, string(res.Tail), log, res.Exit
	spoiled := s.spoiled(r, res)
	switch {
	case spoiled != "":
		o.Class, o.Phase, o.Why = bisect.Infra, "build", spoiled
	case res.Timeout != nil:
		o.Class, o.Phase = bisect.Timeout, "build"
		o.Why = fmt.Sprintf("the build did not end within %v", res.Timeout.Limit)
		if why, ok := s.early(r, "build", limit); ok {
			o.Early, o.Why = true, why
		}
	case res.Exit == 125:
		o.Class, o.Phase, o.Why = bisect.Skip, "build", "the build command asked to skip (exit 125)"
	case res.Exit != 0 || res.Signal != 0:
		o.Class, o.Phase, o.Why = bisect.BuildFailed, "build", ended(res)+errorWords(res.Tail)
	default:
		if missing := s.missingOutput(); missing != "" {
			o.Class, o.Phase = bisect.BuildFailed, "build"
			o.Why = fmt.Sprintf("the build ended well but left no %s, which is named as its output", missing)
		}
	}
	if o.Class != "" {
		o.Phases = []bisect.PhaseTime{{Name: "build", Seconds: o.Build}}
		return o, nil
	}
	if s.facts, err = s.examine(ctx, r, env, log); err != nil {
		return o, err
	}
	if key != "" {
		meta := s.facts.meta(map[string]string{"commit": r.Candidate.Commit, "candidate": r.Candidate.String()})
		if _, err := s.Cache.Put(key, s.dir, s.Plan.Outputs, meta); err != nil {
			s.Log.Warn("build cache", "err", err)
		}
	}
	return o, nil
}

// spoiled says by whose doing, other than the candidate's, a build may have failed, or "".
func (s *slot) spoiled(r bisect.Request, res proc.Result) string {
	if s.pause != nil || res.Exit == 0 && res.Signal == 0 && res.Timeout == nil {
		return "" // a build ahead that fails is made again
	}
	why := assault(res)
	if words, accused := protocol.Trouble(res.Tail); accused && passing(words.Kind) {
		why = "it said: " + words.Words
	}
	switch {
	case starved(res) != "":
		return "in the build " + starved(res)
	case why != "" && !s.assaulted(r.Candidate):
		return "the build failed: " + why
	}
	return ""
}

func (s *slot) missingOutput() string {
	for _, out := range s.Plan.Outputs {
		found, err := filepath.Glob(filepath.Join(s.dir, out))
		if err != nil || len(found) == 0 {
			return out
		}
	}
	return ""
}

// run runs one process tree of the slot; afterwards it takes its mounts away and empties its TMPDIR.
func (s *slot) run(ctx context.Context, spec proc.Spec) (proc.Result, error) {
	if err := os.MkdirAll(s.tmp, 0o777); err != nil {
		return proc.Result{}, err
	}
	spec.Cookie = s.Session + "-" + s.name
	spec.CPUs = s.trialCPUs
	if s.pause != nil {
		spec.Pause, spec.CPUs, spec.Nice = s.pause, s.aheadCPUs, aheadNice
	}
	res, err := proc.Run(ctx, spec)
	s.full = s.freeBytes() < leastFree
	unmountBelow(filepath.Dir(s.dir))
	if rmErr := removeAll(s.tmp); err == nil && rmErr != nil {
		err = rmErr
	}
	if err == nil && res.Canceled {
		err = context.Cause(ctx)
	}
	return res, err
}

// aheadNice lets a build ahead give way to everything else.
const aheadNice = 10

// CommandError is a command that cannot be started on an end: the user's mistake, not the candidate's.
type CommandError struct {
	Command string
	Commit  string
	Hint    string // instead of the hint of Err
	Dir     string // of the export, which the text leaves out
	Err     error
}

func (e *CommandError) Error() string {
	s := fmt.Sprintf("commit %s: %v", short(e.Commit), e.Err)
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

// cannotStart sorts an error of starting a command: on the good end it is the user's mistake; any
// other candidate is as good as not built; everything else is the machine's.
func (s *slot) cannotStart(r bisect.Request, command string, err error) (bisect.Outcome, error) {
	if lost := s.ground(r); lost != nil {
		return bisect.Outcome{}, lost
	}
	var start *proc.StartError
	switch {
	case !errors.As(err, &start):
		if errors.Is(err, context.Canceled) {
			return bisect.Outcome{}, err
		}
		return bisect.Outcome{}, &bisect.InfraError{What: "running " + command + " for " + r.Candidate.Brief(), Err: err}
	case r.Purpose == bisect.EndGood:
		return bisect.Outcome{}, &CommandError{command, r.Candidate.Commit, s.commandHint(command, err), s.dir, err}
	}
	why := strings.ReplaceAll(firstLine(err.Error()), s.dir+"/", "")
	return bisect.Outcome{Class: bisect.BuildFailed, Phase: "build", Why: "it cannot be started: " + why}, nil
}

// commandHint says what is likely to be wrong with a command that is not there.
func (s *slot) commandHint(command string, err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission) && strings.Contains(command, "/"):
		return fmt.Sprintf("it is not executable in this commit: call its interpreter, as sh %s, or commit it as executable (git add --chmod=+x)", command)
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, exec.ErrNotFound):
		return ""
	case strings.ContainsAny(command, " \t"):
		return fmt.Sprintf("%q is taken as one word: write the words of the command apart", command)
	case strings.Contains(command, "/") && len(s.Plan.Build) == 0:
		return "nothing was built here: say how with --build 'SHELL COMMAND' or [build] command; candidates hold only what is committed, and paths count from the top of the repository"
	case strings.Contains(command, "/"):
		return "does the build make it? candidates hold what is committed and what the build makes; paths count from the top of the repository"
	}
	return ""
}

// ground reports what has become of the ground on which trials stand, so that none can succeed.
func (p *Pipeline) ground(r bisect.Request) error {
	if err := p.diskFull(p.wasFull); err != nil {
		return err
	}
	return p.removed(slotName(r))
}

// removed reports that somebody has removed the working folder, as one does who clears the caches.
// A candidate may remove what is its own: the tree, not the slot that holds it.
func (p *Pipeline) removed(name string) error {
	var err error
	if s := p.slots[name]; s != nil {
		if _, gone := os.Stat(s.dir); gone != nil {
			time.Sleep(100 * time.Millisecond) // who removes folders begins with the innermost
		}
		_, err = os.Stat(filepath.Dir(s.dir))
	}
	if err == nil && !stillThere(p.lock) {
		err = &os.PathError{Op: "lock", Path: p.lock.Name(), Err: fs.ErrNotExist}
	}
	if err == nil {
		return nil
	}
	return &bisect.InfraError{What: "testing candidates in " + p.Dir, Err: fmt.Errorf("somebody has removed the working folder: %w\nhint: run again with --resume; nothing is lost", err)}
}

// leastFree is how little room means that the disk is full, in bytes.
const leastFree = 1 << 20

// freeBytes is the room on the file system of the slots; without an answer it is plenty.
func (p *Pipeline) freeBytes() uint64 {
	var st syscall.Statfs_t
	if err := syscall.Statfs(p.Dir, &st); err != nil {
		return math.MaxUint64
	}
	return st.Bavail * uint64(st.Bsize)
}

// diskFull reports a file system that was full at the end of a process, which then may have failed
// for that. When what the process itself wrote has filled it, that is the candidate's doing: there
// is room again once its TMPDIR has been emptied.
func (p *Pipeline) diskFull(full bool) error {
	const roomAgain = 64 << 20
	free := p.freeBytes()
	if free >= leastFree && (!full || free >= roomAgain) {
		return nil
	}
	return &bisect.InfraError{What: "testing candidates in " + p.Dir, Err: fmt.Errorf("%w: %d bytes free\nhint: make room, or set XDG_CACHE_HOME to a larger file system, then run again with --resume", syscall.ENOSPC, free)}
}

// removeAll removes a tree in which a candidate may have left folders that cannot be written.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	walkErr := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	return errors.Join(os.RemoveAll(dir), walkErr)
}

// unmountBelow takes away what a candidate, run by root, has mounted below a folder, the last mount
// first.
func unmountBelow(dir string) {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return
	}
	lines := strings.Split(string(data), "\n")
	for _, line := range slices.Backward(lines) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		point := mountEscapes.Replace(f[1])
		if strings.HasPrefix(point, dir+"/") {
			_ = syscall.Unmount(point, unix.MNT_DETACH)
		}
	}
}

// mountEscapes are those of /proc/self/mounts.
var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
