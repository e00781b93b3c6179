package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/pipeline/source"
)

// answer is what the hook says of one ref.
type answer string

const (
	passes    answer = "passes"
	blocked   answer = "regression"
	unchecked answer = "not checked"
)

// ruling is the answer for one pushed ref.
type ruling struct {
	push         pushed
	commit, base string // base is "" where the remote has nothing to compare with
	against      string // what base is, for people
	answer       answer // "" while there is none
	why          string
	queue        bool // what is still to be known is left to the background

	least time.Duration // that a comparison takes, going by launches before; 0 when there were none
}

// pushCheck is one call of the hook.
type pushCheck struct {
	c        *cli.Context
	ctx      context.Context
	began    time.Time
	deadline time.Duration
	remote   string
	policy   *policy
	devices  []string // UUIDs of those that would be measured on

	mu      sync.Mutex // guards what follows: at the deadline it is read whatever the check is doing
	repo    *source.Repo
	rulings []*ruling
	over    []string // refs that are passed over, with the reason
	config  []byte   // kbisect.toml as it is now; nil when it could not be read
	doing   string
}

// prePush is what git calls. It never takes longer than its deadline, and stops a push for a regression only.
func prePush(c *cli.Context) error {
	k := &pushCheck{c: c, began: time.Now(), deadline: readDeadline(c), remote: c.Args().First()}
	all, err := k.read()
	switch {
	case err != nil:
		return k.letGo(err)
	case len(all) == 0:
		return nil
	case skipped():
		fmt.Fprintln(c.App.ErrWriter, "kbisect: KBISECT_SKIP is set: this push is not checked")
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Context, k.deadline-k.margin())
	defer cancel()
	k.ctx = ctx
	done := make(chan error, 1)
	go func() { done <- k.all(all) }()
	select {
	case err = <-done:
	case <-time.After(time.Until(k.began.Add(k.deadline))):
		err = context.DeadlineExceeded // it does not matter what it hangs in
	}
	if c.Context.Err() != nil {
		return &codeError{exitInterrupted, errors.New("interrupted: nothing was pushed")}
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return k.letGo(err)
	}
	return k.conclude()
}

// read reads what is pushed, from git or from pre-commit.
func (k *pushCheck) read() ([]pushed, error) {
	if all, remote, ok := fromPreCommit(); ok && !k.c.Args().Present() {
		k.remote = remote
		return all, nil
	}
	return readPushed(k.c.App.Reader)
}

// skipped reports that the user asks for no check.
func skipped() bool {
	v := os.Getenv("KBISECT_SKIP")
	return v != "" && v != "0"
}

// margin is the time before the deadline at which whatever runs is ended: killing, cleaning up and keeping
// what was learnt take their time.
func (k *pushCheck) margin() time.Duration { return min(2*time.Second, k.deadline/4) }

// letGo says why a push is not checked. It is never stopped for that.
func (k *pushCheck) letGo(err error) error {
	text, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "; or give a command") // a hint that is not for hooks
	fmt.Fprintf(k.c.App.ErrWriter, "kbisect: this push is not checked: %s\n", text)
	return nil
}

// all rules on every ref: first what can be said at once, then by launching.
func (k *pushCheck) all(all []pushed) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("internal error: %v", r)
		}
	}()
	repo, err := openHookRepo(globals(k.c).dir)
	if err != nil {
		return err
	}
	defer repo.Close()
	k.mu.Lock()
	k.repo = repo
	k.mu.Unlock()
	for _, p := range all {
		if err := k.sort(p); err != nil {
			return err
		}
	}
	if len(k.open()) == 0 {
		return nil
	}
	if k.policy, err = trialPolicy(k.c, repo, nil); err != nil {
		return err
	}
	k.keepConfig()
	k.equalInputs()
	if err := k.fromStore(); err != nil {
		return err
	}
	if len(k.open()) > 0 {
		k.makeRoom()
	}
	for left := k.open(); len(left) > 0 && !k.stops(); left = k.open() {
		k.launch(left[0], len(left))
	}
	return nil
}

// keepConfig reads the configuration for the background: another one may be checked out by then.
func (k *pushCheck) keepConfig() {
	text, err := os.ReadFile(cmp.Or(globals(k.c).config, filepath.Join(cmp.Or(k.repo.WorkDir(), globals(k.c).dir), configName)))
	if err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.config = text
}

// sort finds what a ref is set against, or passes over it.
func (k *pushCheck) sort(p pushed) error {
	if why := p.passedOver(); why != "" {
		k.mu.Lock()
		k.over = append(k.over, fmt.Sprintf("%s (%s)", p.name(), why))
		k.mu.Unlock()
		return nil
	}
	x := &ruling{push: p}
	commit, err := k.repo.Resolve(p.local)
	if err == nil {
		x.commit = commit
		x.base, x.against = baseOf(k.ctx, k.repo, k.remote, p, commit)
	}
	k.mu.Lock()
	k.rulings = append(k.rulings, x)
	k.mu.Unlock()
	if err != nil {
		k.rule(x, unchecked, headline(err.Error()), false)
	}
	return nil
}

// rule answers for a ref.
func (k *pushCheck) rule(x *ruling, a answer, why string, queue bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	x.answer, x.why, x.queue = a, why, queue
}

// open lists the refs without an answer.
func (k *pushCheck) open() (out []*ruling) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, x := range k.rulings {
		if x.answer == "" {
			out = append(out, x)
		}
	}
	return out
}

// stops reports that the push is stopped already.
func (k *pushCheck) stops() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.rulings, func(x *ruling) bool { return x.answer == blocked })
}

// equalInputs rules on what does not differ, at the paths that build and run read, from its base or from a ref
// that is pushed with it.
func (k *pushCheck) equalInputs() {
	for _, x := range k.open() {
		switch {
		case x.base == "":
		case x.base == x.commit:
			k.rule(x, passes, "the remote has this commit", false)
		case k.sameInputs(x.base, x.commit):
			why := "the same tree"
			if len(k.policy.Paths) > 0 {
				why = "nothing differs at " + strings.Join(k.policy.Paths, ", ")
			}
			k.rule(x, passes, why, false)
		}
	}
}

// sameInputs reports whether two commits are one to build and run. A commit that is gone equals none.
func (k *pushCheck) sameInputs(a, b string) bool {
	if a == b {
		return true
	}
	x, err := k.repo.Key(a, k.policy.Paths)
	if err != nil {
		return false
	}
	y, err := k.repo.Key(b, k.policy.Paths)
	return err == nil && x == y
}
