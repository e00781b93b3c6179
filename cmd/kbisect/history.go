package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/render"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

func historyCommand() *cli.Command {
	return &cli.Command{
		Name:  "history",
		Usage: "what has been measured, commit by commit",
		Description: "Gathers the launches of all searches, comparisons and measurements in this repository along the first\n" +
			"parents of HEAD. Values of different devices, commands or caches are never mixed: each has its own table.\n" +
			"Launches of different days compare loosely, since machines drift: kbisect compare launches in turn.",
		OnUsageError: usageError,
		Flags: append(formatFlags(),
			&cli.StringFlag{Name: "metric", Usage: "the `NAME` of the metric: one that launches sent, wall, phase.NAME", DefaultText: "all that were sent, else wall"},
			&cli.StringFlag{Name: "case", Usage: "one case `C`", DefaultText: "the geometric mean over all"},
			&cli.StringFlag{Name: "base", Usage: "compare with the commit `REV`", DefaultText: "the oldest shown"},
			&cli.IntFlag{Name: "limit", Usage: "at most `N` commits, the newest", Value: 30},
			&cli.BoolFlag{Name: "all-commits", Usage: "commits off the first parents of HEAD too, by date", DisableDefaultText: true},
		),
		Action: historyAction,
	}
}

// chronicle gathers what the store holds.
type chronicle struct {
	repo    *source.Repo
	metric  string // "": all that were sent
	one     string // case
	base    string // commit; "": the oldest
	byWay   map[string]*way
	ways    []*way
	failed  map[string]map[string][]bisect.Outcome // by program and commit: these tell neither caches nor, always, devices
	commits map[string]source.Commit
}

// way is one way of measuring: only values of the same way compare.
type way struct {
	program                 string // command and build
	devices, command, build []string
	caches                  string
	higher                  map[string]bool // metrics of which more is better
	launches                map[string][]bisect.Outcome
}

func historyAction(c *cli.Context) error {
	if c.Args().Present() {
		return exit.Usagef("history takes no arguments, not %q\nhint: --metric and --case say what to show, and options stand before arguments", c.Args().Slice())
	}
	if c.Int("limit") < 1 {
		return exit.Usagef("--limit %d: at least one commit is shown", c.Int("limit"))
	}
	if err := readFormats(c).check(); err != nil {
		return err
	}
	repo, err := source.Open(globals(c).dir)
	if err != nil {
		return exit.Usage(err)
	}
	defer repo.Close()
	h := &chronicle{repo: repo, metric: c.String("metric"), one: c.String("case"), byWay: map[string]*way{}, failed: map[string]map[string][]bisect.Outcome{}, commits: map[string]source.Commit{}}
	if rev := c.String("base"); rev != "" {
		if h.base, err = repo.Resolve(rev); err != nil {
			return exit.Usagef("--base: %w", err)
		}
	}
	st, err := openStore(c)
	if err != nil {
		return err
	}
	defer st.Close()
	if err := h.read(st); err != nil {
		return err
	}
	order, err := h.order(c.Bool("all-commits"))
	if err != nil {
		return err
	}
	doc, err := h.document(order, c.Int("limit"))
	if err != nil {
		return err
	}
	if files := readFormats(c); files != (formats{}) {
		err = files.write(&doc, report.Ledger{}, c.App.Writer, sayOn(c))
	}
	if err == nil && (c.Bool("json") || readFormats(c) == formats{}) {
		err = printResult(c.App.Writer, c.Bool("json"), &doc, report.Ledger{}, render.Terminal{Marks: sparks(os.Getenv)})
	}
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	return nil
}

// read takes in the launches of all sessions.
func (h *chronicle) read(st *store.Store) error {
	sessions, err := st.Sessions(0)
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	slices.Reverse(sessions) // oldest first
	for _, s := range sessions {
		launches, err := st.Launches(s.ID)
		if err != nil {
			return exit.With(exit.Machine, err)
		}
		var p policy.Policy // of a session of another version, what it has in common with ours
		if err := json.Unmarshal(s.Config, &p); err != nil {
			continue
		}
		for _, l := range launches {
			var o bisect.Outcome
			if l.Candidate != l.Commit || json.Unmarshal(l.Outcome, &o) != nil { // flags make another program of a commit
				continue
			}
			h.take(p, l.Commit, o)
		}
	}
	return nil
}

