// Package executor submits jobs to schedulers: Slurm, Kubernetes, or any other through three commands of the user's.
//
// An [Executor] has four verbs: submit, states, cancel, version. [New] makes the one that the [Settings] ask for. A
// scheduler that pushes news also implements [Watcher]. A [Job] is opaque here: package remote decides what is in it,
// whether it is tried again and whose fault a failure is. This package must not know of trials, outcomes or candidates;
// it only translates the scheduler's words into a [State].
//
// Errors come in two kinds: a [RefusedError] is the user's to correct, and every other error means that the scheduler
// cannot be reached and should be asked again.
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

// The kinds of executors. With Local there is no executor: this process makes the trials.
const (
	Local      = "local"
	Slurm      = "slurm"
	Kubernetes = "kubernetes"
	Command    = "command"
)

// Settings say where blocks run, as the user gives them in [executor] of kbisect.toml. The zero value runs them
// locally.
type Settings struct {
	Kind   string
	Jobs   int    // how many jobs may wait or run at a time; 0 is the default, see Width
	Shared string // folder that both sides see; "": the user's cache folder
	Stream bool   // share nothing: a job carries all that it needs and prints its result

	// For Slurm, as sbatch takes them. Build are the options of jobs that only build, see [Settings.Apart].
	Partition, Account, QOS, Gres, Constraint, Container string
	Time                                                 time.Duration // limit of a job; 0: what its phases need
	Options, Build                                       []string

	// For Kubernetes; what is left empty is as in PodTemplate, a file. Volumes are CLAIM:PATH, tolerations
	// KEY[=VALUE][:EFFECT].
	Context, Namespace, Image, ServiceAccount, Queue, PodTemplate string
	Resources, BuildResources, NodeSelector                       map[string]string
	Tolerations, Volumes                                          []string

	// For commands of the user's, as argument lists, see [commands].
	Submit, State, Cancel []string
}

// Away reports whether blocks run elsewhere.
func (s Settings) Away() bool { return s.Kind != "" && s.Kind != Local }

// Width is how many jobs may be waiting or running at a time, 4 unless the user says otherwise.
func (s Settings) Width() int { return cmp.Or(s.Jobs, 4) }

// Device reports whether a job asks for a GPU, judged by the names of its resources. The worker then insists on
// one.
func (s Settings) Device() bool {
	for name := range s.Resources {
		if strings.Contains(name, "gpu") {
			return true
		}
	}
	return strings.Contains(s.Gres, "gpu")
}

// Streams reports whether the two sides share no folder. A Kubernetes cluster shares none unless the user names a
// volume.
func (s Settings) Streams() bool { return s.Stream || s.Kind == Kubernetes && s.Shared == "" }

// Apart reports whether builds are jobs of their own, which ask for no device: the user gave them resources of
// their own.
func (s Settings) Apart() bool { return len(s.Build) > 0 || len(s.BuildResources) > 0 }

// Carries is how many bytes the inputs of a job may have where nothing is shared; 0 is no limit. In Kubernetes they
// travel as Secrets.
func (s Settings) Carries() int64 {
	if s.Kind == Kubernetes {
		return mostPieces * pieceSize
	}
	return 0
}

// State is what a scheduler says of a job, reduced to what package remote tells apart. It is only a hint: what a
// job came to stands in its result.
type State string

// The states. Jobs have ended in all but the first two. Late and TooLarge may be the candidate's fault; Lost is the
// node's; Failed says little, since kbisect worker ends well whatever the candidate does.
const (
	Pending   State = "pending"
	Running   State = "running"
	Done      State = "done"
	Failed    State = "failed"
	Lost      State = "lost"
	Cancelled State = "cancelled" // by a person, or preempted for another job; no node is blamed
	Late      State = "late"      // the scheduler's limit ended it
	TooLarge  State = "out of memory"
	// Unstartable is a job whose image cannot be pulled or whose container cannot be made: the node's fault or the
	// user's.
	Unstartable State = "unstartable"
)

// Ended reports whether a job will not run any more.
func (s State) Ended() bool { return s != Pending && s != Running }

