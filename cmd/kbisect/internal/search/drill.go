package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/sets"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/fileaccess"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/hunks"
)

// drill finds what in the culprits is to blame: their hunks, and the flags that they switch on. It takes at most as
// long as the search itself, or two minutes.
func (s *Search) drill(ctx context.Context, f *bisect.Finding) {
	const most = 3 // culprits
	// The commit is what was asked for. What comes on top of it must not cost more than the answer itself.
	limit, first := max(2*time.Minute, s.session.Elapsed()), len(s.session.Launches)
	s.session.Late = func() bool {
		made := s.session.Launches[first:]
		return len(made) > 0 && s.session.Elapsed().Seconds()-made[0].Outcome.At > limit.Seconds()
	}
	defer func() { s.session.Late = nil }()
	for i, c := range f.Culprits {
		if i == most || f.Err != nil || ctx.Err() != nil {
			return
		}
		if why := notDrilled(c); why != "" {
			f.Warnings = append(f.Warnings, fmt.Sprintf("the hunks of %s were not searched: %s", bisect.ShortID(c.Commit), why))
			continue
		}
		if err := s.drillHunks(ctx, c, !f.Misread); err != nil {
			f.Warnings = append(f.Warnings, fmt.Sprintf("the hunks of %s were not searched completely: %s", bisect.ShortID(c.Commit), wording.Headline(err.Error())))
		}
		if err := s.switches(ctx, c); err != nil {
			f.Warnings = append(f.Warnings, fmt.Sprintf("the flags of %s were not all tried: %s", bisect.ShortID(c.Commit), wording.Headline(err.Error())))
		}
	}
}

// notDrilled says why the hunks of a culprit are not searched; "" if they are. The text completes "the hunks of X were
// not searched: …".
func notDrilled(c bisect.Culprit) string {
	switch {
	case !c.Confirmed:
		return "it is not confirmed"
	case c.Merge:
		return "it is a merge"
	// Each part would take as many launches as a parent in the proof: whether that is worth it, the user decides.
	case c.Rate != nil:
		return "it fails in some launches only\nhint: kbisect run --axis hunks --commit " + bisect.ShortID(c.Commit)
	case c.Class == bisect.Improved:
		return "it is an improvement"
	case c.Class == bisect.BuildFailed:
		return "it does not build, and parts of it would not either"
	case len(c.Parents) == 0:
		return "it has no parent"
	}
	return ""
}

// drillHunks searches the hunks of one culprit. With learn it first tries only those in files that the culprit or
// its parent has opened; if none of these is to blame, it tries all. A slow commit with a single hunk needs no
// test, since the launches that confirmed it show the effect.
func (s *Search) drillHunks(ctx context.Context, c bisect.Culprit, learn bool) error {
	diff, err := hunks.Of(ctx, s.session.Repo, c.Commit, s.session.Policy.Paths)
	if err != nil {
		return err
	}
	if len(diff.Hunks) == 0 {
		return errors.New("it changes no file below the paths")
	}
	if len(diff.Hunks) == 1 && c.Class == bisect.Slow {
		s.hunks[c.Commit] = []report.Hunk{shown(diff.Hunks[0], sets.Culprit)}
		return nil
	}
	if paths := openedPaths(s.session, c, diff); learn && len(paths) > 0 {
		read, err := hunks.Of(ctx, s.session.Repo, c.Commit, paths)
		if err != nil {
			return err
		}
		if n := len(diff.Hunks) - len(read.Hunks); n > 0 {
			err := s.searchHunks(ctx, c, read)
			if err == nil {
				s.unread += n
			}
			if err == nil || s.session.Spent() {
				return err
			}
		}
	}
	return s.searchHunks(ctx, c, diff)
}

// searchHunks searches some hunks of a culprit and keeps those that are to blame. An error says why there are none.
func (s *Search) searchHunks(ctx context.Context, c bisect.Culprit, diff *hunks.Diff) error {
	search := newSetSearch(s.session)
	// A part of a commit often fails a phase earlier than the whole of it, and is to blame all the same.
	search.options.Find, search.options.Phase = c.Class, ""
	// The ends of this search are the culprit and its parent, which the confirmation has just launched. Times are an
	// exception: they compare only beside launches of the same minutes.
	sampler := bisect.Sampler(s.session.Memory)
	if c.Class != bisect.Slow {
		sampler = newEvidence(s.session, c.Parents[0], c.Commit)
	}
	f, err := search.hunks(ctx, diff, sets.One, sampler)
	if err == nil {
		err = f.Err
	}
	if err != nil {
		return err
	}
	if len(search.found.Minimal) == 0 {
		switch {
		case s.session.Late():
			return errors.New("it would take longer than the search itself")
		case s.session.Spent():
			return bisect.ErrSpent
		}
		return errors.New(cmp.Or(f.Ends.Why, "no part of it could be certified"))
	}
	s.hunks[c.Commit] = search.found.Guilty(search.found.Minimal[0])
	return nil
}

