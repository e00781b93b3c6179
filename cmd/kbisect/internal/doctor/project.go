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
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/cache"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/store"
)

func isConfigError(err error) bool {
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}

func (e *examination) system(context.Context) Finding {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return Ok("%s %s %s, %d processors, %s", runtime.GOOS, strings.TrimSpace(string(kernel)), runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}

func (e *examination) repository(context.Context) Finding {
	if e.repoErr != nil {
		return problemOf(e.repoErr)
	}
	where := e.repo.WorkDir()
	switch {
	case where == "":
		where = e.repo.CommonDir() + ", bare"
	case e.repo.GitDir() != e.repo.CommonDir():
		where += ", a linked worktree"
	}
	head, err := e.repo.Resolve("HEAD")
	if err != nil {
		return Problem(where+": "+wording.Headline(err.Error()), "commit something first")
	}
	found := fmt.Sprintf("%s, read by %s, HEAD %.12s", where, e.repo.Backend(), head)
	for _, w := range e.repo.Warnings() {
		found += "\n" + wording.Headline(w)
	}
	return Ok("%s", found)
}

func (e *examination) configuration(context.Context) Finding {
	switch {
	case errors.Is(e.configErr, fs.ErrNotExist) && e.named:
		return Problem(wording.Headline(e.configErr.Error()), "--config names a file that is not there")
	case errors.Is(e.configErr, fs.ErrNotExist):
		return missing("none: kbisect init writes one, kbisect run -- COMMAND needs none", "")
	case e.configErr != nil:
		return problemOf(e.configErr)
	}
	found := fmt.Sprintf("%s, kind %s", e.config.Path, e.config.Kind)
	for _, w := range e.config.Warnings {
		found += "\n" + w
	}
	project, err := e.config.Project("")
	if err == nil {
		project.Static = policy.AllStatic(e.config.Metrics)
		_, err = kernels.NewPlan(project)
	}
	if err != nil {
		f := problemOf(err)
		f.Found = found + "\n" + f.Found
		return f
	}
	if line := e.unfilled(); line != "" {
		return Problem(found+"\n"+line, "fill in what is meant there, and take the words FILL IN out")
	}
	if e.repoErr == nil && e.repo.WorkDir() != "" {
		for _, s := range e.config.Build.Sources {
			if _, err := os.Stat(filepath.Join(e.repo.WorkDir(), s)); err != nil {
				return Problem(found+"\n[build] sources: there is no "+s, "sources count from the top of the repository")
			}
		}
	}
	return Ok("%s", found)
}

// unfilled is the first line of the configuration that kbisect init has left to be filled in.
func (e *examination) unfilled() string {
	text, _ := os.ReadFile(e.config.Path)
	n := 0
	for line := range strings.Lines(string(text)) {
		if n++; strings.Contains(line, "FILL IN") {
			return fmt.Sprintf("line %d: %s", n, wording.Clean(strings.TrimSpace(line)))
		}
	}
	return ""
}

// cudaTask reports a problem of KernelBot's whose submission is CUDA C++.
func (e *examination) cudaTask() bool {
	if !e.isKind(config.KindKernelbot) {
		return false
	}
	project, err := e.config.Project("")
	return err == nil && project.Task.Lang == "cu"
}

// commands looks up what the configuration starts; what a build makes, or a
// candidate carries, cannot be looked up before.
func (e *examination) commands(context.Context) Finding {
	var found, gone []string
	for _, c := range []struct {
		table string
		argv  []string
	}{{"build", e.config.Build.Command}, {"run", e.config.Run.Command}} {
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
			gone = append(gone, fmt.Sprintf("%s: %s is not there", c.table, name))
			continue
		}
		found = append(found, fmt.Sprintf("%s: %s", c.table, path))
	}
	text := strings.Join(append(found, gone...), "\n")
	if len(gone) > 0 {
		return Problem(text, "install it, mend PATH, or write ./ in front of a program that the build makes")
	}
	switch {
	case text != "":
		return Ok("%s", text)
	case e.isKind(config.KindTorch, config.KindKernelbot) && e.config.Path != "":
		return Ok("those of kind %s", e.kind())
	case e.config.Path != "":
		return missing("kbisect.toml names none", "")
	}
	return missing("there is no kbisect.toml that names any", "")
}

