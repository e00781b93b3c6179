package baseline

import (
	"context"
	"fmt"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/store"
)

// Kind is the kind of the session that keeps a baseline. The session's finding is the Baseline and its launches are
// the evidence; an imported one has no launches.
const Kind = "baseline"

// ImportedStatus is the status of a session that keeps an imported baseline.
const ImportedStatus = "imported"

// Record launches a revision and, if every launch passes, keeps it as a baseline with a note. words are the
// arguments: at most one revision. At least two launches are made.
func Record(ctx context.Context, e session.Env, words []string, note string) error {
	record := func(ctx context.Context, t *session.Session, q *policy.Request, rev string) error {
		return record(ctx, t, q, rev, note)
	}
	return session.LaunchOne(ctx, e, words, Kind, 2, "two are needed to call it good", "a command follows --", record)
}

// record launches the revision of an open session and keeps it if it is good. The machine is described before the
// launches, so that starting compilers and Python cannot disturb them.
func record(ctx context.Context, t *session.Session, q *policy.Request, rev, note string) error {
	on := machine.Describe(ctx, t.Devices.Watches, usesPython(t.Policy))
	n := q.Launches
	all, err := session.LaunchAll(ctx, t, n, func(i int, o bisect.Outcome) {
		t.Display.Launched(i, n, fmt.Sprintf("launch %-3d %s, %.2f s", i, o.Describe(), o.Wall))
	})
	result, userErr := t.Ended(ctx, err, "at "+bisect.ShortID(t.Policy.Good))
	if userErr == nil && result == "" {
		userErr = session.Unmeasured(t)
	}
	if userErr != nil {
		return t.Fail(userErr)
	}
	doc := session.Measurement(t, rev, q.Metric, all, n, result, err)
	if why := refusal(doc, all, n); why != "" {
		code := session.ExitCode(doc.Result)
		if code == exit.OK {
			code, doc.Result = exit.Inconclusive, store.Inconclusive
		}
		doc.Verdict = "Not recorded. " + why
		return t.Conclude(session.Conclusion{Result: doc.Result, Summary: doc.Verdict, Code: code, Cause: err, Document: &doc})
	}
	b := baselineOf(t, doc, all, on)
	b.Note = note
	return keep(t, b)
}

// refusal says in a sentence why a revision is not recorded; "" if it is. Later commits are compared with a baseline,
// so it is refused rather than recorded with a gap.
func refusal(m report.Measurement, all []bisect.Outcome, asked int) string {
	if m.Result != string(bisect.OK) || len(all) < asked {
		return m.Verdict
	}
	var s compare.Side
	for _, o := range all {
		s.Note(o)
	}
	if s.Counted == 0 {
		return fmt.Sprintf("None of %d launches gave times that count: %s.", len(all), s.Left[0].Why)
	}
	return ""
}

// keep stores a baseline and adds its commit to the good ones from which later searches start.
func keep(t *session.Session, b Baseline) error {
	good := store.Good{Commit: b.Commit, When: b.Recorded, Session: b.Session, Detail: fmt.Sprintf("a baseline, %s passed", words.Count(b.Launches, "launch"))}
	if err := t.Store.RecordGood(good); err != nil {
		return t.Fail(exit.With(exit.Machine, err))
	}
	summary := fmt.Sprintf("Recorded. %s passed.", words.All(b.Launches, "launch"))
	return t.Conclude(session.Conclusion{Result: string(bisect.OK), Summary: summary, Document: b, Show: func() error {
		fmt.Fprintln(t.Output.Stdout, summary)
		return b.Print(t.Output.Stdout, nil)
	}})
}
