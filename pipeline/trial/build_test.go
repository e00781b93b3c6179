package trial

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/fixtures"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/cache"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

func TestMain(m *testing.M) {
	if proc.Warden() {
		return
	}
	os.Exit(m.Run())
}

// stand is a recipe over a real history, and a workspace for it.
type stand struct {
	Recipe
	w   *workspace.Workspace
	ids []string // of the commits
}

// newStand makes a history with one commit for each list of changes.
func newStand(t *testing.T, plan kernels.Plan, commits ...[]fixtures.Change) *stand {
	t.Helper()
	home := t.TempDir()
	made, err := fixtures.Replay(fixtures.Line(len(commits), func(i int) []fixtures.Change { return commits[i] }), filepath.Join(home, "repo"))
	if err != nil {
		t.Fatal(err)
	}
	repo, err := source.Open(made.Dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	root, err := workspace.Open(t.Context(), filepath.Join(home, "work", "job"), "test-"+rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	logs := filepath.Join(home, "logs")
	if err := os.Mkdir(logs, 0o777); err != nil {
		t.Fatal(err)
	}
	s := &stand{Recipe{Repo: repo, Plan: plan, Env: os.Environ(), Logs: logs, Log: slog.New(slog.DiscardHandler)}, root.New("search"), nil}
	for _, label := range made.Order {
		s.ids = append(s.ids, made.Commits[label])
	}
	return s
}

// ask is the request for a commit with an assignment.
func (s *stand) ask(commit int, assign string) bisect.Request {
	return bisect.Request{Candidate: bisect.Candidate{Commit: s.ids[commit], Assign: assign}, Purpose: bisect.Searching}
}

// build builds a commit with an assignment.
func (s *stand) build(t *testing.T, commit int, assign string) Built {
	t.Helper()
	b, err := Build(t.Context(), s.w, Job{Recipe: s.Recipe, Request: s.ask(commit, assign)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A build compiles what no earlier one has, unless its time may count: whoever says so, whatever it is for.
func TestBuildsKeepObjects(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Fatal("NOT TESTED: a C compiler is missing: ", err)
	}
	tools := t.TempDir()
	log := filepath.Join(tools, "log")
	gittest.WriteFiles(t, tools, map[string]string{"cc": fmt.Sprintf("#!/bin/sh\necho compiled >>%s\nexec %s \"$@\"\n", log, cc)}, 0o777)
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	write := fixtures.Write
	s := newStand(t, kernels.Plan{Build: []string{"sh", "-c", "cc -c a.c && if test -e gen.sh; then sh gen.sh; fi && cc -Ifirst -Isecond -c b.c"}, Run: []string{"true"}},
		[]fixtures.Change{write("a.c", "int a = 1;\n"), write("b.c", "int b = 1;\n")},
		[]fixtures.Change{write("b.c", "int b = 2;\n")},
		[]fixtures.Change{write("b.c", "int b = 3;\n")},
		[]fixtures.Change{write("b.c", "int b = 4;\n")},
		[]fixtures.Change{write("b.c", "int b = 5;\n")},
		[]fixtures.Change{write("first/h.h", "#define H 1\n"), write("b.c", "#include <h.h>\nint b = H;\n")},
		[]fixtures.Change{write("gen.sh", "echo '#define H 2' >first/h.h\n")},
		[]fixtures.Change{fixtures.Delete("first/h.h"), fixtures.Delete("gen.sh"), write("second/h.h", "#define H 3\n")},
		[]fixtures.Change{write("first/h.h", "#define H 4\n")},
		[]fixtures.Change{write("notes.md", "new\n")},
		[]fixtures.Change{write("notes.md", "newer\n")},
		[]fixtures.Change{write("b.c", "int b = 6;\n")},
	)
	kept, err := cache.Open(filepath.Join(t.TempDir(), "builds"))
	if err != nil {
		t.Fatal(err)
	}
	s.Objects = true
	objects := workspace.ObjectsOf(s.w)
	hour := Limits{Build: time.Hour}
	for _, c := range []struct {
		why      string
		commit   int
		change   func(*Job)
		compiled int
	}{
		{"the first", 0, func(*Job) {}, 2},
		{"one source has changed", 1, func(*Job) {}, 1},
		{"back", 0, func(*Job) {}, 0},
		{"a proof", 0, func(j *Job) { j.Clean = true }, 0},
		{"the user wants whole builds", 0, func(j *Job) { j.Clean, j.Recipe.Plan.Whole = true, true }, 2},
		{"a proof of kind nvcc", 0, func(j *Job) { j.Clean, j.Recipe.Plan.Kind = true, kernels.KindNvcc }, 0},
		{"on another machine", 0, func(j *Job) { j.Clean, j.Recipe.Objects = true, false }, 2},
		{"an end", 2, func(j *Job) { j.Request.Purpose, j.Bounds.Limits = bisect.EndBad, hour }, 1},
		{"an end that might be late alone", 3, func(j *Job) {
			j.Request.Purpose, j.Bounds.Limits, objects.Since = bisect.EndBad, hour, time.Now().Add(-time.Hour)
		}, 3},
		{"another commit then", 4, func(j *Job) { j.Bounds.Limits = hour }, 1},
		{"a header", 5, func(*Job) {}, 2}, // more names, so everything
		{"the header is written by the build", 6, func(*Job) {}, 1},
		{"back to the header", 5, func(*Job) {}, 0},
		{"it has moved", 7, func(*Job) {}, 2},
		{"one that shadows it", 8, func(*Job) {}, 2},
		{"one more text", 9, func(*Job) {}, 0},
		{"a text", 10, func(*Job) {}, 0},
		{"an end whose build is kept whole", 11, func(j *Job) {
			j.Request.Purpose, j.Bounds.Limits, j.Recipe.Cache, j.Recipe.Plan.Outputs = bisect.EndBad, hour, kept, []string{"b.o"}
		}, 3},
		{"and found", 11, func(j *Job) { j.Recipe.Cache, j.Recipe.Plan.Outputs = kept, []string{"b.o"} }, 0},
		{"an earlier build was late", 0, func(*Job) { objects.Drop() }, 2},
	} {
		os.Remove(log)
		s.w.Contents.Built = false
		j := Job{Recipe: s.Recipe, Request: s.ask(c.commit, "")}
		c.change(&j)
		b, err := Build(t.Context(), s.w, j)
		if err != nil || b.Outcome.Class != "" {
			t.Fatalf("%s: %+v, %v", c.why, b.Outcome, err)
		}
		if data, _ := os.ReadFile(log); strings.Count(string(data), "\n") != c.compiled {
			t.Errorf("%s: %q, want it %d times", c.why, data, c.compiled)
		}
	}
	s.Recipe.Objects = true
	root, err := workspace.Open(t.Context(), filepath.Join(t.TempDir(), "work", "job"), "test-"+rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	w := root.New("boxed")
	root.Sandbox = &proc.Sandbox{}
	if workspace.ObjectsOf(w) != nil {
		t.Error("objects go from one sandbox to another")
	}
}

// A build starts from what the workspace holds only where its tool would notice all that has changed.
func TestIncrementalBuilds(t *testing.T) {
	const record = `test -e object && echo incremental >how || echo clean >how; touch object; test ! -e broken || test ! -e stale; touch stale`
	plan := kernels.Plan{Build: []string{"sh", "-c", record}, Run: []string{"true"}, Incremental: true, BuildFiles: []string{"Makefile", "*.cmake"}}
	write := fixtures.Write
	s := newStand(t, plan,
		[]fixtures.Change{write("a.c", "0"), write("sub/x.cmake", "0"), write("docs", "0")},
		[]fixtures.Change{write("a.c", "1")},
		[]fixtures.Change{write("b.c", "new")},
		[]fixtures.Change{write("sub/x.cmake", "1")},
		[]fixtures.Change{fixtures.Delete("docs")},
		[]fixtures.Change{write("a.c", "2"), write("b.c", "2")},
	)
	s.Flags = []kernels.Flag{{Name: "opt", Option: "-O{value}"}}
	for _, c := range []struct {
		why    string
		commit int
		assign string
		want   string
	}{
		{"nothing is there", 0, "", "clean"},
		{"a source was changed", 1, "", "incremental"},
		{"back again", 0, "", "incremental"},
		{"a file was added", 2, "", "clean"},
		{"a build file was changed", 3, "", "clean"},
		{"a file was deleted", 4, "", "clean"},
		{"two sources were changed", 5, "", "incremental"},
		{"an option was changed", 5, "opt=3", "clean"},
	} {
		if b := s.build(t, c.commit, c.assign); b.Outcome.Class != "" {
			t.Fatalf("%s: %+v", c.why, b.Outcome)
		}
		if how, err := os.ReadFile(filepath.Join(s.w.Dir, "how")); err != nil || strings.TrimSpace(string(how)) != c.want {
			t.Errorf("%s: %s, want %s (%v)", c.why, how, c.want, err)
		}
	}
}

// An incremental build that fails is made again from nothing, so that no commit is blamed for what another has left;
// one that is not built is not asked for again.
func TestStaleObjectsBlameNobody(t *testing.T) {
	plan := kernels.Plan{Build: []string{"sh", "-c", "echo built >>$BENCH; test ! -e stale && touch stale"}, Run: []string{"true"}, Incremental: true}
	s := newStand(t, plan, []fixtures.Change{fixtures.Write("a.c", "0")}, []fixtures.Change{fixtures.Write("a.c", "1")})
	log := filepath.Join(t.TempDir(), "builds")
	s.Env = append(s.Env, "BENCH="+log)
	for i, builds := range []int{1, 3} { // the second fails, and is made again
		if b := s.build(t, i, ""); b.Outcome.Class != "" || !s.w.Contents.Built || s.w.Contents.Dirty {
			t.Errorf("commit %d: %+v, %+v", i, b.Outcome, s.w.Contents)
		}
		if data, err := os.ReadFile(log); err != nil || strings.Count(string(data), "built") != builds {
			t.Errorf("commit %d: %s, want %d builds", i, data, builds)
		}
	}
	s.build(t, 1, "")
	if data, _ := os.ReadFile(log); strings.Count(string(data), "built") != 3 {
		t.Errorf("what is built already was built again: %s", data)
	}
}

// How builds end that nobody can try on the good end, with what is said of them.
func TestBuildEndings(t *testing.T) {
	s := newStand(t, kernels.Plan{Run: []string{"true"}}, []fixtures.Change{fixtures.Write("script", "#!/bin/sh\n"), fixtures.Write("sub/x", "")})
	for name, c := range map[string]struct {
		argv    []string
		outputs []string
		purpose bisect.Purpose
		class   bisect.Class
		why     string // of the outcome, or the error of a good end
	}{
		"it fails":                       {argv: []string{"sh", "-c", "echo a.c:1: error: no; exit 2"}, class: bisect.BuildFailed, why: "exit 2 (a.c:1: error: no)"},
		"it leaves no output":            {argv: []string{"true"}, outputs: []string{"sub/x", "prog*"}, class: bisect.BuildFailed, why: "left no prog*"},
		"its program is missing":         {argv: []string{"./nosuch"}, class: bisect.BuildFailed, why: "it cannot be started: "},
		"its program cannot be executed": {argv: []string{"./script"}, class: bisect.BuildFailed, why: "permission denied"},
		"missing on the good end":        {argv: []string{"./nosuch"}, purpose: bisect.EndGood, why: "hint: does the build make it?"},
		"not executable on the good end": {argv: []string{"./script"}, purpose: bisect.EndGood, why: "hint: the file is not executable in this commit: use its interpreter (sh ./script)"},
		"one argument on the good end":   {argv: []string{"make all"}, purpose: bisect.EndGood, why: `hint: "make all" is one argument`},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.ask(0, "")
			s.Plan.Build, s.Plan.Outputs, r.Purpose = c.argv, c.outputs, c.purpose
			b, err := Build(t.Context(), s.w, Job{Recipe: s.Recipe, Request: r, Clean: true})
			var command *CommandError
			if c.purpose == bisect.EndGood {
				if !errors.As(err, &command) || !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), s.w.Dir) || !strings.HasPrefix(err.Error(), "commit "+bisect.ShortID(s.ids[0])+": ") {
					t.Errorf("%v, want %q", err, c.why)
				}
				return
			}
			if err != nil || b.Outcome.Class != c.class || b.Outcome.Phase != "build" || !strings.Contains(b.Outcome.Why, c.why) {
				t.Errorf("%v %+v, want %s: %s", err, b.Outcome, c.class, c.why)
			}
		})
	}
}

// A command that cannot be started is the user's mistake on the good end, the candidate's fault elsewhere, and nobody's
// where the job was interrupted; other errors are the machine's.
func TestCannotStart(t *testing.T) {
	s := newStand(t, kernels.Plan{Build: []string{"true"}, Run: []string{"true"}}, []fixtures.Change{fixtures.Write("a", "")})
	if err := s.w.Open(s.Opening()); err != nil {
		t.Fatal(err)
	}
	missing := &proc.StartError{Err: fs.ErrNotExist}
	var infra *bisect.InfraError
	good := s.ask(0, "")
	good.Purpose = bisect.EndGood
	if _, err := s.cannotStart(s.w, good, "./x", fmt.Errorf("run: %w", missing)); errors.As(err, &infra) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("on the good end: %v", err)
	}
	if o, err := s.cannotStart(s.w, s.ask(0, ""), "./x", missing); err != nil || o.Class != bisect.BuildFailed {
		t.Errorf("on a candidate: %+v %v", o, err)
	}
	if _, err := s.cannotStart(s.w, s.ask(0, ""), "./x", context.Canceled); err != context.Canceled {
		t.Errorf("interrupted: %v", err)
	}
	if _, err := s.cannotStart(s.w, s.ask(0, ""), "./x", syscall.EAGAIN); !errors.As(err, &infra) || !strings.Contains(err.Error(), "running ./x for ") {
		t.Errorf("no process can be made: %v", err)
	}
}

