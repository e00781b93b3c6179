package main

import (
	"cmp"
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

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

func runCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "find the commit that is to blame",
		ArgsUsage: "[-- COMMAND ARGS]",
		Description: "Judges both ends, searches the commits between them, confirms the culprit against its parents.\n" +
			"A failure that shows only in some launches is found as well: commits are then launched again,\n" +
			"as often as it takes. With --find timeout, crash, wrong or any, a bad end that ends well is\n" +
			"launched up to 20 times until it fails.\n" +
			"With -- COMMAND no configuration is needed: 0 is good, 125 is skip, anything else is bad, and\n" +
			"128 and up is a crash of the candidate; a script written for git bisect run works unchanged.\n" +
			"Without it, kbisect.toml in the work tree says how to build and run.\n\n" +
			"A program may say more on the descriptor that KBISECT_FD names, one fact a line: phase: NAME,\n" +
			"case: NAME, sample: 46.8 us, metric NAME: VALUE UNIT, check: pass, check: fail WHY, skip: WHY,\n" +
			"infra: WHY.",
		OnUsageError: usageError,
		Flags: append(formatFlags(), []cli.Flag{ // hidden ones are not in this version, see refuseUnavailable
			&cli.StringFlag{Name: "good", Usage: "the good end, `REV` (default: the newest recorded good ancestor)"},
			&cli.StringFlag{Name: "bad", Usage: "the bad end, `REV`", Value: "HEAD"},
			&cli.BoolFlag{Name: "find-good", Usage: "walk back from the bad end, in doubling steps, to a good one", DisableDefaultText: true},
			&cli.StringFlag{Name: "axis", Usage: "search along `history`, flags (those of kbisect.toml, in one commit) or hunks (of --commit, or between the ends)", Value: "history"},
			&cli.StringFlag{Name: "commit", Usage: "the commit `REV` whose hunks are searched"},
			&cli.StringFlag{Name: "find", Usage: "the complaint `CLASS`: slow, timeout, wrong, crash, build, or any failure (default: what the bad end shows)"},
			&cli.StringFlag{Name: "phase", Usage: "the `NAME` of the phase in which the time-out must be"},
			&cli.StringFlag{Name: "metric", Usage: "the `NAME` of the metric that got slow: one of kbisect.toml, wall, phase.NAME"},
			&cli.BoolFlag{Name: "improvement", Usage: "find what made a metric better, not worse", DisableDefaultText: true},
			&cli.BoolFlag{Name: "all", Usage: "every culprit in the range, not only one, with the share of each; also what was introduced and fixed in between", DisableDefaultText: true},
			&cli.BoolFlag{Name: "first-parent", Usage: "follow only the first parent of merges", DisableDefaultText: true},
			&cli.StringSliceFlag{Name: "path", Usage: "what build and run read, `P`; repeatable; commits that leave it alone are never built"},
			&cli.BoolFlag{Name: "no-hunks", Usage: "stop at the commit: do not look for what in it is to blame", DisableDefaultText: true},
			durationFlag("budget", "stop after `DURATION`, such as 20m, with what is known then", "none"),
			&cli.IntFlag{Name: "jobs", Usage: "build `N` candidates at a time, the likely next ones ahead. Trials that no times are taken of are made at a time, too: one on each device of kbisect.toml, or N on the processors where gpus is none; they must not share a port or a file", DefaultText: "by the number of processors"},
			&cli.Int64Flag{Name: "seed", Usage: "`N` for whatever is drawn at random", Value: 1},
			durationFlag("limit", "the whole trial may take `DURATION`, such as 90s", "10m, or kbisect.toml"),
			asFlag(),
			&cli.StringFlag{Name: "build", Usage: "`SHELL COMMAND` that builds a candidate first"},
			&cli.StringSliceFlag{Name: "output", Usage: "file or folder `P` that --build makes; repeatable; it is kept in the build cache"},
			&cli.IntFlag{Name: "repeat", Usage: "run each candidate `N` times; one failure counts", Value: 1},
			&cli.BoolFlag{Name: "fast", Usage: "name the commit without the proof: no clean builds, and the culprit is not launched again at its full limit", DisableDefaultText: true},
			explainLimitFlag(culpritExplainLimit),
			&cli.BoolFlag{Name: "no-explain", Usage: "do not say why the culprit differs from its parent", DisableDefaultText: true},
			&cli.BoolFlag{Name: "resume", Usage: "go on with the newest search that did not come to its end, or repeat the newest answer", DisableDefaultText: true},
		}...),
		Action: runAction,
	}
}

