package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/cache"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/remote/executor"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/trial"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// resultFile is the name of the result, in the folder of the spec. Its appearance is what the other side waits for.
const resultFile = "result.json"

// Work runs one block on this machine. path is a spec file, and the result is written beside it; or it is a folder
// with the pieces of an archive, or "-" for an archive on standard input, and the result is printed. Failures of the
// block are part of the result. An error means that there is no result: the block was interrupted, or the result
// cannot be written.
func Work(ctx context.Context, path, version string) error {
	var s Spec
	keep := func(r Result) error { return writeJSON(filepath.Join(filepath.Dir(path), resultFile), r) }
	if fi, err := os.Stat(path); path == "-" || err == nil && fi.IsDir() {
		in, err := inputs(path)
		if err != nil {
			return err
		}
		dir, err := os.MkdirTemp("", "kbisect-job-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if s, err = unpacked(in, dir); err != nil {
			return err
		}
		keep = func(r Result) error { return r.print(os.Stdout) }
	} else if ok, err := readJSON(path, &s); err != nil || !ok {
		return cmp.Or(err, fmt.Errorf("%s does not exist\nhint: kbisect run --executor writes it; a job's node must see the same folder", path))
	}
	res := Result{Node: node()}
	for _, variable := range []string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"} {
		// Images set all by themselves, and void is how a container says that a device comes in another way.
		if device := os.Getenv(variable); len(res.Devices) == 0 && !slices.Contains([]string{"", "all", "void", "none"}, device) {
			res.Devices = []string{device}
		}
	}
	err := s.run(ctx, version, &res)
	switch {
	case ctx.Err() != nil: // it was stopped, and has shown nothing: a launch may have ended by the same signal
		return ctx.Err()
	case err != nil && correctable(err):
		res.Refused = err.Error()
	case err != nil:
		res.Infra = err.Error()
	}
	return keep(res)
}

// node is the name by which the scheduler knows this machine, so that it can be excluded; else its host name.
func node() string {
	host, _ := os.Hostname()
	return cmp.Or(os.Getenv("SLURMD_NODENAME"), os.Getenv(executor.NodeVariable), host)
}

// correctable reports an error that the user can correct. All others are taken for the machine's fault and tried
// elsewhere.
func correctable(err error) bool {
	var command *trial.CommandError
	var refused *executor.RefusedError
	return errors.As(err, &command) || errors.As(err, &refused) || workspace.Refused(err)
}

