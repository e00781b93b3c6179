package session

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/progress"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/memory"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/store"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// sessionAt is a session of a repository that launched what ended like this.
func sessionAt(t *testing.T, r *gittest.Repo, launches ...bisect.Outcome) *Session {
	t.Helper()
	repo, err := source.Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	s := &Session{Repo: repo, Policy: &policy.Policy{}}
	for _, o := range launches {
		s.Launches = append(s.Launches, report.Launch{Outcome: o})
	}
	return s
}

// What a failed launch lacked and the work tree has is named with the option that gives it to candidates.
func TestLacking(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "held/file.txt", "x")
	r.Commit(t, "one")
	r.Write(t, "data/weights/a.bin", "x")
	r.Write(t, "held/new.txt", "x")
	r.Write(t, "crlf.sh", "#!/bin/sh\r\nexit 0\r\n")
	r.Write(t, "lf.sh", "#!/bin/sh\nexit 0\n")
	failed := func(tail string) bisect.Outcome { return bisect.Outcome{Class: bisect.Wrong, Tail: tail} }
	for name, c := range map[string]struct {
		launches []bisect.Outcome
		with     func(*policy.Policy)
		want     string
	}{
		"a folder":               {[]bisect.Outcome{failed("cannot open data/weights/a.bin\n")}, nil, "data is in the work tree and not committed: --keep data gives it to every candidate"},
		"a file in a held one":   {[]bisect.Outcome{failed("x: held/new.txt: No such file or directory")}, nil, "held/new.txt is in the work tree and not committed"},
		"in quotes":              {[]bisect.Outcome{failed("FileNotFoundError: [Errno 2] No such file or directory: './data'")}, nil, "--keep data gives"},
		"in the reason":          {[]bisect.Outcome{{Class: bisect.Crash, Why: "data/weights does not exist"}}, nil, "--keep data gives"},
		"a committed file":       {[]bisect.Outcome{failed("held/file.txt: not found")}, nil, ""},
		"a file of nobody":       {[]bisect.Outcome{failed("nowhere.txt: not found")}, nil, ""},
		"outside":                {[]bisect.Outcome{failed("../data: not found; /etc/passwd: not found; .: not found")}, nil, ""},
		"another message":        {[]bisect.Outcome{failed("data/weights/a.bin is corrupt")}, nil, ""},
		"a launch that passed":   {[]bisect.Outcome{{Class: bisect.OK, Tail: "cannot open data"}}, nil, ""},
		"git":                    {[]bisect.Outcome{failed("fatal: not a git repository\n")}, nil, "git says fatal: not a git repository: --in-worktree makes"},
		"git, in a work tree":    {[]bisect.Outcome{failed("fatal: not a git repository\n")}, func(p *policy.Policy) { p.Plan.InWorktree = true }, ""},
		"Windows' line endings":  {[]bisect.Outcome{failed("")}, func(p *policy.Policy) { p.Plan.Run = []string{"bash", "crlf.sh"} }, "crlf.sh has Windows line endings (CRLF)"},
		"UNIX's":                 {[]bisect.Outcome{failed("")}, func(p *policy.Policy) { p.Plan.Run = []string{"./lf.sh"} }, ""},
		"a script that is away":  {[]bisect.Outcome{failed("")}, func(p *policy.Policy) { p.Plan.Run = []string{"./away.sh"} }, ""},
		"no script, but options": {[]bisect.Outcome{failed("")}, func(p *policy.Policy) { p.Plan.Run = []string{"bash", "-c", "x"} }, ""},
	} {
		s := sessionAt(t, r, c.launches...)
		if c.with != nil {
			c.with(s.Policy)
		}
		if got := Lacking(s); !strings.HasPrefix(got, c.want) && !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// An error of a launch that nothing in a candidate can cure says where the thing may come from.
func TestHintsOfWhatIsNotFound(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "sub/helper.py", "x")
	r.Commit(t, "one")
	r.Write(t, "mine/gen.py", "x")
	r.Write(t, "local.py", "x")
	for name, c := range map[string]struct {
		tail string
		dir  string
		want string
	}{
		"a module":                {"ModuleNotFoundError: No module named 'triton.language'", "", "install triton for the Python that the command starts"},
		"a committed module":      {"ModuleNotFoundError: No module named 'helper'", "sub", "install helper for the Python that the command starts or, if it is in the repository, build it and set PYTHONPATH"},
		"one that is uncommitted": {"ModuleNotFoundError: No module named 'local'", "", "local.py is in the work tree and not committed: --keep local.py"},
		"a package, likewise":     {"ModuleNotFoundError: No module named 'mine.gen'", "", "mine is in the work tree and not committed: --keep mine"},
		"a program":               {"./run.sh: line 3: nvcc: command not found", "", "install nvcc, add its folder to PATH or, if it is in the repository, write ./nvcc"},
	} {
		code := 127
		if strings.Contains(c.tail, "Module") {
			code, c.tail = 1, "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n    import it\n"+c.tail
		}
		s := sessionAt(t, r, bisect.Outcome{Class: bisect.Wrong, Exit: code, Tail: c.tail + "\n"})
		s.Policy.Plan.Dir = c.dir
		if err := NotFound(s, "at HEAD"); err == nil || !strings.Contains(err.Error(), "at HEAD") || !strings.Contains(err.Error(), "hint: "+c.want) {
			t.Errorf("%s: %v\nwant %q", name, err, c.want)
		}
	}
}

