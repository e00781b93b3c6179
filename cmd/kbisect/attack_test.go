package main

import (
	"context"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// A commit whose 30 objects name 10^9 files is set aside, and the search goes on to the culprit.
func TestTreeBomb(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	good := r.history(1, func(int) string { return "exit 0" })[0]
	kind, id := "100644 blob", r.git("rev-parse", "HEAD:n")
	for range 9 {
		var tree strings.Builder
		for i := range 10 {
			fmt.Fprintf(&tree, "%s %s\tn%d\n", kind, id, i)
		}
		kind, id = "040000 tree", r.pipe(tree.String(), "mktree")
	}
	root := r.pipe(r.git("ls-tree", "HEAD")+"\n"+kind+" "+id+"\tbomb\n", "mktree")
	bomb := r.pipe("bomb", "commit-tree", root, "-p", good)
	defused := r.pipe("defused", "commit-tree", good+"^{tree}", "-p", bomb)
	r.git("reset", "-q", "--soft", defused)
	r.write("test.sh", "#!/bin/sh\nexit 1\n")
	bad := r.commit("bad")
	d := r.finding(0, "--good", good, "--", "./test.sh")
	if len(d.Culprits) != 1 || d.Culprits[0].Commit != bad || !d.Culprits[0].Confirmed {
		t.Errorf("%+v", d.Culprits)
	}
}

// No commit is blamed when the repository is moved in the middle of a search: the search stops, and can be resumed once the
// repository is back.
func TestRepositoryMovedInMidSearch(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	away := filepath.Join(t.TempDir(), "away")
	ids := r.history(8, func(i int) string {
		if i < 5 {
			return "exit 0"
		}
		return "test ! -d " + r.dir + "/.git || test -e " + r.home + "/moved || { touch " + r.home + "/moved; mv " + r.dir + " " + away + "; }; exit 1"
	})
	out, errs, code := r.kbisect("run", "--json", "--good", ids[0], "--", "./test.sh")
	if code != exit.Machine || !strings.Contains(errs, "was moved or removed during the search") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if err := os.Rename(away, r.dir); err != nil {
		t.Fatal(err)
	}
	if d := r.finding(0, "--resume"); len(d.Culprits) != 1 || d.Culprits[0].Commit != ids[4] || !d.Culprits[0].Confirmed {
		t.Errorf("%+v", d.Culprits)
	}
}

// What sets a terminal's title, rings, deletes a line, is an 8-bit control, or turns the direction of what follows.
const hostile = "\x1b]0;owned\x07\x1b[2K\rok\u009b31m\u202e\U000e0041\x9b"

// drives finds what a text could do to a terminal.
func drives(text string) string {
	for i, r := range text {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") || r != '\n' && r != '\t' && !unicode.IsGraphic(r) {
			return fmt.Sprintf("%q in %q", r, text[max(0, i-40):min(len(text), i+size+40)])
		}
	}
	return ""
}