// run makes the launches of a block with one pipeline: the reference first, then the request. It fills res as far
// as it comes. A reference that fails spoils the block (the candidate was good elsewhere, so this node is suspect),
// unless the request is about the same candidate: then its outcome is the answer.
func (s Spec) run(ctx context.Context, version string, res *Result) error {
	digest, err := self()
	switch {
	case err != nil:
		return err
	case digest != s.Digest:
		return &executor.RefusedError{Why: fmt.Sprintf("the job runs kbisect %s (%.12s), and the search kbisect %s (%.12s)\nhint: they must be the same program: let the job run {program}, or install it on both sides", version, digest, s.Version, s.Digest)}
	case s.Device && len(res.Devices) == 0 && !deviceFiles():
		return errors.New("the job was given no device: CUDA_VISIBLE_DEVICES is empty")
	case s.Check:
		return nil
	}
	p, closeAll, err := s.pipeline(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	if s.Reference != nil {
		o, err := p.Sample(ctx, *s.Reference)
		if err != nil {
			return err
		}
		res.Reference = &o
		if o.Class != bisect.OK {
			if s.Reference.Candidate != s.Request.Candidate {
				return fmt.Errorf("the reference %s ended as %s here: %s", s.Reference.Candidate.Brief(), o.Class, o.Why)
			}
			res.Outcome = o
			return nil
		}
	}
	res.Outcome, err = p.Sample(ctx, s.Request)
	res.Keys = p.Config.Recipe.Keys
	if len(p.Config.Devices) > 0 {
		res.Devices = nil // instead of what the environment said
	}
	for _, d := range p.Config.Devices {
		res.Devices = append(res.Devices, d.Device().UUID)
	}
	return err
}

// deviceFiles reports device nodes in a pod. A device plugin that sets no variable gives only the nodes of what it
// granted; outside of a pod every device of the machine would be seen, so they prove nothing.
func deviceFiles() bool {
	for _, pattern := range []string{"/dev/nvidia[0-9]*", "/dev/kfd"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 && os.Getenv(executor.NodeVariable) != "" {
			return true
		}
	}
	return false
}

// pipeline makes the pipeline of a block. Its workspaces lie on the node's own disk, as a shared file system would
// be slow and would show in the times. closeAll releases what was opened in reverse order, and is never nil without
// an error.
func (s Spec) pipeline(ctx context.Context) (p *pipeline.Pipeline, closeAll func(), err error) {
	var closers []func()
	closeAll = func() {
		for _, one := range slices.Backward(closers) {
			one()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	repo, err := source.Open(s.Repo)
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, func() { repo.Close() })
	if s.Made != "" {
		var made source.Synthetic
		if ok, err := readJSON(s.Made, &made); err != nil || !ok {
			return nil, nil, cmp.Or(err, fmt.Errorf("%s does not exist", s.Made))
		}
		if err := source.Adopt(repo, made); err != nil {
			return nil, nil, err
		}
	}
	work := filepath.Join(os.TempDir(), fmt.Sprintf("kbisect-%d", os.Getuid()))
	if err := private(work); err != nil {
		return nil, nil, err
	}
	builds, err := cache.Open(s.Cache)
	if err != nil {
		return nil, nil, err
	}
	devices, err := openDevices(ctx, s.Block.GPUs)
	closers = append(closers, devices.Close)
	if err != nil {
		return nil, nil, err
	}
	b := s.Block
	recipe := b.Recipe
	recipe.Repo, recipe.Cache, recipe.Keys, recipe.Logs = repo, builds, s.Keys, s.Logs
	recipe.Env, recipe.Log = append(os.Environ(), recipe.Env...), slog.New(slog.NewTextHandler(os.Stderr, nil))
	if b.OwnScripts {
		recipe.WorkTree = repo.WorkDir()
	}
	if b.Sandbox != nil {
		b.Sandbox.Read = []string{repo.CommonDir()}
	}
	// A session that is resumed on this machine kills what it left here, by its name: not the jobs that still run.
	name := fmt.Sprintf("job-%s-%d", s.Session, os.Getpid())
	p, err = pipeline.New(ctx, pipeline.Config{
		Recipe: recipe, Limits: b.Limits, Cases: b.Cases, Dir: filepath.Join(work, name), Devices: devices.Watches,
		Caches: b.Caches, Sandbox: b.Sandbox, Jobs: 1, Session: name,
	})
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, func() {
		if err := p.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "kbisect: "+err.Error())
		}
	})
	if s.Clean {
		p.Clean()
	}
	for _, l := range s.Learnt {
		p.Learn(l.Request, l.Outcome)
	}
	return p, closeAll, nil
}

// openDevices chooses, locks and opens devices among those that the scheduler gave to the job. The caller closes
// the result even with an error, since some devices may be held by then.
func openDevices(ctx context.Context, gpus []string) (*gpu.Held, error) {
	d := &gpu.Held{}
	ids, err := gpu.Select(gpus)
	if errors.Is(err, gpu.ErrHidden) { // where a device was asked for, that was checked before
		return d, nil
	}
	if err != nil {
		return d, fmt.Errorf("choosing a device on %s: %w", node(), err)
	}
	for _, id := range ids {
		if err := d.Take(ctx, id, func(error) {}); err != nil {
			return d, err
		}
	}
	return d, nil
}
