package report_test

import (
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// What a report tells the reader to type means the same repository and the same candidates: of this process's command
// line that is the folder, of the one that launched them everything that decides what is built and run.
func TestCall(t *testing.T) {
	for _, c := range []struct{ name, now, then, line, again, base string }{
		{
			name: "nothing given", now: "kbisect show s1", then: "kbisect run",
			line: "kbisect show s1", again: "kbisect gate",
		},
		{
			name: "folder of now, configuration of then",
			now:  "kbisect -C /repo --config /elsewhere.toml show", then: "kbisect -C /old --config k.toml run --good v1",
			line: "kbisect -C /repo --config k.toml show s1", again: "kbisect -C /repo --config k.toml gate",
		},
		{
			name: "a value behind an equals sign", now: "kbisect -C=/repo show", then: "kbisect run --build=make --limit=load=3s",
			line: "kbisect -C=/repo show s1", again: "kbisect -C=/repo gate --build=make --limit=load=3s",
		},
		{
			name: "switches have no value", then: "kbisect run --in-worktree --sandbox --good v1 --keep out",
			line: "kbisect show s1", again: "kbisect gate --in-worktree --sandbox --keep out",
		},
		{
			name: "a repeated option", then: "kbisect run --limit load=3s --bad x --limit measure=2s -- ./t.sh --build not-ours",
			line: "kbisect show s1", again: "kbisect gate --limit load=3s --limit measure=2s -- ./t.sh --build not-ours",
		},
		{
			name: "the base of a gate", then: "kbisect gate --base origin/main --build make",
			line: "kbisect show s1", again: "kbisect gate --build make", base: "--base origin/main",
		},
		{
			name: "an option without the value that it needs", then: "kbisect run --build",
			line: "kbisect show s1", again: "kbisect gate --build",
		},
	} {
		call := report.NewCall(strings.Fields(c.now), strings.Fields(c.then))
		if got := words.Shell(call.Line("show", "s1")); got != c.line {
			t.Errorf("%s: %s, want %s", c.name, got, c.line)
		}
		if got := words.Shell(call.Again("gate")); got != c.again {
			t.Errorf("%s, again: %s, want %s", c.name, got, c.again)
		}
		if got := strings.Join(call.Base(), " "); got != c.base {
			t.Errorf("%s: base %q, want %q", c.name, got, c.base)
		}
	}
}

// A call is pasted into a shell, so that words with spaces and quotes stay one word.
func TestCallIsQuoted(t *testing.T) {
	call := report.NewCall([]string{"kbisect", "-C", "/my repo"}, []string{"kbisect", "run", "--build", "make it's", "--", "./t.sh", "$HOME", ""})
	if got, want := words.Shell(call.Again("run")), `kbisect -C '/my repo' run --build 'make it'\''s' -- ./t.sh '$HOME' ''`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