// Launches that passed without the number that is wanted are an error which says what to write, or a warning where
// something else is compared as well.
func TestUnmeasured(t *testing.T) {
	r := gittest.New(t)
	r.Commit(t, "one")
	quiet := bisect.Outcome{Class: bisect.OK, Tail: "starting\ntime: 1,234 us\n"}
	rate := bisect.Outcome{Class: bisect.OK, Series: []bisect.Series{{Metric: "rate", Values: []float64{3}}}}
	empty := bisect.Outcome{Class: bisect.OK, Series: []bisect.Series{{Metric: "time"}}}
	for name, c := range map[string]struct {
		launches []bisect.Outcome
		pattern  string
		metric   string
		want     string // of the error; "" is none
		warning  string
	}{
		"nothing is sent":        {[]bisect.Outcome{quiet, quiet}, "", "time", "metric time: not reported in 2 successful launches, nor is any other metric\nhint: send it on KBISECT_FD", ""},
		"no values":              {[]bisect.Outcome{empty}, "", "time", "metric time: not reported in 1 successful launch,", ""},
		"no launch passed":       {[]bisect.Outcome{{Class: bisect.Crash}}, "", "time", "", ""},
		"another metric":         {[]bisect.Outcome{rate}, "", "time", "no value of time that can be compared\nhint: choose one of rate", ""},
		"of the process":         {[]bisect.Outcome{quiet}, "", "wall", "", ""},
		"the pattern is dead":    {[]bisect.Outcome{quiet}, `took (?P<value>[0-9.]+)`, "time", "metric time: its pattern matches nothing in the output of 1 successful launch: took (?P<value>[0-9.]+)\nhint: the last line was \"time: 1,234 us\"", "its pattern matches nothing"},
		"it matches no number":   {[]bisect.Outcome{quiet}, `time: (?P<value>[0-9,]+)`, "time", "metric time: its pattern matches \"1,234\", which is not a number, in 1 successful launch", "not a number"},
		"nothing is printed":     {[]bisect.Outcome{{Class: bisect.OK}}, `took (?P<value>[0-9.]+)`, "time", "hint: the launches print nothing: run the program that prints the numbers", "print nothing"},
		"another number is read": {[]bisect.Outcome{rate}, `took (?P<value>[0-9.]+)`, "rate", "", "metric time: its pattern matches nothing"},
	} {
		s := sessionAt(t, r, c.launches...)
		s.Policy.Measured, s.Policy.Judge.Metrics = true, []metric.Metric{{Name: c.metric}}
		if c.pattern != "" {
			s.Policy.Patterns = []policy.Pattern{{Metric: "time", Expr: c.pattern}}
		}
		err := Unmeasured(s)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", name, err, c.want)
		}
		if got := strings.Join(deadMetrics(s), "|"); !strings.Contains(got, c.warning) || (c.warning == "") != (got == "") {
			t.Errorf("%s: warns %q, want %q", name, got, c.warning)
		}
	}
}

