package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/pipeline/gpu"
)

// blunder is one of a new user: where, what, and all that it is answered with.
type blunder struct {
	where  string // a folder below; a project unless set
	config string // kbisect.toml
	args   string // of kbisect; words in single quotes stay together
	code   int
	want   string // standard error, or, where that is an answer, the first lines of standard output
}

func blunders() []blunder {
	const compareWith = "hint: kbisect help config shows every key\n"
	return []blunder{
		{where: "nowhere", args: "run --good v1 -- true", code: exit.UsageError, want: `kbisect: no git repository at DIR or above it
hint: run this inside a repository, or name one with -C DIR
`},
		{where: "nowhere", args: "hook install", code: exit.UsageError, want: `kbisect: no git repository at DIR or above it
hint: run this inside a repository, or name one with -C DIR
`},
		{where: "empty", args: "run --good v1 -- true", code: exit.UsageError, want: `kbisect: --bad: this repository has no commits yet
hint: a search needs at least two
`},
		{args: "run --good v1", code: exit.UsageError, want: `kbisect: DIR/kbisect.toml does not exist
hint: kbisect init writes one; or give a command: kbisect run --good REV -- COMMAND
`},
		{args: "compare v1 HEAD", code: exit.UsageError, want: `kbisect: DIR/kbisect.toml does not exist
hint: kbisect init writes one; or give a command: kbisect compare A B -- COMMAND
`},
		{args: "run -- true", code: exit.UsageError, want: `kbisect: no good end: no ancestor of {main} is recorded as good
hint: name one with --good REV, or find one with --find-good
`},
		{args: "run --good v2 -- true", code: exit.UsageError, want: `kbisect: --good: unknown revision "v2"
hint: did you mean v1?
`},
		{args: "run --good= -- true", code: exit.UsageError, want: `kbisect: --good is empty
hint: name a revision, or leave --good out for the newest recorded good ancestor
`},
		{args: "run --good HEAD~99 -- true", code: exit.UsageError, want: `kbisect: --good: unknown revision "HEAD~99": HEAD has no such ancestor
hint: git log --oneline HEAD lists its ancestors
`},
		{args: "run --good other -- true", code: exit.UsageError, want: `kbisect: good commit {other} is not an ancestor of bad commit {main}; they have no common history
hint: choose two commits of one history
`},
		{args: "run --good HEAD --bad v1 -- true", code: exit.UsageError, want: `kbisect: good commit {main} is not an ancestor of bad commit {v1}; it is a descendant of it
hint: are the two ends swapped?
`},
		{args: "run --good main -- true", code: exit.UsageError, want: `kbisect: good and bad are the same commit {main}
hint: name an older commit that is still good
`},
		{args: "run --quiet --good v1 --no-explain -- true", code: exit.NoDifference, want: `No difference between the ends: both ends pass, the bad end in 5 of 5 launches

  hint        if it fails only sometimes, --find any launches it up to 30 times; to look for a slowdown of a program that sends no samples, try --find slow --metric wall
`},
		{args: "run --quiet --good v1 --metric nope -- true", code: exit.UsageError, want: `kbisect: metric nope: not reported in 2 successful launches, nor is any other metric
hint: send it on KBISECT_FD, or read it from the output with from = "regex" and a pattern in [metric]; --metric wall is the time of the whole process, --metric cpu its processor time
`},
		{args: "run --quiet --good v1 -- false", code: exit.NoDifference, want: `No difference between the ends: both ends fail in the same way: good end wrong in run: exit 1; bad end wrong in run: exit 1

  hint        name an older good end with --good, or let --find-good look for one
`},
		{args: "run --quiet --good v1 -- sh -c 'test $(cat n) -gt 2'", code: exit.NoDifference, want: `No difference between the ends: the good end is bad (wrong in run: exit 1) and the bad end is good

  hint        either the ends are swapped, or the range holds a fix; kbisect looks for what got worse between a good end and a later bad one
`},
		{args: "run --quiet --good v1 -- sh -c 'echo ./x: error while loading shared libraries: libcublas.so.11: cannot open shared object file: No such file or directory >&2; exit 127'", code: exit.UsageError, want: `kbisect: the program does not start at either end: wrong in run: exit 127 (./x: error while loading shared libraries: libcublas.so.11: cannot open shared o...)
hint: the loader does not find libcublas.so.11: install its package, or add its folder to LD_LIBRARY_PATH, which programs under test inherit; ldconfig -p lists known libraries
`},
		{args: "run --quiet --good v1 -- nosuchprogram", code: exit.UsageError, want: `kbisect: commit {v1}: start "nosuchprogram": executable file not found in $PATH
hint: is the program built and its directory in PATH?
`},
		{args: "run --quiet --good v1 -- ./bench", code: exit.UsageError, want: `kbisect: commit {v1}: start "./bench": stat ./bench: no such file or directory
hint: nothing is built: use --build 'SHELL COMMAND' or [build] command; a candidate contains committed files only, and paths are relative to the top of the repository
`},
		{args: "run --quiet --good v1 -- ./test.sh", code: exit.UsageError, want: `kbisect: commit {v1}: start "./test.sh": exec ./test.sh: permission denied
hint: the file is not executable in this commit: use its interpreter (sh ./test.sh), or commit it as executable (git add --chmod=+x)
`},
		{args: "run --quiet --good v1 -- './bench --size 4'", code: exit.UsageError, want: `kbisect: commit {v1}: start "./bench --size 4": stat ./bench --size 4: no such file or directory
hint: "./bench --size 4" is one argument: pass the words of the command separately
`},
		{where: "searched", args: "report last", code: exit.UsageError, want: `kbisect: session SESSION ended with an error, and there is nothing to report: commit {v1}: start "./bench --size 4": stat ./bench --size 4: no such file or directory
hint: kbisect show SESSION lists what it launched
`},
		{args: "run --quiet --good v1 --build false -- true", code: exit.NoDifference, want: `No difference between the ends: neither end can be tested: good end build-failed: exit 1; bad end build-failed: exit 1

  hint        does the build command work in a fresh clone? candidates hold only what is committed; else name an older good end with --good
`},
		{args: "run --quiet --good v1 -- sh -c 'exit 125'", code: exit.NoDifference, want: `No difference between the ends: neither end can be tested: good end skip in run: the command asked to skip (exit 125); bad end skip in run: the command asked to skip (exit 125)

  hint        name other ends with --good and --bad
`},
		{args: "simulate n", code: exit.UsageError, want: `kbisect: n: line 1: the document: expected an object, got a number
hint: kbisect simulate --example shows every key
`},
		{args: "run --good v1 --limit 90 -- true", code: exit.UsageError, want: `kbisect: --limit 90: "90" has no unit; write a number with a unit (ns us ms s m h), such as "90s", "2m" or "1h30m"
hint: kbisect run --help
`},
		{args: "run --good v1 --path srcs -- true", code: exit.UsageError, want: `kbisect: path "srcs" is in neither end
hint: paths and --path are relative to the top of the repository
`},
		{args: "run --godo v1 -- true", code: exit.UsageError, want: `kbisect: there is no option --godo; did you mean --good?
hint: kbisect run --help
`},
		{args: "gate --junti x", code: exit.UsageError, want: `kbisect: there is no option --junti; did you mean --junit?
hint: kbisect gate --help
`},
		{args: "run --good", code: exit.UsageError, want: `kbisect: --good needs a value
hint: kbisect run --help
`},
		{args: "run --good v1 --find slwo -- true", code: exit.UsageError, want: `kbisect: unknown --find slwo; did you mean "slow"?
hint: any, slow, timeout, wrong, crash or build
`},
		{args: "hsitory v1", code: exit.UsageError, want: `kbisect: unknown command "hsitory"; did you mean "history"?
hint: kbisect --help lists the commands
`},
		{args: "baseline recrod", code: exit.UsageError, want: `kbisect: kbisect baseline has no sub-command "recrod"; did you mean "record"?
hint: there are record, list, show, export, import; kbisect baseline --help
`},
		{args: "run --resume", code: exit.UsageError, want: `kbisect: nothing to resume: this repository has no search
hint: kbisect run --good REV
`},
		{where: "empty", args: "report", code: exit.UsageError, want: `kbisect: nothing has been searched in this repository yet
hint: kbisect run
`},
		{where: "searched", args: "report 2019", code: exit.UsageError, want: `kbisect: session 2019: no such record
hint: kbisect sessions lists them
`},
		{where: "busy", args: "run --good v1 -- true", code: exit.Machine, want: `kbisect: another run works on this repository: process PID (session SESSION) holds DIR/.git/kbisect/run.lock
hint: --wait waits for it; the lock ends with the process
`},
		{args: "baseline import n", code: exit.UsageError, want: `kbisect: n: invalid baseline: expected an object, got a number
hint: kbisect baseline export writes one
`},
		{where: "empty", args: "baseline show", code: exit.UsageError, want: `kbisect: nothing has been searched in this repository yet
hint: kbisect run
`},
		{args: "run --axis flags -- true", code: exit.UsageError, want: `kbisect: --axis flags: there are no flags to search
hint: name the switches of the project in kbisect.toml, one [[flag]] each, the safe value first
`},
		{args: "gate --base other -- true", code: exit.UsageError, want: `kbisect: HEAD and other have no common history
hint: name the branch to merge into with --base REV
`},
		{where: "shallow", args: "gate --base origin/work -- true", code: exit.UsageError, want: "kbisect: --base: origin/work is not in this shallow clone\n" +
			"hint: fetch the whole history: actions/checkout with `fetch-depth: 0`, GitLab with `GIT_DEPTH: \"0\"`, elsewhere git fetch --unshallow\n"},
		{where: "shallow", args: "run --good HEAD~2 -- true", code: exit.UsageError, want: `kbisect: --good: unknown revision "HEAD~2"
hint: this clone is shallow; git fetch --unshallow (or git fetch --deepen=1000) brings older commits
`},
		{config: "version = 1\n[run]\ncomand = [\"true\"]\nlimit = 3\n", args: "run --good v1", code: exit.UsageError, want: `kbisect: DIR/kbisect.toml:3: run.comand: unknown key; did you mean "command"?; allowed here: command, limit, limits, memory, files, keep, caches, probe, workspace, sandbox, network, learn, ahead, gpus
DIR/kbisect.toml:4: run.limit: expected a duration in quotes, such as "90s", "2m" or "1h30m", got an integer
` + compareWith},
		{config: "version = 1\n[run\n", args: "run --good v1", code: exit.UsageError, want: `kbisect: DIR/kbisect.toml:2: expected ']' to close table name
` + compareWith},
		{config: flagTables("bad = \"onn\"", ""), args: "run --axis flags", code: exit.UsageError, want: `kbisect: DIR/kbisect.toml:8: flag.bad: "onn" is not one of the values; did you mean "on"?; allowed: "on"
` + compareWith},
		{config: flagTables(`requires = ["tile=16"]`, `requires = ["graph=on"]`), args: "run --axis flags", code: exit.UsageError, want: `kbisect: DIR/kbisect.toml:4: flag: flag graph: cyclic requirements, so that none of these can be on: graph: off->on needs tile: 8->16 needs graph: off->on
` + compareWith},
		{config: strings.Replace(flagTables("", ""), `"true"`, `"false"`, 1), args: "run --quiet --axis flags", code: exit.NoDifference, want: `No difference between the ends: both ends fail in the same way: good end wrong in run: exit 1; bad end wrong in run: exit 1

  hint        with all flags at their base it fails too: search the commits (kbisect run --good REV), or the flags of another commit (--bad REV)
`},
		{where: "no device", config: "version = 1\n[device]\ngpus = [0]\n[run]\ncommand = [\"true\"]\n", args: "run --good v1", code: exit.UsageError, want: `kbisect: [device] gpus: devices 0: no GPU management library: WHY
hint: [device] gpus = "auto" uses the devices of this machine, "none" uses no device; kbisect doctor lists them
`},
	}
}

