package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/lazy"
)

// slurm submits with sbatch, jobs that are submitted at once as an array; or with srun where nothing is shared. All jobs of
// a session have one name, by which they are cancelled, and their own as a comment, those of an array in its order.
type slurm struct {
	settings Settings

	mu      sync.Mutex
	waiting []*submission
	clients map[string]<-chan struct{} // of jobs by id: closed when the srun has ended
}

type submission struct {
	Job
	id   string
	err  error
	done chan struct{}
}

const (
	gathering = 20 * time.Millisecond // how long a job waits for others to be submitted with
	mostTasks = 32                    // of an array: its comment has all their names
)

// Submit implements Executor. Slurm does not put a job back into the queue by itself: it would run again on the node where
// it failed.
func (x *slurm) Submit(ctx context.Context, j Job) (string, error) {
	if j.Again {
		if id, err := x.find(ctx, j, waitOrRun); err != nil || id != "" {
			return id, err
		}
	}
	if j.Inputs != "" {
		return x.attach(ctx, j)
	}
	s := &submission{Job: j, done: make(chan struct{})}
	x.mu.Lock()
	x.waiting = append(x.waiting, s)
	first := len(x.waiting) == 1
	x.mu.Unlock()
	if first {
		time.Sleep(gathering)
		x.mu.Lock()
		all := x.waiting
		x.waiting = nil
		x.mu.Unlock()
		for len(all) > 0 {
			options := x.options(all[0].Job)
			var alike, rest []*submission
			for _, s := range all {
				if len(alike) < mostTasks && slices.Equal(x.options(s.Job), options) {
					alike = append(alike, s)
				} else {
					rest = append(rest, s)
				}
			}
			all = rest
			x.submit(ctx, options, alike)
		}
	}
	<-s.done
	return s.id, s.err
}

// options are what sbatch and srun are called with alike. A build wants no device.
func (x *slurm) options(j Job) (argv []string) {
	s := x.settings
	set := [][2]string{
		{"job-name", j.Session}, {"time", strconv.Itoa(int(math.Ceil(j.Fence.Minutes())))},
		{"account", s.Account}, {"qos", s.QOS}, {"exclude", strings.Join(j.Exclude, ",")}, {"container-image", s.Container},
	}
	if s.Container != "" && j.Inputs == "" {
		set = append(set, [2]string{"container-mounts", j.Folder + ":" + j.Folder})
	}
	more := s.Build
	if !j.Build {
		set = append(set, [][2]string{{"partition", s.Partition}, {"gres", s.Gres}, {"constraint", s.Constraint}}...)
		more = s.Options
	}
	for _, o := range set {
		if o[1] != "" {
			argv = append(argv, "--"+o[0]+"="+o[1])
		}
	}
	return append(argv, more...)
}

// submit submits jobs as one: several as an array, or one by one where Slurm takes no array.
func (x *slurm) submit(ctx context.Context, options []string, all []*submission) {
	var script strings.Builder
	script.WriteString("#!/bin/sh\ncase \"${SLURM_ARRAY_TASK_ID:-0}\" in\n")
	var names []string
	for i, s := range all {
		names = append(names, s.Name)
		fmt.Fprintf(&script, "%d) set -- %s ;;\n", i, kernels.ShellWords(s.Output, s.Program, "worker", s.Spec))
	}
	script.WriteString("esac\nexec >\"$1\" 2>&1\nshift\nexec \"$@\"\n")
	argv := []string{"sbatch", "--parsable", "--no-requeue", "--output=/dev/null", "--comment=" + strings.Join(names, ",")}
	if len(all) > 1 {
		argv = append(argv, fmt.Sprintf("--array=0-%d", len(all)-1))
	}
	out, err := tool(ctx, script.String(), append(argv, options...)...)
	err = refused(err)
	var no *RefusedError
	if errors.As(err, &no) && len(all) > 1 {
		for i := range all {
			x.submit(ctx, options, all[i:i+1])
		}
		return
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out), ";") // the cluster may follow
	for i, s := range all {
		if s.id, s.err = id, err; len(all) > 1 && err == nil {
			s.id = fmt.Sprintf("%s_%d", id, i)
		}
		close(s.done)
	}
}

// refused tells what the user can correct from what passes by itself.
func refused(err error) error {
	var failed *toolError
	if errors.As(err, &failed) && failed.code > 0 && !passing().MatchString(failed.said) {
		return &RefusedError{failed.Error() + "\nhint: [executor] in kbisect.toml has partition, account, qos, gres, constraint, container, time and options; kbisect doctor --executor tries them"}
	}
	return err
}

// passing are the complaints of sbatch and srun that pass by themselves: the controller is away, or the queue is full.
var passing = lazy.Pattern(`(?i)unable to contact|timed out|connection|communication|temporarily|try again|limit|not responding|zero bytes|i/o error|controller`)

// An srun carries a job's inputs there, after the program that reads them, and what it prints back.
const (
	sending = `program=$1 inputs=$2 output=$3; shift 3
cat "$program" "$inputs" | "$@" >"$output.said" 2>"$output"
cat "$output.said" >>"$output"; rm -f "$output.said"`

	receiving = `umask 077; trap 'exit 143' TERM; trap 'rm -rf "$d"' EXIT
d=$(mktemp -d) && head -c "$1" | gzip -d >"$d/kbisect" && chmod 700 "$d/kbisect" && "$d/kbisect" worker -`
)