// Hostile bytes in every field that a stranger chooses reach no stream of any command; JSON keeps them, escaped.
func TestHostileBytesReachNoStream(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	var ids []string
	for i := range 4 {
		value, check := 10, "pass"
		if i >= 2 {
			value, check = 20, "fail off by one "+hostile
		}
		send := fmt.Sprintf("case: a%s\nsample: %d ms\nmetric m%[1]s: %[2]d\n", hostile, value)
		r.write("slow.sh", "#!/bin/sh\ncat >&$KBISECT_FD <<'E'\n"+send+"E\n")
		r.write("wrong.sh", "#!/bin/sh\ncat <<'E'\n"+hostile+"\nE\ncat >&$KBISECT_FD <<'E'\n"+send+"check: "+check+"\nE\n")
		r.write("f"+strings.ReplaceAll(hostile, "/", "")+"\n.txt", fmt.Sprintln(i, hostile))
		r.git("add", "-A")
		r.git("commit", "-q", "--author", "Eve"+hostile+" <eve"+hostile+"@example.com>", "-m", "subject "+hostile)
		ids = append(ids, r.git("rev-parse", "HEAD"))
	}
	r.git("branch", "b\u202e\u009bx", ids[0])
	r.write("kbisect.toml", "version = 1\n[run]\ncommand = [\"./slow.sh\", \"x\u202e\\u009b\\u001b\"]\n")
	session := regexp.MustCompile(`\d{8}-\d{6}-[0-9a-f]+`)
	for _, args := range []string{
		"run --good b\u202e\u009bx", "run --verbose --good b\u202e\u009bx -- ./wrong.sh", "run --json --good b\u202e\u009bx -- ./wrong.sh",
		"run --good no\u202e\u009b", "run --good b\u202e\u009bx -- ./nothing" + hostile,
		"measure", "measure --json", "compare b\u202e\u009bx HEAD", "compare --json b\u202e\u009bx HEAD", "gate --base b\u202e\u009bx", "gate --json --base b\u202e\u009bx",
		"measure -- ./wrong.sh", "compare b\u202e\u009bx HEAD -- ./wrong.sh", "explain b\u202e\u009bx HEAD", "history", "history --json", "sessions", "show LAST", "show --json LAST",
		"report LAST", "report LAST --markdown -", "report LAST --html -", "report LAST --git-log", "baseline record b\u202e\u009bx --note n" + hostile, "baseline list", "baseline show", "baseline show --json",
		"doctor", "init", "cache", "completion bash", "__complete bash 2 kbisect run --good ", "nonsense" + hostile, "run --nonsense" + hostile, "-C /nowhere" + hostile + " run",
	} {
		words := strings.Split(args, " ")
		for i, w := range words {
			if w == "LAST" {
				out, _, _ := r.kbisect("sessions")
				words[i] = session.FindString(out)
			}
		}
		out, errs, _ := r.kbisect(words...)
		for _, text := range []string{out, errs} {
			if found := drives(text); found != "" {
				t.Errorf("kbisect %q: %s", words, found)
			}
		}
		if strings.Contains(args, "--json") && !json.Valid([]byte(out)) {
			t.Errorf("kbisect %q: invalid JSON: %.200s %.300s", words, out, errs)
		}
	}
	x := startOnTerminal(t, r.command("run", "--good", ids[0], "--", "./wrong.sh"), 100, 30)
	if out, _ := x.wait(); strings.ContainsAny(out, "\x07\u202e\u009b\U000e0041") || strings.Contains(out, "\x1b]") || !utf8.ValidString(out) {
		t.Errorf("on a terminal: %q", out)
	}
}

// What another user owns is neither opened nor run, by git's rule: until its folder is listed.
func TestOwnership(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another user")
	}
	const nobody = 65534
	for _, name := range []string{".", ".git", "kbisect.toml"} {
		r := newRepo(t)
		r.write("kbisect.toml", "version = 1\n[run]\ncommand = [\"touch\", \""+filepath.Join(r.home, "ran")+"\"]\n")
		r.history(2, func(int) string { return "exit 0" })
		if err := os.Chown(filepath.Join(r.dir, name), nobody, nobody); err != nil {
			t.Fatal(err)
		}
		safe := filepath.Join(r.home, "gitconfig")
		for i, entry := range []string{"/elsewhere", r.dir, filepath.Dir(r.dir) + "/*", "*"} {
			if err := os.WriteFile(safe, []byte("[safe]\n\tdirectory = "+entry+"\n"), 0o666); err != nil {
				t.Fatal(err)
			}
			cmd := r.command("measure", "--launches", "1")
			cmd.Env = append(cmd.Env, "GIT_CONFIG_GLOBAL="+safe)
			out, _ := cmd.CombinedOutput()
			_, err := os.Stat(filepath.Join(r.home, "ran"))
			if ran := err == nil; ran != (i > 0) || ran == strings.Contains(string(out), "hint: git config --global --add safe.directory "+r.dir) {
				t.Errorf("%s of another user, %s listed: ran %v: %s", name, entry, ran, out)
			}
		}
	}
}

