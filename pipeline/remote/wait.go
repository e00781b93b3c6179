package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/pipeline/remote/executor"
)

// How often a result is looked for. A short job has its result before the scheduler is asked again, so for the
// first soon after its submission it is looked for even while the scheduler calls it pending.
const soon, shortest = 5 * time.Second, 20 * time.Millisecond

// downGrace is how long all nodes that a job does not exclude may be down: they are for a moment where the scheduler or its
// daemons restart.
const downGrace = time.Minute

// make submits a job, unless an earlier attempt of the session has, and waits until it has a result or has ended
// without one; res is nil then, and rep says how it ended. Errors: that of the submission, or of a job that
// excludes every node which is up, for downGrace, [bisect.ErrSpent] when the budget is used up, an
// [*bisect.InfraError] for a result that cannot be read, and the cause of ctx. In all of these the job is
// cancelled, as no one will wait for it.
func (c *Cluster) make(ctx context.Context, s Spec, j executor.Job, doing func(string)) (res *Result, rep executor.Report, err error) {
	if res, err = result(c, j); res != nil || err != nil {
		return res, rep, err
	}
	doing("submitting a job")
	id, err := c.submit(ctx, s, &j)
	if err != nil {
		return nil, rep, err
	}
	defer func() {
		c.mu.Lock()
		delete(c.live, id)
		c.mu.Unlock()
		if j.Inputs != "" {
			_ = os.Remove(j.Inputs)
		}
		if (ctx.Err() != nil || err != nil) && res == nil || c.config.Settings.Kind == executor.Kubernetes && err == nil { // nobody else takes ended jobs away
			_ = c.executor.Cancel(ctx, c.name, id) // Close cancels all that are left, and says what goes wrong
		}
	}()
	began, shown := time.Now(), ""
	probed, possible := began, began // whether a node is up that could run it
	var ended time.Time
	var news <-chan struct{}
	watcher, watched := c.executor.(executor.Watcher)
	streamed := watched && c.config.Settings.Streams() // its end comes by the watch, and its result by its log
	for {
		if watched {
			news = watcher.News(id)
		}
		if rep.State != executor.Pending || time.Since(began) < soon { // what has not begun has no result
			if res, err = result(c, j); res != nil || err != nil {
				return res, rep, err
			}
		}
		if spent(c) {
			return nil, rep, bisect.ErrSpent
		}
		now, known := stateOf(ctx, c, id)
		rep = now
		where := "waiting for a job"
		switch rep.State {
		case executor.Pending:
			where = "waiting in the queue"
		case executor.Running:
			where = "running in a job"
		}
		if text := where + rep.Node + rep.Words; text != shown {
			shown = text
			doing(where)
		}
		if p, ok := c.executor.(executor.Prober); ok && rep.State == executor.Pending && len(j.Exclude) > 0 && time.Since(probed) > downGrace/10 {
			probed = time.Now()
			if err := p.Probe(ctx, j); err == nil {
				possible = probed
			} else if time.Since(possible) > downGrace {
				return nil, rep, err
			}
		}
		switch {
		case known && !rep.State.Ended():
			ended = time.Time{}
		case known && ended.IsZero():
			if err := collected(ctx, c, j, id); errors.Is(err, errStrange) {
				return nil, rep, unreadable(j, err)
			} else if err != nil {
				c.say("waiting for the result of a job: " + err.Error())
				break
			}
			if ended = time.Now(); streamed {
				res, err = readResult(j)
				return res, rep, err
			}
		// A job that ended well has written a result, which may take a while to be seen here.
		case known && (rep.State != executor.Done || time.Since(ended) > c.grace):
			res, err = readResult(j)
			return res, rep, err
		}
		most := 2 * time.Second
		if rep.State == executor.Pending {
			most = 5 * time.Second
		}
		if !streamed {
			most = min(most, max(shortest, time.Since(began)/25))
		}
		if err := sleep(ctx, most, news); err != nil {
			return nil, rep, err
		}
	}
}

