package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/fixtures"
	"github.com/kbisect/kbisect/fixtures/faults"
	"github.com/kbisect/kbisect/pipeline/store"
)

// The real program, real processes and a real store, into which faults are injected that a seed
// draws. Whatever happens, the answer is the planted commit, now or after --resume, or a message
// that says what to do.

const (
	injections = 11               // in each test run, one of each kind; make faults makes more
	faultSlack = 30 * time.Second // what faults may add to what the trials of a run need
)

func TestInjectedFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("the searches take a minute")
	}
	t.Parallel()
	t.Log("NOT TESTED: a wall clock that jumps while kbisect runs; what a jump leaves on disk is")
	mounts := faults.CanMount(t, "a full disk")
	tally := &tally{count: map[string]map[string]int{}}
	t.Cleanup(func() { t.Log("injections by kind, and what kbisect said under them:\n" + tally.String()) })
	for _, seed := range faults.Seeds(t, injections) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			inject(t, seed, tally, func(r *rig) { r.draw(seed, mounts) })
		})
	}
}

// Damage of what kbisect keeps costs time, or is named, and never leads to a wrong answer.
func TestStoreAndCacheDamage(t *testing.T) {
	t.Parallel()
	tally := &tally{count: map[string]map[string]int{}}
	t.Cleanup(func() { t.Log("damage, and what kbisect said of it:\n" + tally.String()) })
	for name, hurt := range map[string]func(*rig){
		"store": (*rig).storeDamaged, "store removed in mid-search": (*rig).storeRemoved, "kept builds": (*rig).buildsDamaged, "cache removed in mid-search": (*rig).cacheRemoved,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range attacks(1, 30) {
				t.Run(strconv.Itoa(seed), func(t *testing.T) { inject(t, uint64(seed), tally, hurt) })
			}
		})
	}
}

// inject makes one search with a fault, and goes on with it when the fault has passed.
func inject(t *testing.T, seed uint64, tally *tally, fault func(*rig)) {
	r := newRig(t, seed)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d: %s: %d commits, complaint %s, planted %s, args %q", seed, r.kind, r.n, r.class, r.planted, r.args)
		}
	}()
	fault(r)
	for range 4 {
		if r.goOn() {
			r.nothingLeft()
			tally.add(r.kind, r.said)
			return
		}
	}
	t.Errorf("no answer in four attempts after the fault")
}

// rig is one repository to inject a fault into.
type rig struct {
	*repo
	rng     *mathrand.Rand
	kind    string // of the fault
	class   string // of the complaint
	n       int    // commits after the good end
	good    string
	planted string
	mark    string // in the environment of all processes
	tools   string // folder of a compiler that is quick
	args    []string
	begun   bool     // there is a session to resume
	said    []string // exit codes under the fault
}

