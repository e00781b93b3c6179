package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect/judge"
	"github.com/kbisect/kbisect/bisect/report"
)

// The states of a queued comparison.
const (
	jobQueued  = "queued"
	jobRunning = "running"
	jobDone    = "done"
	jobGivenUp = "given up" // the machine was in the way again and again
)

// queued is one comparison that a push has left to the background, a file of its own in the queue.
type queued struct {
	ID      string    `json:"id"`
	Ref     string    `json:"ref"`
	Base    string    `json:"base"` // "": the commit is measured alone
	Commit  string    `json:"commit"`
	Dir     string    `json:"dir"`    // the work tree
	Config  string    `json:"config"` // the configuration, as it was when the push was made; "": that of the work tree
	Why     string    `json:"why"`
	Queued  time.Time `json:"queued"`
	State   string    `json:"state"`
	Began   time.Time `json:"began,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Tries   int       `json:"tries"`
	Session string    `json:"session"`
	Result  string    `json:"result"`
	Verdict string    `json:"verdict"`
	Told    bool      `json:"told"` // a later push has been told of it
}

// queue is the folder that holds what is left to the background, and a lock that the one worker holds.
type queue struct{ dir string }

// keptJobs that are done are kept to be shown.
const keptJobs = 30

func queueOf(commonDir string) queue { return queue{filepath.Join(stateDir(commonDir), "hook")} }

func (q queue) path(id string) string { return filepath.Join(q.dir, id+".job.json") }

// configPath keeps the configuration of a job.
func (q queue) configPath(id string) string { return filepath.Join(q.dir, id+".toml") }

// logPath is where the worker writes.
func (q queue) logPath() string { return filepath.Join(q.dir, "worker.log") }

// put writes a job, whole or not at all.
func (q queue) put(j queued) error {
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	draft := q.path(j.ID) + ".new"
	if err := os.WriteFile(draft, append(data, '\n'), 0o666); err != nil {
		return err
	}
	return os.Rename(draft, q.path(j.ID))
}

// all reads the jobs, the oldest first. A file that is no job is left alone, and named by the error that comes
// with the others.
func (q queue) all() (out []queued, err error) {
	names, globErr := filepath.Glob(q.path("*"))
	if globErr != nil {
		return nil, globErr
	}
	var errs []error
	for _, name := range names {
		var j queued
		data, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(data, &j)
		}
		if err == nil && (q.path(j.ID) != name || !objectID(j.Commit) || j.Base != "" && !objectID(j.Base)) {
			err = errors.New("it names other things than its own")
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s is no job of the queue: %w\nhint: remove it", name, err))
			continue
		}
		out = append(out, j)
	}
	slices.SortFunc(out, func(a, b queued) int { return cmp.Or(a.Queued.Compare(b.Queued), cmp.Compare(a.ID, b.ID)) })
	return out, errors.Join(errs...)
}

// trim removes the oldest of the jobs that are done.
func (q queue) trim() {
	all, _ := q.all()
	done := slices.DeleteFunc(all, func(j queued) bool { return !j.over() })
	for _, j := range done[:max(0, len(done)-keptJobs)] {
		os.Remove(q.path(j.ID))
		os.Remove(q.configPath(j.ID))
	}
}

// over reports a job that nobody will take up again.
func (j queued) over() bool { return j.State == jobDone || j.State == jobGivenUp }

// lock takes the queue for the one worker, nil when another has it.
func (q queue) lock() *os.File {
	f, err := os.OpenFile(filepath.Join(q.dir, "worker.lock"), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil
	}
	for try := 0; unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil; try++ {
		if try == 10 {
			f.Close()
			return nil
		}
		time.Sleep(5 * time.Millisecond) // who asks for the worker has it for a moment
	}
	_ = f.Truncate(0) // the process id is a courtesy to people
	_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return f
}

// worker is the process id of the worker, 0 when there is none.
func (q queue) worker() (pid int) {
	f, err := os.Open(filepath.Join(q.dir, "worker.lock"))
	if err != nil {
		return 0
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		return 0
	}
	data := make([]byte, 32)
	n, _ := f.ReadAt(data, 0)
	fmt.Sscan(string(data[:n]), &pid)
	return pid
}

// enqueue leaves refs to the background, and sees to it that somebody works there. A push goes on whatever
// becomes of that.
func (k *pushCheck) enqueue(w io.Writer, later []*ruling) {
	if k.repo == nil {
		return
	}
	q := queueOf(k.repo.CommonDir())
	all, _ := q.all()
	n := 0
	for _, x := range later {
		j := k.job(x)
		if slices.ContainsFunc(all, func(o queued) bool { return o.Base == j.Base && o.Commit == j.Commit && !o.over() }) {
			n++
			continue
		}
		err := os.MkdirAll(q.dir, 0o777)
		if err == nil && k.config != nil {
			j.Config = q.configPath(j.ID)
			err = os.WriteFile(j.Config, k.config, 0o666)
		}
		if err == nil {
			err = q.put(j)
		}
		if err != nil {
			fmt.Fprintf(w, "kbisect: nothing is queued: %v\n", err)
			return
		}
		n++
	}
	if n == 0 && !slices.ContainsFunc(all, func(j queued) bool { return !j.over() }) {
		return
	}
	if err := startWorker(q, k.repo.CommonDir()); err != nil {
		fmt.Fprintf(w, "kbisect: the background is not working: %v\n", err)
	}
	if n > 0 {
		fmt.Fprintf(w, "kbisect: left to the background: %d; kbisect hook status tells\n", n)
	}
}

// job is what is left to do for a ref.
func (k *pushCheck) job(x *ruling) queued {
	now := time.Now()
	return queued{
		ID:  now.UTC().Format("20060102-150405.000000-") + short(x.commit),
		Ref: x.push.name(), Base: x.base, Commit: x.commit, Dir: cmp.Or(k.repo.WorkDir(), k.repo.GitDir()), Why: x.why, Queued: now, State: jobQueued,
	}
}

// news tells, once, of what the background found after an earlier push had gone on.
func (k *pushCheck) news(w io.Writer) {
	if k.repo == nil {
		return
	}
	q := queueOf(k.repo.CommonDir())
	all, _ := q.all()
	for _, j := range all {
		if j.State != jobDone || j.Told || j.Result != string(judge.Worse) {
			continue
		}
		fmt.Fprintf(w, "kbisect: pushed earlier: %s %s against %s: %s (kbisect show %s)\n", j.Ref, short(j.Commit), short(j.Base), clean(strings.TrimSuffix(j.Verdict, ".")), j.Session)
		j.Told = true
		if err := q.put(j); err != nil {
			fmt.Fprintf(w, "kbisect: %v\n", err)
		}
	}
}

// statusDocument is the queue as JSON.
type statusDocument struct {
	Schema    string   `json:"schema"`
	Hook      string   `json:"hook"` // the file, "" when none of kbisect is installed
	WorkerPID int      `json:"worker_pid"`
	Log       string   `json:"log"`
	Jobs      []queued `json:"jobs"`
}

func hookStatus(c *cli.Context) error {
	repo, err := openForHook(c)
	if err != nil {
		return err
	}
	defer repo.Close()
	q := queueOf(repo.CommonDir())
	d := statusDocument{Schema: "kbisect.hook/1", WorkerPID: q.worker(), Log: q.logPath(), Jobs: []queued{}}
	if dir, err := hooksDir(c.Context, repo); err == nil {
		if mine, _, err := ours(hookAt(dir).path); err == nil && mine {
			d.Hook = hookAt(dir).path
		}
	}
	jobs, err := q.all()
	for _, j := range jobs {
		if j.State == jobRunning && d.WorkerPID == 0 { // its worker was killed
			j.State = jobQueued
		}
		d.Jobs = append(d.Jobs, j)
	}
	if err != nil {
		fmt.Fprintf(c.App.ErrWriter, "kbisect: warning: %v\n", err)
	}
	if c.Bool("json") {
		return report.WriteJSON(c.App.Writer, d)
	}
	return d.print(c.App.Writer)
}

func (d statusDocument) print(w io.Writer) error {
	if d.Hook == "" {
		fmt.Fprintln(w, "no pre-push hook of kbisect is installed (kbisect hook install)")
	} else {
		fmt.Fprintf(w, "hook    %s\n", d.Hook)
	}
	waiting := slices.ContainsFunc(d.Jobs, func(j queued) bool { return !j.over() })
	switch {
	case d.WorkerPID != 0:
		fmt.Fprintf(w, "worker  process %d, log %s; kill %[1]d stops it, the next push goes on\n", d.WorkerPID, d.Log)
	case waiting:
		fmt.Fprintln(w, "worker  none: the next push goes on with what is queued")
	}
	if len(d.Jobs) == 0 {
		_, err := fmt.Fprintln(w, "nothing is queued")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "STATE\tREF\tBASE (A)\tCOMMIT (B)\tQUEUED\tRESULT")
	for _, j := range d.Jobs {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", j.State, j.Ref, cmp.Or(short(j.Base), "-"), short(j.Commit), j.Queued.Local().Format("2006-01-02 15:04:05"), j.words())
	}
	return t.Flush()
}

// words tells what a job came to, or what it waits for.
func (j queued) words() string {
	switch {
	case j.over():
		return clean(fmt.Sprintf("%s: %s (%s)", cmp.Or(j.Result, "no result"), j.Verdict, span(j.Ended.Sub(j.Began))))
	case j.State == jobRunning:
		return "for " + span(time.Since(j.Began))
	}
	return clean(j.Why)
}
