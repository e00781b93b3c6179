package session

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/belief/levels"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// KeptLaunches reads the launches of a session from the store, oldest first.
func KeptLaunches(st *store.Store, session string) ([]report.Launch, error) {
	kept, err := st.Launches(session)
	if err != nil {
		return nil, err
	}
	var out []report.Launch
	for _, l := range kept {
		x, err := readLaunch(l)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// readLaunch decodes a launch of the store. It fails if another version of kbisect wrote the launch in another form;
// the error names the launch.
func readLaunch(l store.Launch) (report.Launch, error) {
	out := report.Launch{Candidate: bisect.ParseCandidate(l.Candidate), Purpose: bisect.Purpose(l.Purpose), Nth: l.Ordinal}
	if err := json.Unmarshal(l.Outcome, &out.Outcome); err != nil {
		return out, fmt.Errorf("launch %d of session %s cannot be read: %w", l.Seq, l.Session, err)
	}
	return out, nil
}

// goodTimes are the longest times of the good end by phase, which limits such as "4x" multiply. The longest and not
// the median, since a limit has to let every good launch pass.
func goodTimes(launches []report.Launch, good string) map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, l := range launches {
		if l.Candidate.Commit != good || l.Outcome.Class != bisect.OK {
			continue
		}
		for _, p := range l.Outcome.Phases {
			out[p.Name] = max(out[p.Name], time.Duration(p.Seconds*float64(time.Second)))
		}
	}
	return out
}

// inSeconds are the limits in force in seconds, by phase; good holds the times that relative limits multiply.
func inSeconds(l trial.Limits, good map[string]time.Duration) map[string]float64 {
	out := map[string]float64{"build": l.Build.Seconds(), bisect.WholeTrial: l.Run.Seconds()}
	for phase, limit := range l.Phases {
		out[phase] = limit.For(good[phase]).Seconds()
	}
	return out
}

// The kinds of sessions; a search is named after its axis.
const (
	Comparing = "compare"
	Measuring = "measure"
	Trying    = "try"
)

// IsSearch reports whether a session is a search: only these have verdicts on commits and can be resumed.
func IsSearch(s store.Session) bool {
	return slices.Contains([]string{policy.AxisHistory, policy.AxisFlags, policy.AxisHunks}, s.Axis)
}

// NewSession is the record of a new session, not yet in the store. Its configuration is the policy, by which it is
// resumed.
func NewSession(p *policy.Policy, kind, version string) (*store.Session, error) {
	id, err := store.NewID(time.Now(), rand.Reader)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return &store.Session{
		ID: id, Created: time.Now(), Updated: time.Now(), Status: store.Running, Args: os.Args,
		Config: config, Good: p.Good, Bad: p.Bad, Axis: kind, Seed: p.Seed, Version: version,
	}, nil
}

// warnOfHead warns of uncommitted changes if an end of the policy is HEAD. sides are the names of the good and the bad
// end, or of the only candidate.
func warnOfHead(ctx context.Context, repo *source.Repo, p *policy.Policy, sides ...string) {
	head, err := source.Head(repo)
	for i, commit := range []string{p.Good, p.Bad}[:len(sides)] {
		if err == nil && commit == head {
			WarnUncommitted(ctx, repo, p, sides[i])
			return
		}
	}
}

// WarnUncommitted warns about uncommitted changes, see [Uncommitted], and marks the policy as dirty.
func WarnUncommitted(ctx context.Context, repo *source.Repo, p *policy.Policy, candidate string) {
	if w := Uncommitted(ctx, repo, p, candidate); w != "" {
		p.Warnings, p.Dirty = append(p.Warnings, w), true
	}
}

// Uncommitted is the warning that uncommitted changes to the inputs of build and run are not part of a candidate at
// HEAD; "" without any. Files that are copied from the work tree into every candidate do not count.
func Uncommitted(ctx context.Context, repo *source.Repo, p *policy.Policy, candidate string) string {
	if repo.WorkDir() == "" {
		return ""
	}
	// git itself is asked, without taking its locks: only it has an index that saves reading every file of the work
	// tree, and only it knows all of its filters.
	args := []string{"-C", repo.WorkDir(), "--no-optional-locks", "status", "--porcelain", "--untracked-files=no", "--"}
	for _, path := range p.Paths {
		args = append(args, ":(top,literal)"+path)
	}
	for _, f := range p.Plan.Files {
		args = append(args, ":(top,literal,exclude)"+f.Name)
	}
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if n := strings.Count(string(out), "\n"); err == nil && n > 0 {
		return fmt.Sprintf("uncommitted changes in %s are not part of %s", words.Count(n, "file"), candidate)
	}
	return ""
}

// ReadStore opens the store of a repository for reading; without a store that is a usage error. The caller closes
// it.
func ReadStore(repo *source.Repo) (*store.Store, error) {
	st, err := StoreOf(repo)
	if st == nil && err == nil {
		err = exit.Usagef("nothing has been searched in this repository yet\nhint: kbisect run")
	}
	return st, err
}

// StoreOf opens the store of a repository for reading; nil without an error if there is none. The caller closes it.
func StoreOf(repo *source.Repo) (*store.Store, error) {
	st, err := store.Open(store.Dir(repo.CommonDir()), store.ReadOnly)
	if errors.Is(err, store.ErrNoStore) {
		return nil, nil
	}
	if err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	return st, nil
}

// How much of the store is read for the scatter of launches, newest first: older sessions say little about the machine
// as it is now.
const (
	recentSessions = 100
	recentLaunches = 200
)

// recall settles on which machine the launches of a session are made, and how much earlier ones of the same
// commands scattered there. Both are stored with the session, so that a resumed one decides by the same numbers.
func recall(s *Session) error {
	p := s.Policy
	if p.Machine != "" || len(s.stored) > 0 {
		return nil
	}
	p.Machine = machineOf(s.Devices)
	if s.Record.Axis == policy.AxisHistory && !p.NoPast {
		if err := scattered(s); err != nil {
			return &bisect.InfraError{What: "reading the store", Err: err}
		}
	}
	// In the stored policy, only these two fields change.
	var kept policy.Policy
	err := json.Unmarshal(s.Record.Config, &kept)
	if err != nil {
		return err
	}
	kept.Machine, kept.Past = p.Machine, p.Past
	if s.Record.Config, err = json.Marshal(kept); err != nil {
		return err
	}
	return s.Store.UpdateSession(s.Record.ID, func(x *store.Session) { x.Config = s.Record.Config })
}

// machineOf names what launches are made on: the devices with their driver or, without any, this host with its
// processor.
func machineOf(d *Devices) string {
	if names := d.Names(); len(names) > 0 {
		return strings.Join(names, ", ")
	}
	host, _ := os.Hostname()
	return strings.TrimSpace(host + " " + processor())
}

// processor is the model of the first processor; "" if /proc/cpuinfo does not say.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, model, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return ""
}