// flagTables is a configuration with two flags, each with a line of its own.
func flagTables(first, second string) string {
	return `version = 1
[run]
command = ["true"]
[[flag]]
name = "graph"
values = ["off", "on"]
env = "GRAPH"
` + first + `
[[flag]]
name = "tile"
values = ["8", "16"]
env = "TILE"
` + second + "\n"
}

// TestMistakes makes the likeliest mistakes of a new user: each is answered with what is wrong, where, and what
// to do, and with the exit code of the contract.
func TestMistakes(t *testing.T) {
	project, searched := newProject(t), newProject(t)
	for _, m := range blunders() {
		r := project
		switch m.where {
		case "nowhere":
			r = &repo{t: t, dir: t.TempDir(), home: t.TempDir()}
		case "empty":
			r = newRepo(t)
		case "searched":
			r = searched
		case "busy":
			r = newProject(t)
			r.busy()
		case "shallow":
			r = newRepo(t)
			os.RemoveAll(filepath.Join(r.dir, ".git"))
			r.git("clone", "-q", "--depth", "1", "file://"+project.dir, ".")
		case "no device":
			probe := gpu.Probe()
			if probe.Available {
				t.Log("NOT TRIED: a device is demanded where there is none: here is one")
				continue
			}
			m.want = strings.Replace(m.want, "WHY", probe.Why, 1) // no library, or one without a driver
		}
		if strings.Contains(m.args, "--quiet") { // it gets as far as a search
			r = searched
		}
		if m.config != "" {
			r.write(config.FileName, m.config)
		}
		out, errs, code := m.make(r)
		os.Remove(filepath.Join(r.dir, config.FileName))
		got := errs
		if m.code != exit.UsageError && m.code != exit.Machine {
			_, answer, _ := strings.Cut(out, "? ")
			answer, rows, _ := strings.Cut(answer, "\n")
			hint, _, _ := strings.Cut(rows, "\n") // the first row
			got = answer + "\n\n" + hint + "\n"
		}
		if got = r.anonymous(got); code != m.code || got != r.named(m.want) {
			t.Errorf("kbisect %s: exit %d, want %d\n%s\nwant\n%s", m.args, code, m.code, got, r.named(m.want))
		}
	}
}

