// Package executor has the schedulers that make jobs of blocks: Slurm, Kubernetes, or three commands of the user's.
package executor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/kernels/lazy"
)

// The kinds of executors. Local is none: trials are made by this process.
const (
	Local      = "local"
	Slurm      = "slurm"
	Kubernetes = "kubernetes"
	Command    = "command"
)

// Settings say where blocks run, as the user gives them.
type Settings struct {
	Kind   string
	Jobs   int    // at a time; 0 is the default
	Shared string // folder that both sides see; "": the user's cache folder
	Stream bool   // nothing is shared: a job gets all that it needs, and prints its result

	// Of Slurm, as sbatch takes them. Build are the options of jobs that build, see [Settings.Apart].
	Partition, Account, QOS, Gres, Constraint, Container string
	Time                                                 time.Duration // limit of a job; 0: what its phases need
	Options, Build                                       []string

	// Of Kubernetes, where what is not said is as in the template, a file. Volumes are CLAIM:PATH, tolerations
	// KEY[=VALUE][:EFFECT].
	Context, Namespace, Image, ServiceAccount, Queue, PodTemplate string
	Resources, BuildResources, NodeSelector                       map[string]string
	Tolerations, Volumes                                          []string

	// Of a command, as argument lists, see [commands].
	Submit, State, Cancel []string
}

// Away reports that blocks run elsewhere.
func (s Settings) Away() bool { return s.Kind != "" && s.Kind != Local }

// Width is how many jobs may be waiting or running at a time.
func (s Settings) Width() int { return cmp.Or(s.Jobs, 4) }

// Device reports that a job asks for a device, and so should have one.
func (s Settings) Device() bool {
	for name := range s.Resources {
		if strings.Contains(name, "gpu") {
			return true
		}
	}
	return strings.Contains(s.Gres, "gpu")
}

// Streams reports that nothing is shared.
func (s Settings) Streams() bool { return s.Stream || s.Kind == Kubernetes && s.Shared == "" }

// Apart reports that builds are jobs of their own, which ask for no device.
func (s Settings) Apart() bool { return len(s.Build) > 0 || len(s.BuildResources) > 0 }

// Carries is how many bytes the inputs of a job may take where nothing is shared; 0: any number.
func (s Settings) Carries() int64 {
	if s.Kind == Kubernetes {
		return mostPieces * pieceSize
	}
	return 0
}

// State is what a scheduler says of a job. It is only a hint: what a job came to stands in its result.
type State string

// The states, those of jobs that ended from done on. Out of memory and late are the candidate's fault, lost is the node's.
const (
	Pending   State = "pending"
	Running   State = "running"
	Done      State = "done"
	Failed    State = "failed"
	Lost      State = "lost"
	Cancelled State = "cancelled" // by somebody, or for the sake of another job
	Late      State = "late"      // the scheduler's limit ended it
	TooLarge  State = "out of memory"
	// Unstartable is a job whose image cannot be had, or whose container cannot be made: the machine's fault, or the user's.
	Unstartable State = "unstartable"
)

// Ended reports that a job will not run any more.
func (s State) Ended() bool { return s != Pending && s != Running }

// Report is what a scheduler says of a job.
type Report struct {
	State State
	Node  string // where it is, or was; "" while that is unknown
	Words string // the scheduler's own
}

// Job is a block to submit.
type Job struct {
	Name    string // unique in the session
	Session string // common to its jobs
	Program string // kbisect, as the job sees it; where nothing is shared, as the executor brings it there
	Folder  string // that both sides see
	Spec    string // file that says what to do
	Inputs  string // file of all that it needs, where nothing is shared; else ""
	Output  string // file for the output
	Fence   time.Duration
	Exclude []string // nodes where it should not run
	Build   bool     // it builds and launches nothing
	Again   bool     // it may have been submitted before: one that waits or runs is taken for it
}

// Executor is a scheduler. Its errors but [RefusedError] mean that it cannot be reached, and is to be asked again.
type Executor interface {
	Submit(ctx context.Context, j Job) (id string, err error)
	// States are those of jobs; one that is not among them is forgotten.
	States(ctx context.Context, ids []string) (map[string]Report, error)
	// Cancel ends jobs; without ids all of the session that still wait or run.
	Cancel(ctx context.Context, session string, ids ...string) error
	// Version names the scheduler, and shows that it answers.
	Version(ctx context.Context) (string, error)
}

// Watcher is an executor that is told what becomes of jobs. Where nothing is shared, they do not print to their output.
type Watcher interface {
	// News is closed when something becomes of a job.
	News(id string) <-chan struct{}
	// Log is what a job that ended has printed, nil where nobody knows any more.
	Log(ctx context.Context, id string) ([]byte, error)
}

// RefusedError says that a block will not run as it is asked for, and that the user can correct that.
type RefusedError struct{ Why string }

// Error implements error.
func (e *RefusedError) Error() string { return e.Why }

// New is the executor of these settings, for jobs that have the name of a session in common.
func New(s Settings, session string) (Executor, error) {
	switch s.Kind {
	case Slurm:
		tools := []string{"sbatch", "squeue", "scancel"}
		if s.Streams() {
			tools = append(tools, "srun")
		}
		for _, tool := range tools {
			if _, err := exec.LookPath(tool); err != nil {
				return nil, &RefusedError{tool + " was not found on PATH\nhint: run kbisect where jobs are submitted, such as a login node"}
			}
		}
		return &slurm{settings: s, clients: map[string]<-chan struct{}{}}, nil
	case Kubernetes:
		return newKubernetes(s, session)
	case Command:
		return &commands{settings: s, live: map[string]bool{}}, nil
	}
	return nil, &RefusedError{fmt.Sprintf("unknown executor %q", s.Kind)}
}

// answerBound is how long a scheduler may take for one answer.
const answerBound = time.Minute

// toolError is a tool of the scheduler's that did not end well, with what it said.
type toolError struct {
	tool, said string
	code       int // -1: it was not started, or killed
}

func (e *toolError) Error() string {
	return e.tool + ": " + cmp.Or(e.said, fmt.Sprintf("exit %d", e.code))
}

// tool runs a tool of the scheduler's to its end: one that is killed in between may have done what it was asked to.
func tool(ctx context.Context, stdin string, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	cmd.Stdin, cmd.Env = strings.NewReader(stdin), environment()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // it ended well, and what it started has its output
		err = nil
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return "", &toolError{argv[0], oneLine(stderr.String()), exit.ExitCode()}
	case ctx.Err() != nil:
		return "", &toolError{argv[0], "no answer within " + answerBound.String(), -1}
	case err != nil:
		return "", &toolError{argv[0], err.Error(), -1}
	}
	return stdout.String(), nil
}

// environment is that of this process, which jobs inherit, but what only the scheduler tells it, or another job.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), ofJobs().MatchString)
}

var ofJobs = lazy.Pattern(`^(SBATCH_|SQUEUE_|SLURM_JOB|CUDA_VISIBLE_DEVICES=)`)

// oneLine joins what a tool said.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' }), "; ")
}
