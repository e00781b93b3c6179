package past

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// HistoryRequest says which part of the store a history shows.
type HistoryRequest struct {
	Metric string // "": all that programs sent
	Case   string // "": the geometric mean over all
	Base   string // commit that the others are compared with; "": the oldest shown
	All    bool   // include commits that are not on the first parents of HEAD
	Limit  int    // show at most this many commits, the newest
}

// ReadHistory gathers the launches of all sessions by commit, oldest first. Values from different devices, commands
// or caches are never mixed: each way of measuring has its own series. It is a usage error if there is nothing to
// show, and the machine's if the store cannot be read.
func ReadHistory(ctx context.Context, repo *source.Repo, st *store.Store, want HistoryRequest) (report.History, error) {
	h := &history{repo: repo, want: want, byWay: map[string]*way{}, failed: map[string]map[string][]bisect.Outcome{}, commits: map[string]source.Commit{}}
	if err := h.read(st); err != nil {
		return report.History{}, err
	}
	order, err := h.order(ctx, want.All)
	if err != nil {
		return report.History{}, err
	}
	return h.document(order, want.Limit)
}

// history gathers what the store holds; it is made for one request.
type history struct {
	repo    *source.Repo
	want    HistoryRequest
	byWay   map[string]*way                        // by program, devices and caches
	ways    []*way                                 // the same, in the order in which they first appear
	failed  map[string]map[string][]bisect.Outcome // launches that failed, by program and commit; see of
	commits map[string]source.Commit
}

// way is one way of measuring. Only values of the same way can be compared.
type way struct {
	program                 string // build, command and, for stages, the digest of the plan
	devices, command, build []string
	caches                  string
	metrics                 map[string]metric.Metric    // by name, as the newest session configured them
	launches                map[string][]bisect.Outcome // those that ended well, by commit
}

// read takes in the launches of all sessions, oldest first. Sessions and launches that another version wrote and
// this one cannot read are skipped: a history of the rest is still useful.
func (h *history) read(st *store.Store) error {
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
			// A candidate with flags is another program than its commit, and a launch taken over from another session
			// (From) is counted there.
			if l.Candidate != l.Commit || json.Unmarshal(l.Outcome, &o) != nil || o.From != "" {
				continue
			}
			h.take(p, l.Commit, o)
		}
	}
	return nil
}

// take takes in one launch of a commit, made under the policy of its session. The newest session comes last, so that
// its idea of a metric, such as which direction is better, holds for all launches.
func (h *history) take(p policy.Policy, commit string, o bisect.Outcome) {
	// Stages of different KernelBot problems have the same commands; the plan's digest has the files that differ.
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
		w = &way{program: program, devices: devices, command: p.Plan.Run, build: p.Plan.Build, caches: o.Caches, metrics: map[string]metric.Metric{}, launches: map[string][]bisect.Outcome{}}
		h.byWay[key] = w
		h.ways = append(h.ways, w)
	}
	w.launches[commit] = append(w.launches[commit], o)
	for _, m := range p.Judge.Metrics {
		w.metrics[m.Name] = m
	}
}

// of lists the launches of a commit that a way shows. Failed ones are shown with every way of their program,
// because a failed launch does not say which caches it used and not always on which device it ran.
func (h *history) of(w *way, commit string) []bisect.Outcome {
	return slices.Concat(w.launches[commit], h.failed[w.program][commit])
}

// order lists the measured commits, oldest first: those on the first parents of HEAD, or all of them by date. On the
// first parents dates do not count, since a rebase or a wrong clock can turn them around.
func (h *history) order(ctx context.Context, all bool) ([]string, error) {
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
	id, err := source.Head(h.repo)
	if err != nil {
		return nil, exit.Usage(err)
	}
	// The walk ends as soon as every measured commit has been met, or it would read the whole history.
	for id != "" && len(missing) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
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
		return nil, exit.Usagef("no commit on the first parents of HEAD has a launch that passed\nhint: kbisect measure makes one, and --all-commits shows those of other branches")
	}
	return order, nil
}

