package gate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	bisectsearch "github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/search"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/memory"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/hunks"
)

// blame finds the commit of the branch that introduced a regression: without a launch if only one commit can have done
// so, else, with --bisect, by a search that reuses the launches of the gate. Both results are nil if nobody asked for
// a search. What goes wrong here is reported in the document and is not an error: the gate has found a regression even
// if no commit can be named.
func blame(ctx context.Context, t *session.Session, x request, got compare.Result) (*report.GateCulprit, *report.GateSearch) {
	rng, err := t.Repo.Range(ctx, x.base, x.head, t.Policy.RangeOptions())
	if err != nil {
		return nil, &report.GateSearch{Result: bisect.Broken, Why: err.Error(), Suspects: []report.Candidate{}}
	}
	t.Range = rng
	if id, ok := onlyChange(rng, func(id string) (string, error) { return t.Repo.Key(id, t.Policy.Paths) }); ok {
		c := culpritOf(ctx, t, x, bisect.Culprit{Commit: id, Class: got.Class})
		c.Only = true
		return c, nil
	}
	if !x.bisect {
		return nil, nil
	}
	s := search.Of(t, aim(t, got))
	f, err := s.History(ctx)
	switch {
	case err != nil:
		return nil, &report.GateSearch{Result: bisect.Broken, Why: err.Error(), Suspects: []report.Candidate{}}
	case f.Result == bisect.Found:
		c := culpritOf(ctx, t, x, f.Culprits[0])
		c.Confidence, c.Confirmed, c.Effect = &f.Culprits[0].Confidence, f.Culprits[0].Confirmed, f.Culprits[0].Effect
		if e := c.Effect; e != nil && e.Case == "" {
			e.Case = onlyCase(got, e.Metric)
		}
		return c, searchOf(s, t, f)
	}
	return nil, searchOf(s, t, f)
}

// onlyCase is the case of a metric that alone is worse; "" if there are several, or if all cases together are worse.
// The filter of aim hid all other cases from the search, so the effect that it reports is that of this case.
func onlyCase(got compare.Result, metric string) (one string) {
	for _, k := range got.Contrasts {
		switch {
		case k.Answer != compare.Worse || k.Metric.Name != metric:
		case one != "" || k.Case == "":
			return ""
		default:
			one = k.Case
		}
	}
	return one
}

// aim returns the options of the search for what the gate found: the failure, or the numbers that are worse. It also
// replaces the session's memory by one that hides all other numbers: accepted ones are worse as well, but perhaps
// because of another commit, and the search would find that one.
func aim(t *session.Session, got compare.Result) (o bisectsearch.Options) {
	o = t.Policy.Judge
	if o.Find, o.Phase = got.Class, ""; got.ByClass {
		if got.Class == bisect.Timeout {
			o.Phase = got.Phase
		}
		return o
	}
	o.Find, o.Metrics = bisect.Slow, nil
	for _, k := range got.Contrasts {
		if k.Answer == compare.Worse && !slices.Contains(o.Metrics, k.Metric) {
			o.Metrics = append(o.Metrics, k.Metric)
		}
	}
	worse := func(metric, one string) bool {
		return slices.ContainsFunc(got.Contrasts, func(k compare.Contrast) bool {
			return k.Answer == compare.Worse && k.About(metric, one)
		})
	}
	// The launches of the gate are remembered below the filter, so that the search finds those of both ends. The
	// series are cloned first, since the memory below shares the outcome.
	below := t.Memory
	t.Memory = &memory.Sampler{Next: bisect.SamplerFunc(func(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
		o, err := below.Sample(ctx, r)
		o.Series = slices.DeleteFunc(slices.Clone(o.Series), func(x bisect.Series) bool { return !worse(x.Metric, x.Case) })
		return o, err
	})}
	return o
}

// onlyChange is the one commit of a range that has the inputs of the bad end while all of its parents have those of
// the good end. If there is exactly one, no search is needed: every commit before it builds and runs like the good
// end, and every commit after it like the bad one. key returns the digest of a commit's inputs.
func onlyChange(rng *source.Range, key func(id string) (string, error)) (string, bool) {
	bad := rng.Commits[len(rng.Commits)-1].Key
	found := ""
	for _, c := range rng.Commits {
		if c.Neutral || c.Key != bad {
			continue
		}
		before := true
		for _, p := range c.Parents {
			k, err := key(p)
			before = before && err == nil && k == rng.GoodKey
		}
		if !before || len(c.Parents) == 0 {
			continue
		}
		if found != "" {
			return "", false
		}
		found = c.ID
	}
	return found, found != ""
}

