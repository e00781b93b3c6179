package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// Bounds of the background.
const (
	workBudget = "30m" // of one comparison
	workTries  = 3     // of one that the machine spoils
	workNice   = 10    // people work at the machine meanwhile
	workPoll   = 500 * time.Millisecond
)

// startWorker starts a process that works off the queue, on its own: it shares neither terminal nor pipes with
// the push, which would wait for them. When another works already, it ends at once.
func startWorker(q queue, commonDir string) error {
	log, err := os.OpenFile(q.logPath(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	defer log.Close()
	name, err := ownPath()
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", "-C", commonDir, "hook", "work")
	cmd.Args[0] = name
	cmd.Dir, cmd.Stdout, cmd.Stderr = commonDir, log, log
	cmd.Env = plainEnv(os.Environ())
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// hookWork works off the queue. There is one worker for a repository.
func hookWork(c *cli.Context) error {
	repo, err := openForHook(c)
	if err != nil {
		return err
	}
	defer repo.Close()
	if _, err := unix.Setsid(); err != nil && !errors.Is(err, unix.EPERM) { // who leads a group already, called from a shell, stays
		return &codeError{exitMachine, err}
	}
	if err := giveWay(workNice); err != nil {
		return &codeError{exitMachine, err}
	}
	q := queueOf(repo.CommonDir())
	for { // what was queued while the last job ended found a worker that was about to go
		lock := q.lock()
		if lock == nil {
			return nil
		}
		err := q.drain(c, repo)
		lock.Close()
		if _, more := q.next(); !more || err != nil {
			return err
		}
	}
}

// giveWay makes this process, and whatever it starts, nicer. Linux keeps the nice value of each thread; the second
// time is for threads that one of the others has begun meanwhile.
func giveWay(nice int) error {
	for range 2 {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if err := unix.Setpriority(unix.PRIO_PROCESS, id, nice); err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
				return err
			}
		}
	}
	return nil
}

// drain does what is queued.
func (q queue) drain(c *cli.Context, repo *source.Repo) error {
	for j, ok := q.next(); ok; j, ok = q.next() {
		if err := waitIdle(c.Context, repo); err != nil {
			return err
		}
		if err := q.work(c, j); err != nil {
			return err
		}
	}
	q.trim()
	return nil
}

// next is the oldest job that is not done.
func (q queue) next() (queued, bool) {
	all, _ := q.all() // what cannot be read is told by hook status
	i := slices.IndexFunc(all, func(j queued) bool { return !j.over() })
	if i < 0 {
		return queued{}, false
	}
	return all[i], true
}

// waitIdle waits until nobody searches or compares in the repository.
func waitIdle(ctx context.Context, repo *source.Repo) error {
	for {
		st, err := store.Open(stateDir(repo.CommonDir()), store.ReadOnly)
		if errors.Is(err, store.ErrNoStore) {
			return nil
		}
		if err != nil {
			return &codeError{exitMachine, err}
		}
		running := st.Running()
		st.Close()
		if running == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(workPoll):
		}
	}
}

// work does one job, as the command of the same name would. When it is stopped, the job stays queued.
func (q queue) work(c *cli.Context, j queued) error {
	ctx := c.Context
	j.State, j.Began, j.Tries = jobRunning, time.Now(), j.Tries+1
	if err := q.put(j); err != nil {
		return err
	}
	var out, log bytes.Buffer
	code := run(ctx, j.command(), strings.NewReader(""), &out, &log)
	fmt.Fprintf(c.App.ErrWriter, "%s %q: exit %d\n%s", j.Began.Format(time.RFC3339), j.command(), code, log.String())
	var doc struct{ Session, Result, Verdict string }
	err := json.Unmarshal(out.Bytes(), &doc)
	j.Ended, j.Session, j.Result, j.Verdict = time.Now(), doc.Session, doc.Result, doc.Verdict
	if err != nil {
		j.Result, j.Verdict = "error", headline(strings.TrimPrefix(log.String(), "kbisect: "))
	}
	switch {
	case ctx.Err() != nil:
		j.State, j.Tries = jobQueued, j.Tries-1
	case code == exitMachine && j.Tries < workTries:
		j.State = jobQueued
	case code == exitMachine:
		j.State = jobGivenUp
	default:
		j.State = jobDone
	}
	if err := q.put(j); err != nil {
		return err
	}
	return ctx.Err()
}

// command is the command line that does a job.
func (j queued) command() []string {
	args := []string{"kbisect", "-C", j.Dir}
	if j.Config != "" {
		args = append(args, "--config", j.Config)
	}
	if j.Base == "" {
		return append(args, "measure", j.Commit, "--quiet", "--json", "--budget", workBudget)
	}
	return append(args, "compare", j.Base, j.Commit, "--quiet", "--json", "--budget", workBudget)
}
