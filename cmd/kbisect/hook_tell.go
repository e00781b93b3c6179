package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// conclude tells the answers and queues what is left; its error stops the push.
func (k *pushCheck) conclude() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.c.App.ErrWriter
	if len(k.rulings) == 0 && len(k.over) == 0 {
		fmt.Fprintf(w, "kbisect: this push is not checked: %v were over before it was clear what is pushed\n", k.deadline)
	}
	k.news(w)
	if len(k.over) > 0 {
		fmt.Fprintf(w, "kbisect: not looked at: %s\n", strings.Join(k.over, ", "))
	}
	var stop *ruling
	var later []*ruling
	checked := 0
	for _, x := range k.rulings {
		if x.answer == "" {
			x.answer, x.why, x.queue = unchecked, k.unfinished(), true
		}
		k.tell(w, x)
		if x.answer != unchecked {
			checked++
		}
		if x.answer == blocked && stop == nil {
			stop = x
		}
		if x.queue && x.commit != "" {
			later = append(later, x)
		}
	}
	if stop != nil {
		fmt.Fprintf(w, "kbisect: the push is stopped after %s\n%s", span(time.Since(k.began)), stop.hint())
		k.enqueue(w, nil) // the background goes on with what earlier pushes left
		return &codeError{code: exitRegression}
	}
	if len(k.rulings) > 0 {
		fmt.Fprintf(w, "kbisect: %d of %d refs checked in %s\n", checked, len(k.rulings), span(time.Since(k.began)))
	}
	k.enqueue(w, later)
	return nil
}

// unfinished says why there is no answer.
func (k *pushCheck) unfinished() string {
	for _, x := range k.rulings {
		if x.answer == blocked {
			return x.push.name() + " stops the push already"
		}
	}
	if k.doing != "" {
		return fmt.Sprintf("the deadline of %v came in %s", k.deadline, k.doing)
	}
	return fmt.Sprintf("the deadline of %v came before its turn", k.deadline)
}

// tell prints one answer.
func (k *pushCheck) tell(w io.Writer, x *ruling) {
	against := ""
	if x.base != "" {
		against = fmt.Sprintf(" (B) against %s (A, %s)", short(x.base), x.against)
	}
	fmt.Fprintf(w, "kbisect: %s %s%s: %s: %s\n", x.push.name(), short(x.commit), against, x.answer, clean(strings.TrimSuffix(x.why, ".")))
}

// hint says what to do about a push that is stopped.
func (x *ruling) hint() string {
	find := ""
	if x.base != "" {
		find = fmt.Sprintf("kbisect run --good %s --bad %s finds the commit, kbisect compare %[1]s %[2]s looks again; ", short(x.base), short(x.commit))
	}
	return "hint: " + find + "git push --no-verify pushes all the same\n"
}
