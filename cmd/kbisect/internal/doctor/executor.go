package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/pipeline/cache"
	"github.com/kbisect/kbisect/pipeline/remote"
	"github.com/kbisect/kbisect/pipeline/remote/executor"
)

// jobLimit is how long the job of [Executor] may wait in the queue and run, together.
const jobLimit = 2 * time.Minute

// Executor checks the executor of kbisect.toml or, if there is none, a Slurm that is installed here: whether the
// scheduler answers, whether jobs see the shared folder, and whether a job that asks for what trials ask for runs.
// It submits one job and removes it again. ok is false if any of this fails, including the removal.
func Executor(ctx context.Context, out io.Writer, version, dir, configFile string) (ok bool) {
	s := open(dir, configFile)
	defer s.close()
	// Without [executor], a Slurm that is installed here is checked with the default settings.
	settings := s.config.Executor
	if _, err := exec.LookPath("sbatch"); err == nil && !settings.Away() {
		settings.Kind = executor.Slurm
	}
	// Each line appears when its step is over, since the next one may have to wait for the scheduler.
	say := func(name string, f Finding) bool {
		f.print(out, name, len("shared folder")) // the longest name
		return f.State == StateOK
	}
	if isInvalid(s.configErr) {
		return say(config.FileName, problemOf(s.configErr))
	}
	if !settings.Away() {
		return say("executor", broken("none: [executor] in kbisect.toml names no scheduler, and sbatch was not found", "kbisect help clusters"))
	}
	root, _, err := cache.Root()
	if err != nil {
		return say("shared folder", problemOf(err))
	}
	c, err := remote.Open(ctx, remote.Config{
		Settings: settings, Session: fmt.Sprintf("doctor-%d-%d", os.Getpid(), time.Now().Unix()), Version: version, Folder: filepath.Join(root, "remote"), Say: func(string) {},
	})
	if err != nil {
		return say("executor", problemOf(err))
	}
	// An interrupt must not leave the job in the queue, so the removal goes on after ctx has ended.
	defer func() {
		if err := c.Close(context.WithoutCancel(ctx)); err != nil {
			ok = say("clean-up", problemOf(err))
		}
	}()
	// What comes first rests on the least: a scheduler that does not answer runs no job either.
	answer, err := c.Version(ctx)
	if err != nil {
		return say("scheduler", problemOf(err))
	}
	say("scheduler", passed("%s answers", answer))
	if settings.Streams() {
		say("shared folder", passed("none: what a job needs is in it"))
	} else {
		say("shared folder", passed("%s", c.Folder()))
	}
	// The time that is shown includes the queue, as every trial has to wait there too.
	soon, cancel := context.WithTimeout(ctx, jobLimit)
	defer cancel()
	began := time.Now()
	// The hint names the keys that decide what a job asks for, and so whether it can be refused or has to wait.
	keys := "partition, account, qos, gres and constraint"
	if settings.Kind == executor.Kubernetes {
		keys = "namespace, image, resources, node_selector, tolerations and volumes"
	}
	res, err := c.Check(soon)
	if err != nil {
		return say("job", problemOf(fmt.Errorf("%w\nhint: %s are keys of [executor] (kbisect help clusters)", err, keys)))
	}
	device := "; it asked for no device"
	if len(res.Devices) > 0 {
		device = ", device " + strings.Join(res.Devices, ", ")
	}
	return say("job", passed("ran on %s%s, and its result was here after %.2f s", res.Node, device, time.Since(began).Seconds()))
}
