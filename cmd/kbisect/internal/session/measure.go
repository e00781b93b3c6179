package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief/levels"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// Measure launches one revision a number of times and describes its metrics. It stores and shows the result; its error
// carries the exit code.
func Measure(ctx context.Context, e Env, words []string) error {
	return LaunchOne(ctx, e, words, Measuring, 1, "one is needed", "kbisect compare A B compares two revisions; a command follows --", measureOne)
}

// LaunchOne resolves a revision (HEAD if none is given), begins a session of this kind and hands it to do. It
// refuses fewer than least launches, for the reason why; hint says what to call for two revisions.
func LaunchOne(ctx context.Context, e Env, words []string, kind string, least int, why, hint string, do func(context.Context, *Session, *policy.Request, string) error) error {
	if len(words) > 1 {
		return exit.Usagef("%s takes one revision, not %q\nhint: %s", e.Request.Name, words, hint)
	}
	if n := e.Request.Launches; n < least {
		return exit.Usagef("--launches %d: at least %s", n, why)
	}
	rev := append(words, "HEAD")[0]
	var c bisect.Candidate
	return Launch(ctx, e, kind, func(repo *source.Repo) (p *policy.Policy, err error) {
		p, c, err = ReadOne(ctx, e.Request, repo, rev)
		return p, err
	}, func(t *Session) error {
		t.Candidate = c
		return do(ctx, t, e.Request, rev)
	})
}

// ReadOne resolves a revision and makes the policy of a session that launches it, which has this commit as both ends.
// Its errors are usage errors.
func ReadOne(ctx context.Context, q *policy.Request, repo *source.Repo, rev string) (*policy.Policy, bisect.Candidate, error) {
	p, err := policy.ForTrials(q, repo)
	if err != nil {
		return nil, bisect.Candidate{}, err
	}
	c, err := p.Candidate(ctx, repo, rev)
	if err != nil {
		return nil, c, err
	}
	p.Good, p.Bad = c.Commit, c.Commit
	warnOfHead(ctx, repo, p, rev)
	return p, c, policy.EndsOf(p, repo).Check(ctx)
}

// LaunchAll launches the candidate of a session up to n times and calls each after every launch, counted from 1. It
// stops early if the candidate cannot be built, if its first two launches fail, and when the budget is used up,
// none of which is an error.
func LaunchAll(ctx context.Context, t *Session, n int, each func(i int, o bisect.Outcome)) (out []bisect.Outcome, err error) {
	t.Display.Ends = map[bisect.Purpose]string{bisect.EndGood: "launch"}
	passed := 0
	for i := range n {
		o, err := t.Memory.Sample(ctx, bisect.Request{Candidate: t.Candidate, Purpose: bisect.EndGood, Nth: i, Timing: true})
		if errors.Is(err, bisect.ErrSpent) {
			break
		}
		if err != nil {
			return out, err
		}
		out = append(out, o)
		each(i+1, o)
		if o.Class == bisect.OK {
			passed++
		}
		// One failure may be chance. Two of a candidate that has never passed are not worth a third, and a build that
		// fails, or a skip, does not come out differently the next time.
		hopeless := passed == 0 && (len(out) == 2 || o.Class == bisect.BuildFailed || o.Class == bisect.Skip)
		if hopeless || t.Spent() {
			break
		}
	}
	return out, nil
}

// measureOne launches one candidate as often as was asked for and describes it.
func measureOne(ctx context.Context, t *Session, q *policy.Request, rev string) error {
	n := q.Launches
	all, err := LaunchAll(ctx, t, n, func(i int, o bisect.Outcome) {
		t.Display.Launched(i, n, fmt.Sprintf("launch %-3d %s, %.2f s", i, o.Describe(), o.Wall))
	})
	result, userError := t.Ended(ctx, err, "at "+bisect.ShortID(t.Policy.Good))
	if userError == nil && result == "" && q.Metric != "" {
		userError = Unmeasured(t)
	}
	if userError != nil {
		return t.Fail(userError)
	}
	doc := Measurement(t, rev, q.Metric, all, n, result, err)
	return t.Conclude(Conclusion{Result: doc.Result, Summary: doc.Verdict, Code: ExitCode(doc.Result), Cause: err, Document: &doc})
}

