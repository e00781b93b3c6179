// Package hook installs a pre-push hook beside those that exist ([At], [Script]) and decides pushes ([CheckPush]):
// by what the store knows, or else by launching within a deadline. What is not decided by then passes, with the
// command that decides it. Nothing here may hold or stop a push except a regression: every error, hang or panic
// lets it pass.
package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/source"
)

// How a push is checked. Git's lines name the refs (push.go); each is compared with what the remote has of it.
// The cheapest source that knows decides: equal inputs, then the store (evidence.go), then launching both
// (launch.go). Two times bound it. At launchesEnd the launches are stopped, which leaves time to end their
// processes and to keep their results; at the deadline the answers so far are printed (report.go) whatever the
// check is doing, so that nothing that hangs can hold a push. Only a regression stops a push: a false stop costs the
// user's trust in the hook, and what passes undecided can still be compared afterwards.

// answer is what the hook decides about one ref. "" is not decided yet. Only a regression stops the push.
type answer string

const (
	passes     answer = "passes"
	regression answer = "regression"
	undecided  answer = "not decided" // by the deadline; a command decides it
	unchecked  answer = "not checked" // and no command can: the configuration is invalid, for instance
)

// decision is what one source of evidence says about a ref, and why. Without an answer it says nothing.
type decision struct {
	answer answer
	why    string
}

// refCheck is the check of one pushed ref.
type refCheck struct {
	ref      pushedRef
	commit   string // full id; "" if it is not in the repository
	base     string // the commit that it is compared with; "" if the remote has nothing to compare with
	baseName string
	decision
}

// PushOptions are what the command line and the environment say about one push.
type PushOptions struct {
	Began    time.Time     // when kbisect was started: the deadline counts from there
	Deadline time.Duration // after which the push goes on, whatever the check is doing
	Skip     bool          // the user asks for no check
	Dir      string        // the repository is here or above
	Remote   string        // as git names it
	Refs     io.Reader     // git's lines
	Messages io.Writer

	// Policy says how candidates are built, launched and compared; it is called once, unless all refs are skipped.
	// Begin opens the session that launches, for a ref that nothing else decides.
	Policy func(*source.Repo) (*policy.Policy, error)
	Begin  func(repo *source.Repo, p *policy.Policy, kind string) (*session.Session, error)
}

// pushCheck checks the refs of one push. One goroutine runs check and is the only one to change the refs; CheckPush
// reads them at the deadline, while check may still be running.
type pushCheck struct {
	opts    PushOptions
	repo    *source.Repo
	rules   *policy.Policy
	devices []string // UUIDs of those that would be measured on

	mu      sync.Mutex // guards what follows: at the deadline it is read whatever the check is doing
	refs    []*refCheck
	skipped []string // refs that are not checked, with the reason
	doing   string   // "build of 0123456789"
}

// CheckPush checks a push within its deadline and reports whether it is stopped. Only a regression stops it; what
// goes wrong is a message on o.Messages. The error says that the user interrupted the check. A check that hangs is
// left behind in its goroutine: the process ends soon.
func CheckPush(ctx context.Context, o PushOptions) (stopped bool, err error) {
	refs, err := readPushed(o.Refs)
	if err != nil {
		o.passUnchecked(err)
		return false, nil
	}
	if len(refs) == 0 {
		return false, nil
	}
	if o.Skip {
		fmt.Fprintln(o.Messages, "kbisect: KBISECT_SKIP is set: this push is not checked")
		return false, nil
	}
	k := &pushCheck{opts: o}
	done := make(chan error, 1)
	go func() { done <- k.check(ctx, refs) }()
	select {
	case err = <-done:
	case <-time.After(time.Until(o.Began.Add(o.Deadline))): // whatever it hangs in
	}
	switch {
	case ctx.Err() != nil:
		return false, errors.New("interrupted: nothing was pushed")
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		o.passUnchecked(err)
		return false, nil
	}
	return k.finish(), nil
}

// passUnchecked says why a push is not checked.
func (o PushOptions) passUnchecked(err error) {
	fmt.Fprintf(o.Messages, "kbisect: this push is not checked: %v\n", err)
}

// launchesEnd is when launches are stopped: two seconds before the deadline, or a quarter of a short one, remain to
// kill processes, clean up and keep the results.
func (o PushOptions) launchesEnd() time.Time {
	return o.Began.Add(o.Deadline - min(2*time.Second, o.Deadline/4))
}

