package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// completing is a repository with something to complete.
func completing(t *testing.T) *repo {
	r := newRepo(t)
	r.write("kbisect.toml", `version = 1
[run]
command = ["true"]
`)
	ids := r.history(4, func(i int) string { return "true" })
	r.git("tag", "v1", ids[0])
	r.git("tag", "v1.1", ids[1])
	r.git("branch", "tune/tiles")
	return r
}

// TestCompletions asks what could stand at the end of a line.
func TestCompletions(t *testing.T) {
	r := completing(t)
	t.Chdir(r.dir)
	for line, want := range map[string]string{
		"kbisect comp":                             "compare completion",
		"kbisect -C . comp":                        "compare completion",
		"kbisect ru":                               "run",
		"kbisect complete":                         "",
		"kbisect hook pr":                          "pre-push",
		"kbisect hook st":                          "",
		"kbisect run --fi":                         "--find-good --find --first-parent",
		"kbisect run --good v1 --qui":              "--quiet",
		"kbisect compare HEAD HEAD --pa":           "--path --pairs",
		"kbisect gate --ac":                        "--accept",
		"kbisect run --good v":                     "v1 v1.1",
		"kbisect run --bad tune":                   "tune/tiles",
		"kbisect compare v1 ma":                    "main",
		"kbisect measure 'v1":                      "v1 v1.1",
		"kbisect help ti":                          "timeouts",
		"kbisect help co":                          "compare completion comparing config",
		"kbisect help timeouts ru":                 ":files",
		"kbisect nosuch --h":                       "--help",
		"kbisect run --good v1 -- ./a":             ":files",
		"kbisect run --report ":                    ":files",
		"kbisect -C /nosuch run --good v":          "",
		`kbisect run --build "make 'a b'" --bad v`: "v1 v1.1",
	} {
		if got := inBash(t, line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	if got := strings.Fields(inBash(t, "kbisect sessions ")); !slices.Contains(got, "--limit") || !slices.Contains(got, "--quiet") {
		t.Errorf("no operand: options are offered, not %q", got)
	}
}

// inBash is what kbisect tells bash.
func inBash(t *testing.T, line string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"kbisect", "complete", "bash", line}, nil, &out, &errs); code != exit.OK || errs.Len() > 0 {
		t.Errorf("%s: exit %d, %s", line, code, errs.String())
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// TestCompletionInBash sources the script in bash and reads what its completion key would offer.
func TestCompletionInBash(t *testing.T) {
	r := completing(t)
	const script = `source <(kbisect completion bash) && complete -p kbisect >/dev/null || exit 9
for line; do
	COMP_LINE=$line COMP_POINT=${#line} COMP_WORDS=(kbisect)
	_kbisect
	echo "${COMPREPLY[*]}"
done`
	cmd := exec.Command("bash", "--norc", "-c", script, "bash", "kbisect comp", "kbisect run --good v1.", "kbisect run --good v1 -- ./a")
	cmd.Dir, cmd.Env = r.dir, r.env()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if want := "compare completion\nv1.1\n\n"; err != nil || errs.Len() > 0 || string(out) != want {
		t.Errorf("%v %s: %q, want %q", err, errs.String(), out, want)
	}
}

// TestCompletionKey presses the completion key in an interactive bash.
func TestCompletionKey(t *testing.T) {
	r := completing(t)
	cmd := exec.Command("bash", "--norc", "--noprofile", "-i")
	cmd.Dir, cmd.Env = r.dir, append(r.env(), "PS1=ready> ", "TERM=dumb", "HISTFILE=")
	term := startOnTerminal(t, cmd, 120, 24)
	term.expect("ready> ")
	term.send("source <(kbisect completion bash); echo so''urced\n")
	term.expect("\nsourced")
	term.send("kbisect sess\t")
	term.expect("kbisect sessions ")
	term.send("\x15kbisect run --bad tune\t")
	term.expect("--bad tune/tiles ")
	term.send("\x15kbisect run --report kbi\t")
	term.expect("--report kbisect.toml ")
	term.send("\x15exit\n")
	term.wait()
}

// TestCompletionInOtherShells has zsh and fish, where they are installed, complete.
func TestCompletionInOtherShells(t *testing.T) {
	r := completing(t)
	for shell, args := range map[string][]string{
		"fish": {"--no-config", "-c", "kbisect completion fish | source; complete -C'kbisect run --good v1.'; complete -C'kbisect run --report kbi'"},
		"zsh": {"-f", "-c", `compdef() { }
_describe() { print -l ${(P)2}; }
_files() { print files; }
source <(kbisect completion zsh)
for l in "kbisect run --good v1." "kbisect run --report kbi"; do words=(${=l}) CURRENT=4; _kbisect; done`},
	} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("NOT TRIED: %s is not installed", shell)
			continue
		}
		cmd := exec.Command(shell, args...)
		cmd.Dir, cmd.Env = r.dir, r.env()
		out, err := cmd.CombinedOutput()
		want := map[string][]string{"fish": {"v1.1", "kbisect.toml"}, "zsh": {"v1.1", "files"}}[shell]
		if got := strings.Fields(string(out)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %q, want %q", shell, err, got, want)
		}
	}
}

