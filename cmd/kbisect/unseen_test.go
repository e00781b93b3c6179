package main

import (
	"strings"
	"testing"
)

// TestPatternThatMatchesNothing: no number at all is the user's mistake, a number at one end alone is told.
func TestPatternThatMatchesNothing(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	for _, text := range []string{"echo size 32 time 5.0 ms\n", "echo size 32 took 5.0 ms\n"} {
		r.put(map[string]string{"run.sh": text})
		r.git("add", ".")
		r.git("commit", "-qm", text)
	}
	for pattern, want := range map[string]struct {
		code  int
		words []string
	}{
		`lasts (?P<value>[0-9.]+)`: {exitUsage, []string{"metric time: its pattern matches nothing that the ends print, in ", `lasts (?P<value>[0-9.]+)`, "size 32 t"}},
		`time (?P<value>[0-9.]+)`:  {exitNoDifference, []string{"launches that ended well gave no number of time"}},
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