// make makes the mistake: in this process, unless it gets as far as launching something.
func (m blunder) make(r *repo) (stdout, stderr string, code int) {
	words := quotedFields(m.args)
	if slices.Contains(words, "--quiet") {
		return r.kbisect(words...)
	}
	r.t.Chdir(r.dir)
	var out, errs bytes.Buffer
	code = run(r.t.Context(), append([]string{"kbisect"}, words...), nil, &out, &errs)
	return out.String(), errs.String(), code
}

// newProject is a history of four commits, one branch that has nothing to do with it, and a tag.
func newProject(t *testing.T) *repo {
	t.Helper()
	r := newRepo(t)
	r.git("checkout", "-q", "-b", "other")
	r.write("README", "another project")
	r.commit("other")
	r.git("checkout", "-q", "--orphan", "main")
	r.git("rm", "-q", "-r", "-f", ".")
	for _, n := range []string{"1", "2", "3", "4"} {
		r.write("n", n)
		r.write("test.sh", "#!/bin/sh\ntest $(cat n) -lt 3\n")
		if err := os.Chmod(filepath.Join(r.dir, "test.sh"), 0o644); err != nil {
			t.Fatal(err)
		}
		r.commit("change " + n)
	}
	r.git("tag", "v1", "HEAD~3")
	return r
}

