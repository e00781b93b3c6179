// Package preview is kbisect try: it builds and launches both ends of a search a few times ([Run]) and reports as a
// [Document] which values were read, how noisy they are, what a search could find and what it would cost. kbisect init
// uses [Once]. The package decides nothing about commits and stores no verdict. The costs come from the search itself,
// run on a simulated device with the noise that was seen ([Outlook]), so that they change when the search does.
package preview

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/detect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/search"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/fixtures/simulate"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
	"github.com/montanaflynn/stats"
)

const (
	launches  = 3    // of each end, if their times matter
	searches  = 20   // simulated for each size of a change
	certainly = 0.95 // a change counts as findable if this share of the searches names the culprit: 19 of 20
)

// The results of a preview, besides those that every session can have.
const (
	Ready        = "ready"         // there is something to search for
	NoDifference = "no-difference" // the ends do not differ by more than the noise
	Unclear      = "inconclusive"  // they differ, but that may be noise
	OneEnd       = "one-end"       // no good end is known; only the bad one was launched
)

// preview is one run of kbisect try. candidates, names and ended have two entries each, the good end first, or only
// that of the bad end.
type preview struct {
	session    *session.Session
	candidates []bisect.Candidate
	names      []string           // of these, as the user wrote them
	recorded   bool               // the user named no good end, and the newest recorded one is used
	ended      [][]bisect.Outcome // their launches, in order
	commits    int                // in the range
	matter     int                // of these, that change an input of the build or the run
	launches   int                // of each end, if their times matter
}

// Run launches the ends of the search that the request describes and prints a report, as JSON if asJSON is set. Its
// error carries the exit code of the result.
func Run(ctx context.Context, e session.Env, asJSON bool) error {
	// A preview is of commits, and does not ask how often a failure comes.
	e.Request.Axis, e.Request.Repeat = policy.AxisHistory, 1
	var rng *source.Range
	return session.Launch(ctx, e, session.Trying, func(repo *source.Repo) (p *policy.Policy, err error) {
		if p, rng, err = search.Ends(ctx, e.Request, repo); err == nil && e.Request.Bad == "HEAD" {
			session.WarnUncommitted(ctx, repo, p, "the bad end")
		}
		return p, err
	}, func(t *session.Session) error {
		t.Range = rng
		x := preview{session: t, launches: launches}
		if rng != nil {
			x.candidates, x.names, x.recorded = []bisect.Candidate{{Commit: t.Policy.Good}}, []string{named(e.Request.Good, t.Policy.Good)}, e.Request.Good == ""
			x.commits = len(rng.Commits)
			for _, c := range rng.Commits {
				if !c.Neutral {
					x.matter++
				}
			}
		}
		x.candidates, x.names = append(x.candidates, bisect.Candidate{Commit: t.Policy.Bad}), append(x.names, named(e.Request.Bad, t.Policy.Bad))
		x.ended = make([][]bisect.Outcome, len(x.candidates))
		return x.run(ctx, func(d *Document) error {
			if asJSON {
				return report.WriteJSON(t.Output.Stdout, d)
			}
			return d.print(t.Output.Stdout)
		})
	})
}

// named is a revision as the user wrote it, or the short id of the commit if the user wrote the whole id or
// nothing.
func named(revision, commit string) string {
	if revision == "" || revision == commit {
		return bisect.ShortID(commit)
	}
	return revision
}

// Once launches HEAD once and returns what it showed, with the end of its output, for kbisect init to say whether what
// it has written works. It prints nothing. d is nil if there was no launch; the error carries the exit code.
func Once(ctx context.Context, e session.Env) (d *Document, output string, err error) {
	var c bisect.Candidate
	err = session.Launch(ctx, e, session.Trying, func(repo *source.Repo) (p *policy.Policy, err error) {
		p, c, err = session.ReadOne(ctx, e.Request, repo, "HEAD")
		return p, err
	}, func(t *session.Session) error {
		x := preview{session: t, launches: 1, candidates: []bisect.Candidate{c}, names: []string{"HEAD"}, ended: make([][]bisect.Outcome, 1)}
		err := x.run(ctx, func(of *Document) error {
			d = of
			return nil
		})
		for _, o := range x.ended[0] {
			output = o.Tail
		}
		return err
	})
	return d, output, err
}

