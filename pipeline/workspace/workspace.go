// Package workspace keeps private exports of a repository. A [Workspace] is a folder that holds one commit at a
// time, with the caches and the TMPDIR of the processes that run in it; a [Root] is the locked folder of one job
// with all its workspaces.
//
// It knows nothing of plans, limits and classes: what is built and launched in a workspace, and what that
// shows, is package trial's business.
package workspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/export"
)

// Workspace is one private export. It belongs to one goroutine at a time.
type Workspace struct {
	Name     string
	Folder   string // that holds everything else
	Dir      string // root of the export
	Tmp      string // TMPDIR of its processes, emptied after each
	Caches   Caches // of its launches; builds have others
	Share    Share  // set by the owner before processes are run
	Contents Contents
	Notes    Notes
	Expects  bool // its first process only fills caches, and may have been started before its turn

	root    *Root
	export  *export.Export
	repo    string   // common git directory of the repository
	free    uint64   // bytes on the disk, when the last process began
	runs    int      // of processes
	full    bool     // the disk was, when it ended
	removed []string // what processes had and was removed before they ended
	tools   []string // folders that tools write
}

// Share is what the processes of a workspace get of the machine.
type Share struct {
	CPUs  []int         // nil for all
	Nice  int           // 0 is ours
	Pause chan bool     // see [proc.Spec.Pause]; may be nil
	Hurry chan struct{} // see [proc.Spec.Hurry]; may be nil
}

// Contents is what a workspace holds. Package trial keeps it; Switch resets all but Dirty and Reads.
type Contents struct {
	Candidate bisect.Candidate // as far as its build depends on it; empty while that is unknown
	Built     bool
	Made      bool             // its build command succeeded, whatever it left
	Facts     Facts            // what the build has reported
	Dirty     bool             // a process failed or was killed here: the next build must start clean, see Recover
	sealed    syscall.Timespec // when the build was over
	Reads     map[string]bool  // environment variables that builds may read, as far as looked at
	Noted     bool             // a launch of the candidate is in the notes
	Ran       []string         // what that opened; nil: not known
}

// Facts are what a build reports besides its outputs. They are kept with these in the build cache.
type Facts struct {
	Series   []bisect.Series  `json:"series,omitempty"` // of static metrics
	Artefact *bisect.Artefact `json:"artefact,omitempty"`
	Inputs   []string         `json:"inputs,omitempty"`  // files of the repository that it reads; empty if unknown
	Outside  []string         `json:"outside,omitempty"` // those of them that are not in the paths
	Opened   []string         `json:"opened,omitempty"`  // all that the build opened; empty if unknown
}

// New names a workspace of a root. Nothing is made before it is opened.
func (r *Root) New(name string) *Workspace {
	folder := filepath.Join(r.Dir, name)
	w := &Workspace{Name: name, Folder: folder, Dir: filepath.Join(folder, "tree"), Tmp: filepath.Join(folder, "tmp"), root: r}
	python := filepath.Join(r.Dir, "python")
	if r.Sandbox != nil { // what one candidate writes, none of another workspace runs
		python = filepath.Join(folder, "python")
	}
	w.Caches = newCaches(folder, w.Dir, python)
	w.Contents.Reads = map[string]bool{}
	return w
}

// Opening says how the export of a workspace is made.
type Opening struct {
	Repo   *source.Repo
	Paths  []string // that trials read, empty for all
	Keep   []string // paths of the user's work tree that Bring brings
	Linked bool     // the export is a linked work tree of the repository
}

// Open makes the folder for commits of a repository, once.
func (w *Workspace) Open(o Opening) error {
	if w.export != nil {
		return nil
	}
	err := os.MkdirAll(w.Dir, 0o777)
	var e *export.Export
	if err == nil {
		e, err = export.New(w.root.ctx, o.Repo, w.Dir)
	}
	if err != nil {
		return &bisect.InfraError{What: "making the workspace " + w.Dir, Err: err}
	}
	e.Paths, e.Keep = o.Paths, o.Keep
	if o.Linked {
		e.Linked = "kbisect-" + w.root.session + "-" + w.Name
	}
	w.export, w.repo = e, o.Repo.CommonDir()
	return nil
}

// Remove removes the folder with everything in it.
func (w *Workspace) Remove() error {
	if w.export == nil {
		return nil
	}
	return w.root.inTime(errors.Join(w.export.Close(), w.root.remove(w.Folder)))
}