// A merged branch can change what the next push runs: commands that the user has not run are named first.
func TestHookNamesNewCommands(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	const named = `this command was never run by hand here: \["make"\], then \["sh" "./bench.sh"( "-x")?\]$`
	h.change(map[string]string{"level": "22\n"}, "a change")
	said, code := h.push("commands never run by hand", "origin", "main")
	h.wants(said, code, 0, named)
	h.must("measure", "--launches", "1")
	h.change(map[string]string{"level": "21\n"}, "another change")
	said, code = h.push("commands run by hand", "origin", "main")
	h.wants(said, code, 0, "building and launching", "!not run by hand")
	h.change(map[string]string{"level": "20\n", "kbisect.toml": strings.Replace(hookConfig, `"./bench.sh"`, `"./bench.sh", "-x"`, 1)}, "merged")
	said, code = h.push("commands that a merge changed", "origin", "main")
	h.wants(said, code, 0, named)
}

// What is in the place of the configuration or the store is named, and nothing waits for it.
func TestPipesDevicesAndFoldersInPlaceOfFiles(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"kbisect.toml", ".git/kbisect/kbisect.db", ".git/kbisect"} {
		for kind, put := range map[string]func(string) error{
			"named pipe": func(p string) error { return unix.Mkfifo(p, 0o666) },
			"folder":     func(p string) error { return os.Mkdir(p, 0o777) },
			"device":     func(p string) error { return os.Symlink("/dev/zero", p) },
		} {
			if place == ".git/kbisect" && kind == "folder" {
				continue
			}
			r := newRepo(t)
			r.history(2, func(int) string { return "exit 0" })
			if place != "kbisect.toml" {
				r.write("kbisect.toml", "version = 1\n[run]\ncommand = [\"true\"]\n")
			}
			path := filepath.Join(r.dir, place)
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"measure"}, {"run", "--good", "HEAD~1"}, {"sessions"}, {"gate", "--base", "HEAD~1"}} {
				if args[0] == "sessions" && place == "kbisect.toml" {
					continue
				}
				cmd := r.command(args...)
				timer := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
				out, _ := cmd.CombinedOutput()
				timer.Stop()
				if code := cmd.ProcessState.ExitCode(); code != 2 && code != 5 || !strings.Contains(string(out), filepath.Base(place)) {
					t.Fatalf("a %s at %s: kbisect %v: exit %d: %s", kind, place, args, code, out)
				}
			}
		}
	}
}

// A leak that begins in the range is the candidate's crash, with its own word, and neither stops the search nor the machine.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.write("kbisect.toml", "version = 1\n[run]\ncommand = [\"sh\", \"./test.sh\"]\nmemory = \"64M\"\nlimit = \"2m\"\n")
	ids := r.history(4, func(i int) string {
		if i >= 3 {
			return "head -c 1G /dev/zero | tail -c 1G | sleep 100"
		}
		return "exit 0"
	})
	d := r.finding(0, "--good", ids[0])
	text, _, _ := r.kbisect("show")
	if len(d.Culprits) != 1 || d.Culprits[0].Commit != ids[2] || string(d.Culprits[0].Class) != "crash" || !strings.Contains(text, "out of memory") {
		t.Errorf("%+v\n%s", d.Culprits, text)
	}
}

