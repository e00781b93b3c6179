// Package stopwatch says where the time of a job went. A [Watch] charges each moment to one account, that of what
// the deciding goroutine does or waits for, so that the accounts add up to the time that passed, whatever runs
// beside it.
package stopwatch

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Watch is a running stopwatch. Its methods may be called from several goroutines; on nil they do nothing.
type Watch struct {
	mu      sync.Mutex
	began   time.Time
	since   time.Time // the moments from here on are not charged yet
	account string
	slot    int // what it does is the account; none below 0
	doing   map[int]string
	spent   map[string]time.Duration
	now     func() time.Time
}

// New starts a stopwatch in an account.
func New(account string) *Watch { return start(account, time.Now) }

func start(account string, now func() time.Time) *Watch {
	return &Watch{began: now(), since: now(), account: account, slot: -1, doing: map[int]string{}, spent: map[string]time.Duration{}, now: now}
}

// Began is when it was started.
func (w *Watch) Began() time.Time {
	if w == nil {
		return time.Now()
	}
	return w.began
}

// Enter charges the moments from now on to an account; leave returns to the one before.
func (w *Watch) Enter(account string) (leave func()) { return w.enter(account, -1) }

// Follow charges the moments from now on to what a slot does, see Doing; leave returns to the account before.
func (w *Watch) Follow(slot int) (leave func()) { return w.enter("", slot) }

func (w *Watch) enter(account string, slot int) (leave func()) {
	if w == nil {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if slot >= 0 {
		account = w.of(slot)
	}
	before, followed := w.account, w.slot
	w.charge(account, slot)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if followed >= 0 {
			before = w.of(followed)
		}
		w.charge(before, followed)
	}
}

// Doing notes what a slot does from now on. It counts while Follow follows that slot.
func (w *Watch) Doing(slot int, what string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.doing[slot] = what; w.slot == slot {
		w.charge(what, slot)
	}
}

// Settle charges what was charged to accounts whose names begin with a prefix to one account, or with "" to those
// named by the rest of the name.
func (w *Watch) Settle(prefix, account string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.charge(w.account, w.slot)
	for name, took := range maps.Clone(w.spent) {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			delete(w.spent, name)
			w.spent[cmp.Or(account, rest)] += took
		}
	}
}

// of is what a slot does.
func (w *Watch) of(slot int) string { return cmp.Or(w.doing[slot], "waiting for a slot") }

// charge closes the account in use and opens another one.
func (w *Watch) charge(account string, slot int) {
	now := w.now()
	w.spent[w.account] += now.Sub(w.since)
	w.since, w.account, w.slot = now, account, slot
}

// Account is what one account was charged.
type Account struct {
	Name string
	Time time.Duration
}

// Spent lists the accounts, the largest first, and their sum, which is the time since the start.
func (w *Watch) Spent() (all []Account, sum time.Duration) {
	if w == nil {
		return nil, 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.charge(w.account, w.slot)
	for name, took := range w.spent {
		if took > 0 {
			all = append(all, Account{name, took})
		}
		sum += took
	}
	slices.SortFunc(all, func(a, b Account) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Name, b.Name)) })
	return all, sum
}