// check decides every ref: first by what is known, then by launching. A panic is an error like any other, as it
// must not stop a push. Once one ref stops the push, the others are not looked at.
func (k *pushCheck) check(ctx context.Context, refs []pushedRef) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("internal error: %v", r)
		}
	}()
	timed, cancel := context.WithDeadline(ctx, k.opts.launchesEnd())
	defer cancel()
	if k.repo, err = openRepo(k.opts.Dir); err != nil {
		return err
	}
	defer k.repo.Close()
	for _, r := range refs {
		k.add(timed, r)
	}
	if len(k.open()) == 0 {
		return nil
	}
	if k.rules, err = k.opts.Policy(k.repo); err != nil {
		return err
	}
	if err := k.decideByEvidence(timed); err != nil {
		return err
	}
	for open := k.open(); len(open) > 0 && k.stopping() == nil; open = k.open() {
		// each open ref gets an equal share; what one leaves over goes to the others
		share := time.Until(k.opts.launchesEnd()) / time.Duration(len(open))
		k.decide(open[0], k.launch(ctx, open[0], time.Now().Add(share)))
	}
	return nil
}

// add finds what a ref is compared with, or notes why it is skipped.
func (k *pushCheck) add(ctx context.Context, r pushedRef) {
	if why := r.skipReason(); why != "" {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.skipped = append(k.skipped, fmt.Sprintf("%s (%s)", r.name(), why))
		return
	}
	x := &refCheck{ref: r}
	var err error
	if x.commit, err = k.repo.Resolve(ctx, r.local); err != nil {
		x.decision = decision{answer: unchecked, why: wording.Headline(err.Error())}
	} else {
		x.base, x.baseName = baseOf(ctx, k.repo, k.opts.Remote, r, x.commit)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refs = append(k.refs, x)
}

// decideByEvidence decides what equal inputs and the store can decide. The devices are asked for only if equal
// inputs leave a ref open, because a driver may take seconds to answer.
func (k *pushCheck) decideByEvidence(ctx context.Context) (err error) {
	same := inputs{k.repo, k.rules.Paths}
	for _, x := range k.open() {
		switch {
		case x.base == "":
		case x.base == x.commit:
			k.decide(x, decision{answer: passes, why: "the remote has this commit"})
		case same.equal(x.base, x.commit):
			why := "the same tree"
			if len(same.paths) > 0 {
				why = "no difference at " + strings.Join(same.paths, ", ")
			}
			k.decide(x, decision{answer: passes, why: why})
		}
	}
	if len(k.open()) == 0 {
		return nil
	}
	if k.devices, err = devicesNow(ctx, k.rules.GPUs); err != nil {
		return err
	}
	e, err := openEvidence(k.repo, k.rules, k.devices)
	if e == nil {
		return err
	}
	defer e.store.Close()
	for _, x := range k.open() {
		d, err := e.decide(x.base, x.commit)
		if err != nil {
			return err
		}
		k.decide(x, d)
	}
	return nil
}

// decide sets the decision about a ref.
func (k *pushCheck) decide(x *refCheck, d decision) {
	k.mu.Lock()
	defer k.mu.Unlock()
	x.decision = d
}

// open lists the refs without an answer.
func (k *pushCheck) open() (out []*refCheck) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, x := range k.refs {
		if x.answer == "" {
			out = append(out, x)
		}
	}
	return out
}

// stopping is the first ref that stops the push; nil while there is none.
func (k *pushCheck) stopping() *refCheck {
	k.mu.Lock()
	defer k.mu.Unlock()
	return firstRegression(k.refs)
}

// firstRegression is the first ref that stops the push, or nil. The caller holds the lock.
func firstRegression(refs []*refCheck) *refCheck {
	if i := slices.IndexFunc(refs, func(x *refCheck) bool { return x.answer == regression }); i >= 0 {
		return refs[i]
	}
	return nil
}

// inputs compares commits at the paths that build and run read. Without paths the whole tree counts.
type inputs struct {
	repo  *source.Repo
	paths []string
}

// equal reports whether two commits are the same to build and run. A commit that is gone equals no other.
func (in inputs) equal(a, b string) bool {
	if a == b {
		return true
	}
	x, err := in.repo.Key(a, in.paths)
	if err != nil {
		return false
	}
	y, err := in.repo.Key(b, in.paths)
	return err == nil && x == y
}