// Of a resumed session the store knows only the launches of a killed attempt; they bound its time.
func TestElapsed(t *testing.T) {
	launch := func(at, wall float64) report.Launch {
		return report.Launch{Outcome: bisect.Outcome{At: at, Wall: wall}}
	}
	for _, c := range []struct {
		stored   time.Duration
		launches []report.Launch
		want     time.Duration
	}{{0, nil, 0}, {time.Minute, nil, time.Minute}, {0, []report.Launch{launch(9, 1), launch(3, 2)}, 10 * time.Second}, {time.Minute, []report.Launch{launch(3, 2)}, time.Minute}} {
		if got := Elapsed(&store.Session{Elapsed: c.stored}, c.launches); got != c.want {
			t.Errorf("%v and %+v: %v, want %v", c.stored, c.launches, got, c.want)
		}
	}
}

// A launch counts once, whoever made it and however often it is asked for; the clock follows those that were asked for,
// and those that were made in vain are added at the end.
func TestLaunchesCountOnce(t *testing.T) {
	request := func(commit string, nth int) bisect.Request {
		return bisect.Request{Candidate: bisect.Candidate{Commit: commit}, Purpose: bisect.Searching, Nth: nth}
	}
	s := &Session{Policy: &policy.Policy{}, Display: progress.New(io.Discard, true, false)}
	for _, x := range []struct {
		r  bisect.Request
		at float64
	}{{request("a", 0), 10}, {request("b", 0), 5}, {request("a", 0), 10}, {request("a", 1), 40}} {
		use(s, x.r, bisect.Outcome{At: x.at, Wall: 2})
	}
	hurried := bisect.Outcome{At: 90, Wall: 1, Hurried: "load", Beyond: 3}
	use(s, request("a", 0), hurried) // let run for another time: another launch
	if len(s.Launches) != 4 || s.Elapsed() != 91*time.Second {
		t.Errorf("%d launches, %v", len(s.Launches), s.Elapsed())
	}
	s.stored = append(slices.Clone(s.Launches), report.Launch{Candidate: bisect.Candidate{Commit: "c"}, Outcome: bisect.Outcome{At: 500}})
	useRest(s)
	useRest(s)
	if len(s.Launches) != 5 || s.Launches[4].Candidate.Commit != "c" || s.Elapsed() != 91*time.Second {
		t.Errorf("%d launches, %v", len(s.Launches), s.Elapsed())
	}
}

func TestSpent(t *testing.T) {
	late := func(is bool) func() bool { return func() bool { return is } }
	for _, c := range []struct {
		budget, clock time.Duration
		late          func() bool
		want          bool
	}{{0, time.Hour, nil, false}, {time.Minute, time.Minute, nil, false}, {time.Minute, time.Minute + 1, nil, true}, {0, 0, late(true), true}, {time.Minute, 0, late(false), false}} {
		s := &Session{Policy: &policy.Policy{Budget: c.budget}, clock: c.clock, Late: c.late}
		if s.Spent() != c.want {
			t.Errorf("%v of %v: %v", c.clock, c.budget, !c.want)
		}
	}
}

