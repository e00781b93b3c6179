package main

import (
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// TestPatternThatMatchesNothing: no number at all is the user's mistake, a number at one end alone is told.
func TestPatternThatMatchesNothing(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	for _, text := range []string{"echo size 32 time 5.0 ms\n", "echo size 32 took 5.0 ms\n"} {
		r.put(map[string]string{"run.sh": text})
		r.commit(text)
	}
	for pattern, want := range map[string]struct {
		code  int
		words []string
	}{
		`lasts (?P<value>[0-9.]+)`: {exit.UsageError, []string{"metric time: its pattern matches nothing in the output of ", `lasts (?P<value>[0-9.]+)`, "size 32 t"}},
		`time (?P<value>[0-9.]+)`:  {exit.NoDifference, []string{"successful launches did not report time"}},
	} {
		r.put(map[string]string{"kbisect.toml": "version = 1\n[run]\ncommand = [\"sh\", \"run.sh\"]\n[metric]\nname = \"time\"\nfrom = \"regex\"\npattern = '" + pattern + "'\n"})
		out, errs, code := r.kbisect("run", "--quiet", "--good", "HEAD^")
		for _, w := range want.words {
			if code != want.code || !strings.Contains(out+errs, w) {
				t.Errorf("%s: exit %d, no word of %q\n%s%s", pattern, code, w, out, errs)
			}
		}
	}
}

// TestDeadMetricsAreTold: a metric that reads nothing is named with the reason, beside one that does or alone.
func TestDeadMetricsAreTold(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.put(map[string]string{"run.sh": "printf 'Laufzeit 1.234,5 us\\r\\nsize=32 time \\033[33m5.0\\033[0m ms\\r\\np 1\\rp 2\\rfinal 3 ms\\n'\n"})
	r.commit("one")
	r.put(map[string]string{"other.sh": ""})
	r.commit("two")
	metric := func(name, pattern, more string) string {
		return "[[metrics]]\nname = \"" + name + "\"\nfrom = \"regex\"\npattern = '" + pattern + "'\n" + more
	}
	const lives = `^size=(?P<size>\d+) time (?P<value>[0-9.]+) (?P<unit>ms)$`
	last := metric("last", `^final (?P<value>[0-9.]+) (?P<unit>ms)`, "")
	for _, c := range []struct {
		args, config string
		code         int
		want, not    string
	}{
		{"measure --launches 1", metric("time", lives, "") + last, exit.OK, "last", "matches nothing"},
		{"measure --launches 1", metric("time", "nothing (?P<value>[0-9]+)", ""), exit.OK, "metric time: its pattern matches nothing in the output of 1 successful launch", ""},
		{"measure --launches 1", metric("time", lives, "") + metric("dead", "Laufzeit (?P<value>[0-9.,]+) us", ""), exit.OK,
			`metric dead: its pattern matches "1.234,5", which is not a number`, "matches nothing"},
		{"measure --launches 1", metric("time", lives, "case = \"size=64\"\n"), exit.OK, `no launch reported the case ["size=64"]`, "matches nothing"},
		{"run --good HEAD^", metric("time", lives, "") + metric("dead", "nothing (?P<value>[0-9.,]+) us", ""), exit.NoDifference, "metric dead: its pattern matches nothing", ""},
		{"run --good HEAD^", metric("time", lives, "case = \"size=64\"\n"), exit.UsageError, `hint: the cases are ["size=32"]`, "sends no samples"},
		{"baseline record --launches 2", metric("time", lives, "case = \"size=64\"\n"), exit.UsageError, `hint: the cases are ["size=32"]`, ""},
	} {
		r.put(map[string]string{"kbisect.toml": "version = 1\n[run]\ncommand = [\"sh\", \"run.sh\"]\n" + c.config})
		out, errs, code := r.kbisect(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out+errs, c.want) || c.not != "" && strings.Contains(out+errs, c.not) {
			t.Errorf("%s: exit %d, no word of %q\n%s\n%s%s", c.args, code, c.want, c.config, out, errs)
		}
	}
}
