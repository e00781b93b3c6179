package doctor

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"text/tabwriter"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief"
	"github.com/kbisect/kbisect/bisect/belief/levels"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/preview"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/fixtures/simulate"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// Noise takes a series of launches of one revision and says what it tells about the machine; save receives the
// series as CSV and may be nil.
func Noise(ctx context.Context, e session.Env, rev string, save *os.File) error {
	if n := e.Request.Launches; n < levels.MinExamined {
		return exit.Usagef("--launches %d: %d are needed at least to say anything of noise", n, levels.MinExamined)
	}
	repo, err := source.Open(e.Request.Dir)
	if err != nil {
		return exit.Usage(err)
	}
	defer repo.Close()
	t, err := session.BeginOne(ctx, e, repo, rev, session.Examining)
	if err != nil {
		return err
	}
	defer t.Close()
	return noise(ctx, t, e.Request, save)
}

// noise makes the series and reports on it.
func noise(ctx context.Context, t *session.Session, q *policy.Request, save *os.File) error {
	n := q.Launches
	all, err := session.LaunchAll(ctx, t, n, func(i int, o bisect.Outcome) {
		if i <= 5 || i%5 == 0 || i == n || o.Class != bisect.OK {
			t.Display.Launched(i, n, fmt.Sprintf("launch %-3d %s, %.2f s", i, o.Describe(), o.Wall))
		}
	})
	result, userErr := t.Ended(ctx, err, "at "+wording.Short(t.Policy.Good))
	if userErr != nil {
		return userErr
	}
	s, userErr := newSeries(t.Policy, all)
	if userErr != nil && result == "" {
		return t.Fail(cmp.Or(session.Unmeasured(t), userErr))
	}
	if save != nil {
		if err := s.write(save, t.Policy); err != nil {
			return exit.With(exit.Machine, fmt.Errorf("--save: %w", err))
		}
	}
	code, summary := exit.OK, s.verdict()
	switch {
	case result == store.Interrupted:
		code, summary = exit.Interrupted, "Interrupted; the launches made so far are kept."
	case result == store.Infra:
		code, summary = exit.Machine, "Stopped by machine trouble."
	case len(s.levels) < levels.MinExamined:
		code = exit.Inconclusive
	}
	result = cmp.Or(result, map[int]string{exit.OK: "ok", exit.Inconclusive: store.Inconclusive}[code])
	return t.Conclude(result, summary, code, err, s.document(summary), func() error {
		fmt.Fprintln(t.Output.Stdout, summary)
		if code != exit.OK {
			return s.failures(t.Output.Stdout)
		}
		s.print(t.Output.Stdout)
		return s.outlook(ctx, t.Output.Stdout, t.Policy)
	})
}

// series is a run of launches of one candidate, by one number a launch.
type series struct {
	all     []bisect.Outcome
	metric  metric.Metric
	fit     []bisect.Outcome // whose times may be compared
	levels  []belief.Launch  // of these
	machine levels.Environment
	leftOut compare.Side
}

// newSeries chooses the metric and looks at the series.
func newSeries(p *policy.Policy, all []bisect.Outcome) (*series, error) {
	s := &series{all: all, metric: p.Judge.Metrics[0]}
	for _, o := range all {
		if s.leftOut.Note(o) {
			s.fit = append(s.fit, o)
		}
	}
	if w := p.Fallback(); w != nil && len(s.fit) > 0 {
		if _, ok := s.metric.Value(s.fit[0], ""); !ok {
			s.metric = *w
		}
	}
	better, _ := s.metric.Direction(s.fit...) // noise has none
	s.metric.Higher = better == metric.Higher
	for _, o := range s.fit {
		if v, ok := s.metric.Value(o, ""); ok {
			y := math.Log(v)
			if s.metric.Higher {
				y = -y
			}
			s.levels = append(s.levels, belief.Launch{Index: belief.GoodEnd, At: o.At, Y: y})
		}
	}
	s.machine = levels.Examine(s.levels)
	if len(s.fit) > 0 && len(s.levels) == 0 {
		return s, exit.Usage(&compare.UnknownMetricError{Wanted: s.metric.Name, Sent: metric.Sent(s.fit[0])})
	}
	return s, nil
}

