package report_test

import (
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect/report"
)

func TestForgeOf(t *testing.T) {
	for remote, want := range map[string]string{
		"git@github.com:o/r.git":                      "https://github.com/o/r/commit/c",
		"https://user:secret@github.com/o/r.git":      "https://github.com/o/r/commit/c",
		"ssh://git@gitlab.example.com:2222/g/s/r":     "https://gitlab.example.com/g/s/r/-/commit/c",
		"https://gitlab.example.com:8443/g/r.git/":    "https://gitlab.example.com:8443/g/r/-/commit/c",
		"https://git.example.com/o/r.git":             "",
		"/srv/github/r.git":                           "",
		"https://github.com/o/<script>":               "",
		"https://github.com/o/r?x=javascript:1":       "https://github.com/o/r/commit/c",
		"git@github.com:o/r\x1b]8;;http://evil\x1b\\": "",
		"": "",
	} {
		if got := report.ForgeOf(remote).Link("c"); got != want {
			t.Errorf("%q: %s, want %s", remote, got, want)
		}
	}
}

// An address holds nothing that ends the place where it stands, and never what stood before the host.
func FuzzForgeOf(f *testing.F) {
	f.Add("https://user:secret@github.com/o/r.git")
	f.Add("git@gitlab.com:g/r.git")
	f.Fuzz(func(t *testing.T, remote string) {
		got := string(report.ForgeOf(remote))
		if strings.ContainsAny(got, "@<>\"'() \\\x1b\n") || got != "" && !strings.HasPrefix(got, "https://git") {
			t.Errorf("%q: %q", remote, got)
		}
	})
}