// Report is what a scheduler says of a job. The zero value is not a report: State is empty.
type Report struct {
	State State
	Node  string // where it runs or ran, by a name that Job.Exclude takes; "" if unknown
	Words string // the scheduler's own words, for people
}

// Job is a block to submit. All paths are as the submitting side sees them, and as the job does where a folder is
// shared.
type Job struct {
	Name    string        // unique in the session
	Session string        // the same for all jobs of a session; Cancel goes by it
	Program string        // path of kbisect; gzipped where the executor has to bring it to the node
	Folder  string        // the shared folder, which containers have to mount
	Spec    string        // file that says what to do, for kbisect worker
	Inputs  string        // archive with all that it needs, where nothing is shared; else ""
	Output  string        // file that gets its standard output and standard error
	Fence   time.Duration // the time limit that the scheduler should enforce
	Exclude []string      // nodes that it should avoid
	Build   bool          // it only builds, and takes the settings of builds
	Again   bool          // it may have been submitted before: Submit then returns such a job that waits or runs
}

// Executor is a scheduler. Its methods may be called by several goroutines. Every error except a [RefusedError]
// means that the scheduler cannot be reached now and is to be asked again.
type Executor interface {
	// Submit hands a job to the scheduler and returns its id. It may have been taken although there is an error;
	// the next try has Job.Again set.
	Submit(ctx context.Context, j Job) (id string, err error)
	// States reports on jobs, by id. The scheduler does not know, or has forgotten, those that are missing.
	States(ctx context.Context, ids []string) (map[string]Report, error)
	// Cancel ends jobs; without ids, all of the session that still wait or run. It works although ctx has ended,
	// and jobs that have ended already are not an error.
	Cancel(ctx context.Context, session string, ids ...string) error
	// Version names the scheduler. It asks it, and so shows that it answers.
	Version(ctx context.Context) (string, error)
}

// Watcher is an Executor that is notified of changes instead of having to ask. Its jobs do not write to Job.Output
// where nothing is shared; Log has what they print.
type Watcher interface {
	// News returns a channel that is closed at the next change of a job. It has to be fetched before the state is
	// looked at, or a change between the two goes unnoticed.
	News(id string) <-chan struct{}
	// Log is what a job that has ended printed, at most MostLog bytes; nil without an error if that is lost.
	Log(ctx context.Context, id string) ([]byte, error)
}

// Prober is an Executor that lets a job wait forever where all nodes are down but those that it excludes.
type Prober interface {
	// Probe returns a RefusedError for a job that no node which is up could run, however long it waits.
	Probe(ctx context.Context, j Job) error
}

// RefusedError says that a block will never run as it was asked for, and what the user can correct.
type RefusedError struct{ Why string }

// Error implements error.
func (e *RefusedError) Error() string { return e.Why }

// New returns the executor that the settings name. session is the name that its jobs have in common. Missing tools
// and unreadable files are a [RefusedError]; no scheduler is asked yet.
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

// answerBound is how long a scheduler may take for one answer before it counts as away.
const answerBound = time.Minute

// toolError is a command-line tool that failed, with what it printed on standard error.
type toolError struct {
	tool, said string
	code       int // exit status; -1 if it was not started, was killed, or did not answer in time
}

func (e *toolError) Error() string {
	return e.tool + ": " + cmp.Or(e.said, fmt.Sprintf("exit %d", e.code))
}

// tool runs a command-line tool and returns its standard output. The end of ctx does not stop it, only answerBound
// does: a tool that is killed halfway may have done what it was asked to, and then a job runs that nobody knows of.
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

// environment is that of this process, which jobs inherit, without the variables by which Slurm describes a job
// that kbisect itself runs in: they would become options of sbatch and describe the wrong job.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), ofJobs().MatchString)
}

var ofJobs = lazy.Pattern(`^(SBATCH_|SQUEUE_|SLURM_JOB|CUDA_VISIBLE_DEVICES=)`)

// oneLine joins the lines of a message with semicolons.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' }), "; ")
}
