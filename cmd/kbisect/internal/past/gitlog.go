package past

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
)

// GitLog writes a log for git bisect replay that leads git to the culprit of the search. git takes one answer for each
// commit and believes it, so the last verdict on a commit counts, and one that contradicts the culprit becomes a
// comment. It is a usage error if the session is not a search of commits or has no good end, and the machine's if w
// cannot be written.
func (p *Session) GitLog(ctx context.Context, w io.Writer) error {
	d, ok := p.Document.(*report.Search)
	if !ok || p.Session.Axis != policy.AxisHistory {
		return exit.Usagef("session %s does not search commits, which is all that git bisect can replay", p.Session.ID)
	}
	if p.Session.Good == "" {
		return exit.Usagef("session %s has no good end, which git bisect needs", p.Session.ID)
	}
	g := &gitLogger{ctx: ctx, past: p, read: d}
	if len(d.Culprits) > 0 {
		g.culprit = d.Culprits[0].Commit
	}
	options := ""
	if p.policy.FirstParent {
		options = "'--first-parent' " // git expects quotes around every word
	}
	g.f("# kbisect session %s: %s\n", p.Session.ID, d.Result)
	g.note("bad", p.Session.Bad)
	g.note("good", p.Session.Good)
	g.f("git bisect start %s'%s' '%s'\n", options, p.Session.Bad, p.Session.Good)
	g.verdicts()
	g.answer()
	if _, err := io.WriteString(w, g.log.String()); err != nil {
		return exit.With(exit.Machine, fmt.Errorf("the log for git: %w", err))
	}
	return nil
}

// gitLogger writes the log of one session. culprit is the first that was named; it is "" if there is none, and then git
// goes on searching where the session ended.
type gitLogger struct {
	ctx     context.Context
	past    *Session
	read    *report.Search
	log     strings.Builder
	culprit string
}

// f appends to the log.
func (g *gitLogger) f(format string, args ...any) { fmt.Fprintf(&g.log, format, args...) }

// note writes the comment that git bisect writes above an answer.
func (g *gitLogger) note(word, commit string) {
	subject := ""
	if c, err := g.past.repo.Commit(commit); err == nil {
		subject = words.Printable(strings.ReplaceAll(c.Subject, "\n", " "))
	}
	g.f("# %s: [%s] %s\n", word, commit, subject)
}

// verdicts writes the last verdict on each commit, in the order of the search.
func (g *gitLogger) verdicts() {
	last := map[string]int{}
	for i, s := range g.read.Steps {
		last[s.Commit] = i
	}
	for i, s := range g.read.Steps {
		if last[s.Commit] != i || s.Commit == g.past.Session.Good || s.Commit == g.past.Session.Bad {
			continue
		}
		word := string(s.Verdict.Call)
		if !g.agrees(s.Commit, s.Verdict.Call) {
			why := "contradicts the answer, "
			if len(g.read.Culprits) > 1 {
				why = "of the search for another change, "
			}
			g.note(why+word, s.Commit)
			continue
		}
		g.note(word, s.Commit)
		g.f("git bisect %s %s\n", word, s.Commit)
	}
}

// agrees reports whether a verdict and the culprit can both be true by the rules of git: a commit that contains the
// culprit is bad, one that does not is good, and the culprit itself can be tested.
func (g *gitLogger) agrees(commit string, call bisect.Call) bool {
	switch {
	case call == bisect.Untestable:
		return commit != g.culprit
	case g.culprit == "":
		return true
	}
	after, err := g.past.repo.IsAncestor(g.ctx, g.culprit, commit)
	if err != nil {
		return false // git would stop at a commit that is gone
	}
	return (after || commit == g.culprit) == (call == bisect.Bad)
}

// answer adds what git needs to name the same culprit, even if the search only inferred it: the culprit is bad and its
// parents are good. What the log already says is not repeated.
func (g *gitLogger) answer() {
	if g.culprit == "" {
		return
	}
	// What the log says so far: the two ends in git bisect start, the rest in verdicts.
	answers := map[string]bisect.Call{g.past.Session.Good: bisect.Good, g.past.Session.Bad: bisect.Bad}
	for _, s := range g.read.Steps {
		if g.agrees(s.Commit, s.Verdict.Call) {
			answers[s.Commit] = s.Verdict.Call
		}
	}
	add := func(commit string, call bisect.Call) {
		if answers[commit] != call {
			g.note("by the finding, "+string(call), commit)
			g.f("git bisect %s %s\n", call, commit)
		}
	}
	add(g.culprit, bisect.Bad)
	// With --first-parent git asks about first parents only.
	for i, parent := range g.read.Culprits[0].Parents {
		if i == 0 || !g.past.policy.FirstParent {
			add(parent, bisect.Good)
		}
	}
	g.note("first bad commit", g.culprit)
}