// Switch brings the export to a commit. A clean one keeps nothing of what was built before. An error for which
// [Refused] holds is the commit's; others are the machine's.
func (w *Workspace) Switch(ctx context.Context, commit string, clean bool) (export.SwitchStats, error) {
	w.Contents = Contents{Dirty: w.Contents.Dirty, Reads: w.Contents.Reads}
	w.root.Objects.trim(mostObjects)
	ctx, end := w.root.bounded(ctx)
	defer end()
	stats, err := w.export.Switch(ctx, commit, clean)
	var unsupported *source.UnsupportedError
	if w.root.memory != nil && errors.As(err, &unsupported) && unsupported.Attribute == "size" { // a disk may have the room
		w.root.memory.crowded.Store(true)
	}
	if err != nil {
		if gone := w.repoGone(); gone != nil { // the commit is not to blame for what cannot be read then
			return stats, gone
		}
	}
	switch {
	case err == nil || Refused(err):
		return stats, err
	case ctx.Err() != nil:
		return stats, ctx.Err()
	}
	if err := w.CheckFolder(); err != nil {
		return stats, err
	}
	return stats, &bisect.InfraError{What: "exporting commit " + bisect.ShortID(commit) + " to " + w.Dir, Err: err}
}

// repoGone is an error where the repository was moved or removed since the workspace was opened.
func (w *Workspace) repoGone() error {
	if _, err := os.Stat(filepath.Join(w.repo, "objects")); err != nil {
		return &bisect.InfraError{What: "reading the repository", Err: hint.Add(err, "it was moved or removed during the search; kbisect run --resume goes on where it is now")}
	}
	return nil
}

// Refused reports that a commit cannot be exported faithfully, which is not the machine's fault.
func Refused(err error) bool {
	var unsupported *source.UnsupportedError
	var missing *source.MissingError
	return errors.As(err, &unsupported) || errors.As(err, &missing)
}

// Warnings are about what of the commit could not be exported as it is, each beginning with its path.
func (w *Workspace) Warnings() []string { return w.export.Warnings() }

// Missing are the files of the commit whose content the repository lacks: a sentence and a path each.
func (w *Workspace) Missing() (words, paths []string) {
	if w.export == nil {
		return nil, nil
	}
	return w.export.Missing()
}

// Run runs one process tree; afterwards it takes its mounts away and empties its TMPDIR. A cancelled run is
// an error here.
func (w *Workspace) Run(ctx context.Context, spec proc.Spec) (proc.Result, error) {
	return w.RunBy(ctx, spec, proc.Run)
}

// Sandboxed reports that processes run in a sandbox.
func (w *Workspace) Sandboxed() bool { return w.root.Sandbox != nil }

// Start starts a process before its turn, see [proc.Start]; nth tells it from others. [Workspace.RunBy] runs it.
func (w *Workspace) Start(ctx context.Context, spec proc.Spec, nth int) (*proc.Held, error) {
	if err := os.MkdirAll(w.Tmp, 0o777); err != nil {
		return nil, err
	}
	spec.Cookie = fmt.Sprintf("%s-%s-early%d", w.root.session, w.Name, nth)
	return proc.Start(ctx, spec)
}

// RunBy is [Workspace.Run] of a process that run runs.
func (w *Workspace) RunBy(ctx context.Context, spec proc.Spec, run func(context.Context, proc.Spec) (proc.Result, error)) (proc.Result, error) {
	if err := errors.Join(os.MkdirAll(w.Tmp, 0o777), os.MkdirAll(w.Caches.Dir, 0o777)); err != nil {
		return proc.Result{}, err
	}
	box, err := w.sandbox()
	if err != nil {
		return proc.Result{}, err
	}
	spec.Sandbox = box
	w.runs++ // the one before may tear down still
	spec.Cookie = fmt.Sprintf("%s-%s-%d", w.root.session, w.Name, w.runs)
	spec.CPUs, spec.Nice, spec.Pause, spec.Hurry = w.Share.CPUs, w.Share.Nice, w.Share.Pause, w.Share.Hurry
	w.free = w.root.freeBytes()
	ctx, end := w.root.bounded(ctx)
	defer end()
	res, err := run(ctx, spec)
	w.full = w.root.freeBytes() < leastFree
	if w.root.Crowded() { // by what is removed now
		err = cmp.Or(err, errCrowded)
	}
	for dir, name := range map[string]string{w.Tmp: "its TMPDIR", w.Caches.Dir: "its caches"} {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			w.removed = append(w.removed, name)
		}
	}
	unmountBelow(w.Folder)
	if rmErr := w.root.remove(w.Tmp); err == nil && rmErr != nil {
		err = rmErr
	}
	if err == nil && res.Canceled {
		err = context.Cause(ctx)
	}
	return res, err
}