// take takes in one launch.
func (h *chronicle) take(p policy.Policy, commit string, o bisect.Outcome) {
	program := fmt.Sprintf("%q %q", p.Plan.Run, p.Plan.Build)
	for _, s := range p.Plan.Stages {
		program += fmt.Sprintf(" %q %s", s.Run, p.Plan.Digest())
	}
	if o.Class != bisect.OK {
		if h.failed[program] == nil {
			h.failed[program] = map[string][]bisect.Outcome{}
		}
		h.failed[program][commit] = append(h.failed[program][commit], o)
		return
	}
	var devices []string
	for _, d := range o.Devices {
		devices = append(devices, d.UUID)
	}
	key := fmt.Sprintf("%s %q %s", program, devices, o.Caches)
	w := h.byWay[key]
	if w == nil {
		w = &way{program: program, devices: devices, command: p.Plan.Run, build: p.Plan.Build, caches: o.Caches, higher: map[string]bool{}, launches: map[string][]bisect.Outcome{}}
		h.byWay[key] = w
		h.ways = append(h.ways, w)
	}
	w.launches[commit] = append(w.launches[commit], o)
	for _, m := range p.Judge.Metrics {
		w.higher[m.Name] = m.Higher
	}
}

// of lists the launches of a commit that a way shows.
func (h *chronicle) of(w *way, commit string) []bisect.Outcome {
	return slices.Concat(w.launches[commit], h.failed[w.program][commit])
}

// order lists the measured commits, oldest first.
func (h *chronicle) order(all bool) ([]string, error) {
	missing := map[string]bool{}
	for _, w := range h.ways {
		for id := range w.launches {
			missing[id] = true
		}
		for id := range h.failed[w.program] {
			missing[id] = true
		}
	}
	var order []string
	id, err := h.repo.Resolve("HEAD")
	if err != nil {
		return nil, exit.Usage(err)
	}
	for id != "" && len(missing) > 0 {
		c, err := h.repo.Commit(id)
		if err != nil {
			return nil, exit.Usage(err)
		}
		if missing[id] {
			delete(missing, id)
			h.commits[id] = c
			order = append(order, id)
		}
		id = append(c.Parents, "")[0]
	}
	slices.Reverse(order)
	if all {
		order = h.merge(order, missing)
	}
	if len(order) == 0 {
		return nil, exit.Usagef("no commit on the first parents of HEAD has a launch that ended well\nhint: kbisect measure does so, and --all-commits shows those of other branches")
	}
	return order, nil
}

// merge adds commits that are not on the first parents of HEAD, by date. Commits that are gone from the
// repository are left out.
func (h *chronicle) merge(order []string, others map[string]bool) []string {
	for id := range others {
		if c, err := h.repo.Commit(id); err == nil {
			h.commits[id] = c
			order = append(order, id)
		}
	}
	slices.SortFunc(order, func(a, b string) int {
		return cmp.Or(h.commits[a].When.Compare(h.commits[b].When), cmp.Compare(a, b))
	})
	return order
}

// document makes a series for every way and metric that has something to show.
func (h *chronicle) document(order []string, limit int) (report.History, error) {
	doc := report.History{Schema: report.HistorySchema, Series: []report.HistorySeries{}, All: len(order)}
	order = order[max(0, len(order)-limit):]
	doc.Shown = len(order)
	var known []string
	for _, w := range h.ways {
		sent := w.sent()
		known = append(known, sent...)
		metrics := []string{h.metric}
		if h.metric == "" {
			metrics = sentMetrics(sent)
		}
		for _, m := range metrics {
			s, values := h.series(w, m, order)
			if values > 0 {
				doc.Series = append(doc.Series, s)
			}
		}
	}
	if len(doc.Series) > 0 {
		return doc, nil
	}
	if h.one != "" {
		return doc, exit.Usagef("no launch gave a value of case %q\nhint: leave out --case", h.one)
	}
	slices.Sort(known)
	return doc, exit.Usage(&compare.UnknownMetricError{Wanted: cmp.Or(h.metric, "anything"), Sent: slices.Compact(known)})
}

