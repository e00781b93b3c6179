package executor

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/lazy"
)

// slurm submits with sbatch. All jobs of a session have one name, by which they are cancelled, and their own as a comment.
type slurm struct{ settings Settings }

// Submit implements Executor. Slurm does not put a job back into the queue by itself: it would run again on the node where
// it failed.
func (x slurm) Submit(ctx context.Context, j Job) (string, error) {
	if j.Again {
		if id, err := x.find(ctx, j); err != nil || id != "" {
			return id, err
		}
	}
	s := x.settings
	minutes := int(math.Ceil(j.Fence.Minutes()))
	argv := []string{"sbatch", "--parsable", "--no-requeue", "--job-name=" + j.Session, "--comment=" + j.Name, "--output=" + j.Output, "--time=" + strconv.Itoa(minutes)}
	for _, o := range [][2]string{{"partition", s.Partition}, {"account", s.Account}, {"qos", s.QOS}, {"gres", s.Gres}, {"constraint", s.Constraint}, {"exclude", strings.Join(j.Exclude, ",")}} {
		if o[1] != "" {
			argv = append(argv, "--"+o[0]+"="+o[1])
		}
	}
	script := "#!/bin/sh\nexec " + kernels.ShellWords(j.Program, "worker", j.Spec) + "\n"
	out, err := tool(ctx, script, append(argv, s.Options...)...)
	var failed *toolError
	if errors.As(err, &failed) && failed.code > 0 && !passing().MatchString(failed.said) {
		return "", &RefusedError{failed.Error() + "\nhint: [executor] in kbisect.toml has partition, account, qos, gres, constraint, time and options; kbisect doctor --executor tries them"}
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out), ";") // the cluster may follow
	return id, err
}

// passing are the complaints of sbatch that pass by themselves: the controller is away, or the queue is full.
var passing = lazy.Pattern(`(?i)unable to contact|timed out|connection|communication|temporarily|try again|limit|not responding|zero bytes|i/o error|controller`)

// find is the job of a name that waits or runs, or "".
func (x slurm) find(ctx context.Context, j Job) (string, error) {
	out, err := tool(ctx, "", "squeue", "--noheader", "--user="+strconv.Itoa(os.Getuid()), "--name="+j.Session, "--format=%i|%k")
	for line := range strings.Lines(out) {
		if id, name, _ := strings.Cut(strings.TrimSpace(line), "|"); name == j.Name {
			return id, nil
		}
	}
	return "", err
}

// States implements Executor by one query. Its format is fixed, where that of --json differs between versions of Slurm, some
// of which list the jobs of everybody then, whatever is asked for.
func (x slurm) States(ctx context.Context, ids []string) (map[string]Report, error) {
	// One id that is forgotten would be an error, where those of a user are not.
	out, err := tool(ctx, "", "squeue", "--noheader", "--user="+strconv.Itoa(os.Getuid()), "--states=all", "--format=%i|%T|%N|%r")
	all := parseStates(out)
	for id := range all {
		if !slices.Contains(ids, id) {
			delete(all, id)
		}
	}
	return all, err
}

// parseStates reads lines of "id|STATE|node|reason".
func parseStates(out string) map[string]Report {
	all := map[string]Report{}
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(line), "|", 4)
		if len(f) < 4 || f[0] == "" {
			continue
		}
		words := f[1]
		if f[3] != "None" && f[3] != "" {
			words += " (" + f[3] + ")"
		}
		all[f[0]] = Report{slurmState(f[1]), f[2], words}
	}
	return all
}

// slurmState is what a state of Slurm's means. What is not known may still run: only a result or a known end counts.
func slurmState(word string) State {
	switch word {
	case "PENDING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "REQUEUE_FED", "SPECIAL_EXIT":
		return Pending
	case "COMPLETED":
		return Done
	case "FAILED":
		return Failed
	case "TIMEOUT":
		return Late
	case "OUT_OF_MEMORY":
		return TooLarge
	case "NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL":
		return Lost
	case "PREEMPTED", "CANCELLED", "DEADLINE", "REVOKED", "EXPEDITING_FAIL":
		return Cancelled
	}
	return Running
}

// Cancel implements Executor. Only jobs of this user and this session are cancelled, whatever the ids are.
func (x slurm) Cancel(ctx context.Context, session string, ids ...string) error {
	_, err := tool(ctx, "", append([]string{"scancel", "--quiet", "--user=" + strconv.Itoa(os.Getuid()), "--name=" + session}, ids...)...)
	return err
}

// Version implements Executor.
func (x slurm) Version(ctx context.Context) (string, error) {
	version, err := tool(ctx, "", "sbatch", "--version")
	if err == nil {
		_, err = tool(ctx, "", "squeue", "--noheader", "--user="+strconv.Itoa(os.Getuid()))
	}
	if err != nil {
		return "", hint.Add(err, "the controller does not answer: scontrol ping says more")
	}
	return strings.TrimSpace(version), nil
}