// A leak in a container or group with little memory is the candidate's crash as well: the kernel kills it, not kbisect.
func TestMemoryOfGroup(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	group := filepath.Join("/sys/fs/cgroup/memory", filepath.Base(r.home)+"-"+filepath.Base(filepath.Dir(r.home)))
	if err := os.Mkdir(group, 0o777); err != nil {
		t.Skip("NOT TESTED: no memory group of version 1 can be made")
	}
	t.Cleanup(func() {
		for stop := time.Now().Add(10 * time.Second); os.Remove(group) != nil && time.Now().Before(stop); {
			time.Sleep(10 * time.Millisecond)
		}
	})
	if err := os.WriteFile(filepath.Join(group, "memory.limit_in_bytes"), []byte("250M"), 0); err != nil {
		t.Fatal(err)
	}
	ids := r.history(4, func(i int) string {
		if i >= 3 {
			return "head -c 1G /dev/zero | tail -c 1G"
		}
		return "exit 0"
	})
	for _, step := range [][]string{{"--", "./test.sh"}, {"--build", "./test.sh", "--", "true"}}[:attacks(1, 2)] {
		cmd := r.command(append([]string{"run", "--good", ids[0], "--limit", "2m"}, step...)...)
		cmd.Args = append([]string{"sh", "-c", "echo $$ >" + group + "/cgroup.procs; exec \"$@\"", "sh", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(string(out), "  "+ids[2][:10]+"\n") || !strings.Contains(string(out), "out of memory") {
			t.Errorf("%v: exit %d: %s", step, code, out)
		}
	}
}

// attacks is how many of an attack are made: few in each test run, many by make attack.
func attacks(few, many int) int {
	if os.Getenv("KBISECT_ATTACK") != "" {
		return many
	}
	return few
}

// answer is what a user is told, without what may differ from one search to the next: times, and the order of tests.
func answer(t *testing.T, finding string) string {
	t.Helper()
	type assigned struct {
		Assign    map[string]string
		Certified bool
	}
	var d struct {
		Result   string
		Culprits []struct {
			Commit, Class string
			Confirmed     bool
		}
		Guilty      []assigned `json:"minimal_sets"`
		Safe        []assigned `json:"safe_sets"`
		Recommended assigned
		Complete    bool
	}
	if err := json.Unmarshal([]byte(finding), &d); err != nil {
		t.Errorf("%v: %s", err, finding)
	}
	for _, sets := range [][]assigned{d.Guilty, d.Safe} {
		slices.SortFunc(sets, func(a, b assigned) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return fmt.Sprintf("%+v", d)
}

// SIGKILL at instants all over a search: resumed, it says what searches say that were left alone.
func TestKilledAtAnyInstant(t *testing.T) {
	t.Parallel()
	const send = `echo "sample: %s us" >&$KBISECT_FD` + "\n"
	noisy := `x=$(($(od -An -N2 -tu2 /dev/urandom) %% 100))` + "\n" + fmt.Sprintf(send, `$((10000 * %d + 100 * x))`)
	flags := "version = 1\n[run]\ncommand = [\"./test.sh\"]\n"
	for _, f := range "ABCD" {
		flags += fmt.Sprintf("[[flag]]\nname = \"%c\"\nvalues = [\"off\", \"on\"]\nenv = \"%[1]c\"\n", f)
	}
	for name, c := range map[string]struct {
		commits int
		script  func(i int) string
		args    []string
		want    string
	}{
		"history": {40, func(i int) string { return fmt.Sprintf("sleep 0.05; test %d -lt 27", i) }, nil, "Class:wrong Confirmed:true"},
		"slow":    {12, func(i int) string { return fmt.Sprintf(noisy, map[bool]int{false: 100, true: 130}[i >= 8]) }, nil, "Class:slow Confirmed:true"},
		"flags": {1, func(int) string {
			return "t=1000; [ \"$A\" = on ] && t=$((t - 200)); [ \"$C\" = on ] && t=$((t - 100)); [ \"$D\" = on ] && t=$((t + 50))\n" +
				fmt.Sprintf(send, "$t") + "! { [ \"$A\" = on ] && [ \"$B\" = on ]; }"
		}, []string{"--axis", "flags"}, "Recommended:{Assign:map[A:on C:on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			if name == "flags" {
				r.write("kbisect.toml", flags)
			}
			ids := r.history(c.commits, c.script)
			args := append([]string{"run", "--json"}, c.args...)
			if name != "flags" {
				args = append(args, "--good", ids[0], "--", "./test.sh")
			}
			fresh := func() {
				if err := os.RemoveAll(filepath.Join(r.dir, ".git/kbisect")); err != nil {
					t.Fatal(err)
				}
			}
			var want string
			var took time.Duration
			alike, alone := 0, attacks(1, 10)
			for range alone {
				fresh()
				began := time.Now()
				out, errs, code := r.kbisect(args...)
				got := answer(t, out)
				if took = time.Since(began); want == "" {
					want = got
				}
				if code != 0 || got != want || !strings.Contains(got, c.want) {
					t.Errorf("left alone: exit %d: %s\n%s", code, got, errs)
					continue
				}
				alike++
			}
			t.Logf("attack: %s search, left alone: tried %d, held %d", name, alone, alike)
			held, n := 0, attacks(2, 60)
			for i := range n {
				fresh()
				cmd := r.command(args...)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				kill := time.AfterFunc(took*time.Duration(2*i+1)/time.Duration(2*n), func() { cmd.Process.Kill() })
				_ = cmd.Wait()
				kill.Stop()
				out, errs, code := r.kbisect("run", "--json", "--resume")
				if code == 2 { // killed before there was anything to resume
					out, errs, code = r.kbisect(args...)
				}
				if got := answer(t, out); code != 0 || got != want {
					t.Errorf("killed at %d of %d: exit %d: %s, not %s\n%s", i, n, code, got, want, errs)
					continue
				}
				held++
			}
			if left := marked("XDG_CACHE_HOME=" + filepath.Join(r.home, "cache")); len(left) > 0 {
				t.Errorf("still there: %q", left)
			}
			t.Logf("attack: %s search, killed and resumed: tried %d, held %d", name, n, held)
		})
	}
}

// Searches between commits that do not differ, on a machine that bursts of other work slow down: at most one in a
// hundred accuses a commit.
func TestNothingIsAccusedUnderBurstsOfLoad(t *testing.T) {
	n, beside := attacks(0, 300), 10
	if n == 0 {
		t.Skip("make attack runs it")
	}
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	var all, load sync.WaitGroup
	load.Go(func() {
		rng := mathrand.New(mathrand.NewPCG(1, 2))
		for ctx.Err() == nil {
			burst, over := context.WithTimeout(ctx, time.Duration(20+rng.IntN(400))*time.Millisecond)
			var hogs sync.WaitGroup
			for range 1 + rng.IntN(3) {
				hogs.Go(func() { _ = exec.CommandContext(burst, "sh", "-c", "while :; do :; done").Run() })
			}
			hogs.Wait()
			over()
			time.Sleep(time.Duration(20+rng.IntN(600)) * time.Millisecond)
		}
	})
	var mu sync.Mutex
	said := map[int]int{}
	for range beside {
		r := newRepo(t)
		r.write("kbisect.toml", "version = 1\n[run]\ncommand = [\"./test.sh\"]\n[judge]\neffect = \"10%\"\n")
		r.history(8, func(int) string {
			return "a=$(date +%s%N); i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; b=$(date +%s%N)\necho \"sample: $((b - a)) ns\" >&$KBISECT_FD"
		})
		all.Go(func() {
			for range n / beside {
				_ = os.RemoveAll(filepath.Join(r.dir, ".git/kbisect"))
				cmd := r.command("run", "--json", "--quiet", "--no-explain", "--budget", "15s", "--good", "HEAD~7")
				out, _ := cmd.Output()
				code := cmd.ProcessState.ExitCode()
				mu.Lock()
				if said[code]++; code == 0 {
					t.Logf("accused: %s", answer(t, string(out)))
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	stop()
	load.Wait()
	t.Logf("exit codes: %v", said)
	t.Logf("attack: nothing differs, bursts of load: tried %d, held %d", n, n-said[0])
	if 100*said[0] > n || said[3]+said[4] < n*9/10 {
		t.Errorf("%d of %d searches accused a commit; exit codes: %v", said[0], n, said)
	}
}