// sent lists the metrics that launches of a way gave.
func (w *way) sent() []string {
	var out []string
	for _, all := range w.launches {
		for _, o := range all {
			out = append(out, metric.Sent(o)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sentMetrics are those that programs send, or the wall time where they send none.
func sentMetrics(sent []string) []string {
	own := slices.DeleteFunc(slices.Clone(sent), func(m string) bool { return m == "wall" || strings.HasPrefix(m, "phase.") })
	if len(own) == 0 {
		return []string{"wall"}
	}
	return own
}

// series describes one metric of one way; values is how many commits have one.
func (h *chronicle) series(w *way, name string, order []string) (s report.HistorySeries, values int) {
	m := metric.Metric{Name: name, Higher: w.higher[name]}
	s = report.HistorySeries{
		Devices: append([]string{}, w.devices...), Command: append([]string{}, w.command...), Build: append([]string{}, w.build...),
		Metric: name, Higher: m.Higher, Commits: []report.HistoryCommit{},
	}
	if w.caches != "" {
		s.Caches = &w.caches
	}
	if h.one != "" {
		s.Case = &h.one
	}
	for _, id := range order {
		all := h.of(w, id)
		if len(all) == 0 {
			continue
		}
		x := h.commit(m, id, all, &s.Unit)
		if x.Values.N > 0 {
			values++
		}
		s.Commits = append(s.Commits, x)
	}
	h.ratios(&s, w, m)
	return s, values
}

// commit describes one commit of a series.
func (h *chronicle) commit(m metric.Metric, id string, all []bisect.Outcome, unit *string) report.HistoryCommit {
	c := h.commits[id]
	x := report.HistoryCommit{Commit: id, Subject: c.Subject, Date: c.When.Format(time.RFC3339), Launches: len(all), Failures: []report.Failures{}, Ratio: report.Number(math.NaN())}
	x.Values = session.ReportSummary(compare.Describe(h.values(m, all, unit)))
	for _, o := range all {
		if o.Class != bisect.OK {
			x.Failures = countFailure(x.Failures, *report.NewFailure(&o))
		}
	}
	return x
}

// values are the numbers of the launches that may be compared.
func (h *chronicle) values(m metric.Metric, all []bisect.Outcome, unit *string) []float64 {
	var out []float64
	for _, o := range all {
		if o.Class != bisect.OK || o.Unfit != "" {
			continue
		}
		if v, ok := m.Value(o, h.one); ok {
			out = append(out, v)
			*unit = m.Unit(o)
		}
	}
	return out
}

func countFailure(all []report.Failures, f report.Failure) []report.Failures {
	for i, x := range all {
		if x.Class == f.Class && (x.Phase == nil) == (f.Phase == nil) && (x.Phase == nil || *x.Phase == *f.Phase) {
			all[i].Launches++
			return all
		}
	}
	return append(all, report.Failures{Class: f.Class, Phase: f.Phase, Launches: 1})
}

// ratios compares the medians with that of the base, which need not be among those shown.
func (h *chronicle) ratios(s *report.HistorySeries, w *way, m metric.Metric) {
	base, id := report.Number(math.NaN()), h.base
	if id != "" {
		base = session.ReportSummary(compare.Describe(h.values(m, w.launches[id], &s.Unit))).Median
	} else {
		for _, c := range s.Commits {
			if c.Values.N > 0 {
				base, id = c.Values.Median, c.Commit
				break
			}
		}
	}
	if !base.Known() {
		return
	}
	s.Base = &id
	for i := range s.Commits {
		s.Commits[i].Ratio = s.Commits[i].Values.Median / base
	}
}

// sparks are the marks of a line of values: blocks where the terminal knows them.
func sparks(getenv func(string) string) []rune {
	locale := strings.ToUpper(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	if strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8") {
		return []rune("▁▂▃▄▅▆▇█")
	}
	return []rune("_.-=+*#@")
}
