package policy

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/remote/executor"
)

// executor settles where trials are made. --executor names a kind; the rest is in [executor] of kbisect.toml, which is
// read for that even if the command line gives the command. What does not work on other machines is refused here,
// before anything is submitted. It comes last of all that reads the request, since it overrules devices and jobs.
func (r *reader) executor() error {
	p, kind := r.p, r.q.Executor
	if kind != "" && !slices.Contains(config.Executors(), kind) {
		return exit.Usagef("unknown --executor %s%s\nhint: %s", kind, wording.DidYouMean(kind, config.Executors()), config.OneOf(config.Executors()))
	}
	if kind != "" && r.q.Argv != nil {
		cfg, err := config.Load(r.file())
		switch {
		case err == nil:
			p.Executor = cfg.Executor
		case !errors.Is(err, fs.ErrNotExist):
			return exit.Usage(err)
		}
	}
	if kind != "" && kind != p.Executor.Kind {
		if p.Executor.Away() && kind != executor.Local {
			return exit.Usagef("--executor %s: [executor] in %s is of kind %s\nhint: --executor local runs here", kind, r.file(), p.Executor.Kind)
		}
		p.Executor.Kind = kind
	}
	switch {
	case !p.Executor.Away():
		return nil
	case !slices.Contains([]string{"run", "compare", "gate", "measure"}, r.q.Name):
		if kind != "" {
			return exit.Usagef("kbisect %s launches on this machine; --executor %s is for run, compare, gate and measure", r.q.Name, kind)
		}
		p.Executor.Kind = executor.Local
		// Here the configuration asked for jobs and not the user, so a warning is enough.
		r.warnNow(fmt.Sprintf("kbisect %s launches on this machine: [executor] is for run, compare, gate and measure", r.q.Name))
		return nil
	case p.Executor.Kind == executor.Command && len(p.Executor.Submit) == 0:
		return exit.Usagef("--executor %s: [executor] in kbisect.toml has no submit, state and cancel", kind)
	case p.Executor.Kind == executor.Kubernetes && p.Executor.Image == "" && p.Executor.PodTemplate == "":
		return exit.Usagef("--executor %s: [executor] in kbisect.toml names no image", kind)
	case p.Plan.InWorktree:
		return exit.Usagef("--in-worktree makes candidates a part of the repository, which jobs do not write\nhint: --executor local runs here")
	}
	if p.Spread = ""; r.q.GPUs != "" {
		return exit.Usagef("--gpus chooses devices of this machine, and --executor %s launches elsewhere\nhint: --jobs, or [executor] jobs, is how many jobs run at a time", p.Executor.Kind)
	}
	if r.q.JobsSet {
		p.Executor.Jobs = r.q.Jobs
	}
	// Answers and scatter of other sessions come from other machines.
	p.OnDisk, p.NoPast, p.Fresh = true, true, true
	return nil
}

// file is the path of the project's configuration, which need not exist: --config, or kbisect.toml at the top of the
// work tree. A bare repository has no work tree; then it is looked for at -C.
func (r *reader) file() string {
	return cmp.Or(r.q.Config, filepath.Join(cmp.Or(r.repo.WorkDir(), r.q.Dir), config.FileName))
}