// attach submits a job by an srun that stays with it. It outlives this process: a resumed search finds the job, and what it
// printed.
func (x *slurm) attach(ctx context.Context, j Job) (string, error) {
	program, err := os.Stat(j.Program)
	if err != nil {
		return "", err
	}
	argv := []string{"-c", sending, "kbisect", j.Program, j.Inputs, j.Output, "srun", "--nodes=1", "--ntasks=1", "--comment=" + j.Name}
	argv = append(append(argv, x.options(j)...), "sh", "-c", receiving, "kbisect", strconv.FormatInt(program.Size(), 10))
	cmd := exec.Command("sh", argv...)
	cmd.Env, cmd.SysProcAttr = environment(), &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // what came of it stands in the output
		close(ended)
	}()
	over := false
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		id, err := x.find(ctx, j, "all")
		switch {
		case err == nil && id != "":
			x.mu.Lock()
			defer x.mu.Unlock()
			x.clients[id] = ended
			return id, nil
		case over && err != nil:
			return "", err
		case over:
			said, _ := os.ReadFile(j.Output)
			return "", refused(&toolError{"srun", oneLine(string(said)), 1})
		}
		select {
		case <-ended:
			over = true
		case <-time.After(wait):
		case <-ctx.Done():
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // it takes its job with it
			<-ended
			return "", context.Cause(ctx)
		}
	}
}

// query asks for the jobs of this user in some states, a line for each, tasks of arrays each for itself. Its format is fixed,
// where that of --json differs between versions of Slurm, some of which list the jobs of everybody then, whatever is asked
// for.
func query(ctx context.Context, states, format string, more ...string) (string, error) {
	argv := []string{"squeue", "--noheader", "--array", "--user=" + strconv.Itoa(os.Getuid()), "--states=" + states, "--format=" + format}
	return tool(ctx, "", append(argv, more...)...)
}

// waitOrRun are the states of jobs that have not ended.
const waitOrRun = "pending,configuring,running,suspended,completing"

// find is the last job of a name in some states, or "".
func (x *slurm) find(ctx context.Context, j Job, states string) (found string, err error) {
	out, err := query(ctx, states, "%i|%k", "--name="+j.Session, "--sort=i")
	for line := range strings.Lines(out) {
		id, names, _ := strings.Cut(strings.TrimSpace(line), "|")
		_, task, _ := strings.Cut(id, "_")
		if at := slices.Index(strings.Split(names, ","), j.Name); at >= 0 && (task == "" || task == strconv.Itoa(at)) {
			found = id
		}
	}
	return found, err
}

// States implements Executor by one query.
func (x *slurm) States(ctx context.Context, ids []string) (map[string]Report, error) {
	out, err := query(ctx, "all", "%i|%T|%N|%r") // one id that is forgotten would be an error, where those of a user are not
	all, asked := parseStates(out), map[string]Report{}
	for _, id := range ids {
		array, _, _ := strings.Cut(id, "_") // tasks that were cancelled before they ran are one
		for _, id := range []string{array, id} {
			if r, ok := all[id]; ok {
				asked[id] = r
			}
		}
	}
	return asked, err
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

// endBound is how long cancelled jobs may take to end before they are left alone. Slurm takes seconds for one that it was just
// about to start, which does no harm.
const endBound = 2 * time.Second

// Cancel implements Executor. All jobs of a session have ended then, since they write to its folder. Only jobs of this user and this session are cancelled, whatever the ids are. (With --name and
// the id of a task that waits, scancel would cancel its whole array.)
func (x *slurm) Cancel(ctx context.Context, session string, ids ...string) error {
	mine := []string{"--user=" + strconv.Itoa(os.Getuid()), "--name=" + session}
	if ids != nil {
		out, err := query(ctx, waitOrRun, "%i", "--name="+session)
		if err != nil {
			return err
		}
		live := strings.Fields(out)
		if mine = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(live, id) }); len(mine) == 0 {
			return nil
		}
	}
	_, err := tool(ctx, "", append([]string{"scancel", "--quiet"}, mine...)...)
	x.mu.Lock()
	clients := maps.Clone(x.clients)
	x.mu.Unlock()
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerBound)
	defer cancel()
	for id, ended := range clients {
		if err == nil && (ids == nil || slices.Contains(ids, id)) {
			select { // it writes to the folder of its job until then
			case <-ended:
			case <-soon.Done():
			}
		}
	}
	for began := time.Now(); ids == nil && err == nil && time.Since(began) < endBound; time.Sleep(50 * time.Millisecond) {
		left, err := query(ctx, "running,completing", "%i", "--name="+session)
		if err != nil || left == "" {
			break
		}
	}
	return err
}

// Version implements Executor.
func (x *slurm) Version(ctx context.Context) (string, error) {
	version, err := tool(ctx, "", "sbatch", "--version")
	if err == nil {
		_, err = query(ctx, "pending", "%i")
	}
	if err != nil {
		return "", hint.Add(err, "the controller does not answer: scontrol ping says more")
	}
	return strings.TrimSpace(version), nil
}