// collected fetches the output of a job that shares nothing and puts its result where readResult finds it.
func collected(ctx context.Context, c *Cluster, j executor.Job, id string) (err error) {
	if !c.config.Settings.Streams() {
		return nil
	}
	var log []byte
	if x, ok := c.executor.(executor.Watcher); ok {
		log, err = x.Log(ctx, id)
	} else if log, err = read(j.Output); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return unprinted(log, j)
}

// sleep waits for d, for news, or for ctx, whose cause it returns. A nil news never comes.
func sleep(ctx context.Context, d time.Duration, news <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-news:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// result is the result of a job, nil if there is none yet. A streaming job whose output is a local file is read
// here; one that is watched is read once it has ended, by collected.
func result(c *Cluster, j executor.Job) (*Result, error) {
	res, err := readResult(j)
	if res != nil || err != nil || !c.config.Settings.Streams() {
		return res, err
	}
	if _, elsewhere := c.executor.(executor.Watcher); elsewhere || !wholeLine(j) {
		return nil, nil
	}
	if err := collected(context.Background(), c, j, ""); err != nil {
		return nil, unreadable(j, err)
	}
	return readResult(j)
}

// wholeLine reports whether the output of a job ends with a newline, as one with a result does. It reads one byte,
// where parsing the whole output at every look would cost more than the job.
func wholeLine(j executor.Job) bool {
	last, err := end(j.Output, 1)
	return err == nil && string(last) == "\n"
}

// readResult reads the result that a job has written; nil if there is none yet.
func readResult(j executor.Job) (*Result, error) {
	var r Result
	ok, err := readJSON(filepath.Join(filepath.Dir(j.Spec), resultFile), &r)
	if err != nil {
		return nil, unreadable(j, err)
	}
	if !ok {
		return nil, nil
	}
	return &r, nil
}

// unreadable says that what a job has left cannot be read as a result. Another try is up to the user.
func unreadable(j executor.Job, err error) error {
	return &bisect.InfraError{What: "reading the result of job " + j.Name, Err: err}
}

// submit submits a job until the scheduler takes it or refuses it ([*executor.RefusedError]), and returns its id.
// An unreachable scheduler is asked again after 1 s, doubling to 30 s, until ctx ends.
//
// Files record how far an attempt came, so that a job is neither lost nor submitted twice after a crash: the id is
// written after the submission, and a spec without an id means that the scheduler may have taken the job
// (Job.Again).
func (c *Cluster) submit(ctx context.Context, s Spec, j *executor.Job) (id string, err error) {
	kept := filepath.Join(filepath.Dir(j.Spec), "id")
	data, err := read(kept)
	if err == nil {
		submitted(c, string(data))
		return string(data), nil
	}
	if _, e := os.Stat(j.Spec); e == nil { // an earlier attempt ended before it learned the id
		j.Again = true
	} else if e := writeJSON(j.Spec, s); e != nil {
		return "", &bisect.InfraError{What: "writing a job to " + j.Spec, Err: hint.Add(e, "make room there, then run again with --resume")}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", &bisect.InfraError{What: "reading " + kept, Err: err}
	}
	if c.config.Settings.Streams() {
		var refused *executor.RefusedError
		j.Inputs = filepath.Join(filepath.Dir(j.Spec), "inputs.tar")
		if err = pack(ctx, c.config.Repo, s, j.Inputs, c.config.Settings.Carries()); err != nil && ctx.Err() == nil && !errors.As(err, &refused) {
			err = &bisect.InfraError{What: "packing a job", Err: err}
		}
		if err != nil {
			return "", err
		}
	}
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		if err := ctx.Err(); err != nil {
			return "", context.Cause(ctx)
		}
		id, err = c.executor.Submit(ctx, *j)
		var refused *executor.RefusedError
		if err == nil || errors.As(err, &refused) {
			break
		}
		c.say("waiting to submit a job: " + err.Error())
		j.Again = true
		if err := sleep(ctx, wait, nil); err != nil {
			return "", err
		}
	}
	if err != nil {
		_ = os.RemoveAll(filepath.Dir(j.Spec)) // it is submitted in another way, or not at all
		return "", err
	}
	submitted(c, id)
	if err := write(kept, 0o600, strings.NewReader(id)); err != nil {
		return "", &bisect.InfraError{What: "writing " + kept, Err: err}
	}
	return id, nil
}