// Only what neither measures nor sets a limit may run beside another trial.
func TestAlone(t *testing.T) {
	hangs := []report.Launch{{Purpose: bisect.EndGood, Outcome: bisect.Outcome{Class: bisect.OK}}, {Purpose: bisect.EndBad, Outcome: bisect.Outcome{Class: bisect.Timeout, Phase: "load"}}}
	crashes := slices.Clone(hangs)
	crashes[1].Outcome.Class = bisect.Crash
	for name, c := range map[string]struct {
		request  bisect.Request
		launches []report.Launch
		want     bool
	}{
		"good end":                   {bisect.Request{Purpose: bisect.EndGood}, nil, true},
		"a walk back":                {bisect.Request{Purpose: bisect.FindGood}, nil, true},
		"timed":                      {bisect.Request{Purpose: bisect.Searching, Timing: true}, crashes, true},
		"search of a crash":          {bisect.Request{Purpose: bisect.Searching}, crashes, false},
		"proof of a time-out":        {bisect.Request{Purpose: bisect.Searching}, hangs, true},
		"a time-out may be hurried":  {bisect.Request{Purpose: bisect.Searching, Hurry: "load"}, hangs, false},
		"before the ends are known":  {bisect.Request{Purpose: bisect.Searching}, hangs[:1], false},
		"a culprit that is verified": {bisect.Request{Purpose: bisect.ConfirmCulprit}, hangs, true},
	} {
		s := &Session{Launches: c.launches, Devices: &Devices{}}
		if got := s.Alone(c.request); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestPairLine(t *testing.T) {
	some := func(name string, answer compare.Answer, ratio float64) compare.Sofar {
		return compare.Sofar{Name: name, Answer: answer, Bound: compare.Interval{Value: ratio, Low: ratio - 0.01, High: ratio + 0.01}}
	}
	for want, all := range map[string][]compare.Sofar{
		"pair 7   no metric to compare yet":                                       nil,
		"pair 7   time +5.0 % (99 % CI +4.0 to +6.0 %)":                           {some("time", compare.Open, 1.05)},
		"pair 7   b +9.0 % (99 % CI +8.0 to +10.0 %), 1 of 2 metrics undecided":   {some("a", compare.Worse, 1.5), some("b", compare.Open, 1.09)},
		"pair 7   a +50.0 % (99 % CI +49.0 to +51.0 %), 0 of 2 metrics undecided": {some("a", compare.Worse, 1.5), some("b", compare.Alike, 1)},
		"pair 7   a +50.0 %": {{Name: "a", Answer: compare.Open, Bound: compare.Interval{Value: 1.5, Low: math.NaN(), High: math.NaN()}}},
	} {
		if got := PairLine(7, all, 0.01); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Phases of processes with empty caches stand apart from later ones.
func TestPhaseTimesApart(t *testing.T) {
	phases := func(load float64) []bisect.PhaseTime { return []bisect.PhaseTime{{Name: "load", Seconds: load}} }
	got := PhaseTimes([]bisect.Outcome{
		{Caches: "cold", Phases: phases(9)}, {Caches: "warm", Cold: phases(7), Phases: phases(1)}, {Phases: append(phases(2), bisect.PhaseTime{Name: "run", Seconds: 3})},
	})
	if len(got) != 2 || got[0].Phase != "load" || got[0].Times.N != 2 || got[0].Times.Median != 1.5 || got[0].Cold.N != 2 || got[0].Cold.Median != 8 || got[1].Times.N != 1 || got[1].Cold.Median.Known() {
		t.Errorf("%+v", got)
	}
	if none := PhaseTimes(nil); none == nil || len(none) != 0 {
		t.Errorf("of no launches: %#v", none)
	}
}

// Reducing launches to one value loses none of its samples and takes in none of another.
func TestByNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []bisect.Outcome
		wanted := map[Number]int{}
		for i := range rapid.IntRange(0, 5).Draw(t, "launches") {
			o := bisect.Outcome{Class: bisect.OK, Wall: float64(i)}
			for range rapid.IntRange(0, 6).Draw(t, "series") {
				n := Number{rapid.SampledFrom([]string{"time", "rate"}).Draw(t, "metric"), rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "case")}
				o.Series = append(o.Series, bisect.Series{Metric: n.Metric, Case: n.One, Values: []float64{float64(i)}})
				wanted[n]++
			}
			all = append(all, o)
		}
		of := ByNumber(all)
		numbers := Numbers(all, "")
		if len(numbers) != len(wanted) {
			t.Fatalf("%v of %v", numbers, wanted)
		}
		for _, n := range numbers {
			found := 0
			for _, o := range of(n) {
				for _, s := range o.Series {
					if (Number{s.Metric, s.Case}) != n {
						t.Fatalf("%v among those of %v", s, n)
					}
					found++
				}
			}
			if found != wanted[n] {
				t.Fatalf("%v: %d series, want %d", n, found, wanted[n])
			}
		}
		if len(of(Number{"wall", ""})) != len(all) || len(of(Number{"phase.load", ""})) != len(all) {
			t.Fatal("the time of the process is of every launch")
		}
	})
}