// blameHunks makes the bad end the culprit of a search for hunks, with the hunks that are to blame. Unconfirmed,
// its confidence is halved.
func (s *Search) blameHunks(f *bisect.Finding, found *report.Sets) {
	if found == nil || len(found.Minimal) == 0 {
		return
	}
	c := bisect.Culprit{Commit: s.session.Policy.Bad, Parents: []string{s.session.Policy.Good}, Class: f.Complaint.Class, Phase: f.Complaint.Phase, Effect: f.Complaint.Ends}
	for _, g := range found.Minimal {
		c.Confirmed = c.Confirmed || g.Verified
		s.hunks[c.Commit] = append(s.hunks[c.Commit], found.Guilty(g)...)
	}
	// A search for hunks has no belief about commits: a verified set is as sure as its tests were asked to be.
	c.Confidence = 1 - s.session.Policy.Judge.Error
	if !c.Confirmed {
		c.Confidence /= 2
	}
	f.Culprits = []bisect.Culprit{c}
}

// switches finds the flag that a culprit switches on: with the flag at its base the culprit passes, and with the flag
// set the parent fails. If only the first holds, that is what is reported. Only the first such flag is named. Slowdowns
// and failures of the build are left out.
func (s *Search) switches(ctx context.Context, c bisect.Culprit) error {
	if len(s.session.Policy.Flags) == 0 || c.Class == bisect.Slow || c.Class == bisect.Improved || c.Class == bisect.BuildFailed {
		return nil
	}
	complaint := bisect.Complaint{Class: c.Class, Phase: c.Phase}
	ask := func(commit, assign string) (bisect.Outcome, error) {
		r := bisect.Request{Candidate: bisect.Candidate{Commit: commit, Assign: assign}, Purpose: session.Switching}
		if c.Class == bisect.Timeout { // ends as soon as no good run could still be in that phase
			r.Hurry = c.Phase
		}
		return s.session.Memory.Sample(ctx, r)
	}
	space, err := config.FlagSpace(s.session.Policy.Flags)
	if err != nil {
		return err
	}
	o, err := ask(c.Commit, space.Text(nil))
	if err != nil || o.Class != bisect.OK {
		return err // it fails with all flags off, too: they are not the cause
	}
	// One at a time, with the others as the commit has them, since a commit seldom switches on more than one.
	for _, f := range s.session.Policy.Flags {
		off, err := ask(c.Commit, f.Name+"="+f.Values[0])
		if err != nil || s.session.Spent() {
			return err
		}
		if off.Class != bisect.OK {
			continue
		}
		words := fmt.Sprintf("with %s=%s it passes", f.Name, f.Values[0])
		bad := cmp.Or(f.Bad, f.Values[len(f.Values)-1])
		if on, err := ask(c.Parents[0], f.Name+"="+bad); err == nil && complaint.Matches(on) {
			words = fmt.Sprintf("it switches %s on: with %s=%s it passes, and its parent with %s=%s fails", f.Name, f.Name, f.Values[0], f.Name, bad)
		}
		s.switched[c.Commit] = words
		return nil
	}
	return nil
}

// openedPaths lists the files of a difference that builds and launches of a culprit or its parent have opened, or
// whose existence they depend on; nil unless that is known of both.
func openedPaths(s *session.Session, c bisect.Culprit, diff *hunks.Diff) (out []string) {
	var opened [2][]string
	for _, l := range s.Launches {
		for k, commit := range []string{c.Commit, c.Parents[0]} {
			if l.Candidate == (bisect.Candidate{Commit: commit}) && l.Outcome.Opened != nil {
				opened[k] = append(opened[k], l.Outcome.Opened...)
			}
		}
	}
	if opened[0] == nil || opened[1] == nil {
		return nil
	}
	set, within := fileaccess.NewOpened(opened[:]...), map[string]bool{}
	// A file that was renamed counts by either name: the parent opens the old one, the culprit the new one.
	for _, h := range diff.Hunks {
		within[h.File], within[h.OldFile] = true, true
	}
	both, err := source.CompareTrees(context.Background(), s.Repo, c.Parents[0], c.Commit)
	if err != nil {
		return nil
	}
	for _, change := range both.Changes {
		if within[change.Path] && set.Difference(change) != bisect.Same {
			out = append(out, change.Path)
		}
	}
	return out
}