// busy has a search under way until the test ends.
func (r *repo) busy() {
	cmd := r.command("run", "--good", "v1", "--", "sleep", "60")
	progress, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { cmd.Process.Signal(os.Interrupt); cmd.Wait() })
	waitFor(r.t, progress, "good end")
}

// anonymous takes out what no two runs have in common.
func (r *repo) anonymous(s string) string {
	s = strings.ReplaceAll(s, r.dir, "DIR")
	s = regexp.MustCompile(`\d{8}-\d{6}-[0-9a-f]{8}`).ReplaceAllString(s, "SESSION")
	return regexp.MustCompile(`process \d+`).ReplaceAllString(s, "process PID")
}

// named puts commits in for {REV}, as people are shown them.
func (r *repo) named(s string) string {
	return regexp.MustCompile(`\{\w+\}`).ReplaceAllStringFunc(s, func(m string) string {
		return bisect.ShortID(r.git("rev-parse", strings.Trim(m, "{}")))
	})
}

// quotedFields takes a command line apart; single quotes keep words together.
func quotedFields(s string) (words []string) {
	for i, part := range strings.Split(s, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// TestDirtyWorkTree: changes that are not committed are no mistake that stops a search, and are told.
func TestDirtyWorkTree(t *testing.T) {
	t.Parallel()
	r := newProject(t)
	r.write("n", "17")
	out, _, code := r.kbisect("run", "--quiet", "--good", "v1", "--no-hunks", "--", "sh", "test.sh")
	if code != exit.OK || !strings.Contains(out, "Notes\n  - uncommitted changes in 1 file are not part of the bad end\n") {
		t.Errorf("exit %d: %s", code, out)
	}
	if got, err := exec.Command("git", "-C", r.dir, "diff", "--stat").Output(); err != nil || !strings.Contains(string(got), "1 file changed") {
		t.Errorf("the change is gone: %s %v", got, err)
	}
}