// scattered fills in the policy's Past from the newest sessions of the same commands on the same machine.
func scattered(s *Session) error {
	all, err := s.Store.Sessions(recentSessions)
	if err != nil {
		return err
	}
	series := map[string][][]float64{}
	from := map[string]int{} // sessions, by channel
	measures, launches := policy.Measures(s.Policy), 0
	for _, x := range all {
		var p policy.Policy
		if x.ID == s.Record.ID || launches >= recentLaunches || json.Unmarshal(x.Config, &p) != nil || p.Machine != s.Policy.Machine || policy.Measures(&p) != measures {
			continue
		}
		kept, err := KeptLaunches(s.Store, x.ID)
		if err != nil {
			return err
		}
		launches += len(kept)
		for name, of := range levelsOf(s.Policy.Judge.Metrics, kept) {
			series[name] = append(series[name], of...)
			from[name]++
		}
	}
	for name, of := range series {
		if past := levels.Scatter(of); past.SD > 0 {
			if s.Policy.Past == nil {
				s.Policy.Past = map[string]bisect.Scatter{}
			}
			past.Sessions = from[name]
			s.Policy.Past[name] = past
		}
	}
	return nil
}

// levelsOf are the levels (natural logarithms of a metric) of the launches that ended well and may be compared: by
// channel, and for each candidate in the order in which they were made. The candidates are kept apart because only
// launches of the same one show scatter.
func levelsOf(metrics []metric.Metric, launches []report.Launch) map[string][][]float64 {
	out := map[string][][]float64{}
	place := map[[2]string]int{}
	compared := []bisect.Purpose{bisect.EndGood, bisect.EndBad, bisect.Searching, bisect.ConfirmCulprit, bisect.ConfirmParent} // others run under tools
	for _, l := range launches {
		o := l.Outcome
		if o.Class != bisect.OK || o.Unfit != "" || o.Early || !slices.Contains(compared, l.Purpose) {
			continue
		}
		parts := metric.NewParts(o)
		for _, c := range metric.Channels(metrics, o, o) {
			y, ok := c.Level(parts.Of(c))
			if !ok {
				continue
			}
			name := c.Name()
			at := [2]string{name, l.Candidate.String()}
			if _, known := place[at]; !known {
				place[at] = len(out[name])
				out[name] = append(out[name], nil)
			}
			out[name][place[at]] = append(out[name][place[at]], y)
		}
	}
	return out
}