// run launches the ends, concludes the session, and passes what it found to show.
func (x *preview) run(ctx context.Context, show func(*Document) error) error {
	t := x.session
	err := x.launch(ctx)
	// An interrupt and a machine problem have a document too, with what was launched before.
	result, userErr := t.Ended(ctx, err, "at either end")
	if userErr != nil {
		return userErr
	}
	d, failed := x.document(ctx, result)
	if failed != nil {
		return t.Fail(failed)
	}
	d.Error = report.ErrorText(err)
	// Other commands do not have the first two results, and to a comparison no difference is a success. Here it means, as
	// to a search, that there is nothing to find.
	code := session.ExitCode(d.Result)
	switch d.Result {
	case Ready, OneEnd:
		code = exit.OK
	case NoDifference:
		code = exit.NoDifference
	}
	return t.Conclude(session.Conclusion{Result: d.Result, Summary: d.Verdict, Code: code, Cause: err, Document: d, Show: func() error { return show(d) }})
}

// launch makes one launch of each end, and then more in turn if their times matter: alternating spreads a drift of
// the device over both ends. It stops early when an end fails, and when there is no metric to compare. A budget
// that runs out is not an error here; there are fewer launches then.
func (x *preview) launch(ctx context.Context) error {
	t := x.session
	// A candidate without a good end beside it is launched as the bad end.
	purposes := []bisect.Purpose{bisect.EndGood, bisect.EndBad}[2-len(x.candidates):]
	t.Display.Ends = map[bisect.Purpose]string{bisect.EndGood: "good end", bisect.EndBad: "bad end"}
	if len(x.candidates) == 1 {
		t.Display.Ends[bisect.EndBad] = x.names[0]
	}
	for i := range x.launches {
		for side, c := range x.candidates {
			o, err := t.Memory.Sample(ctx, bisect.Request{Candidate: c, Purpose: purposes[side], Nth: i, Timing: true})
			if errors.Is(err, bisect.ErrSpent) {
				return nil
			}
			if err != nil {
				return err
			}
			x.ended[side] = append(x.ended[side], o)
		}
		// A failure, or a program without a metric, says in one launch what it would say in three.
		if x.failing() || i == 0 && len(x.metrics()) == 0 {
			return nil
		}
	}
	return nil
}

// failing reports whether any launch of any end failed.
func (x *preview) failing() bool {
	return slices.ContainsFunc(x.ended, func(of []bisect.Outcome) bool {
		return slices.ContainsFunc(of, func(o bisect.Outcome) bool { return o.Class != bisect.OK })
	})
}

// first is the outcome that stands for an end: the first one that failed, or the first of all.
func first(of []bisect.Outcome) bisect.Outcome {
	if i := slices.IndexFunc(of, func(o bisect.Outcome) bool { return o.Class != bisect.OK }); i >= 0 {
		return of[i]
	}
	return of[0]
}

// metrics are those of the search for which every end gave a value in its first launch; none if the search is for a
// failure.
func (x *preview) metrics() (out []metric.Metric) {
	if t := x.session.Policy; t.Judge.Find != "" && t.Judge.Find != bisect.Slow {
		return nil
	}
	for _, m := range x.session.Policy.Judge.Metrics {
		if !slices.ContainsFunc(x.ended, func(of []bisect.Outcome) bool {
			_, ok := m.Log(of[0])
			return !ok
		}) {
			out = append(out, m)
		}
	}
	return out
}