// Measurement makes the document of launches. only restricts it to one metric; "" is all. asked is how many
// launches were wanted.
func Measurement(t *Session, rev, only string, all []bisect.Outcome, asked int, result string, err error) report.Measurement {
	var s compare.Side
	var fit []bisect.Outcome
	for _, o := range all {
		if s.Note(o) {
			fit = append(fit, o)
		}
	}
	m := report.Measurement{
		Schema: report.MeasurementSchema, Session: t.Record.ID, Result: cmp.Or(result, string(bisect.OK)), Candidate: Side(t, rev, t.Policy.Good, s),
		Phases: PhaseTimes(all), Wall: SummaryOf(fit, metric.Metric{Name: "wall"}, ""), Metrics: []report.MetricSummary{},
		Memory: mostMemory(all), Devices: deviceStates(t, all), Totals: t.Totals(), Warnings: append([]string{}, t.LaunchWarnings()...),
	}
	// Only launches whose times may be compared describe a metric; the phases are those of all, since a launch that
	// failed is looked at for where it spent its time.
	of := ByNumber(fit)
	for _, n := range Numbers(fit, only) {
		m.Metrics = append(m.Metrics, MetricSummary(t, of(n), n))
	}
	switch {
	case result != "":
	case s.Failure != nil:
		m.Result = string(s.Failure.Class)
	case s.Launches == 0:
		m.Result = store.Inconclusive
	}
	m.Error = report.ErrorText(err)
	m.Verdict = measureVerdict(m, s, asked)
	return m
}

// measureVerdict is the headline of a measurement for which asked launches were wanted.
func measureVerdict(m report.Measurement, s compare.Side, asked int) string {
	switch {
	case m.Result == store.Interrupted:
		return "Interrupted; the launches made so far are kept."
	case m.Result == store.Infra:
		return "Stopped: machine problem; no verdict on the candidate."
	case s.Launches == 0:
		return "The budget was used up before the first launch ended."
	case s.Failed == s.Launches:
		return fmt.Sprintf("%s failed: %s.", words.All(s.Launches, "launch"), s.Failure.Describe())
	case s.Failed > 0:
		return fmt.Sprintf("%d of %d launches failed: %s.", s.Failed, s.Launches, s.Failure.Describe())
	case s.Launches < asked:
		return fmt.Sprintf("The budget was used up after %d of %d launches; none failed.", s.Launches, asked)
	}
	return words.All(s.Launches, "launch") + " passed."
}

// SummaryOf describes the values of a metric over launches, in the metric's unit, leaving out launches without a value.
// one is a case, or "" for all cases together.
func SummaryOf(all []bisect.Outcome, m metric.Metric, one string) report.Summary {
	var v []float64
	for _, o := range all {
		if x, ok := m.Value(o, one); ok {
			v = append(v, x)
		}
	}
	return compare.Describe(v)
}

// PhaseTimes describes the seconds of every phase, in the order in which launches enter them. Times with empty caches
// are described separately: a first compilation would look like noise among the others.
func PhaseTimes(all []bisect.Outcome) []report.PhaseTimes {
	var order []string
	times, cold := map[string][]float64{}, map[string][]float64{}
	add := func(to map[string][]float64, ps []bisect.PhaseTime) {
		order = report.MergePhases(order, ps)
		for _, p := range ps {
			to[p.Name] = append(to[p.Name], p.Seconds)
		}
	}
	for _, o := range all {
		add(cold, o.Cold)
		if o.Caches == "cold" {
			add(cold, o.Phases)
			continue
		}
		add(times, o.Phases)
	}
	out := []report.PhaseTimes{}
	for _, name := range order {
		out = append(out, report.PhaseTimes{Phase: name, Times: compare.Describe(times[name]), Cold: compare.Describe(cold[name])})
	}
	return out
}

// Number names one value of a launch: a metric of one case or, if One is "", of the whole launch.
type Number struct{ Metric, One string }

