package hook

import (
	"fmt"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
)

// finish prints the answers and reports whether the push is stopped. It may run while check still does, at the
// deadline.
func (k *pushCheck) finish() (stopped bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.refs) == 0 && len(k.skipped) == 0 {
		fmt.Fprintf(k.opts.Messages, "kbisect: this push is not checked: the %v deadline came before its refs were read\n", k.opts.Deadline)
	}
	if len(k.skipped) > 0 {
		fmt.Fprintf(k.opts.Messages, "kbisect: skipped: %s\n", strings.Join(k.skipped, ", "))
	}
	stop, decided := firstRegression(k.refs), 0
	for _, x := range k.refs {
		d := x.decision
		switch {
		case d.answer != "":
		case stop != nil:
			d = decision{answer: unchecked, why: stop.ref.name() + " already stops the push"}
		default:
			d = k.late()
		}
		fmt.Fprint(k.opts.Messages, x.report(d))
		if d.answer == undecided && stop == nil {
			fmt.Fprintf(k.opts.Messages, "hint: %s decides it\n", x.decidedBy())
		}
		if d.answer == passes || d.answer == regression {
			decided++
		}
	}
	wall := wording.Span(time.Since(k.opts.Began))
	switch {
	case stop != nil:
		fmt.Fprintf(k.opts.Messages, "kbisect: push stopped after %s\n%s", wall, stop.hint())
	case len(k.refs) > 0:
		fmt.Fprintf(k.opts.Messages, "kbisect: %d of %d refs decided in %s\n", decided, len(k.refs), wall)
	}
	return stop != nil
}

// late is the decision about a ref that the deadline overtook. The caller holds the lock.
func (k *pushCheck) late() decision {
	why := fmt.Sprintf("the %v deadline came before its turn", k.opts.Deadline)
	if k.doing != "" {
		why = fmt.Sprintf("the %v deadline came during the %s", k.opts.Deadline, k.doing)
	}
	return decision{answer: undecided, why: why}
}

// report is a decision in one line.
func (x *refCheck) report(d decision) string {
	against := ""
	if x.base != "" {
		against = fmt.Sprintf(" (B) against %s (A, %s)", bisect.ShortID(x.base), x.baseName)
	}
	return fmt.Sprintf("kbisect: %s %s%s: %s: %s\n", x.ref.name(), bisect.ShortID(x.commit), against, d.answer, words.Printable(strings.TrimSuffix(d.why, ".")))
}

// decidedBy is the command that decides a ref. Its result is stored and decides the next push.
func (x *refCheck) decidedBy() string {
	if x.base == "" {
		return "kbisect measure " + bisect.ShortID(x.commit)
	}
	return fmt.Sprintf("kbisect compare %s %s", bisect.ShortID(x.base), bisect.ShortID(x.commit))
}

// hint says what to do about a push that is stopped.
func (x *refCheck) hint() string {
	find := ""
	if x.base != "" {
		find = fmt.Sprintf("kbisect run --good %s --bad %s finds the commit; %s measures again; ", bisect.ShortID(x.base), bisect.ShortID(x.commit), x.decidedBy())
	}
	return "hint: " + find + "git push --no-verify pushes anyway\n"
}