// document says what the launches showed. result is that of a session that ended early, or "".
func (x *preview) document(ctx context.Context, result string) (*Document, error) {
	t := x.session
	d := &Document{
		Schema: Schema, Session: t.Record.ID, Command: t.Policy.Plan.Run, Build: t.Policy.Plan.Build,
		Ends: []End{}, Phases: []Phase{}, Metrics: []report.MetricSummary{}, Cases: []Case{}, Finds: []Outlook{}, Recorded: x.recorded, Commits: x.commits, Matter: x.matter,
		GPUHour: t.Policy.GPUHour, Devices: append([]string{}, t.Devices.Names()...),
	}
	d.Result, d.Noise, d.Change = result, bisect.Unknown(), bisect.Unknown()
	for side, of := range x.ended {
		e := End{Revision: x.names[side], Commit: x.candidates[side].Commit, Launches: len(of)}
		for _, o := range of {
			e.Build = max(e.Build, o.Build)
		}
		if len(of) > 0 {
			o := first(of)
			e.Class, e.Phase, e.Why, e.Wall = string(o.Class), o.Phase, o.Describe(), o.Wall
		}
		d.Ends = append(d.Ends, e)
	}
	// Without a launch of either end there is nothing to judge: the budget was too small, or the session ended
	// early.
	if result == "" && len(x.ended[0]) == 0 || len(x.ended[len(x.ended)-1]) == 0 {
		d.Result = cmp.Or(result, store.Inconclusive)
	}
	if d.Result == "" {
		x.phases(d)
		if err := x.judge(ctx, d); err != nil {
			return nil, err
		}
	}
	if m := t.Policy.Asked; m != "" {
		d.asked = append(d.asked, "--metric", m)
	}
	if f := t.Policy.Judge.Find; f != "" {
		d.asked = append(d.asked, "--find", string(f))
	}
	// The verdict and the suggested commands rest on all that was filled in above.
	ledger := t.LedgerOf()
	d.Fill(ledger, t.Totals(), d.Devices, d.Metric, d.Better == words.Direction(true))
	d.Next = []report.Command{}
	d.conclude(ledger.Call)
	d.Warnings = append([]string{}, t.LaunchWarnings()...)
	return d, nil
}

// phases adds the time of each phase at the first end, with its limit in seconds.
func (x *preview) phases(d *Document) {
	// Some limits are multiples of the times of the good end, which are known by now.
	limits := x.session.LedgerOf().Limits
	for _, p := range session.PhaseTimes(x.ended[0]) {
		seconds := p.Times.Median
		if !seconds.Known() { // every launch began with empty caches
			seconds = p.Cold.Median
		}
		d.Phases = append(d.Phases, Phase{p.Phase, seconds, limits[p.Phase]})
	}
	d.Limit, d.BuildLimit = limits[bisect.WholeTrial], limits["build"]
}

// judge finds out what there is to search for and what that would cost, and sets Result. An error is the user's: the
// metric that was asked for was not sent, or it has no known direction.
//
// A change counts as seen (Step) if it exceeds ClearlyDiffer standard errors of the difference between two ends of
// n launches, noise * sqrt(2/n), as it does in the search itself; changes that are too small to be worth a search
// do not count at all.
func (x *preview) judge(ctx context.Context, d *Document) error {
	t := x.session
	bad := first(x.ended[len(x.ended)-1])
	d.Result = NoDifference
	if len(x.ended) == 1 {
		d.Result = OneEnd
	}
	ms := x.metrics()
	if x.failing() {
		// Only a good end that passes and a bad end that fails leave something to search for.
		if len(x.ended) == 2 && first(x.ended[0]).Class == bisect.OK && bad.Class != bisect.Skip {
			d.Result = Ready
			cost, err := failure(ctx, x.device(), max(0.001, bad.Wall), t.Policy.Judge.Error)
			d.Cost = &cost
			return err
		}
		return nil
	}
	if len(ms) == 0 {
		// A metric that the user asked for must not be missing. Else a line of output that may hold one is shown.
		d.Printed, _ = detect.Printed(bad.Tail)
		return session.Unmeasured(t)
	}
	ms, err := metric.Directed(ms, slices.Concat(x.ended...)...)
	if err != nil {
		return exit.Usage(err)
	}
	n := session.Numbers(slices.Concat(x.ended...), ms[0].Name)
	of := session.ByNumber(x.ended[0])
	for _, one := range n {
		d.Metrics = append(d.Metrics, session.MetricSummary(t, of(one), one))
	}
	d.Metric, d.Better = ms[0].Name, string(ms[0].Better())
	levels := x.levels(ms[0], "")
	d.Noise, d.Change = scatter(levels)
	for _, one := range n {
		at := x.levels(ms[0], one.One)
		noise, change := scatter(at)
		good, bad := session.SummaryOf(x.ended[0], ms[0], one.One), session.SummaryOf(x.ended[len(x.ended)-1], ms[0], one.One)
		d.Cases = append(d.Cases, Case{one.One, ms[0].Unit(x.ended[0][0]), good.Median, bad.Median, noise, change})
	}
	if len(x.ended) == 1 {
		return nil
	}
	// A search follows the clearest change, be it of one case or of all cases together. step is the largest that stands
	// out of the noise, hidden the largest that is worth finding but may be noise; both are logarithms.
	step, hidden := 0.0, 0.0
	for _, c := range append([]Case{{Noise: d.Noise, Change: d.Change}}, d.Cases...) {
		clear := metric.ClearlyDiffer * float64(c.Noise) * math.Sqrt(2.0/launches)
		switch y := math.Log1p(float64(c.Change)); {
		case !(y > metric.EffectMargin*math.Log1p(t.Policy.Judge.Effect)): // or not known
		case y > clear:
			step = max(step, y)
		default:
			hidden = max(hidden, y)
		}
	}
	d.Step = math.Expm1(step)
	switch {
	case step > 0:
		d.Result = Ready
	case hidden > 0:
		d.Result, d.Hidden = Unclear, math.Expm1(hidden)
	}
	return x.slowdown(ctx, d)
}

