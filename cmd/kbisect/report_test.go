package main

import (
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/page"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

var (
	firstBad   = regexp.MustCompile(`(?m)^([0-9a-f]{40}) is the first bad commit`)
	couldBeBad = regexp.MustCompile(`(?m)^([0-9a-f]{40})$`)
)

// replayed gives what git thinks may be the culprit after it has taken a log, sorted.
func (r *repo) replayed(log string) (ids []string) {
	r.t.Helper()
	path := filepath.Join(r.home, "git.log")
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command("git", "bisect", "replay", path)
	cmd.Dir, cmd.Env = r.dir, r.env()
	out, err := cmd.CombinedOutput()
	r.git("bisect", "reset")
	found := firstBad.FindAllStringSubmatch(string(out), -1)
	if strings.Contains(string(out), "There are only 'skip'ped commits left") { // git exits with 2
		found, err = couldBeBad.FindAllStringSubmatch(string(out), -1), nil
	}
	for _, m := range found {
		ids = append(ids, m[1])
	}
	if err != nil || len(ids) == 0 {
		r.t.Fatalf("git bisect replay: %v\n%s\n%s", err, out, log)
	}
	slices.Sort(ids)
	return ids
}

// A log that kbisect writes leads git to the same answer: the culprit, or the same set of suspects where
// untestable commits keep them together; on a line, across merges, along first parents.
func TestGitLog(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.history(12, func(i int) string {
		switch {
		case i >= 9, i == 3:
			return "exit 1"
		case i == 7 || i == 8:
			return "exit 125"
		}
		return "exit 0"
	})
	line := func(i int) string { return fmt.Sprintf("main~%d", 12-i+2) } // change i, two commits below the tip
	r.git("checkout", "-q", "-b", "side", "HEAD~2")
	r.write("other", "1")
	r.commit("side 1")
	r.git("checkout", "-q", "main")
	r.git("merge", "-q", "--no-edit", "side")
	r.write("other", "3")
	r.commit("after the merge")
	r.git("checkout", "-q", "-b", "mended", "main") // a fault that came by the second parent of a merge
	r.write("test.sh", "#!/bin/sh\nexit 0\n")
	r.commit("mended")
	r.git("checkout", "-q", "-b", "topic")
	for i := range 3 {
		r.write("test.sh", fmt.Sprintf("#!/bin/sh\nexit %d # %d\n", min(i, 1), i))
		r.commit(fmt.Sprintf("topic %d", i))
	}
	r.git("checkout", "-q", "mended")
	r.write("more", "1")
	r.commit("beside the topic")
	r.git("merge", "-q", "--no-edit", "topic")
	for name, args := range map[string][]string{
		"untestable before the culprit": {"--good", line(5), "--bad", "main"},
		"first parent":                  {"--good", line(5), "--bad", "main", "--first-parent"},
		"a culprit on a line":           {"--good", line(1), "--bad", line(3)},
		"a culprit across a merge":      {"--good", "mended~2", "--bad", "mended"},
		"a culprit that is a merge":     {"--good", "mended~2", "--bad", "mended", "--first-parent"},
	} {
		stdout, stderr, code := r.kbisect(append(append([]string{"run", "--json"}, args...), "--", "sh", "./test.sh")...)
		var d report.Search
		if err := json.Unmarshal([]byte(stdout), &d); err != nil {
			t.Fatalf("%s: exit %d, %v\n%s", name, code, err, stderr)
		}
		log, stderr, logCode := r.kbisect("report", "--git-log")
		if logCode != 0 {
			t.Fatalf("%s: %s", name, stderr)
		}
		var want []string
		for _, c := range d.Culprits {
			want = append(want, c.Commit)
		}
		for _, s := range d.Suspects {
			want = append(want, s.Commit)
		}
		slices.Sort(want)
		if got := r.replayed(log); !slices.Equal(got, want) {
			t.Errorf("%s: git ends at %q, kbisect (%s, exit %d) at %q\n%s", name, got, d.Result, code, want, log)
		}
		if named := len(want) == 1; named != strings.HasPrefix(name, "a culprit") {
			t.Errorf("%s: %s, %d commits", name, d.Result, len(want))
		}
	}
}

// The report of a past search holds what the one written by the search holds.
func TestReportOfAPastSearch(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.history(9, func(i int) string {
		if i >= 6 {
			return "echo '</script><b>'; exit 1"
		}
		return "exit 0"
	})
	r.write("gemm.cu", "slow\n")
	r.commit("gemm </script><script>alert(1)</script> | @all")
	now, past, md := filepath.Join(r.home, "now.html"), filepath.Join(r.home, "past.html"), filepath.Join(r.home, "past.md")
	if _, stderr, code := r.kbisect("run", "--good", "HEAD~9", "--report", now, "--", "sh", "./test.sh"); code != 0 || !strings.Contains(stderr, "report written to") {
		t.Fatalf("exit %d\n%s", code, stderr)
	}
	if _, stderr, code := r.kbisect("report", "--html", past, "--markdown", md); code != 0 {
		t.Fatal(stderr)
	}
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for path, text := range map[string]string{now: read(now), past: read(past)} {
		for _, want := range []string{"akes the run fail", "change 6", `id="search"`, `id="diff"`, `id="cost"`, "Content-Security-Policy", "change 6"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q", path, want)
			}
		}
		if strings.Contains(text, "<script>alert") || strings.Contains(text, "<b>'") {
			t.Errorf("%s: what a commit says became markup", path)
		}
	}
	if text := read(md); !strings.Contains(text, "makes the run fail") || !strings.Contains(text, "```diff") {
		t.Errorf("%s", text)
	}
	shown, _, _ := r.kbisect("show", "--json")
	if got, _, code := r.kbisect("report", "--json", "last"); code != 0 || got != shown {
		t.Errorf("exit %d: report --json is not the finding that was kept", code)
	}
	if out, _, code := r.kbisect("report"); code != 0 || out != read(md) {
		t.Errorf("exit %d: without options it is not the Markdown\n%s", code, out)
	}
}