// A metric is described by one number a launch, with the spread within launches and the two groups that they fall into.
func TestMetricSummary(t *testing.T) {
	var all []bisect.Outcome
	for i := range 12 {
		level := 10.0
		if i%2 == 1 {
			level = 20
		}
		level += 0.01 * float64(i%3)
		all = append(all, bisect.Outcome{Class: bisect.OK, Series: []bisect.Series{{Metric: "rate", Case: "n1", Unit: "GB/s", Values: []float64{level, level * 1.1, level * 0.9}}}})
	}
	s := &Session{Policy: &policy.Policy{}}
	s.Policy.Judge.Metrics = []metric.Metric{{Name: "rate", Higher: true, Told: true}}
	got := MetricSummary(s, all, Number{"rate", "n1"})
	if report.Text(got.Case) != "n1" || got.Unit != "GB/s" || got.Better != "higher" || got.Samples != 36 || got.Values.N != 12 || math.Abs(float64(got.Within)-0.148) > 0.01 {
		t.Errorf("%+v", got)
	}
	if m := got.Modes; m == nil || math.Abs(float64(m.Low)-10) > 0.1 || math.Abs(float64(m.High)-20) > 0.1 || math.Abs(float64(m.Share)-0.5) > 0.01 {
		t.Errorf("%+v", m)
	}
	if got := MetricSummary(s, nil, Number{"rate", ""}); got.Values.N != 0 || got.Within.Known() || got.Modes != nil || got.Case != nil {
		t.Errorf("of no launches: %+v", got)
	}
}

// Relative limits are multiples of the longest time that the good end took.
func TestLimitsInSeconds(t *testing.T) {
	launches := []report.Launch{
		{Candidate: bisect.Candidate{Commit: "g"}, Outcome: bisect.Outcome{Class: bisect.OK, Phases: []bisect.PhaseTime{{Name: "load", Seconds: 2}}}},
		{Candidate: bisect.Candidate{Commit: "g"}, Outcome: bisect.Outcome{Class: bisect.OK, Phases: []bisect.PhaseTime{{Name: "load", Seconds: 3}}}},
		{Candidate: bisect.Candidate{Commit: "g"}, Outcome: bisect.Outcome{Class: bisect.Timeout, Phases: []bisect.PhaseTime{{Name: "load", Seconds: 60}}}},
		{Candidate: bisect.Candidate{Commit: "b"}, Outcome: bisect.Outcome{Class: bisect.OK, Phases: []bisect.PhaseTime{{Name: "load", Seconds: 90}}}},
	}
	good := goodTimes(launches, "g")
	if len(good) != 1 || good["load"] != 3*time.Second {
		t.Errorf("%v", good)
	}
	l := trial.Limits{Build: time.Minute, Run: 20 * time.Second, Phases: map[string]kernels.Limit{"load": {Times: 4}, "warmup": {Abs: 5 * time.Second}}}
	if got := inSeconds(l, good); got["build"] != 60 || got[bisect.WholeTrial] != 20 || got["load"] != 12 || got["warmup"] != 5 {
		t.Errorf("%v", got)
	}
}