// What is advised about a command that cannot be started.
func TestCommandHint(t *testing.T) {
	notFound := &exec.Error{Name: "x", Err: exec.ErrNotFound}
	for _, c := range []struct {
		command string
		built   bool
		err     error
		want    string // the beginning
	}{
		{"./run.sh", false, fs.ErrPermission, "the file is not executable in this commit: use its interpreter (sh ./run.sh)"},
		{"run.sh", false, fs.ErrPermission, ""},
		{"./a", false, syscall.ENOEXEC, ""},
		{"make all", true, notFound, `"make all" is one argument`},
		{"./a b", false, fs.ErrNotExist, `"./a b" is one argument`},
		{"./a", false, fs.ErrNotExist, "nothing is built: "},
		{"./a", true, fs.ErrNotExist, "does the build make it? "},
		{"nvcc", true, notFound, ""},
	} {
		if got := commandHint(c.command, ".", c.built, c.err); !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s, %v: %q, want %q", c.command, c.err, got, c.want)
		}
	}
}

// Where nothing can be executed, no file of the commit is to blame.
func TestCommandHintNoexec(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_NOEXEC, "size=64k"); err != nil {
		t.Skipf("NOT TESTED: no file system can be mounted (%v)", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	if got := commandHint("./run.sh", dir, false, fs.ErrPermission); !strings.Contains(got, "noexec") {
		t.Error(got)
	}
}

// The key of a kept build changes with all that the build depends on, and with nothing else.
func TestCacheKey(t *testing.T) {
	s := newStand(t, kernels.Plan{Build: []string{"sh", "-c", "make"}, Outputs: []string{"prog"}, Run: []string{"./prog"}},
		[]fixtures.Change{fixtures.Write("src/a.c", "0"), fixtures.Write("docs/x", "0")},
		[]fixtures.Change{fixtures.Write("docs/x", "1")},
		[]fixtures.Change{fixtures.Write("src/a.c", "1")},
	)
	s.Paths = []string{"src"}
	s.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/home/me"}
	kept, err := cache.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.Cache = kept
	s.Flags = []kernels.Flag{{Name: "opt", Option: "-O{value}"}, {Name: "arg", Arg: "--n={value}"}, {Name: "seen", Env: "SEEN"}}
	s.build(t, 0, "") // so that there are files to look at
	base := s.Recipe
	key := func(commit int, assign string, change func(*Recipe)) string {
		p := base
		p.Env, p.Sources = slices.Clone(base.Env), nil
		if change != nil {
			change(&p)
		}
		j := Job{Recipe: p, Request: s.ask(commit, assign)}
		return j.cacheKey(s.w)
	}
	plain := key(0, "", nil)
	other := map[string]string{plain: "the first"}
	for name, got := range map[string]string{
		"another source":               key(2, "", nil),
		"another command":              key(0, "", func(p *Recipe) { p.Plan.Build = []string{"sh", "-c", "make -j"} }),
		"another output":               key(0, "", func(p *Recipe) { p.Plan.Outputs = []string{"prog2"} }),
		"other options":                key(0, "opt=3", nil),
		"the same option, other value": key(0, "opt=2", nil),
		"another option of the name":   key(0, "opt=2", func(p *Recipe) { p.Flags = []kernels.Flag{{Name: "opt", Option: "-DOPT={value}"}} }),
		"CFLAGS":                       key(0, "", func(p *Recipe) { p.Env = append(p.Env, "CFLAGS=-O1") }),
		"static metrics":               key(0, "", func(p *Recipe) { p.Sources = []Source{{Metric: "registers", From: FromStatic}} }),
		"static metrics of the code":   key(0, "", func(p *Recipe) { p.Sources = []Source{{Metric: "sass", From: FromStatic}} }),
	} {
		if was, taken := other[got]; taken || len(got) != 64 {
			t.Errorf("%s: key %q is that of %s", name, got, was)
		}
		other[got] = name
	}
	for name, got := range map[string]string{
		"the same again":                   key(0, "", nil),
		"a commit of equal inputs":         key(1, "", nil),
		"an argument of the program":       key(0, "arg=3", nil),
		"a variable that no build reads":   key(0, "seen=3", nil),
		"a variable of no tool":            key(0, "", func(p *Recipe) { p.Env = append(p.Env, "EDITOR=ed") }),
		"a metric that the program leaves": key(0, "", func(p *Recipe) { p.Sources = []Source{{Metric: "time", From: "nvbench", File: "x"}} }),
	} {
		if got != plain {
			t.Errorf("%s changed the key", name)
		}
	}
	for name, change := range map[string]func(*Recipe){
		"no cache":   func(p *Recipe) { p.Cache = nil },
		"no outputs": func(p *Recipe) { p.Plan.Outputs = nil },
	} {
		if got := key(0, "", change); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A build that is kept comes back with what it has shown; a cache that fails only costs time.
func TestKeptBuilds(t *testing.T) {
	s := newStand(t, kernels.Plan{Build: []string{"sh", "-c", "cp a.c prog; printf 'prog: a.c /usr/include/x.h\n' >prog.d"}, Outputs: []string{"prog"}, Depfiles: []string{"prog.d"}, Run: []string{"true"}},
		[]fixtures.Change{fixtures.Write("a.c", "0")}, []fixtures.Change{fixtures.Write("b.c", "1")})
	s.Paths = []string{"b.c"}
	dir := t.TempDir()
	kept, err := cache.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Cache = kept
	first := s.build(t, 0, "")
	facts := s.w.Contents.Facts
	if first.Outcome.CacheHit || facts.Artefact == nil || !slices.Equal(facts.Inputs, []string{"a.c"}) || !slices.Equal(facts.Outside, []string{"a.c"}) {
		t.Errorf("%+v, facts %+v", first.Outcome, facts)
	}
	s.build(t, 1, "")
	if again := s.build(t, 0, ""); !again.Outcome.CacheHit {
		t.Errorf("built again: %+v", again.Outcome)
	}
	if d := cmp.Diff(facts, s.w.Contents.Facts); d != "" {
		t.Error(d)
	}
	if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	s.build(t, 1, "")
	if b := s.build(t, 0, ""); b.Outcome.Class != "" || b.Outcome.CacheHit {
		t.Errorf("without its folder: %+v", b.Outcome)
	}
}

// Static metrics come from the finished programs of the build; a tool that is missing or fails leaves them out.
func TestLookAtPrograms(t *testing.T) {
	s := newStand(t, kernels.Plan{Run: []string{"true"}}, []fixtures.Change{fixtures.Write("a", "")})
	if err := s.w.Open(s.Opening()); err != nil {
		t.Fatal(err)
	}
	x := examiner{recipe: s.Recipe, w: s.w, env: os.Environ()}
	for name, c := range map[string]struct {
		argv []string
		want string
	}{
		"it prints":     {[]string{"echo", "registers"}, "registers\n"},
		"it fails":      {[]string{"sh", "-c", "echo half; exit 1"}, ""},
		"it is missing": {[]string{"no-such-tool"}, ""},
	} {
		if got, err := x.look(t.Context(), c.argv); err != nil || string(got) != c.want {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

// The outputs that a build names tell its artefact by content and place; too many are not read.
func TestArtefact(t *testing.T) {
	s := newStand(t, kernels.Plan{Outputs: []string{"out", "*.bin"}}, []fixtures.Change{fixtures.Write("a", "")})
	x := examiner{recipe: s.Recipe, w: s.w}
	digest := func(files map[string]string) string {
		t.Helper()
		if err := os.RemoveAll(s.w.Dir); err != nil {
			t.Fatal(err)
		}
		gittest.WriteFiles(t, s.w.Dir, files, 0o666)
		a, err := x.artefact()
		if err != nil {
			t.Fatal(err)
		}
		if a == nil {
			return ""
		}
		return a.Host
	}
	plain := digest(map[string]string{"out/x": "1", "a.bin": "2", "log": "3"})
	if again := digest(map[string]string{"out/x": "1", "a.bin": "2", "log": "4", "out/empty/.keep": ""}); again == plain {
		t.Error("a further output does not count")
	}
	if again := digest(map[string]string{"out/x": "1", "a.bin": "2", "log": "4"}); again != plain || plain == "" {
		t.Error("a file that is no output counts")
	}
	for name, files := range map[string]map[string]string{
		"content": {"out/x": "9", "a.bin": "2"},
		"place":   {"out/y": "1", "a.bin": "2"},
	} {
		if digest(files) == plain {
			t.Errorf("another %s does not count", name)
		}
	}
	if d := digest(map[string]string{"log": ""}); d != "" {
		t.Errorf("no output: %q", d)
	}
	many := map[string]string{}
	for i := range maxOutputs + 1 {
		many[fmt.Sprintf("out/%d", i)] = ""
	}
	gittest.WriteFiles(t, s.w.Dir, many, 0o666)
	if _, err := x.artefact(); err == nil {
		t.Error("any number of files is read")
	}
}

// A commit whose files are not written within the limit of the build is skipped; an end that cannot be exported is an
// error, since the user must name another.
func TestExportsThatFail(t *testing.T) {
	s := newStand(t, kernels.Plan{Build: []string{"true"}, Run: []string{"true"}}, []fixtures.Change{fixtures.Write("a", "")})
	j := Job{Recipe: s.Recipe, Request: s.ask(0, ""), Bounds: Bounds{Limits: Limits{Build: time.Nanosecond}}}
	if b, err := Build(t.Context(), s.w, j); err != nil || b.Outcome.Class != bisect.Skip || b.Outcome.Phase != "export" || !strings.Contains(b.Outcome.Why, "not written within 1ns") {
		t.Errorf("%+v %v", b.Outcome, err)
	}
	j.Bounds = Bounds{}
	for purpose, skipped := range map[bisect.Purpose]bool{bisect.Searching: true, bisect.EndGood: false, bisect.EndBad: false} {
		j.Request.Candidate.Commit, j.Request.Purpose = strings.Repeat("1", 40), purpose
		b, err := Build(t.Context(), s.w, j)
		if skipped != (err == nil) || skipped != (b.Outcome.Class == bisect.Skip) || !skipped && !strings.Contains(err.Error(), "exporting commit 1111111111") {
			t.Errorf("%s of a commit that is missing: %+v %v", purpose, b.Outcome, err)
		}
	}
}