func FuzzSplitLine(f *testing.F) {
	for _, s := range []string{"", "kbisect", "k r 'a b'\\", `a "b\"c" '`, " \t\n", "k a\xda 0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := splitLine(line)
		if len(words) < 2 {
			t.Fatalf("%q: %q", line, words)
		}
		if plain := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\n", r) }); !strings.ContainsAny(line, `'"\`) && len(plain) > 1 && !slices.Equal(words[:len(plain)-1], plain[:len(plain)-1]) {
			t.Fatalf("%q: %q", line, words)
		}
		at := findPlace(newApp(nil, nil, nil), words[1:len(words)-1])
		at.dir = "/nosuch"
		at.completions(words[len(words)-1])
	})
}

// TestCompletedRefsRunNothing: the name of a branch is a stranger's, and stays a word when TAB has written it.
func TestCompletedRefsRunNothing(t *testing.T) {
	t.Parallel()
	for shell, start := range map[string][]string{
		"bash": {"bash", "--norc", "--noprofile", "-i"}, "zsh": {"zsh", "-f", "-i"},
	} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("SKIPPED: there is no %s; its completion was not tested", shell)
			continue
		}
		r := newRepo(t)
		r.write("n", "1")
		r.commit("one")
		refs := []string{"x1$(touch${IFS}ran)", "x2`touch${IFS}ran`", "x3;touch${IFS}ran", "x4'&touch${IFS}ran;'", "x5\"|touch${IFS}ran", "x6&touch${IFS}ran", "x7<n>ran", "x8!!#"}
		for _, ref := range refs {
			r.git("branch", ref)
		}
		cmd := exec.Command(start[0], start[1:]...)
		cmd.Dir, cmd.Env = r.dir, append(r.env(), "PS1=ready> ", "TERM=dumb", "HISTFILE=", "INPUTRC=/dev/null")
		x := startOnTerminal(t, cmd, 200, 50)
		if shell == "zsh" {
			x.send("autoload -U compinit && compinit -u -D\n")
		}
		x.send("source <(kbisect completion " + shell + "); echo bound$((1+1))\n")
		x.expect("bound2")
		for i := range refs {
			x.send(fmt.Sprintf("kbisect measure --launches 1 x%d\t -- true; echo done%d$((1+1))\n", i+1, i))
			x.expect("The launch passed")
			x.expect(fmt.Sprintf("done%d2", i))
		}
		x.send("exit\n")
		x.wait()
		if _, err := os.Stat(filepath.Join(r.dir, "ran")); err == nil {
			t.Errorf("%s: the name of a branch was run", shell)
		}
	}
}