// verdict is the state of the machine in a sentence.
func (s *series) verdict() string {
	e := s.machine
	switch {
	case s.leftOut.Counted == 0 && s.leftOut.Failure != nil:
		return "It fails, so that there is nothing to say of noise: " + s.leftOut.Failure.Describe() + "."
	case len(s.levels) < levels.MinExamined:
		return fmt.Sprintf("Only %d of %d launches gave a number that can be compared; %d are needed.", len(s.levels), len(s.all), levels.MinExamined)
	case e.Scattered() || e.Troubled() || e.Drifting():
		return fmt.Sprintf("Noisy: %s of one launch differs from the next by %s (standard deviation).", s.metric.Name, words.Percent(e.Spread))
	}
	return fmt.Sprintf("Fit to measure on: %s of one launch differs from the next by %s (standard deviation).", s.metric.Name, words.Percent(e.Spread))
}

// noiseDocument is a series as it is kept with its session.
type noiseDocument struct {
	Schema    string        `json:"schema"`
	Verdict   string        `json:"verdict"`
	Metric    string        `json:"metric"`
	Launches  int           `json:"launches"`
	Spread    report.Number `json:"spread"`
	Disturbed int           `json:"disturbed"`
	Excess    report.Number `json:"excess"`
	Neumann   report.Number `json:"von_neumann_ratio"`
	Mode      report.Number `json:"mode_offset"`
	ModeShare report.Number `json:"mode_share"`
}

func (s *series) document(verdict string) noiseDocument {
	e := s.machine
	return noiseDocument{
		"kbisect.noise/1", verdict, s.metric.Name, e.Launches, report.Number(e.Spread), e.Disturbed,
		report.Number(math.Expm1(e.Excess)), report.Number(e.Neumann), report.Number(math.Expm1(e.Noise.Mode)), report.Number(e.Noise.Share),
	}
}

// failures says how launches ended that gave no number.
func (s *series) failures(w io.Writer) error {
	for _, l := range s.leftOut.Left {
		fmt.Fprintf(w, "  %d left out: %s\n", l.N, words.Printable(l.Why))
	}
	return nil
}

