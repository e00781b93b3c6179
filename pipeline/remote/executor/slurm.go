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

// slurm submits with sbatch, several jobs at once as an array; or with srun where nothing is shared. All jobs of a
// session have the same Slurm name, by which they are found and cancelled. A job's own name is in the comment,
// which for an array lists the names of its tasks in order. The id of a task is ARRAY_INDEX.
type slurm struct {
	settings Settings

	mu      sync.Mutex
	waiting []*submission              // to be submitted together; whoever adds the first one submits all
	clients map[string]<-chan struct{} // by job id: closed when the srun of the job has ended
}

// submission is a job that waits for others to be submitted with. id and err may be read once done is closed.
type submission struct {
	Job
	id   string
	err  error
	done chan struct{}
}

const (
	gathering = 20 * time.Millisecond // how long a job waits for others to be submitted with
	mostTasks = 32                    // of an array, whose comment has to hold all their names
)

// Submit implements Executor. The first caller waits a moment for others and submits all of them as arrays. Jobs
// are not requeued by Slurm (--no-requeue): it would run them on the node where they failed.
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

// options are those that sbatch and srun have in common. Jobs with equal options can be one array. A build asks for
// no device and may need another partition, so that it gets only what [executor] build says. Slurm counts --time in
// minutes.
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

// submit submits jobs with equal options: several as an array, or one by one if Slurm refuses the array. The script
// is given on standard input; each task picks its own command from it. It closes done of each.
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

// Probe implements Prober. Slurm takes a job that waits for nodes which are down, but not as one to be tested.
func (x *slurm) Probe(ctx context.Context, j Job) error {
	_, err := tool(ctx, "#!/bin/sh\n", append([]string{"sbatch", "--test-only"}, x.options(j)...)...)
	var no *RefusedError
	if err = refused(err); errors.As(err, &no) {
		return no
	}
	return nil
}

// refused turns a failure of sbatch or srun that will not pass by itself into a RefusedError.
func refused(err error) error {
	var failed *toolError
	if errors.As(err, &failed) && failed.code > 0 && !passing().MatchString(failed.said) {
		return &RefusedError{failed.Error() + "\nhint: [executor] in kbisect.toml has partition, account, qos, gres, constraint, container, time and options; kbisect doctor --executor tries them"}
	}
	return err
}

// passing matches the complaints of sbatch and srun that pass by themselves: the controller is away, or a limit on
// queued jobs is reached. Everything else with an exit status is a refusal.
var passing = lazy.Pattern(`(?i)unable to contact|timed out|connection|communication|temporarily|try again|limit|not responding|zero bytes|i/o error|controller`)

// srun connects the standard streams of this machine and the node. What is sent is the gzipped program and then its
// inputs; the other side needs only a shell, head and gzip. Standard output is collected in a file of its own and
// appended at the end, so that the result is the last line of the output whatever srun says on standard error
// meanwhile.
const (
	sending = `program=$1 inputs=$2 output=$3; shift 3
cat "$program" "$inputs" | "$@" >"$output.said" 2>"$output"
cat "$output.said" >>"$output"; rm -f "$output.said"`

	receiving = `umask 077; trap 'exit 143' TERM; trap 'rm -rf "$d"' EXIT
d=$(mktemp -d) && head -c "$1" | gzip -d >"$d/kbisect" && chmod 700 "$d/kbisect" && "$d/kbisect" worker -`
)

// attach submits a job by an srun that stays connected to it and returns when Slurm knows the job. The srun runs in
// a session of its own and outlives this process: a resumed search finds the job, and its output in the file.
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
		_ = cmd.Wait() // its exit status says less than the output
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
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // srun cancels its job when it is terminated
			<-ended
			return "", context.Cause(ctx)
		}
	}
}

// query runs squeue for the jobs of this user in some states: a line for each, and one for each task of an array.
// The format is fixed because --json differs between versions of Slurm, and some of them then list the jobs of all
// users.
func query(ctx context.Context, states, format string, more ...string) (string, error) {
	argv := []string{"squeue", "--noheader", "--array", "--user=" + strconv.Itoa(os.Getuid()), "--states=" + states, "--format=" + format}
	return tool(ctx, "", append(argv, more...)...)
}

// waitOrRun are the states of jobs that have not ended, for query.
const waitOrRun = "pending,configuring,running,suspended,completing"

// find is the id of the last job of a name in some states, or "".
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

// States implements Executor by one query for all jobs of the user. Asking for ids would fail as a whole if Slurm
// has forgotten one of them. Tasks of an array that were cancelled before they ran are listed as one, under the
// array's id.
func (x *slurm) States(ctx context.Context, ids []string) (map[string]Report, error) {
	out, err := query(ctx, "all", "%i|%T|%N|%r")
	all, asked := parseStates(out), map[string]Report{}
	for _, id := range ids {
		array, _, _ := strings.Cut(id, "_")
		for _, id := range []string{array, id} {
			if r, ok := all[id]; ok {
				asked[id] = r
			}
		}
	}
	return asked, err
}

// parseStates reads lines of "id|STATE|node|reason". Other lines are skipped.
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

// slurmState is what a state of Slurm's (squeue(1), JOB STATE CODES) means. An unknown one counts as running: only
// a result or a known end may settle a job.
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

// endBound is how long Cancel waits for jobs to end. Slurm takes five seconds for one that it was just about to
// start, but such a job writes nothing and need not be waited for.
const endBound = 2 * time.Second

// Cancel implements Executor. It waits until the jobs have ended, within endBound, because they write to the folder
// that the caller is about to remove. Ids are first reduced to live jobs of this user and session, and then
// cancelled by id alone: given --name and the id of a waiting task, scancel cancels the whole array.
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

// Version implements Executor. sbatch --version does not contact the controller, so that a query follows.
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