func (e *examination) cache(context.Context) Finding {
	dir, err := cache.Root()
	if err != nil {
		return problemOf(err)
	}
	return roomIn(dir, "set XDG_CACHE_HOME to a directory that can be written")
}

func (e *examination) store(context.Context) Finding {
	if e.repoErr != nil {
		return missing("no repository", "")
	}
	st, err := store.Open(store.Dir(e.repo.CommonDir()), store.ReadOnly)
	if err == nil {
		_, err = st.Sessions(0)
		st.Close()
	}
	if err != nil && !errors.Is(err, store.ErrNoStore) {
		return Problem(strings.ReplaceAll(err.Error(), "\nhint: ", "; "), "")
	}
	return roomIn(store.Dir(e.repo.CommonDir()), "kbisect keeps its memory here; give yourself the right to write")
}

// minFree is how much room there should be for builds, in bytes.
const minFree = 1 << 30

// roomIn tries to write into dir, or into the nearest directory above it that
// is there, and leaves nothing behind.
func roomIn(dir, hint string) Finding {
	at := dir
	for {
		_, err := os.Stat(at)
		if err == nil || filepath.Dir(at) == at {
			break
		}
		at = filepath.Dir(at)
	}
	f, err := os.CreateTemp(at, ".kbisect-doctor-*")
	if err != nil {
		return Problem(fmt.Sprintf("%s cannot be written: %v", dir, err), hint)
	}
	_, err = f.Write(make([]byte, 4096))
	err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	if err != nil {
		return Problem(fmt.Sprintf("%s cannot be written: %v", dir, err), hint)
	}
	note := ""
	if at != dir {
		note = ", made when it is needed"
	}
	var fsInfo unix.Statfs_t
	if err := unix.Statfs(at, &fsInfo); err != nil {
		return Ok("%s%s", dir, note)
	}
	free := fsInfo.Bavail * uint64(fsInfo.Bsize)
	if free < minFree {
		return Problem(fmt.Sprintf("%s: only %s free", dir, bytesText(free)), "kbisect cache trim makes room")
	}
	return Ok("%s, %s free%s", dir, bytesText(free), note)
}

// bytesText writes a size in the unit that fits.
func bytesText(n uint64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return strconv.FormatUint(n, 10) + " B"
	}
	f, i := float64(n)/(1<<10), 0
	for ; f >= 1024 && i < len(units)-1; i++ {
		f /= 1024
	}
	return fmt.Sprintf("%.3g %ciB", f, units[i])
}

func (e *examination) hooks(ctx context.Context) Finding {
	if e.repoErr != nil {
		return missing("no repository", "")
	}
	dir := filepath.Join(e.repo.CommonDir(), "hooks")
	where := ""
	if git, err := exec.LookPath("git"); err == nil {
		s := machine.RunTool(ctx, 10*time.Second, e.dir, git, "rev-parse", "--path-format=absolute", "--git-path", "hooks")
		if s.Err == nil && filepath.IsAbs(s.First()) && s.First() != dir {
			dir, where = s.First(), " (core.hooksPath)"
		}
	}
	info, err := os.Stat(filepath.Join(dir, "pre-push"))
	switch {
	case err != nil:
		return Ok("no pre-push hook in %s%s", dir, where)
	case info.Mode()&0o111 == 0:
		return Problem(fmt.Sprintf("pre-push in %s%s is not executable, so git ignores it", dir, where), "chmod +x "+filepath.Join(dir, "pre-push"))
	}
	text, _ := os.ReadFile(filepath.Join(dir, "pre-push"))
	if strings.Contains(string(text), "kbisect") {
		return Ok("pre-push in %s%s calls kbisect", dir, where)
	}
	return Ok("pre-push in %s%s is another program's", dir, where)
}

// cgroup says whether trials can have control groups of their own; kbisect does without.
func (e *examination) cgroup(context.Context) Finding {
	if dir, yes := proc.Delegated(); yes {
		return Ok("v2, delegated: trials have groups of their own below %s", dir)
	}
	return missing("no v2 group that is delegated; trials are supervised by a process instead", "")
}