// culpritOf describes a culprit for the document, with the lines that it changed.
func culpritOf(ctx context.Context, t *session.Session, x request, c bisect.Culprit) *report.GateCulprit {
	info := session.NameCandidate(t, "", c.Commit)
	return &report.GateCulprit{
		Commit: c.Commit, Subject: info.Subject, Author: info.Author, Date: info.Date,
		Class: cmp.Or(c.Class, bisect.Slow), Places: places(ctx, t, c.Commit, x.head),
	}
}

// searchOf says how a search ended and which commits it left as suspects.
func searchOf(by *search.Search, t *session.Session, f bisect.Finding) *report.GateSearch {
	s := &report.GateSearch{Result: f.Result, Why: report.NewSearch(by.Input(f)).Headline, Suspects: []report.Candidate{}}
	switch {
	case f.Result == bisect.Found:
	case f.Result == bisect.NoDifference:
		s.Why = "the search found no difference between the ends: " + f.Ends.Why
	case f.Err != nil:
		s.Why = f.Err.Error()
	case f.Spent:
		s.Why = fmt.Sprintf("budget used up; %s left", words.Count(len(f.Suspects), "commit"))
	}
	for _, x := range f.Suspects {
		s.Suspects = append(s.Suspects, session.NameCandidate(t, "", x.Commit))
	}
	return s
}

// places are the lines that a commit changed, at their places in HEAD, the largest change first. A place that a
// later commit of the branch has removed is left out, since an annotation there would point at other code. If the
// lines cannot be found, that is a warning: the culprit is named all the same.
func places(ctx context.Context, t *session.Session, commit, head string) []report.Place {
	out := []report.Place{}
	d, err := hunks.Of(ctx, t.Repo, commit, t.Policy.Paths)
	if err != nil {
		t.Display.Warn(fmt.Sprintf("finding the lines that %s changed: %v", bisect.ShortID(commit), err))
		return out
	}
	// The culprit's lines have the numbers of its own version of the file; reports show those of HEAD.
	for _, p := range hunkPlaces(d.Hunks) {
		if commit != head {
			later, err := hunks.Between(ctx, t.Repo, commit, head, []string{p.File})
			if err != nil {
				continue
			}
			var ok bool
			if p, ok = moved(p, later.Hunks); !ok {
				continue
			}
		}
		out = append(out, p)
	}
	return out
}

// changed are the lines that the whole branch changed, the largest change first. It is empty, never nil, if they cannot
// be found: the gate has its result without them.
func changed(ctx context.Context, t *session.Session, base, head string) []report.Place {
	d, err := hunks.Between(ctx, t.Repo, base, head, t.Policy.Paths)
	if err != nil {
		return []report.Place{}
	}
	return append([]report.Place{}, hunkPlaces(d.Hunks)...)
}

// mostPlaces bounds how many places a report holds; the smallest changes are dropped.
const mostPlaces = 20

// hunkPlaces are the lines that hunks leave behind in the new file, counted from 1, the largest change first. The
// file of accepted regressions is left out: it records the change and cannot be its cause.
func hunkPlaces(list []hunks.Hunk) []report.Place {
	list = slices.DeleteFunc(slices.Clone(list), func(h hunks.Hunk) bool { return h.Kind == hunks.Deleted || h.File == config.AcceptedName })
	slices.SortStableFunc(list, func(a, b hunks.Hunk) int {
		return cmp.Compare(b.NewLines+b.OldLines, a.NewLines+a.OldLines)
	})
	var out []report.Place
	for _, h := range list[:min(len(list), mostPlaces)] {
		start := max(1, h.NewStart) // where lines were only removed, the one before
		out = append(out, report.Place{File: h.File, Start: start, End: max(start, h.NewStart+h.NewLines-1)})
	}
	return out
}

// moved follows a place through later changes of its file. Changes that lie wholly before it shift it; others, also
// those inside it, leave it where it is. ok is false once the file is deleted, renamed or becomes a symbolic link.
func moved(p report.Place, later []hunks.Hunk) (at report.Place, ok bool) {
	shift := 0
	for _, h := range later {
		switch {
		case h.File != p.File && h.OldFile != p.File:
		case h.Kind == hunks.Deleted || h.Kind == hunks.Renamed || h.Kind == hunks.Type:
			return p, false
		case h.Kind == hunks.Block && h.OldStart+max(h.OldLines-1, 0) < p.Start:
			shift += h.NewLines - h.OldLines
		}
	}
	p.Start, p.End = p.Start+shift, p.End+shift
	return p, true
}