// print shows the series and the environment check.
func (s *series) print(w io.Writer) {
	e := s.machine
	var values []float64
	for _, o := range s.fit {
		if v, ok := s.metric.Value(o, ""); ok {
			values = append(values, v)
		}
	}
	d := compare.Describe(values)
	fmt.Fprintf(w, "\n  %s  %s, %d launches\n", s.metric.Name, d.Words(s.metric.Unit(s.fit[0])), len(values))
	s.failures(w)
	for _, m := range s.leftOut.Marked {
		fmt.Fprintf(w, "  %d counted although %s\n", m.N, words.Printable(m.Why))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, x := range s.checks() {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", x.finding.State, x.name, x.finding.Found)
		if x.finding.Hint != "" {
			fmt.Fprintf(t, "  \t\thint: %s\n", x.finding.Hint)
		}
	}
	t.Flush()
	if e.TwoModes() {
		fmt.Fprintf(w, "  launches fall into two modes, %s apart, %.0f %% into the slower: memory placement or clocks differ from process to process\n",
			words.Percent(math.Expm1(e.Noise.Mode)), 100*e.Noise.Share)
	}
}

// named is one line of a table of checks.
type named struct {
	name    string
	finding Finding
}

// checks is the environment check in words.
func (s *series) checks() []named {
	e := s.machine
	scatter := passed("%s from launch to launch", words.Percent(e.Spread))
	if e.Scattered() {
		scatter = broken(scatter.Found+", more than 1.5 %", "lock the clocks (nvidia-smi -lgc), let the program run longer or take more samples, pin it to processors")
	}
	disturbed := passed("%d of %d launches", e.Disturbed, e.Launches)
	if e.Disturbed > 0 {
		disturbed.Found += fmt.Sprintf(", slower by %s on average, %.1f in a row", words.Percent(math.Expm1(e.Excess)), e.Burst)
	}
	if e.Troubled() {
		disturbed = broken(disturbed.Found, "something else runs on this machine now and then: look for other processes, on the device and beside it")
	}
	drift := passed("von Neumann ratio %.2f, where 1 is none", e.Neumann)
	if e.Drifting() {
		drift = broken(drift.Found, "the level moves slowly, as clocks and temperatures do: warm the device up first, lock its clocks; kbisect launches in turn, so that drift costs launches rather than truth")
	}
	return []named{{"spread", scatter}, {"disturbed", disturbed}, {"drift", drift}}
}

// Simulated searches by which the outlook is made.
const (
	outlookCommits = 64
	outlookTrials  = 20
)

// outlook says what effects a search could find here, by simulating searches with the noise of the series.
func (s *series) outlook(ctx context.Context, w io.Writer, p *policy.Policy) error {
	fmt.Fprintf(w, "\nWhat a search of %d commits finds with this noise, in %d simulated searches for each effect\n", outlookCommits, outlookTrials)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "effect\tfound\twrong\tlaunches\tminutes\t")
	spec := s.spec()
	for _, effect := range []float64{0.10, 0.05, 0.03, 0.02, 0.01, 0.005} {
		score, err := preview.Slowdown(ctx, spec, effect, p.Judge.Error)
		if err != nil {
			return err
		}
		fmt.Fprintf(t, "%s\t%.0f %%\t%.0f %%\t%.0f\t%.2g\t\n", words.Percent(effect), 100*score.Right, 100*score.Wrong, score.Launches, score.Seconds/60)
		if score.Right < 0.5 {
			break // what is smaller is not found either
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	builds := fmt.Sprintf("builds of %.3g s", spec.BuildSeconds)
	if spec.BuildSeconds == 0 {
		builds = "without builds: none was made here"
	}
	fmt.Fprintf(w, "  with [judge] effect set to the effect; at most %d launches of %.3g s each; %s\n", preview.MostLaunches, spec.GoodSeconds, builds)
	return nil
}

// spec is a simulated device with the noise of the series.
func (s *series) spec() simulate.Spec {
	e := s.machine
	spec := simulate.DefaultSpec()
	spec.Commits, spec.Trials = outlookCommits, outlookTrials
	// The build that took longest counts: those that came from the cache say nothing of what a search pays.
	spec.GoodSeconds, spec.LaunchSeconds, spec.BuildSeconds = s.seconds()
	const tau = 300    // the model's drift is a random walk; over times of this order a machine comes back
	const known = 0.06 // the widest spread that the model of a search knows
	spec.Noise = simulate.Noise{
		ProcessSD: e.Noise.SD, DriftSD: math.Sqrt(e.Noise.Rate * tau / 2), DriftTau: tau,
		Contaminated: float64(e.Disturbed) / float64(e.Launches), ContaminatedMean: e.Excess, Burst: max(1, e.Burst),
	}
	switch {
	case e.Spread > known:
		spec.Noise.ProcessSD = e.Spread
	case e.TwoModes():
		spec.Noise.Modes = []simulate.Mode{{P: e.Noise.Share, Log: e.Noise.Mode}}
	}
	return spec
}

// seconds are those of a launch, of its part that does not depend on what is measured, and of a build.
func (s *series) seconds() (launch, fixed, build float64) {
	var walls, before []float64
	for _, o := range s.fit {
		walls = append(walls, o.Wall)
		rest := o.Wall
		for _, ph := range o.Phases {
			if ph.Name == "measure" {
				rest -= ph.Seconds
			}
		}
		before = append(before, max(0, rest))
	}
	for _, o := range s.all {
		build = max(build, o.Build)
	}
	launch = max(0.001, float64(compare.Describe(walls).Median))
	return launch, min(launch, float64(compare.Describe(before).Median)), build
}

// write saves the series: one line for each number of a launch, the median of its samples.
func (s *series) write(f *os.File, p *policy.Policy) error {
	w := csv.NewWriter(f)
	if err := w.Write([]string{"index", "at_s", "seconds_wall", "metric", "case", "value"}); err != nil {
		return err
	}
	float := func(v float64) string { return strconv.FormatFloat(v, 'g', 10, 64) }
	for i, o := range s.all {
		if o.Class != bisect.OK || o.Unfit != "" {
			continue
		}
		of := session.ByNumber([]bisect.Outcome{o})
		for _, n := range append(session.Numbers([]bisect.Outcome{o}, ""), session.Number{Metric: "wall", One: ""}) {
			m := p.Metric(n.Metric)
			v, known := m.Value(of(n)[0], "")
			if !known {
				continue
			}
			if err := w.Write([]string{strconv.Itoa(i), float(o.At), float(o.Wall), n.Metric, n.One, float(v)}); err != nil {
				return err
			}
		}
	}
	w.Flush()
	return w.Error()
}