// merge adds commits that are not on the first parents of HEAD and sorts all by date, then id. Commits that the
// repository no longer has are left out.
func (h *history) merge(order []string, others map[string]bool) []string {
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

// document makes a series for every way and metric that has something to show among the newest limit commits of
// order.
func (h *history) document(order []string, limit int) (report.History, error) {
	doc := report.History{Schema: report.HistorySchema, Series: []report.HistorySeries{}, All: len(order)}
	// order has the oldest first, so that the newest are at its end.
	order = order[max(0, len(order)-limit):]
	doc.Shown = len(order)
	var known []string
	for _, w := range h.ways {
		sent := w.sent()
		known = append(known, sent...)
		metrics := []string{h.want.Metric}
		if h.want.Metric == "" {
			metrics = sentMetrics(sent)
		}
		for _, m := range metrics {
			s, values := h.series(w, m, order)
			if values > 0 {
				doc.Series = append(doc.Series, s)
			}
		}
	}
	report.Complete(&doc, report.Ledger{})
	if len(doc.Series) > 0 {
		return doc, nil
	}
	// A case that no program sent leaves every series empty, whatever the metric.
	if h.want.Case != "" {
		return doc, exit.Usagef("no launch gave a value of case %q\nhint: leave out --case", h.want.Case)
	}
	slices.Sort(known)
	return doc, exit.Usage(&compare.UnknownMetricError{Wanted: cmp.Or(h.want.Metric, "anything"), Sent: slices.Compact(known)})
}

// sent lists the metrics that launches of a way gave, sorted.
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

// sentMetrics are those that the programs themselves send or, if they send none, the wall time. kbisect takes wall and
// phase times of every program, so that they would be in every history.
func sentMetrics(sent []string) []string {
	own := slices.DeleteFunc(slices.Clone(sent), func(m string) bool { return metric.Metric{Name: m}.OfProcess() })
	if len(own) == 0 {
		return []string{"wall"}
	}
	return own
}

// series describes one metric of one way; values is how many commits have a value. A commit with launches but without
// a value is listed too, so that its failures can be seen.
func (h *history) series(w *way, name string, order []string) (s report.HistorySeries, values int) {
	m := w.metrics[name]
	m.Name = name
	better, _ := m.Direction(slices.Concat(slices.Collect(maps.Values(w.launches))...)...) // unknown is an answer here
	m.Higher = better == metric.Higher
	s = report.HistorySeries{
		Devices: append([]string{}, w.devices...), Command: append([]string{}, w.command...), Build: append([]string{}, w.build...),
		Metric: name, Higher: m.Higher, Better: string(better), Commits: []report.HistoryCommit{},
	}
	if w.caches != "" {
		s.Caches = &w.caches
	}
	if h.want.Case != "" {
		s.Case = &h.want.Case
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

// commit describes one commit of a series from all its launches. It sets unit to the unit of its values, if there are
// any; the ratio is set later, when the base is known.
func (h *history) commit(m metric.Metric, id string, all []bisect.Outcome, unit *string) report.HistoryCommit {
	c := h.commits[id]
	x := report.HistoryCommit{Commit: id, Subject: c.Subject, Date: c.When.Format(time.RFC3339), Launches: len(all), Failures: []report.Failures{}, Ratio: report.Number(math.NaN())}
	x.Values = compare.Describe(h.values(m, all, unit))
	for _, o := range all {
		if o.Class != bisect.OK {
			x.Failures = countFailure(x.Failures, *report.NewFailure(&o))
		}
	}
	return x
}

// values are one number for each launch that may be compared, that is, one that ended well, was not disturbed and gave
// the number. They set unit.
func (h *history) values(m metric.Metric, all []bisect.Outcome, unit *string) []float64 {
	var out []float64
	for _, o := range all {
		if o.Class != bisect.OK || o.Unfit != "" {
			continue
		}
		if v, ok := m.Value(o, h.want.Case); ok {
			out = append(out, v)
			*unit = m.Unit(o)
		}
	}
	return out
}

// countFailure counts a failure among those that ended in the same way, which is by class and phase: their words may
// differ from launch to launch.
func countFailure(all []report.Failures, f report.Failure) []report.Failures {
	for i, x := range all {
		if x.Class == f.Class && (x.Phase == nil) == (f.Phase == nil) && (x.Phase == nil || *x.Phase == *f.Phase) {
			all[i].Launches++
			return all
		}
	}
	return append(all, report.Failures{Class: f.Class, Phase: f.Phase, Launches: 1})
}

// ratios sets each commit's ratio of its median to that of the base, which need not be among those shown: a larger
// one is worse only if lower values are better. If no base was asked for, it is the oldest commit shown that has a
// value. Without a value of the base there are no ratios.
func (h *history) ratios(s *report.HistorySeries, w *way, m metric.Metric) {
	base, id := report.Number(math.NaN()), h.want.Base
	if id != "" {
		base = compare.Describe(h.values(m, w.launches[id], &s.Unit)).Median
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