func runAction(c *cli.Context) error {
	if err := readFormats(c).check(); err != nil {
		return err
	}
	e := envOf(c, nil)
	e.Request = requestOf(c)
	return runSearch(c.Context, e)
}

// runSearch is the main job: it begins a search, or goes on with one.
func runSearch(ctx context.Context, e env) error {
	q := e.Request
	repo, err := source.Open(q.Dir)
	if err != nil {
		return exit.Usage(err)
	}
	defer repo.Close()
	var p *policy.Policy
	var rng *source.Range
	if q.Resume { // nothing is made where there is nothing to go on with
		err = searched(repo)
	} else { // what is wrong with the request is said before anything is made
		p, rng, err = readSearch(ctx, q, repo)
	}
	if err != nil {
		return err
	}
	st, err := store.Open(store.Dir(repo.CommonDir()), store.ReadWrite)
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	defer st.Close()
	var s *store.Session
	if q.Resume {
		s, p, err = resumeSession(q, st)
	} else {
		s, err = newSession(p, p.Axis, e.Version)
	}
	if err != nil {
		return err
	}
	lock, err := st.Lock(s.ID)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if n, err := proc.Sweep(s.ID); err != nil || n > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%d processes of the interrupted search were still running and have been killed", n))
	}
	t := &Session{repo: repo, store: st, record: s, policy: p, rng: rng, ui: e.Display, output: e.Output}
	if q.Resume {
		t.ui.Say(fmt.Sprintf("going on with session %s of %s: good %s, bad %s", s.ID, s.Created.Local().Format("2006-01-02 15:04"), cmp.Or(wording.Short(s.Good), "to be found"), wording.Short(s.Bad)))
	} else if q.Bad == "HEAD" {
		tellDirty(ctx, t, "the bad end")
	}
	return newJob(t).run(ctx)
}

// readSearch reads what the user asks for: the policy, the ends and, unless the good one is still to
// be found, the range between them.
func readSearch(ctx context.Context, q *policy.Request, repo *source.Repo) (*policy.Policy, *source.Range, error) {
	p, err := policy.ForSearch(q, repo)
	if err != nil {
		return nil, nil, err
	}
	switch p.Axis {
	case policy.AxisFlags:
		return p, nil, policy.EndsOf(p, repo).FlagEnds(q)
	case policy.AxisHunks:
		return p, nil, policy.EndsOf(p, repo).HunkEnds(ctx, q)
	}
	if p.Bad, err = repo.Resolve(q.Bad); err != nil {
		return nil, nil, exit.Usagef("--bad: %w", err)
	}
	if err := chooseGood(p, q, repo); err != nil {
		return p, nil, err
	}
	if err := policy.EndsOf(p, repo).FollowRenames(ctx); err != nil {
		return p, nil, err
	}
	if p.Good == "" {
		policy.EndsOf(p, repo).AddHeaders(p.Bad)
		return p, nil, nil
	}
	policy.EndsOf(p, repo).AddHeaders(p.Good, p.Bad)
	rng, err := repo.Range(ctx, p.Good, p.Bad, p.RangeOptions())
	if err != nil {
		return p, nil, rangeError(err)
	}
	return p, rng, policy.EndsOf(p, repo).CheckNamed()
}

// searched refuses a repository that has no store.
func searched(repo *source.Repo) error {
	st, err := store.Open(store.Dir(repo.CommonDir()), store.ReadOnly)
	if errors.Is(err, store.ErrNoStore) {
		return errNothingToResume()
	}
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	return st.Close()
}

func errNothingToResume() error {
	return exit.Usagef("nothing to resume: no search was begun in this repository\nhint: kbisect run --good REV")
}

// The kinds of sessions; a search is named after its axis.
const (
	comparing = "compare"
	measuring = "measure"
	examining = "noise"
)

// isSearch tells a search from comparisons and measurements.
func isSearch(s store.Session) bool {
	return slices.Contains([]string{policy.AxisHistory, policy.AxisFlags, policy.AxisHunks}, s.Axis)
}

