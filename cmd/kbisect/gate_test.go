package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// gated is a repository on a branch topic, whose program sends numbers of the cases that a file lists, after
// what another file has it do.
func gated(t *testing.T) *repo {
	t.Helper()
	r := newRepo(t)
	r.write("kbisect.toml", "version = 1\npaths = [\"run.sh\", \"cases\", \"fails\"]\n[run]\ncommand = [\"sh\", \"run.sh\"]\n[metric]\nname = \"time\"\nfrom = \"protocol\"\n")
	r.write("cases", "32=5.0 64=9.0")
	r.write("run.sh", `. ./fails
for x in $(cat cases); do
	echo "case: ${x%%=*}" >&$KBISECT_FD
	echo "sample: ${x##*=} us" >&$KBISECT_FD
done
`)
	r.write("fails", ":")
	r.commit("base")
	r.git("checkout", "-q", "-b", "topic")
	return r
}

// TestGateNamesWhatItCannotCompare: a HEAD that failed where its base never did, or that gives fewer numbers, does
// not pass, and each output says why.
func TestGateNamesWhatItCannotCompare(t *testing.T) {
	t.Parallel()
	count := filepath.Join(t.TempDir(), "count")
	now := `n=$(cat ` + count + ` 2>/dev/null); n=$((n + 1)); echo $n >` + count + "\n"
	for _, x := range []struct {
		name, file, text string
		args             []string
		code             int
		words            string
		in               string // outputs that have them
	}{
		{"fails once", "fails", now + "if [ $n = 3 ]; then kill -SEGV $$; fi\n", []string{"--pairs", "5"}, exit.Inconclusive,
			"HEAD fails in 1 of 6 launches, the merge base in none of 6, too few to tell whether that is chance: crash", "json junit sarif markdown summary stderr"},
		{"fails now and then", "fails", now + "if [ $((n % 2)) = 1 ]; then kill -SEGV $$; fi\n", nil, exit.Regression,
			"launches, the merge base in 0 of ", "json junit sarif markdown summary stderr"},
		{"a case less", "cases", "32=5.0", nil, exit.Inconclusive, "HEAD does not report it", "json junit sarif markdown summary stderr"},
		{"a case of zeros", "cases", "32=5.0 64=0.0", nil, exit.Inconclusive, "HEAD reports no number of it that can be compared", "json junit sarif markdown summary stderr"},
		{"a case more", "cases", "32=5.0 64=9.0 128=17", nil, exit.OK, "only HEAD gives time of 128: it is not compared", "json junit markdown summary"},
	} {
		os.Remove(count)
		r := gated(t)
		r.write(x.file, x.text)
		r.commit(x.name)
		files, code := r.gate(x.args...)
		if code != x.code {
			t.Errorf("%s: exit %d\n%s%s", x.name, code, files["json"], files["stderr"])
		}
		for _, in := range strings.Fields(x.in) {
			if !strings.Contains(files[in], x.words) {
				t.Errorf("%s: no %q in %s\n%s", x.name, x.words, in, files[in])
			}
		}
		want := map[int]string{exit.OK: "pass", exit.Inconclusive: "cannot-tell", exit.Regression: "regression"}[code]
		if !strings.Contains(files["outputs"], "result="+want+"\n") || !strings.Contains(files["json"], `"result": "`+want+`"`) {
			t.Errorf("%s: %s", x.name, files["outputs"])
		}
	}
}

