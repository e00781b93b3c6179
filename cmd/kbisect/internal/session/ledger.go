package session

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/pipeline/memory"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/hunks"
	"github.com/kbisect/kbisect/pipeline/stopwatch"
	"github.com/kbisect/kbisect/pipeline/store"
)

// remember loads the launches of earlier attempts of this session. What they taught the pipelines when they were
// made, such as how long the good end takes, they teach them again, or limits would differ after a resume.
func (s *Session) remember() error {
	var err error
	if s.stored, err = KeptLaunches(s.Store, s.Record.ID); err != nil {
		return &bisect.InfraError{What: "reading the store", Err: err}
	}
	known := map[bisect.TrialID][]bisect.Outcome{}
	lame := endedAtGoodEnd(s.Record.Status, s.stored)
	for _, l := range s.stored {
		if lame && l.Purpose.IsEnd() {
			continue // the user may have repaired what made it fail
		}
		known[l.ID()] = append(known[l.ID()], l.Outcome)
		learn(s, bisect.Request{
			Candidate: l.Candidate, Purpose: l.Purpose, Nth: l.Nth, Timing: l.Outcome.Timed, BuildOnly: s.Policy.Judge.Builds,
		}, l.Outcome)
	}
	steps, err := s.Store.Steps(s.Record.ID)
	if err != nil {
		return &bisect.InfraError{What: "reading the store", Err: err}
	}
	s.KeptSteps = len(steps)
	s.Record.Elapsed = Elapsed(s.Record, s.stored)
	s.Slots = newSlots(s, s.Record.Elapsed)
	s.Ledger = &memory.Sampler{Next: s.Slots, Known: known, Save: s.save, Used: func(r bisect.Request, o bisect.Outcome) { use(s, r, o) }}
	s.Memory = s.Ledger
	return nil
}

// endedAtGoodEnd reports that a session ended because its good end never passed.
func endedAtGoodEnd(status string, kept []report.Launch) bool {
	return (status == store.NoDifference || status == store.Inconclusive) && !slices.ContainsFunc(kept, func(l report.Launch) bool {
		return l.Purpose == bisect.EndGood && l.Outcome.Class == bisect.OK
	})
}

// TakeOver takes in a launch of another session that answers a request, and what it taught there. With several
// slots only the good end teaches: the pipelines have to be stopped for it, which other launches are not worth.
func TakeOver(s *Session, r bisect.Request, o bisect.Outcome) {
	if r.Purpose != bisect.EndGood && len(s.Slots.Each) > 1 {
		return
	}
	if err := s.Slots.Stop(); err != nil { // the slots own the pipelines while they run
		s.Display.Warn(err.Error())
	}
	learn(s, r, o)
}

// learn lets everything that makes trials take in what one has shown.
func learn(s *Session, r bisect.Request, o bisect.Outcome) {
	for _, p := range s.Pipes {
		p.Learn(r, o)
	}
	if s.Cluster != nil {
		s.Cluster.Learn(r, o)
	}
}

// use takes in a launch when it is first asked for, whether it is made now, was made ahead, or was made by an earlier
// attempt. Everything that a session decides by launches and times follows from those asked for so far, and not from
// those that exist: a resumed session then makes the same decisions in the same order.
func use(s *Session, r bisect.Request, o bisect.Outcome) {
	l := report.Launch{Candidate: r.Candidate, Purpose: r.Purpose, Nth: r.Nth, Outcome: o}
	if s.used == nil {
		s.used = map[patience]bool{}
	}
	if p := patienceOf(l); !s.used[p] {
		s.used[p] = true
		s.Launches = append(s.Launches, l)
		s.clock = max(s.clock, ended(o))
		s.Display.Launch(o, s.Policy.GPUHour)
	}
}

// useRest takes in the launches that were made ahead and never asked for, since they took their time as well.
func useRest(s *Session) {
	for _, l := range s.stored {
		if !s.used[patienceOf(l)] {
			s.Launches = append(s.Launches, l)
		}
	}
	s.stored = nil
}

// patience identifies a launch together with how long it was allowed to run and whether it ran alone.
type patience struct {
	bisect.TrialID
	hurried string
	beyond  float64
	beside  bool
}

func patienceOf(l report.Launch) patience {
	return patience{l.ID(), l.Outcome.Hurried, l.Outcome.Beyond, l.Outcome.Beside}
}

// Elapsed is how long a session has taken over all attempts. A killed attempt could not store that; the end of its last
// trial is then a lower bound.
func Elapsed(record *store.Session, kept []report.Launch) time.Duration {
	took := record.Elapsed
	for _, l := range kept {
		took = max(took, ended(l.Outcome))
	}
	return took
}

// ended is when a launch was over, since the first attempt began; 0 for one of another session, which took no time
// in this one.
func ended(o bisect.Outcome) time.Duration {
	if o.From != "" {
		return 0
	}
	return time.Duration((o.At + o.Wall) * float64(time.Second))
}

// clocked stamps each trial with its start, in seconds since the first attempt of the session began: drift is
// judged over that time, and a resumed session orders the launches of all attempts by it. since is how long ago that
// was, without what was waited.
func clocked(next bisect.Sampler, since func() time.Duration) bisect.Sampler {
	return bisect.SamplerFunc(func(ctx context.Context, r bisect.Request) (bisect.Outcome, error) {
		o, err := next.Sample(ctx, r)
		o.At = since().Seconds() - o.Wall
		return o, err
	})
}

