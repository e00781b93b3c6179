package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/store"
)

// workYield is how long a command waits for the hook's worker: it ends what it launched, cleans up and puts its
// job back.
const workYield = 20 * time.Second

// takeRepository takes the repository for a session. The hook's worker steps aside for whatever else is started;
// release gives the repository back, and has it go on. The error is a [*store.BusyError] where another run has
// the repository, or the worker stays.
func takeRepository(c *cli.Context, st *store.Store, commonDir, session string) (release func(), err error) {
	lock, err := st.Lock(session)
	q, goesOn := queueOf(commonDir), func() {}
	var busy *store.BusyError
	if errors.As(err, &busy) && busy.PID > 1 && busy.PID != os.Getpid() && busy.PID == q.worker() {
		if err := q.stepAside(c.Context, workYield); err != nil {
			return nil, stays(busy, err)
		}
		goesOn = func() {
			if err := startWorker(q, commonDir); err != nil {
				fmt.Fprintf(c.App.ErrWriter, "kbisect: warning: the background of the hook is not working: %v\n", err)
			}
		}
		if lock, err = st.Lock(session); err == nil && !globals(c).quiet {
			fmt.Fprintf(c.App.ErrWriter, "kbisect: the hook's background (process %d) has stepped aside; what it was at is queued again, and goes on after this\n", busy.PID)
		}
	}
	if err != nil {
		goesOn() // another was quicker, for which it waits
		return nil, err
	}
	return func() {
		lock.Unlock()
		goesOn()
	}, nil
}

// stays says that it is the hook's own worker that is in the way.
func stays(busy *store.BusyError, why error) error {
	if errors.Is(why, context.Canceled) {
		return fmt.Errorf("interrupted, waiting for the hook's background to step aside: %w", why)
	}
	if errors.Is(why, context.DeadlineExceeded) {
		why = fmt.Errorf("not within %v", workYield)
	}
	return &codeError{exitMachine, fmt.Errorf("the hook's own background, process %d, works on this repository (session %s) and does not step aside: %w\n"+
		"hint: kill %[1]d stops it, kill -9 %[1]d if it hangs, as the user who started it; what is queued stays so (kbisect hook status)", busy.PID, busy.Session, why)}
}

// stepAside has the worker stop, whose job stays queued, and waits until it has.
func (q queue) stepAside(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for pid := q.worker(); pid > 1; pid = q.worker() {
		if err := unix.Kill(pid, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
			return err // another user's
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}