// A search that was killed has a report of what is known; one that a mistake ended has none, and is not
// blamed on the machine.
func TestReportOfAnUnfinishedSearch(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.history(6, func(int) string { return "exit 0" })
	if _, stderr, code := r.kbisect("run", "--good", "HEAD~5", "--", "./no-such-program"); code != exit.UsageError {
		t.Fatalf("exit %d\n%s", code, stderr)
	}
	for args, want := range map[string]string{"report last": "ended with an error, and there is nothing to report: commit ", "report": "ended with an error before there was anything to report: commit "} {
		if out, stderr, code := r.kbisect(strings.Fields(args)...); code != exit.UsageError || out != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d\n%s%s", args, code, out, stderr)
		}
	}
	cmd := r.command("run", "--good", "HEAD~5", "--", "sleep", "60")
	progress, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, progress, "good end")
	cmd.Process.Kill()
	cmd.Wait()
	if out, stderr, code := r.kbisect("report", "last"); code != exit.OK || !strings.HasPrefix(out, "### kbisect: interrupted\n\n**? Interrupted;") || !strings.Contains(out, "**good end:**") {
		t.Errorf("exit %d\n%s\n%s", code, out, stderr)
	}
}

// Whoever stops reading, as head does, has seen enough: nothing is said of it, and what was found is kept.
func TestOutputThatNobodyReads(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	ids := r.history(3, func(i int) string { return fmt.Sprint("exit ", i/3) })
	for _, args := range [][]string{
		{"run", "--quiet", "--json", "--good", ids[0], "--", "./test.sh"}, {"run", "--quiet", "--good", ids[0], "--", "./test.sh"},
		{"compare", "--quiet", ids[0], ids[2], "--", "./test.sh"}, {"measure", "--quiet", "--", "./test.sh"}, {"explain", "--quiet", ids[0], ids[2], "--", "./test.sh"},
		{"show"}, {"show", "--json"}, {"report"}, {"report", "--html", "-"}, {"report", "--json"}, {"history"}, {"history", "--json"}, {"sessions"},
		{"help", "safety"}, {"help", "topics"}, {"man"}, {"completion", "bash"}, {"version"},
	} {
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		in.Close()
		cmd := r.command(args...)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = out, &said
		cmd.Run()
		out.Close()
		if code := cmd.ProcessState.ExitCode(); code != exit.Unread || said.String() != "" {
			t.Errorf("kbisect %q: exit %d: %s", args, code, said.String())
		}
	}
	var d report.Search
	if out, _, code := r.kbisect("report", "--json"); code != exit.OK || json.Unmarshal([]byte(out), &d) != nil || len(d.Culprits) != 1 || d.Culprits[0].Commit != ids[2] {
		t.Errorf("exit %d: %s", code, out)
	}
}

func TestReportRefuses(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.history(3, func(int) string { return "exit 0" })
	if _, stderr, code := r.kbisect("report"); code != exit.UsageError || !strings.Contains(stderr, "nothing has been searched") {
		t.Errorf("exit %d\n%s", code, stderr)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"report", "--json", "--git-log"}, "alone"},
		{[]string{"report", "--json", "--html", "x.html"}, "alone"},
		{[]string{"report", "one", "two"}, "one session"},
		{[]string{"report", "--html", "no/such/folder/x.html"}, "mkdir -p"},
		{[]string{"report", "--html", "."}, "--html . is a folder"},
		{[]string{"run", "--good", "HEAD~2", "--report", "no/such/folder/x.html", "--", "true"}, "mkdir -p"},
	} {
		if _, stderr, code := r.kbisect(c.args...); code != exit.UsageError || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit %d\n%s", c.args, code, stderr)
		}
	}
}