// sandbox is that of the processes of this workspace, whose folders exist then. They can neither remove nor replace
// these folders, which kbisect itself goes on to write.
func (w *Workspace) sandbox() (*proc.Sandbox, error) {
	if w.root.Sandbox == nil {
		return nil, nil
	}
	box := *w.root.Sandbox
	box.Tmp, box.Read = w.Tmp, append(slices.Clip(box.Read), w.root.Dir)
	box.Write = slices.Concat(box.Write, []string{w.Dir, w.Tmp, w.Caches.Dir, w.Caches.Python}, w.tools)
	for _, dir := range box.Write {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, &bisect.InfraError{What: "making the folder " + dir, Err: err}
		}
	}
	return &box, nil
}

// Check returns an error if no process can succeed here, whatever the candidate: the disk was full when the
// last process ended, or the folder was removed.
//
// What the process itself has left here is removed first, where it may be what fills the disk.
func (w *Workspace) Check() error {
	if w.root.checkDisk(w.full) != nil && w.export != nil {
		w.Contents = Contents{Dirty: true, Reads: w.Contents.Reads}
		w.root.Objects.trim(0)
		if err := errors.Join(w.root.remove(w.Dir), w.Caches.clear(w.root, false, false)); err != nil {
			return &bisect.InfraError{What: "making room in " + w.Folder, Err: err}
		}
		w.full = w.root.freeBytes() < w.free/2
	}
	if err := w.root.checkDisk(w.full); err != nil {
		return err
	}
	return w.CheckFolder()
}

// Gone reports that the folder was removed or moved away; the next Switch makes another one.
func (w *Workspace) Gone() bool {
	_, err := os.Stat(w.Folder)
	return w.export != nil && err != nil
}

// Removed are the names of what a trial needs and has been removed since its export. It does not matter by whom: clearing
// caches removes what lies in them first, and folders last. It is for trials that failed; [Workspace.Gone] is about the
// whole folder.
func Removed(ctx context.Context, w *Workspace) []string {
	if w.Gone() {
		return []string{"its folder"}
	}
	if w.export == nil {
		return nil
	}
	return append(export.Removed(ctx, w.export), w.removed...)
}

// Forget drops what is known of the last processes: of the disk when they ended, and of what was removed.
func (w *Workspace) Forget() { w.full, w.removed = false, nil }

// CheckFolder returns an error if the working folder of the job was removed, with its lock.
func (w *Workspace) CheckFolder() error { return w.root.checkLock() }

// unmountBelow takes away what a candidate, run by root, has mounted below a folder, the last mount first.
func unmountBelow(dir string) {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return
	}
	if !bytes.Contains(data, []byte(filepath.Base(dir)+"/")) { // which has nothing that is escaped
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

// Environ is the environment of a process of the workspace: base, without what would lead git back into the
// user's repository, with caches and a TMPDIR of its own. A Python that is killed prints its stack.
func (w *Workspace) Environ(base []string, workDir, caches string) []string {
	env := slices.DeleteFunc(slices.Clone(base), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "GIT_") || name == "PWD" || name == "OLDPWD"
	})
	return append(compilerJobs(cacheEnv(env, caches, w.Caches.Python, w.root.Sandbox != nil)),
		"PYTHONFAULTHANDLER=1",
		"PWD="+workDir,
		"TMPDIR="+w.Tmp, "TMP="+w.Tmp, "TEMP="+w.Tmp,
		"GIT_CEILING_DIRECTORIES="+w.Folder,
	)
}

// Scratch makes an empty folder beside the export, which goes with the workspace.
func (w *Workspace) Scratch(name string) (string, error) {
	dir := filepath.Join(w.Folder, name)
	if err := errors.Join(w.root.remove(dir), os.MkdirAll(dir, 0o777)); err != nil {
		return "", &bisect.InfraError{What: "making the folder " + dir, Err: err}
	}
	if !slices.Contains(w.tools, dir) {
		w.tools = append(w.tools, dir)
	}
	return dir, nil
}

// ClearCaches removes the caches of the launches.
func (w *Workspace) ClearCaches() error { return InheritCaches(w, nil) }

// InheritCaches clears the caches of w for another candidate. From workspaces whose last candidate ended well, and from
// itself, it keeps what goes by content, and bytecode of its own; without others, nothing.
func InheritCaches(w *Workspace, from []*Workspace) error {
	if err := w.Caches.clear(w.root, len(from) > 0, w.Contents.Made); err != nil {
		return &bisect.InfraError{What: "clearing the caches of " + w.Name, Err: err}
	}
	for _, x := range from {
		if x == w || x.Caches.Warmed == (bisect.Candidate{}) {
			continue
		}
		if err := w.Caches.seed(x.Caches); err != nil { // a part of an entry may be there
			return w.ClearCaches()
		}
	}
	w.Caches.given = files(w.Caches.Dir, math.MaxInt)
	return nil
}