// What a user can correct is told apart from findings and from machine problems, and a revision that was taken for the
// command is recognised.
func TestMistakes(t *testing.T) {
	r := gittest.New(t)
	r.Commit(t, "one")
	s := sessionAt(t, r)
	s.Policy.OwnScripts = true
	for name, c := range map[string]struct {
		err  error
		want bool
		hint string
	}{
		"a revision as the command": {&trial.CommandError{Command: "main", Err: os.ErrNotExist}, true, "main is a revision: pass revisions with --good REV and --bad REV"},
		"a command":                 {fmt.Errorf("starting: %w", &trial.CommandError{Command: "./x.sh", Err: os.ErrNotExist}), true, ""},
		"an unsupported file":       {&source.UnsupportedError{Path: "a"}, true, ""},
		"a missing object":          {fmt.Errorf("reading: %w", &source.MissingError{}), true, ""},
		"the machine":               {&bisect.InfraError{What: "x", Err: os.ErrClosed}, false, ""},
		"anything else":             {os.ErrClosed, false, ""},
	} {
		if got := Mistake(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if got := hintRevision(s, c.err).Error(); !strings.Contains(got, c.hint) || c.hint == "" && strings.Contains(got, "is a revision") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Changed files count only where build and run read them, and not where every candidate is given them as they are.
func TestWarnUncommitted(t *testing.T) {
	r := gittest.New(t)
	for _, name := range []string{"src/a.cu", "src/b.cu", "doc/x.md", "run.sh"} {
		r.Write(t, name, "1")
	}
	r.Commit(t, "one")
	for name, c := range map[string]struct {
		changed string
		paths   []string
		kept    []string
		want    string
	}{
		"nothing":            {"", nil, nil, ""},
		"untracked":          {"new.txt", nil, nil, ""},
		"one":                {"src/a.cu", nil, nil, "uncommitted changes in 1 file are not part of HEAD"},
		"two of the paths":   {"src/a.cu src/b.cu doc/x.md", []string{"src"}, nil, "uncommitted changes in 2 files are not part of HEAD"},
		"none of the paths":  {"doc/x.md", []string{"src", "run.sh"}, nil, ""},
		"given to candidate": {"run.sh src/a.cu", nil, []string{"run.sh"}, "uncommitted changes in 1 file are not part of HEAD"},
	} {
		r.Git(t, "checkout", "-q", ".")
		for _, name := range strings.Fields(c.changed) {
			if err := os.WriteFile(filepath.Join(r.Dir, name), []byte("2"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		s := sessionAt(t, r)
		s.Policy.Paths = c.paths
		for _, name := range c.kept {
			s.Policy.Plan.Files = append(s.Policy.Plan.Files, kernels.File{Name: name})
		}
		WarnUncommitted(t.Context(), s.Repo, s.Policy, "HEAD")
		if got := strings.Join(s.Policy.Warnings, "|"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Launches of a store are read back as they were made; what another program wrote there is an error that names it.
func TestKeptLaunches(t *testing.T) {
	st, err := store.Open(t.TempDir(), store.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	record := &store.Session{ID: "20261121-074512-3f9a", Created: time.Now(), Updated: time.Now(), Status: store.Running, Config: []byte("{}")}
	if err := st.CreateSession(*record); err != nil {
		t.Fatal(err)
	}
	s := &Session{Store: st, Record: record, Ledger: &memory.Sampler{}}
	want := bisect.Outcome{Class: bisect.Crash, Why: "SIGSEGV", Wall: 1.5, At: 2.25, Marks: []bisect.Mark{{Kind: bisect.Shared, Text: "pid 7"}}}
	r := bisect.Request{Candidate: bisect.Candidate{Commit: strings.Repeat("a", 40), Assign: "fp8=on"}, Purpose: bisect.Searching, Nth: 3}
	if back, err := s.save(r, want); err != nil || !cmp.Equal(back, want) {
		t.Fatalf("%+v, %v", back, err)
	}
	all, err := KeptLaunches(st, record.ID)
	if err != nil || len(all) != 1 || all[0].ID() != r.ID() || !cmp.Equal(all[0].Outcome, want) {
		t.Errorf("%+v, %v", all, err)
	}
	if err := st.AddLaunch(store.Launch{Session: record.ID, Seq: 2, Candidate: "b", Commit: "b", Purpose: "search", Class: "ok", Outcome: []byte(`{"wall_s":"long"}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := KeptLaunches(st, record.ID); err == nil || !strings.Contains(err.Error(), "launch 2 of session 20261121-074512-3f9a cannot be read") {
		t.Errorf("%v", err)
	}
}
