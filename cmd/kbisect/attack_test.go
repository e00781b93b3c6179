package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
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
	const named = `not run by hand here before: \["make"\], then \["sh" "./bench.sh"( "-x")?\]$`
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
