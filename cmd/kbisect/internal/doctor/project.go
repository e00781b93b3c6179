package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/cache"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// isInvalid reports whether there is a configuration that cannot be read. None at all is fine.
func isInvalid(err error) bool {
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}

// system describes the machine for bug reports. It is never a problem.
func system(context.Context) Finding {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return passed("%s %s %s, %d processors, %s", runtime.GOOS, strings.TrimSpace(string(kernel)), runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}

// repository checks that there is a history to search: a repository with at least one commit. Its warnings are shown and
// are not problems, since the commits that are there can be searched.
func (s *subject) repository(context.Context) Finding {
	if s.repoErr != nil {
		return problemOf(s.repoErr)
	}
	where := s.repo.WorkDir()
	switch {
	case where == "":
		where = s.repo.CommonDir() + ", bare"
	case s.repo.GitDir() != s.repo.CommonDir():
		where += ", a linked worktree"
	}
	head, err := source.Head(s.repo)
	if err != nil {
		return broken(where+": "+wording.Headline(err.Error()), "commit something first")
	}
	found := fmt.Sprintf("%s, read by %s, HEAD %.12s", where, s.repo.Backend(), head)
	for _, w := range s.repo.Warnings() {
		found += "\n" + wording.Headline(w)
	}
	return passed("%s", found)
}

// configuration checks that kbisect.toml is valid, makes a plan, has been filled in, and names sources that exist, in
// this order: the first thing that is wrong is reported, as what follows may depend on it.
func (s *subject) configuration(context.Context) Finding {
	switch {
	case errors.Is(s.configErr, fs.ErrNotExist) && s.named:
		return broken(wording.Headline(s.configErr.Error()), "--config names a file that does not exist")
	case errors.Is(s.configErr, fs.ErrNotExist):
		return missing("none: kbisect init writes one, kbisect run -- COMMAND needs none", "")
	case s.configErr != nil:
		return problemOf(s.configErr)
	}
	found := fmt.Sprintf("%s, kind %s", s.config.Path, s.config.Kind)
	for _, w := range s.config.Warnings {
		found += "\n" + w
	}
	// A file may be valid and still not make a plan, such as one without a command. With static metrics alone, which the
	// build gives, nothing need be run.
	project, err := s.config.Project("")
	if err == nil {
		project.Static = policy.AllStatic(s.config.Metrics)
		_, err = kernels.NewPlan(project)
	}
	if err != nil {
		f := problemOf(err)
		f.Found = found + "\n" + f.Found
		return f
	}
	if line := unfilled(s.config.Path); line != "" {
		return broken(found+"\n"+line, "complete that line and remove the words FILL IN")
	}
	if s.repoErr == nil && s.repo.WorkDir() != "" {
		for _, name := range s.config.Build.Sources {
			if _, err := os.Stat(filepath.Join(s.repo.WorkDir(), name)); err != nil {
				return broken(found+"\n[build] sources: "+name+" does not exist", "sources are relative to the top of the repository")
			}
		}
	}
	return passed("%s", found)
}

// unfilled is the first line that kbisect init left to be filled in, with its number, or "".
func unfilled(path string) string {
	text, _ := os.ReadFile(path)
	n := 0
	for line := range strings.Lines(string(text)) {
		if n++; strings.Contains(line, "FILL IN") {
			return fmt.Sprintf("line %d: %s", n, words.Printable(strings.TrimSpace(line)))
		}
	}
	return ""
}

// cudaTask reports whether the project is a KernelBot problem in CUDA C++, which needs nvcc.
func cudaTask(cfg *config.Config) bool {
	if cfg.Kind != kernels.KindKernelbot {
		return false
	}
	project, err := cfg.Project("")
	return err == nil && project.Task.Lang == "cu"
}

// commands looks up the programs that the configuration starts. One with a relative path is made by the build or is
// part of a commit, so that it cannot be looked up here: the work tree may hold another version of it, or none.
func commands(cfg *config.Config) Finding {
	var found, gone []string
	for _, c := range []struct {
		table string
		argv  []string
	}{{"build", cfg.Build.Command}, {"run", cfg.Run.Command}} {
		if len(c.argv) == 0 {
			continue
		}
		name := c.argv[0]
		if strings.Contains(name, "/") && !filepath.IsAbs(name) {
			found = append(found, fmt.Sprintf("%s: %s, from the candidate", c.table, name))
			continue
		}
		path, err := exec.LookPath(name)
		if err != nil {
			gone = append(gone, fmt.Sprintf("%s: %s not found", c.table, name))
			continue
		}
		found = append(found, fmt.Sprintf("%s: %s", c.table, path))
	}
	text := strings.Join(append(found, gone...), "\n")
	if len(gone) > 0 {
		return broken(text, "install it, fix PATH, or write ./ in front of a program that the build makes")
	}
	switch {
	case text != "":
		return passed("%s", text)
	// These kinds know what to start, so that kbisect.toml need not name it.
	case (cfg.Kind == kernels.KindTorch || cfg.Kind == kernels.KindKernelbot) && cfg.Path != "":
		return passed("built into kind %s", cfg.Kind)
	case cfg.Path != "":
		return missing("none in kbisect.toml", "")
	}
	return missing("no kbisect.toml", "")
}

// buildCache checks that builds can be kept, and how much room there is for them. A cache below the folder for temporary
// files, which is used if there is no home, is a problem: systems clear that folder.
func buildCache(context.Context) Finding {
	dir, warning, err := cache.Root()
	if err != nil {
		return problemOf(err)
	}
	if warning != "" {
		return broken(warning, "set HOME or XDG_CACHE_HOME")
	}
	return roomIn(dir, "set XDG_CACHE_HOME to a directory that can be written")
}

// workspaces says where candidates are exported to: in memory, where there is room, or on the disk.
func workspaces(context.Context) Finding {
	room, why := workspace.Memory{Dir: workspace.SharedMemory}.Room()
	if room == 0 {
		return missing("on the disk: "+why, "")
	}
	return passed("in %s where nothing is built and no times are compared, up to %s; else on the disk", workspace.SharedMemory, humanize.IBytes(uint64(room)))
}

// store checks that stored results can be read and new ones kept. It opens the store for reading only, as another
// kbisect may be writing. A store that does not exist yet is fine.
func (s *subject) store(context.Context) Finding {
	if s.repoErr != nil {
		return missing("no repository", "")
	}
	st, err := store.Open(store.Dir(s.repo.CommonDir()), store.ReadOnly)
	if err == nil {
		_, err = st.Sessions(0)
		st.Close()
	}
	if err != nil && !errors.Is(err, store.ErrNoStore) {
		return problemOf(err)
	}
	return roomIn(store.Dir(s.repo.CommonDir()), "kbisect keeps its results here; make it writable")
}

// minFree is the least free space for builds and results that is not a problem, in bytes.
const minFree = 1 << 30

// roomIn tries to write into dir, or into the nearest existing folder above it, and leaves nothing behind. Permissions
// alone do not show whether that works: the file system may be full, read-only or over its quota. Four KiB are
// written, since an empty file may still fit where nothing else does.
func roomIn(dir, hint string) Finding {
	// kbisect makes dir when it first needs it; a check must not do so before.
	at := dir
	for {
		_, err := os.Stat(at)
		if err == nil || filepath.Dir(at) == at {
			break
		}
		at = filepath.Dir(at)
	}
	f, err := os.CreateTemp(at, ".kbisect-doctor-*")
	if err == nil {
		_, err = f.Write(make([]byte, 4096))
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return broken(fmt.Sprintf("%s cannot be written: %v", dir, err), hint)
	}
	note := ""
	if at != dir {
		note = ", created when needed"
	}
	var fsInfo unix.Statfs_t
	if err := unix.Statfs(at, &fsInfo); err != nil {
		return passed("%s%s", dir, note)
	}
	free := fsInfo.Bavail * uint64(fsInfo.Bsize)
	if free < minFree {
		return broken(fmt.Sprintf("%s: only %s free", dir, humanize.IBytes(free)), "run kbisect cache trim")
	}
	return passed("%s, %s free%s", dir, humanize.IBytes(free), note)
}

// hooks looks for a pre-push hook where git does, which core.hooksPath may change. Without git it looks in the usual
// place. A hook that belongs to another program is not a problem.
func (s *subject) hooks(ctx context.Context) Finding {
	if s.repoErr != nil {
		return missing("no repository", "")
	}
	dir := filepath.Join(s.repo.CommonDir(), "hooks")
	where := ""
	// Before 2.31 git does not know --path-format: then the usual place is taken, as it is without git.
	if git, err := exec.LookPath("git"); err == nil {
		said := machine.RunTool(ctx, 10*time.Second, s.dir, git, "rev-parse", "--path-format=absolute", "--git-path", "hooks")
		if path := said.First(); said.Err == nil && filepath.IsAbs(path) && path != dir {
			dir, where = path, " (core.hooksPath)"
		}
	}
	info, err := os.Stat(filepath.Join(dir, "pre-push"))
	switch {
	case err != nil:
		return passed("no pre-push hook in %s%s", dir, where)
	case info.Mode()&0o111 == 0:
		return broken(fmt.Sprintf("pre-push in %s%s is not executable, so git ignores it", dir, where), "chmod +x "+filepath.Join(dir, "pre-push"))
	}
	text, _ := os.ReadFile(filepath.Join(dir, "pre-push"))
	if strings.Contains(string(text), "kbisect") {
		return passed("pre-push in %s%s calls kbisect", dir, where)
	}
	return passed("pre-push in %s%s belongs to another program", dir, where)
}

// cgroup says whether trials can have control groups of their own. kbisect works without them too.
func cgroup(context.Context) Finding {
	if dir, yes := proc.Delegated(); yes {
		return passed("v2, delegated: each trial gets its own group below %s", dir)
	}
	return missing("no delegated v2 group; a process supervises the trials instead", "")
}

// sandbox says whether trials can have namespaces of their own. They get them only where they were asked for: a
// user namespace would take setuid programs away from everyone else, and most containers allow none.
func sandbox(ctx context.Context) Finding {
	dir, remove, err := machine.Scratch(ctx)
	if err == nil {
		defer remove()
		err = proc.CheckSandbox(ctx, dir)
	}
	if err != nil {
		return missing(hint.Split(err))
	}
	return passed("--sandbox works here (namespaces); without it trials run with all of your permissions")
}

// instructions checks whether --metric instructions can be measured: the processor has to count them, and the kernel
// has to let this user read the counter.
func instructions(context.Context) Finding {
	if err := proc.CanCount(); err != nil {
		return missing(hint.Split(err))
	}
	return passed("counted by the processor: --metric instructions works here")
}
