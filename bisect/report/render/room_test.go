package render

import (
	"encoding/json"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/internal/samples"
	"github.com/kbisect/kbisect/bisect/report/page"
)

// everyPage is a page of every sample document. plain are those of projects without a device.
func everyPage(t *testing.T) (all, plain map[string]page.Page) {
	t.Helper()
	all, plain = map[string]page.Page{}, map[string]page.Page{}
	call := report.NewCall([]string{"kbisect"}, append(strings.Fields("kbisect run --good v1 --limit load=30s --build"), "make -j16 all test 'a b'", "--", "./a/rather/long/path/to/a/script.sh", "--with", "a word"))
	search := func(name string, in report.Input) {
		in.Call = call
		all[name] = page.New(report.NewSearch(in), in.Ledger)
		in.Devices = nil
		for i := range in.Launches {
			in.Launches[i].Outcome.Devices = nil
		}
		if in.Explain != nil {
			in.Explain = &report.Table{Title: "The culprit against its parent", Columns: []string{"about", "figure", "parent", "culprit", "change"}, Rows: [][]string{{"phases", "run", "1.000 s", "2.000 s", "+100 %"}}}
		}
		in.Commits = maps.Clone(in.Commits)
		for id, c := range in.Commits {
			c.Subject = strings.ReplaceAll(c.Subject, "gemm", "sum")
			in.Commits[id] = c
		}
		plain[name] = page.New(report.NewSearch(in), in.Ledger)
	}
	search("timeout", samples.Found())
	search("slow", samples.Guilty())
	for _, result := range []bisect.Result{bisect.NoDifference, bisect.Inconclusive, bisect.Broken, bisect.Interrupted} {
		in := samples.Slow()
		in.Finding.Culprits, in.Finding.Result = nil, result
		in.Finding.Ends.Why, in.Finding.Ends.Hint = "both ends pass in every one of their launches, and what they measure is too near to each other to be told apart", "use a quieter machine or a program that runs longer, or look for a larger change only with [judge] effect"
		for i := range 30 {
			in.Finding.Suspects = append(in.Finding.Suspects, bisect.SuspectCommit{Commit: samples.CommitID(i + 3), Probability: float64(i+1) / 465})
		}
		search(string(result), in)
	}
	many := samples.Guilty()
	for i := range 6 {
		c := many.Finding.Culprits[0]
		c.Share = &bisect.Share{Value: 0.2, Low: 0.1, High: 0.3}
		c.Commit = samples.CommitID(i + 41)
		many.Finding.Culprits = append(many.Finding.Culprits, c)
	}
	search("several culprits", many)
	for name, g := range samples.Gates() {
		plain["gate, "+name] = page.New(g, report.Ledger{Call: call})
	}
	doc, l := samples.Flags()
	var d report.Search
	if err := json.Unmarshal(doc, &d); err != nil {
		t.Fatal(err)
	}
	d.Recommended.Setting = &report.Setting{Env: []string{"COMPILE=max", "FP8=on", "GRAPH=off"}, Args: []string{"--one", "--two=3 4"}, Compile: []string{"-DX=1"}, Flags: "compile=max,fp8=on,graph=off"}
	plain["flags"] = page.New(&d, l)
	c := samples.Comparison(report.GateRegression, samples.Contrast(report.GateRegression, samples.HostileCase, 1.2), samples.Contrast(report.GateOpen, "n2", 1.01))
	c.Conclude("", "")
	plain["comparison"] = page.New(c, report.Ledger{Call: call})
	plain["explanation"] = page.New(&report.Explanation{Summary: "Largest changes: time 1.000 s to 2.000 s (+100 %)."}, report.Ledger{})
	all["history"], all["gate, many numbers"] = measuredHistory(), manyNumbers()
	for name, p := range plain {
		if all[name].Headline == "" {
			all[name] = p
		}
	}
	return all, plain
}

// TestTextFits: the answer takes at most 20 lines, none wider than the terminal; what is to be copied is whole, in lines that a
// shell joins.
func TestTextFits(t *testing.T) {
	all, _ := everyPage(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, width := range []int{80, 60, 132} {
			var b strings.Builder
			if err := Text(&b, all[name], Terminal{Width: width}); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
			if len(lines) > mostLines {
				t.Errorf("%s: %d lines at %d:\n%s", name, len(lines), width, b.String())
			}
			for _, line := range lines {
				if n := utf8.RuneCountInString(line); n > width {
					t.Errorf("%s: %d columns of %d: %s", name, n, width, line)
				}
			}
		}
	}
}

// TestFoldedCommands: a shell reads a command in several lines as it was.
func TestFoldedCommands(t *testing.T) {
	argv := []string{"printf", "%s\\n", "one", "two  three", "four=4", `it's \five' `, "--", ""}
	for width := 4; width < 70; width += 3 {
		lines := folded(argv, width)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.Join(lines, "\n")).CombinedOutput()
		if want := strings.Join(argv[2:], "\n") + "\n"; err != nil || string(out) != want {
			t.Errorf("%d: %v\n%s\n%s", width, err, strings.Join(lines, "\n"), out)
		}
	}
	if got := folded([]string{"less", "/a/path/that/is/longer/than/the/line"}, 20); len(got) != 1 {
		t.Errorf("a word that fits no line gains nothing by one of its own: %q", got)
	}
	if got := folded(argv, 80); len(got) != 1 || got[0] != (report.Command{Argv: argv}).Line() {
		t.Errorf("%q", got)
	}
}

// TestNoWordOfDevices: a project without a device reads nothing about GPUs, their clocks and their profilers.
func TestNoWordOfDevices(t *testing.T) {
	words := regexp.MustCompile(`(?i)\b(gpus?|cuda|nvidia|clocks?|throttl\w*|profil\w*|ncu|nsys|kernels?|SM|xid|device seconds|warps?)\b`)
	_, plain := everyPage(t)
	for _, name := range slices.Sorted(maps.Keys(plain)) {
		for format, text := range map[string]string{"text": textOf(t, plain[name]), "Markdown": markdownOf(t, plain[name], MarkdownLimit), "HTML": regexp.MustCompile(`(?s)<(script|style)[^>]*>.*?</(script|style)>`).ReplaceAllString(htmlOf(t, plain[name]), "")} {
			if found := words.FindAllStringIndex(text, 4); found != nil {
				at := found[0]
				t.Errorf("%s as %s: %d: …%s…", name, format, len(found), text[max(0, at[0]-80):min(len(text), at[1]+80)])
			}
		}
	}
}