// levels are the natural logarithms of a number, by end and launch, with the sign that makes larger ones worse. one is
// a case, or "" for the geometric mean over all. Launches that were disturbed are left out, and so are numbers that
// have no logarithm.
func (x *preview) levels(m metric.Metric, one string) (out [][]float64) {
	for _, of := range x.ended {
		var y []float64
		for _, o := range of {
			if v, ok := m.Value(o, one); ok && v > 0 && o.Unfit == "" {
				y = append(y, math.Log(v))
				if m.Higher {
					y[len(y)-1] *= -1
				}
			}
		}
		out = append(out, y)
	}
	return out
}

// scatter is the standard deviation of one launch, pooled over the ends around their medians, and by how much the
// median of the last end is worse than that of the first. ends are logarithms and the results fractions: exp(x) -
// 1. Each end costs one degree of freedom, so with one launch of each the noise is unknown; without a value at both
// ends the change is.
func scatter(ends [][]float64) (noise, change report.Number) {
	squares, n := 0.0, -len(ends)
	middle := make([]float64, len(ends))
	for i, y := range ends {
		middle[i], _ = stats.Median(y) // 0 if there are none; then the loop adds nothing either
		for _, v := range y {
			squares += (v - middle[i]) * (v - middle[i])
		}
		n += len(y)
	}
	noise, change = bisect.Unknown(), bisect.Unknown()
	if n > 0 {
		noise = report.Number(math.Expm1(math.Sqrt(squares / float64(n))))
	}
	if len(ends) == 2 && len(ends[0]) > 0 && len(ends[1]) > 0 {
		change = report.Number(math.Expm1(middle[1] - middle[0]))
	}
	return noise, change
}

// device is a simulated device on which a launch and a build take as long as they did here. Its noise is left to
// the caller. A launch takes 0.001 s at least, or a program that ends at once would cost nothing.
func (x *preview) device() simulate.Spec {
	s := simulate.DefaultSpec()
	s.Commits, s.Trials, s.Noise, s.BuildSeconds = max(2, x.matter), searches, simulate.Noise{Burst: 1}, 0
	good := x.ended[0]
	s.GoodSeconds, s.LaunchSeconds = max(0.001, good[len(good)-1].Wall), max(0.001, good[len(good)-1].Wall)
	for _, of := range x.ended {
		for _, o := range of {
			s.BuildSeconds = max(s.BuildSeconds, o.Build)
		}
	}
	return s
}

// slowdown notes which changes can be found with the noise seen, and what the search costs for the change seen or,
// without one, for the smallest worth finding.
func (x *preview) slowdown(ctx context.Context, d *Document) error {
	spec := x.device()
	const least = 1e-4 // a few launches may agree by chance, and no program is without noise
	spec.Noise.ProcessSD = max(least, math.Log1p(float64(d.Noise)))
	errorRate, wanted := x.session.Policy.Judge.Error, x.session.Policy.Judge.Effect
	// Large changes are found in few launches, so that trying them first takes little time.
	for _, effect := range []float64{1, 0.5, 0.2, 0.10, 0.05, 0.03, 0.02, 0.01, 0.005} {
		out, err := slowdown(ctx, spec, effect, errorRate)
		if err != nil {
			return err
		}
		if d.Finds = append(d.Finds, out); out.Right < certainly {
			break
		}
		d.Findable = effect
	}
	out, err := slowdown(ctx, spec, max(d.Step, d.Hidden, wanted), errorRate)
	d.Cost = &out
	return err
}