// TestGateThatStopsTellsTheCI: a gate that ends in exit 2 or 5 says so in everything that a CI reads.
func TestGateThatStopsTellsTheCI(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name  string
		spoil func(*repo)
		args  []string
		code  int
		words string
	}{
		{"a mistake in the configuration", func(r *repo) { r.write("kbisect.toml", "version = 2\n") }, nil, exit.UsageError, "unknown version 2"},
		{"an unknown option", func(*repo) {}, []string{"--nonsense"}, exit.UsageError, "there is no option --nonsense"},
		{"a revision too many", func(*repo) {}, []string{"HEAD"}, exit.UsageError, "takes no revisions"},
		{"no command", func(*repo) {}, []string{"--"}, exit.UsageError, "there is no command after --"},
		{"a command that is not found", func(*repo) {}, []string{"--", "sh", "-c", "no-such-tool"}, exit.UsageError, "no-such-tool is not found"},
		{"a store that is none", func(r *repo) {
			if err := os.MkdirAll(filepath.Join(r.dir, ".git/kbisect/kbisect.db"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, nil, exit.Machine, "kbisect.db"},
		{"trouble of the machine", func(r *repo) {
			r.write("fails", "echo infra: fell off the bus >&$KBISECT_FD; exit 1")
			r.commit("x")
		}, []string{"--cannot-tell", "pass"}, exit.Machine, "fell off the bus"},
	} {
		r := gated(t)
		r.write("cases", "32=6.0")
		r.commit("change")
		x.spoil(r)
		files, code := r.gate(x.args...)
		if code != x.code || !strings.Contains(files["outputs"], "result=error\n") || !strings.Contains(files["stderr"], "::error title=kbisect") {
			t.Errorf("%s: exit %d, outputs %s\n%s", x.name, code, files["outputs"], files["stderr"])
		}
		unread := x.name == "an unknown option" // nor are those that name files
		for _, in := range []string{"stderr", "summary", "junit", "sarif", "markdown"}[:map[bool]int{true: 2, false: 5}[unread]] {
			if !strings.Contains(files[in], x.words) {
				t.Errorf("%s: no %q in %s\n%s", x.name, x.words, in, files[in])
			}
		}
		if !unread && (!strings.Contains(files["junit"], `errors="1"`) || !strings.Contains(files["sarif"], `"executionSuccessful": false`)) {
			t.Errorf("%s: %s%s", x.name, files["junit"], files["sarif"])
		}
	}
}

// TestConfiguredMetricThatIsNeverFound: the time of the process does not stand in for what somebody asked for.
func TestConfiguredMetricThatIsNeverFound(t *testing.T) {
	t.Parallel()
	r := gated(t)
	r.write("cases", "32=5.1 64=9.0")
	r.commit("other")
	config := func(metric string) {
		r.write("kbisect.toml", "version = 1\n[run]\ncommand = [\"sh\", \"-c\", \"cat cases; cat cases | tr ' ' '#'\"]\n"+metric)
	}
	commands := [][]string{
		{"gate", "--base", "main", "--pairs", "5"}, {"compare", "main", "topic", "--pairs", "5"}, {"baseline", "record", "--launches", "2"},
	}
	for _, metric := range []string{"[metric]\nname = \"time\"\nfrom = \"regex\"\npattern = 'lasts (?P<value>[0-9.]+)'\n", "[metric]\nname = \"time\"\nfrom = \"protocol\"\n", ""} {
		config(metric)
		for _, c := range commands {
			want, code := "metric time: its pattern matches nothing in the output of ", exit.UsageError
			switch {
			case metric == "": // nobody said what is measured
				want, code = "", exit.OK
			case !strings.Contains(metric, "regex"):
				want = "nor is any other metric"
			}
			out, errs, got := r.kbisect(append(c, "--quiet")...)
			if code == exit.UsageError && got != code || got == exit.UsageError && code != exit.UsageError || !strings.Contains(errs, want) {
				t.Errorf("%v with %q: exit %d\n%s%s", c, metric, got, out, errs)
			}
			if code == exit.UsageError && strings.Contains(want, "pattern") && !strings.Contains(errs, "64=9.0") {
				t.Errorf("%v: what was printed is not said: %s", c, errs)
			}
		}
	}
	config("[metric]\nname = \"time\"\nfrom = \"regex\"\npattern = '32=5.1#64=(?P<value>[0-9.]+)'\n")
	if _, errs, code := r.kbisect("gate", "--base", "main", "--quiet"); code != exit.UsageError || !strings.Contains(errs, "only HEAD gives one") {
		t.Errorf("exit %d: %s", code, errs)
	}
	// A number that is none at HEAD, or at both, is no mistake of who asks, and no pass.
	config("[metric]\nname = \"time\"\nfrom = \"regex\"\nunit = \"us\"\npattern = '32=(?P<value>[^ #]+)'\n")
	for _, x := range [][3]string{
		{"32=nan", "main", "time: HEAD reports no number of it that can be compared, as those above 0 can"},
		{"32=nan ", "HEAD~1", "the merge base reports no number of time that can be compared, as those above 0 can"},
		{"32=0", "main", "time: HEAD reports no number of it that can be compared, as those above 0 can"},
		{"32=0 ", "HEAD~1", "the merge base reports no number of time that can be compared, as those above 0 can"},
	} {
		r.write("cases", x[0]+" 64=9.0")
		r.commit("the case is " + x[0])
		if out, errs, code := r.kbisect("gate", "--base", x[1], "--quiet"); code != exit.Inconclusive || !strings.Contains(out, "? Cannot tell: "+x[2]) {
			t.Errorf("%s: exit %d\n%s%s", x[0], code, out, errs)
		}
	}
	r.write("kbisect.toml", "version = 1\n[run]\ncommand = [\"sh\", \"run.sh\"]\n[metric]\nname = \"time\"\nfrom = \"protocol\"\n")
	for _, cases := range []string{"32=nan", "32=nan "} {
		r.write("cases", cases)
		r.commit("the case is" + cases)
	}
	if out, errs, code := r.kbisect("gate", "--base", "HEAD~1", "--quiet"); code != exit.Inconclusive || !strings.Contains(out, "? Cannot tell: the merge base reports no number of time") {
		t.Errorf("samples: exit %d\n%s%s", code, out, errs)
	}
}

func TestColoured(t *testing.T) {
	for _, x := range []struct {
		env  string
		want bool
	}{{"", false}, {"GITHUB_ACTIONS=true", true}, {"GITLAB_CI=true", true}, {"GITHUB_ACTIONS=true NO_COLOR=1", false}, {"GITLAB_CI=true TERM=dumb", false}} {
		if got := colour("").on(new(strings.Builder), lookup(strings.Fields(x.env)), true); got != x.want {
			t.Errorf("%s: %v", x.env, got)
		}
	}
}

func lookup(env []string) func(string) string {
	return func(name string) string {
		for _, e := range env {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				return v
			}
		}
		return ""
	}
}