func newRig(t *testing.T, seed uint64) *rig {
	t.Helper()
	r := &rig{repo: &repo{t: t, dir: filepath.Join(t.TempDir(), "repo"), home: t.TempDir(), watched: seed%2 == 0}, rng: mathrand.New(mathrand.NewPCG(seed, 11)), mark: "KBISECT_TEST_MARK=" + rand.Text()}
	r.class = []string{"wrong", "wrong", "wrong", "crash", "timeout"}[r.rng.IntN(5)]
	r.n = 2 + r.rng.IntN(5)
	planted := 1 + r.rng.IntN(r.n)
	made, err := fixtures.Replay(fixtures.Line(r.n+1, func(i int) []fixtures.Change {
		return []fixtures.Change{fixtures.Script("test.sh", candidate(r.class, i >= planted)), fixtures.Write("n", strconv.Itoa(i))}
	}), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	r.good, r.planted = made.Commits["0"], made.Commits[strconv.Itoa(planted)]
	r.tools = filepath.Join(r.home, "bin")
	compiler := "#!/bin/sh\necho '#!/bin/sh' >hello; echo echo hello >>hello; chmod +x hello\n"
	if err := errors.Join(os.Mkdir(r.tools, 0o777), os.WriteFile(filepath.Join(r.tools, "cc"), []byte(compiler), 0o777)); err != nil {
		t.Fatal(err)
	}
	r.configure()
	r.args = []string{"run", "--json", "--good", r.good}
	return r
}

// candidate is a program that spends its time before it says in which phase it is.
func candidate(class string, bad bool) string {
	lines := []string{"#!/bin/sh", "head -c 20000 /dev/zero >$TMPDIR/scratch || exit 9", "echo phase: warmup >&$KBISECT_FD", "sleep 0.05", "echo phase: measure >&$KBISECT_FD"}
	if bad {
		lines = append(lines, map[string]string{"wrong": "exit 3", "crash": "kill -SEGV $$", "timeout": "sleep 60"}[class])
	}
	return strings.Join(append(lines, "echo sample: 3 us >&$KBISECT_FD", "sleep 0.02", "exit 0", ""), "\n")
}

func (r *rig) configure() {
	text := "version = 1\n"
	if r.rng.IntN(2) == 0 {
		text += "[build]\ncommand = [\"cp\", \"test.sh\", \"prog\"]\noutputs = [\"prog\"]\n[run]\ncommand = [\"./prog\"]\n"
	} else {
		text += "[run]\ncommand = [\"./test.sh\"]\n"
	}
	r.write("kbisect.toml", text+"limit = \"10s\"\n[run.limits]\nwarmup = \"3s\"\nmeasure = \"3s\"\n")
}

func (r *rig) state() string { return filepath.Join(r.dir, ".git/kbisect") }
func (r *rig) cache() string { return filepath.Join(r.home, "cache") }

// outcome is what one run of kbisect came to.
type outcome struct {
	code           int // -1: killed
	stdout, stderr bytes.Buffer
}

// start runs kbisect and waits for it; while it runs, meanwhile is called.
func (r *rig) start(meanwhile func(p *os.Process), args ...string) *outcome {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer cancel()
	o := &outcome{}
	cmd := r.command(args...)
	cmd.Env = append(cmd.Env, r.mark, "PATH="+r.tools+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = &o.stdout, &o.stderr
	cmd.WaitDelay = time.Second
	began := time.Now()
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	defer context.AfterFunc(ctx, func() { cmd.Process.Kill() })()
	var by sync.WaitGroup
	if meanwhile != nil {
		by.Go(func() { meanwhile(cmd.Process) })
	}
	_ = cmd.Wait()
	by.Wait()
	o.code = cmd.ProcessState.ExitCode()
	if took := time.Since(began); took > faultSlack+10*time.Second { // the trials of a time-out need ten
		r.t.Errorf("kbisect %q took %v", args, took)
	}
	r.sane(o)
	return o
}

var panics = regexp.MustCompile(`panic:|goroutine \d+ \[|internal error|DATA RACE|fatal error:`)

// sane holds for every run, whatever the fault.
func (r *rig) sane(o *outcome) {
	r.t.Helper()
	said := o.stderr.String()
	switch {
	case panics.MatchString(said) || o.code == exit.Internal:
		r.t.Errorf("exit %d: %s", o.code, said)
	case o.code == exit.OK, o.code == exit.Inconclusive:
		r.found(o)
	case o.code == exit.Machine, o.code == exit.UsageError:
		if !strings.Contains(said, "hint:") || !strings.Contains(said, "/") && !strings.Contains(said, "resume") {
			r.t.Errorf("exit %d without a word of what to do: %s", o.code, said)
		}
	case o.code == exit.Interrupted && strings.Contains(r.kind, sigterm), o.code == -1:
	default:
		r.t.Errorf("exit %d: %s\n%s", o.code, o.stdout.String(), said)
	}
}

// found holds an answer against what was planted.
func (r *rig) found(o *outcome) {
	r.t.Helper()
	var d report.Search
	if err := json.Unmarshal(o.stdout.Bytes(), &d); err != nil {
		r.t.Errorf("exit %d: %v: %s\n%s", o.code, err, o.stdout.String(), o.stderr.String())
		return
	}
	right := false
	for _, c := range d.Culprits {
		right = right || len(d.Culprits) == 1 && c.Commit == r.planted
	}
	for _, s := range d.Suspects {
		right = right || d.Result == bisect.Inconclusive && s.Commit == r.planted
	}
	if !right {
		r.t.Errorf("wrong: %s\n%s", o.stdout.String(), o.stderr.String())
	}
}

// under makes a run with the fault, and notes what it came to.
func (r *rig) under(meanwhile func(p *os.Process), args ...string) *outcome {
	r.t.Helper()
	o := r.start(meanwhile, args...)
	r.said = append(r.said, strconv.Itoa(o.code))
	r.looked()
	return o
}

// looked finds out whether there is a session to go on with.
func (r *rig) looked() {
	st, err := store.Open(r.state(), store.ReadOnly)
	if err != nil {
		r.begun = false
		return
	}
	defer st.Close()
	all, err := st.Sessions(0)
	r.begun = err == nil && len(all) > 0
}

// goOn resumes the search, or begins anew where nothing was kept, and reports whether it has come
// to the confirmed culprit.
func (r *rig) goOn() bool {
	r.t.Helper()
	args := r.args
	if r.begun {
		args = []string{"run", "--json", "--resume"}
	}
	o := r.start(nil, args...)
	said := o.stderr.String()
	switch {
	case o.code == exit.OK:
		return true
	case strings.Contains(said, "is damaged"), strings.Contains(said, "to start a new store"): // as its hint says
		r.said = append(r.said, "damaged")
		r.moveAway()
	case strings.Contains(said, "nothing to resume"):
	default:
		r.t.Errorf("going on: exit %d: %s\n%s", o.code, o.stdout.String(), said)
	}
	r.looked()
	return false
}

func (r *rig) moveAway() {
	files, _ := filepath.Glob(filepath.Join(r.state(), "kbisect.db*"))
	for _, f := range files {
		if err := os.Rename(f, filepath.Join(r.home, filepath.Base(f))); err != nil {
			r.t.Error(err)
		}
	}
}

// nothingLeft looks for processes and folders after the last run.
func (r *rig) nothingLeft() {
	r.t.Helper()
	for stop := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left := marked(r.mark)
		if len(left) == 0 {
			break
		}
		if time.Now().After(stop) {
			r.t.Errorf("still there: %q", left)
			break
		}
	}
	if left, _ := filepath.Glob(filepath.Join(r.cache(), "kbisect/work/*")); len(left) > 0 {
		r.t.Errorf("left behind: %q", left)
	}
}

// marked lists the live processes that have a mark in their environment.
func marked(mark string) (out []string) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		if data, _ := os.ReadFile(path); bytes.Contains(data, []byte(mark)) {
			argv, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			out = append(out, filepath.Dir(path)+" "+string(argv))
		}
	}
	return out
}

// tally counts what kbisect said under each kind of fault.
type tally struct {
	mu    sync.Mutex
	count map[string]map[string]int
}

func (c *tally) add(kind string, said []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count[kind] == nil {
		c.count[kind] = map[string]int{}
	}
	for _, s := range said {
		c.count[kind][s]++
	}
}

func (c *tally) String() string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(c.count)) {
		fmt.Fprintf(&b, "%-28s %v\n", kind, c.count[kind])
	}
	return b.String()
}