// save stores one trial, which is on disk when it returns. It returns the trial as a resumed session will read it,
// so that both decide by the same values.
func (s *Session) save(r bisect.Request, o bisect.Outcome) (bisect.Outcome, error) {
	defer s.Stopwatch.Enter("store")()
	data, err := json.Marshal(o)
	if err != nil {
		return o, err
	}
	l := store.Launch{
		Session: s.Record.ID, Seq: len(s.stored) + 1, Candidate: r.Candidate.String(), Commit: r.Candidate.Commit,
		Purpose: string(r.Purpose), Ordinal: r.Nth, Class: string(o.Class), Phase: o.Phase,
		Started: time.Now().Add(-time.Duration(o.Wall * float64(time.Second))), Wall: time.Duration(o.Wall * float64(time.Second)), Outcome: data,
	}
	if err := s.Store.AddLaunch(l); err != nil {
		return o, err
	}
	back, err := readLaunch(l)
	s.stored = append(s.stored, back)
	return back.Outcome, err
}

// LedgerOf is what the documents of a session refer to.
func (s *Session) LedgerOf() report.Ledger { return s.LedgerFor(s.Policy.Good, s.Launches) }

// LedgerFor is a ledger of launches of the session and some more commits, for a good end other than the policy's.
func (s *Session) LedgerFor(good string, launches []report.Launch, more ...string) report.Ledger {
	l := NewLedger(s.Repo, s.Policy, good, s.Record.Args, launches, more...)
	if s.Devices != nil && len(s.Devices.Watches) > 0 {
		l.Setup.Driver = s.Devices.driver
	}
	return l
}

// NewLedger gathers what documents refer to: launches with their commits and some more, limits, and where the
// repository comes from. Suggested commands are for this process's repository and not for where the session of args
// ran.
func NewLedger(repo *source.Repo, p *policy.Policy, good string, args []string, launches []report.Launch, more ...string) report.Ledger {
	l := report.Ledger{
		Launches: launches, Commits: map[string]report.CommitInfo{}, Call: report.NewCall(os.Args, args),
		Limits: inSeconds(p.Limits, goodTimes(launches, good)), Forge: report.ForgeOf(source.Origin(repo)),
		Setup: report.Setup{Command: p.Plan.Run, Dirty: p.Dirty},
	}
	for _, x := range launches {
		more = append(more, x.Candidate.Commit)
	}
	for _, id := range more {
		if _, known := l.Commits[id]; !known && id != "" {
			l.Commits[id] = commitInfo(repo, id)
		}
	}
	return l
}

// Switching is the purpose of launches that try the flags of a culprit.
const Switching bisect.Purpose = "switch"

// Picture adds to a ledger what only the report of a search over a range needs: the order of its commits; which
// launches looked inside a culprit, that is, try its flags or are of a commit outside the range; and the diffs of the
// culprits. A diff that cannot be read is left out, and the report says so. Without a range (rng is nil), only the
// diffs are added.
func Picture(l *report.Ledger, repo *source.Repo, axis string, rng *source.Range, culprits []string) {
	if rng != nil {
		l.Order = []string{rng.Good.ID}
		for _, c := range rng.Commits {
			l.Order = append(l.Order, c.ID)
		}
	}
	inRange := map[string]bool{}
	for _, id := range l.Order {
		inRange[id] = true
	}
	for i, x := range l.Launches {
		l.Launches[i].Drill = rng != nil && axis == policy.AxisHistory && (x.Purpose == Switching || x.Purpose != bisect.FindGood && !inRange[x.Candidate.Commit])
	}
	l.Diffs = map[string]string{}
	for _, id := range culprits {
		d, err := hunks.Of(context.Background(), repo, id, nil) // after an interrupt too
		if err != nil {
			continue
		}
		all := make([]int, len(d.Hunks))
		for i := range all {
			all[i] = i
		}
		if text, err := d.Unified(all, 3); err == nil {
			l.Diffs[id] = text
		}
	}
}

// Totals adds up what the launches took.
func (s *Session) Totals() report.Totals {
	return report.Ledger{Launches: s.Launches}.Totals(Spent(s, 0), s.Policy.GPUHour)
}

// Spent is where the time went since the command began; before is the time of earlier attempts.
func Spent(s *Session, before time.Duration) (all []report.Spent) {
	accounts, _ := s.Stopwatch.Spent()
	if before > 0 {
		accounts = append([]stopwatch.Account{{Name: "earlier attempts", Time: before}}, accounts...)
	}
	for _, a := range accounts {
		all = append(all, report.Spent{Account: a.Name, Seconds: a.Time.Seconds()})
	}
	return all
}

// NameCandidate describes a commit for a report, under the revision that the user gave.
func NameCandidate(s *Session, revision, commit string) report.Candidate {
	return commitInfo(s.Repo, commit).Candidate(revision)
}

// CommitInfo describes a commit for a report with the files that it changed, as far as the repository knows it. Files
// that cannot be read are a warning. They take a comparison of trees, so that ledgers, with many commits, go without.
func (s *Session) CommitInfo(id string) report.CommitInfo {
	info := commitInfo(s.Repo, id)
	if info.When.IsZero() {
		return info
	}
	changed, err := s.Repo.ChangedFiles(context.Background(), id)
	if err != nil {
		s.Display.Warn(err.Error())
	}
	for _, x := range changed {
		info.Files = append(info.Files, x.Path)
	}
	return info
}

// commitInfo describes a commit; if the repository lacks it, only by its id.
func commitInfo(repo *source.Repo, id string) report.CommitInfo {
	info := report.CommitInfo{ID: id}
	if id == "" {
		return info
	}
	if c, err := repo.Commit(id); err == nil {
		info.Subject, info.Author, info.Email, info.When = c.Subject, c.Author, c.Email, c.When
	}
	return info
}