// newSession begins a session.
func newSession(p *policy.Policy, kind, version string) (*store.Session, error) {
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

// rangeError sorts what can be wrong with a range: the ends are the user's, the rest is the repository's.
func rangeError(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return exit.Usage(err) // nil stays nil
}

func resumeSession(q *policy.Request, st *store.Store) (*store.Session, *policy.Policy, error) {
	s, err := resumable(st)
	if err != nil {
		return nil, nil, err
	}
	if q.Argv != nil || q.GoodSet || q.BadSet {
		return nil, nil, exit.Usagef("--resume goes on with session %s as it was begun\nhint: leave out --good, --bad and the command, or leave out --resume", s.ID)
	}
	var p policy.Policy
	if err := json.Unmarshal(s.Config, &p); err != nil {
		return nil, nil, exit.Usagef("session %s was begun by another version of kbisect: %w\nhint: begin anew without --resume", s.ID, err)
	}
	kept, err := keptLaunches(st, s.ID)
	if err != nil {
		return nil, nil, exit.With(exit.Machine, err)
	}
	s.Elapsed = elapsed(&s, kept)
	switch {
	case q.BudgetSet:
		p.Budget = s.Elapsed + q.Budget
	case outOfBudget(s):
		p.Budget += s.Elapsed
	}
	return &s, &p, nil
}

// resumable is the newest search that did not come to its end. When there is none, it is the newest
// one that did: it may have been killed before it could say so, and repeats its answer from what it
// remembers.
func resumable(st *store.Store) (store.Session, error) {
	all, err := st.Sessions(0)
	if err != nil {
		return store.Session{}, exit.With(exit.Machine, err)
	}
	all = slices.DeleteFunc(all, func(s store.Session) bool { return !isSearch(s) })
	for _, s := range all {
		if slices.Contains([]string{store.Running, store.Interrupted, store.Infra}, s.Status) || outOfBudget(s) {
			return s, nil
		}
	}
	for _, s := range all {
		if slices.Contains([]string{store.Found, store.Inconclusive, store.NoDifference}, s.Status) {
			return s, nil
		}
	}
	return store.Session{}, errNothingToResume()
}

// outOfBudget reports whether a search stopped because its budget was used up. One for every culprit
// may have found some of them by then.
func outOfBudget(s store.Session) bool {
	var p policy.Policy
	if json.Unmarshal(s.Config, &p) != nil || p.Budget == 0 || s.Elapsed < p.Budget {
		return false
	}
	var doc struct{ Complete bool }
	return s.Status == store.Inconclusive || s.Status == store.Found && json.Unmarshal(s.Finding, &doc) == nil && !doc.Complete
}

// tellDirty says that changes in the work tree are no part of a candidate that is at HEAD: those of what build
// and run read, but for files that go from the work tree into every candidate.
func tellDirty(ctx context.Context, j *Session, candidate string) {
	if j.repo.WorkDir() == "" {
		return
	}
	args := []string{"-C", j.repo.WorkDir(), "--no-optional-locks", "status", "--porcelain", "--untracked-files=no", "--"}
	for _, path := range j.policy.Paths {
		args = append(args, ":(top,literal)"+path)
	}
	for _, f := range j.policy.Plan.Files {
		args = append(args, ":(top,literal,exclude)"+f.Name)
	}
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if n := strings.Count(string(out), "\n"); err == nil && n > 0 {
		j.policy.Warnings = append(j.policy.Warnings, fmt.Sprintf("the work tree has changes in %s that are not committed: they are no part of %s", wording.Counted(n, "file"), candidate))
	}
}

// chooseGood finds the good end: as named, or the newest recorded good ancestor of the bad end.
func chooseGood(p *policy.Policy, q *policy.Request, repo *source.Repo) (err error) {
	if rev := q.Good; rev != "" {
		if p.Good, err = repo.Resolve(rev); err != nil {
			return exit.Usagef("--good: %w", err)
		}
		return nil
	}
	if p.FindGood {
		return nil
	}
	goods, err := recordedGoods(repo)
	if err != nil {
		return err
	}
	for _, g := range goods {
		if ok, err := repo.IsAncestor(g.Commit, p.Bad); err == nil && ok && g.Commit != p.Bad {
			p.Good = g.Commit
			return nil
		}
	}
	return exit.Usagef("no good end: no commit before %s is recorded as good\nhint: name one with --good REV, or give --find-good to look for one%s", wording.Short(p.Bad), goodElsewhere(repo, p.Bad))
}

// recordedGoods lists the commits that earlier searches found good, newest first.
func recordedGoods(repo *source.Repo) ([]store.Good, error) {
	st, err := store.Open(store.Dir(repo.CommonDir()), store.ReadOnly)
	if errors.Is(err, store.ErrNoStore) {
		return nil, nil
	}
	if err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	defer st.Close()
	goods, err := st.Goods()
	if err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	return goods, nil
}

// exitCode is the code of a result.
func exitCode(r bisect.Result) int {
	switch r {
	case bisect.Found:
		return exit.OK
	case bisect.Inconclusive:
		return exit.Inconclusive
	case bisect.NoDifference:
		return exit.NoDifference
	case bisect.Interrupted:
		return exit.Interrupted
	}
	return exit.Machine
}
