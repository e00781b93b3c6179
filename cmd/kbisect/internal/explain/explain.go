// Package explain says why one candidate differs from another: phases, kernels, registers, machine code and
// profiles, side by side ([Compare] for kbisect explain, [Culprit] for a search). An explainer looks at what was
// built and launched in a session (look.go), joins what the tools say about each kernel (kernels.go), and puts it
// into rows (rows.go).
//
// It must not judge which side is worse, nor rank the rows: bisect/report does. What a machine cannot show is listed as
// missing and is never an error.
package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
)

// Kind is the kind of the sessions of kbisect explain.
const Kind = "explain"

// Results of an explanation. Others, such as an interrupt, are those of the store.
const (
	explained = "explained"
	partly    = "partly" // one side could not be built, or did not run to its end
)

// How long the launches under profilers may take together: of kbisect explain, which was asked for them, and of a
// search, which was not.
const (
	Limit        = 20 * time.Minute
	CulpritLimit = 2 * time.Minute
)

// Compare builds, launches and profiles two revisions and reports why they differ. words are the two revisions; either
// may carry flags (HEAD^:compile=off). A side that fails is not an error as long as something can be compared. Its error
// carries the exit code.
func Compare(ctx context.Context, e session.Env, words []string) error {
	return session.LaunchTwo(ctx, e, words, Kind, readRequest, explain)
}

// readRequest puts the options of kbisect explain into the policy. -Xptxas=-v makes the compiler print the
// registers and spills of each kernel, of which nothing else tells the spills. The user's own flags stay.
func readRequest(p *policy.Policy, q *policy.Request, _ *session.Pair) error {
	if n := q.Launches; n < 1 {
		return exit.Usagef("--launches %d: at least one is needed", n)
	}
	p.MoreEnv = []string{"NVCC_APPEND_FLAGS=" + strings.TrimSpace(os.Getenv("NVCC_APPEND_FLAGS")+" -Xptxas=-v")}
	p.NoExplain, p.ExplainLimit = !q.Profile, q.ExplainLimit
	return nil
}

// explain examines both sides, reports, and concludes the session.
func explain(ctx context.Context, t *session.Session, q *policy.Request, pair session.Pair) error {
	x := explainerOf(t, pair.Sides)
	err := x.launch(ctx, q.Launches)
	if err == nil {
		err = x.look(ctx)
	}
	result, userErr := t.Ended(ctx, err, "for A or for B")
	if userErr != nil {
		return userErr
	}
	doc := x.document(pair.Words[0], pair.Words[1])
	doc.Result = cmp.Or(result, doc.Result)
	doc.Error = report.ErrorText(err)
	doc.Totals, doc.Devices = t.Totals(), append([]string{}, t.Devices.Names()...)
	doc.Warnings = append([]string{}, t.Warnings()...)
	code := session.ExitCode(doc.Result)
	if doc.Error == nil && len(doc.Rows) > 0 { // something could be set side by side, however the launches ended
		code = exit.OK
	}
	return t.Conclude(session.Conclusion{Result: doc.Result, Summary: doc.Summary, Code: code, Cause: err, Document: &doc})
}

// explainerOf is an explainer for two candidates of which nothing is known yet.
func explainerOf(t *session.Session, sides [2]bisect.Candidate) *explainer {
	t.Display.Ends = map[bisect.Purpose]string{bisect.EndGood: "A", bisect.EndBad: "B"}
	x := newExplainer(t, Limit)
	x.sides = [2]examined{{candidate: sides[0], purpose: bisect.EndGood}, {candidate: sides[1], purpose: bisect.EndBad}}
	return x
}

// launch launches A and B in turn, n times each, for the times of their phases. A side that fails is not launched
// again. The first launch builds anew (Clean), because the build cache does not keep what the compiler says about
// spills.
func (x *explainer) launch(ctx context.Context, n int) error {
	for i := range n {
		for k := range x.sides {
			s := &x.sides[k]
			if s.failed() != nil || x.session.Spent() {
				continue
			}
			o, err := x.session.Memory.Sample(ctx, bisect.Request{Candidate: s.candidate, Purpose: s.purpose, Nth: i, Timing: true, Clean: i == 0})
			if errors.Is(err, bisect.ErrSpent) {
				return nil
			}
			if err != nil {
				return err
			}
			s.outcomes = append(s.outcomes, o)
			x.session.Display.Launched(2*i+k+1, 2*n, fmt.Sprintf("launch %-2d of %c  %s, %.2f s", i+1, 'A'+k, o.Describe(), o.Wall))
		}
	}
	return nil
}

// document is the explanation, with both sides under the names a and b: those that the user gave, or short ids.
func (x *explainer) document(a, b string) report.Explanation {
	doc := x.explanation()
	doc.Session = x.session.Record.ID
	doc.A, doc.B = x.side(0, a), x.side(1, b)
	return doc
}

// side is A (k = 0) or B (k = 1) as the session saw it.
func (x *explainer) side(k int, word string) report.Candidate {
	var s compare.Side
	for _, o := range x.sides[k].outcomes {
		s.Note(o)
	}
	return session.Side(x.session, word, x.sides[k].candidate.Commit, s)
}