// submitted notes a job as live from now on.
func submitted(c *Cluster, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = time.Now()
	c.live[id] = c.newest
}

// stateOf is what the scheduler said last of a job; known is false while it has said nothing. One query serves all
// jobs and is made by whichever goroutine finds it due; the others use the last answer and do not wait (TryLock). A
// watching executor answers from memory, and its answer is newer than the last query.
func stateOf(ctx context.Context, c *Cluster, id string) (rep executor.Report, known bool) {
	if c.asking.TryLock() {
		if due(c) {
			ask(ctx, c)
		}
		c.asking.Unlock()
	}
	if _, watched := c.executor.(executor.Watcher); watched {
		if now, err := c.executor.States(ctx, []string{id}); err == nil && len(now) > 0 {
			return now[id], true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	rep, known = c.states[id]
	return rep, known
}

// ask queries the scheduler about all live jobs. A job that it does not list is taken as cancelled once it has been
// live for longer than the grace period; until then it may not have been entered yet. While every job waits in the
// queue, the time between two queries counts as waited and is not charged to the budget.
func ask(ctx context.Context, c *Cluster) {
	c.mu.Lock()
	ids := slices.Sorted(maps.Keys(c.live))
	c.mu.Unlock()
	now := time.Now()
	states, err := c.executor.States(ctx, ids)
	if err != nil {
		c.say("waiting: the scheduler does not answer: " + err.Error())
	} else {
		c.say("")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.asked
	if c.asked = time.Now(); err != nil {
		return
	}
	c.states = states
	idle := len(ids) > 0
	for _, id := range ids {
		if _, listed := states[id]; !listed && now.Sub(c.live[id]) > c.grace {
			states[id] = executor.Report{State: executor.Cancelled, Words: "the scheduler does not know the job any more"}
		}
		idle = idle && states[id].State == executor.Pending
	}
	if idle && c.idle {
		c.waited += c.asked.Sub(last)
	}
	c.idle = idle
}

// due reports whether it is time for another query. The pace is a fifth of the time since the last submission,
// between 1 and 15 s, so that the error in the end of a job stays small beside its length; Kubernetes answers from
// its watches and may be asked every 50 ms.
func due(c *Cluster) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	pace := 50 * time.Millisecond
	if c.config.Settings.Kind != executor.Kubernetes {
		pace = min(15*time.Second, max(time.Second, time.Since(c.newest)/5))
	}
	return time.Since(c.asked) >= pace
}

// Waited is for how long all jobs of the session have been queued at the same time.
func (c *Cluster) Waited() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waited
}

// Until sets the time after which no job is waited for, extended by [Cluster.Waited]; zero is never.
func (c *Cluster) Until(end time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = end
}

// spent reports that the budget is used up.
func spent(c *Cluster) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.until.IsZero() && time.Now().After(c.until.Add(c.waited))
}

// say reports what the session waits for, without repeating itself; "" means that it waits for nothing.
func (c *Cluster) say(text string) {
	c.mu.Lock()
	again := text == c.said
	before := c.said
	c.said = text
	c.mu.Unlock()
	switch {
	case again:
	case text == "" && before != "":
		c.config.Say("the scheduler answers again")
	case text != "":
		c.config.Say(text)
	}
}

// Check runs a job that launches nothing and returns where it ran. It waits until ctx ends; the error then says in
// which state the job was.
func (c *Cluster) Check(ctx context.Context) (Result, error) {
	spec := c.spec
	spec.Check = true
	j := c.job(spec, 0, false)
	j.Fence = max(c.config.Settings.Time, time.Minute)
	where := ""
	res, rep, err := c.make(ctx, spec, j, func(now string) { where = now })
	switch {
	case err != nil && ctx.Err() != nil:
		return Result{}, fmt.Errorf("no result in time: %s", strings.TrimSpace(where+" "+rep.Words))
	case err != nil:
		return Result{}, err
	case res == nil:
		return Result{}, fmt.Errorf("the job ended without a result: %s %s", rep.Words, tail(j.Output))
	case res.Infra+res.Refused != "":
		return *res, fmt.Errorf("%s: %s", res.Node, res.Infra+res.Refused)
	}
	return *res, nil
}