// Numbers lists the values that launches report, in order of first appearance. only restricts them to one metric;
// "" is all.
func Numbers(all []bisect.Outcome, only string) []Number {
	if (metric.Metric{Name: only}).OfProcess() {
		return []Number{{only, ""}}
	}
	var out []Number
	seen := map[Number]bool{}
	for _, o := range all {
		for _, s := range o.Series {
			n := Number{s.Metric, s.Case}
			if (only == "" || only == s.Metric) && !seen[n] {
				out, seen[n] = append(out, n), true
			}
		}
	}
	return out
}

// ByNumber returns a function for the launches that report a value, each reduced to the series of that value: a
// launch may have thousands, and searching all of them for each value would take quadratic time. Wall and phase
// times are of whole launches.
func ByNumber(all []bisect.Outcome) func(Number) []bisect.Outcome {
	parts := map[Number][]bisect.Outcome{}
	for _, o := range all {
		of := map[Number][]bisect.Series{}
		for _, s := range o.Series {
			n := Number{s.Metric, s.Case}
			of[n] = append(of[n], s)
		}
		for n, series := range of {
			o.Series = series
			parts[n] = append(parts[n], o)
		}
	}
	return func(n Number) []bisect.Outcome {
		if (metric.Metric{Name: n.Metric}).OfProcess() {
			return all
		}
		return parts[n]
	}
}

// MetricSummary describes one value over launches that [ByNumber] has reduced to it.
func MetricSummary(t *Session, all []bisect.Outcome, n Number) report.MetricSummary {
	m := t.Policy.Metric(n.Metric)
	out := report.MetricSummary{Metric: n.Metric}
	if n.One != "" {
		out.Case = &n.One
	}
	// Launches that contradict each other leave it unknown, which is an answer here and an error in a comparison.
	better, _ := m.Direction(all...) // unknown is an answer here
	out.Better = string(better)
	var values, within []float64
	for _, o := range all {
		v, ok := m.Value(o, "")
		if !ok {
			continue
		}
		out.Unit = m.Unit(o)
		values = append(values, v)
		for _, s := range o.Series {
			if (Number{s.Metric, s.Case}) != n {
				continue
			}
			out.Samples += len(s.Values)
			within = append(within, float64(compare.Describe(s.Values).Spread))
		}
	}
	within = slices.DeleteFunc(within, math.IsNaN)
	out.Values, out.Within = compare.Describe(values), compare.Describe(within).Median
	if low, high, share, ok := levels.TwoModes(values); ok {
		out.Modes = &report.Modes{Low: report.Number(low), High: report.Number(high), Share: report.Number(share)}
	}
	return out
}

// mostMemory is the peak memory of the launches in bytes; nil if none was measured.
func mostMemory(all []bisect.Outcome) *int64 {
	most := int64(0)
	for _, o := range all {
		most = max(most, o.Memory)
	}
	if most == 0 {
		return nil
	}
	return &most
}

// deviceStates describes clock (MHz), temperature (°C) and power (W) of each device, and what disturbed it.
func deviceStates(t *Session, all []bisect.Outcome) []report.DeviceState {
	out := []report.DeviceState{}
	for i, name := range t.Devices.Names() {
		d := report.DeviceState{Name: name, Throttled: []string{}, Shared: []string{}}
		var clock, temperature, power []float64
		for _, o := range all {
			if i >= len(o.Devices) {
				continue
			}
			x := o.Devices[i]
			d.Throttled, d.Shared = once(d.Throttled, x.Throttled), once(d.Shared, x.Shared)
			var r gpu.Reading
			if json.Unmarshal(x.After, &r) == nil {
				clock, temperature, power = append(clock, float64(r.SMClock)), append(temperature, float64(r.Temperature)), append(power, r.PowerW)
			}
		}
		d.Clock, d.Temperature, d.Power = compare.Describe(clock), compare.Describe(temperature), compare.Describe(power)
		out = append(out, d)
	}
	return out
}

// once appends a text unless it is empty or in the list already.
func once(all []string, text string) []string {
	if text == "" || slices.Contains(all, text) {
		return all
	}
	return append(all, text)
}