// The history as a page holds what the table on standard output does.
func TestHistoryPage(t *testing.T) {
	t.Parallel()
	r := newProject(t)
	for _, rev := range []string{"v1", "HEAD"} {
		if out, errs, code := r.kbisect("measure", rev, "--launches", "1", "--quiet", "--", "sh", "-c", `echo "sample: $(cat n) us" >&$KBISECT_FD`); code != exit.OK {
			t.Fatalf("exit %d: %s%s", code, out, errs)
		}
	}
	if out, _, code := r.kbisect("history", "--metric", "time"); code != exit.OK || !strings.Contains(out, "1.000 µs") || !strings.Contains(out, "4.000 µs") {
		t.Errorf("exit %d: %s", code, out)
	}
	out, errs, code := r.kbisect("history", "--metric", "time", "--html", "h.html")
	page, err := os.ReadFile(filepath.Join(r.dir, "h.html"))
	if code != exit.OK || out != "" || errs != "report written to h.html\n" || err != nil {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	for _, want := range []string{"2 commits measured, in 1 series", "4.000 µs", "change 4", "Changes are against " + r.git("rev-parse", "v1")[:10]} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if _, errs, code := r.kbisect("history", "--html", "no/such/h.html"); code != exit.UsageError || !strings.Contains(errs, "mkdir -p") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestReportOfOthers: whatever launched candidates has a report; what kbisect try says has none, and git bisect
// knows searches over commits only.
func TestReportOfOthers(t *testing.T) {
	t.Parallel()
	r := newProject(t)
	if out, errs, code := r.kbisect("try", "--good", "v1", "--", "true"); code != exit.NoDifference {
		t.Fatal(out, errs)
	}
	if _, errs, code := r.kbisect("report", "last"); code != exit.UsageError || !strings.Contains(errs, "unknown schema \"kbisect.try") || !strings.Contains(errs, "hint: kbisect show ") {
		t.Errorf("try: exit %d: %s", code, errs)
	}
	for _, x := range []struct{ args, headline, side string }{
		{"compare v1 HEAD -- sh test.sh", "### kbisect: regression\n\n**✗ B is worse: it fails in", " (A) |"},
		{"gate --base v1 -- sh test.sh", "### kbisect: regression\n\n**✗ Regression: HEAD fails in", " (merge base) |"},
		{"measure --launches 1 -- true", "### kbisect: ok\n\n**✓ The launch passed.", "| launch | ok |"},
		{"explain v1 HEAD --launches 1 --no-profile -- sh test.sh", "### kbisect: partly\n\n", "| a launch ends |"},
	} {
		r.kbisect(strings.Fields(x.args)...)
		out, errs, code := r.kbisect("report", "last")
		if code != exit.OK || !strings.HasPrefix(out, x.headline) || !strings.Contains(out, x.side) {
			t.Errorf("%s: exit %d\n%s%s", x.args, code, errs, out)
		}
		if _, errs, code := r.kbisect("report", "--git-log", "last"); code != exit.UsageError || !strings.Contains(errs, "does not search commits") {
			t.Errorf("%s as a log: exit %d: %s", x.args, code, errs)
		}
	}
}

// TestEveryFormat: every command writes its result as JSON, as Markdown and as HTML, with the same headline, and JSON
// of a session is what its report is made of.
func TestEveryFormat(t *testing.T) {
	t.Parallel()
	r := newProject(t)
	for _, args := range []string{
		"run --good v1 --bad HEAD -- sh test.sh", "compare v1 v1 --pairs 5 -- true", "measure --launches 1 -- true", "explain v1 HEAD --launches 1 --no-profile -- true",
		"gate --base v1 --pairs 5 -- true", "history",
	} {
		name, rest, _ := strings.Cut(args, " ")
		files := [2]string{filepath.Join(r.dir, name+".md"), filepath.Join(r.dir, name+".html")}
		words := append([]string{name, "--json", "--markdown", files[0], "--report", files[1]}, strings.Fields(rest)...)
		out, errs, _ := r.kbisect(words...)
		d, err := report.Read([]byte(out), name)
		if err != nil {
			t.Errorf("%s: %v\n%s%s", args, err, out, errs)
			continue
		}
		p := page.New(d, report.Ledger{})
		for i, path := range files { // Markdown has the card alone
			headline := strings.ReplaceAll([]string{p.Cards[0].Head, p.Headline}[i], "`", "")
			text, err := os.ReadFile(path)
			if plain := html.UnescapeString(strings.NewReplacer("`", "", "\\", "").Replace(string(text))); err != nil || headline == "" || !strings.Contains(plain, headline) {
				t.Errorf("%s: %v: no %q in\n%.600s", path, err, headline, text)
			}
		}
		if _, errs, code := r.kbisect(name, "--markdown", "no/such/x.md"); code != exit.UsageError || !strings.Contains(errs, "no/such") {
			t.Errorf("%s: exit %d: %s", name, code, errs)
		}
	}
}
