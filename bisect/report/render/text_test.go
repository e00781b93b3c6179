package render

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/figures"
	"github.com/kbisect/kbisect/bisect/report/internal/samples"
	"github.com/kbisect/kbisect/bisect/report/page"
)

func pageOf(in report.Input) page.Page { return page.New(report.NewSearch(in), in.Ledger) }

func flagsPage(t *testing.T) page.Page {
	t.Helper()
	doc, l := samples.Flags()
	d, err := report.Read(doc, "f1")
	if err != nil {
		t.Fatal(err)
	}
	return page.New(d, l)
}

// textOf is a page as a terminal shows it, without colours.
func textOf(t *testing.T, p page.Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, p, Terminal{All: true}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func markdownOf(t *testing.T, p page.Page, limit int) string {
	t.Helper()
	var b bytes.Buffer
	if err := Markdown(&b, p, limit); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// holds fails for each of some texts that is missing.
func holds(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestTextSaysWhoWhatAndHowSure(t *testing.T) {
	text := textOf(t, pageOf(samples.Found()))
	holds(t, text,
		"author      Mira <m@x>, 1970-01-01", "commit      tune: search harder  cccccccccc", "files       src/tune.c", "confidence  99.7 %. Confirmed",
		"Search log: 40 commits, 30 change the build's or run's inputs", "price 5", "on NVIDIA H200", "- commit cccccccccc: odd", "git show cccccccccc")
	if _, end, _ := strings.Cut(text, "\n\n✗ cccccccccc makes loading exceed its limit of 3 s (before: 2 s)\n"); end == "" || strings.Contains(end, "\n\n") {
		t.Errorf("the verdict does not come last:\n%s", text)
	}
}

// A complaint that shows only in some launches says in how many.
func TestTextSaysHowOften(t *testing.T) {
	in := samples.Found()
	in.Finding.Culprits[0].Rate = &bisect.Rate{Failed: 13, Launches: 19}
	holds(t, textOf(t, pageOf(in)), "fails in about 68 % of its launches (13 of 19")
}

func TestTextOfEveryResult(t *testing.T) {
	in := samples.Found()
	in.Finding.Culprits = nil
	in.Finding.Suspects = []bisect.SuspectCommit{{Commit: samples.CulpritID, Probability: 0.5, Why: "does not build"}, {Commit: samples.BadID, Probability: 0.5}}
	in.Error = "device lost\nhint: reset it"
	for result, want := range map[bisect.Result][]string{
		bisect.Inconclusive: {"the culprit is one of 2 commits", "50 %", "does not build"},
		bisect.NoDifference: {"No difference between the ends"},
		bisect.Broken:       {"no commit is blamed", "error       device lost hint: reset it"},
		bisect.Interrupted:  {"2 suspects left", "kbisect run --resume"},
	} {
		in.Finding.Result = result
		holds(t, textOf(t, pageOf(in)), want...)
	}
}

// Every culprit is a section with its share; a gradual change has none, and its levels are a table.
func TestSeveralCulpritsAndNone(t *testing.T) {
	in := samples.Found()
	share := bisect.Share{Value: 0.62, Low: 0.55, High: 0.694}
	second := in.Finding.Culprits[0]
	second.Commit, second.Class, second.Phase, second.Share = samples.BadID, bisect.Slow, "", &share
	second.Effect = &bisect.Effect{Metric: "time", Ratio: 1.05, Low: 1.04, High: 1.06}
	in.Finding.Culprits = append(in.Finding.Culprits, second)
	in.Finding.Levels = []bisect.Level{{Commit: samples.GoodID, Effect: bisect.Effect{Metric: "time", Ratio: 1, Low: 1, High: 1}}, {Commit: samples.BadID, Effect: *second.Effect}}
	in.Finding.Fixes = []bisect.Fix{{After: samples.GoodID, By: samples.CulpritID, Commits: 3, Effect: bisect.Effect{Metric: "time", Ratio: 0.97, Low: 0.96, High: 0.98}, Share: &bisect.Share{Value: -0.2, Low: -0.31, High: -0.12}}}
	in.Finding.Rest = &bisect.Share{Value: 0.58, Low: 0.4, High: 0.7}
	in.Finding.Complaint.Metric = "time"
	in.Finding.Spent = true
	d := report.NewSearch(in)
	holds(t, textOf(t, page.New(d, in.Ledger)),
		"✗ Culprit 1 of 2: cccccccccc makes loading exceed its limit of 3 s", "✗ Culprit 2 of 2: bbbbbbbbbb makes `time` 5.0 % slower\n  commit      new  bbbbbbbbbb\n",
		"What the difference between the ends is made of", "bbbbbbbbbb                                +5.0 % (+4.0 to +6.0 %)  62 % (55 to 69 %)     new",
		"fixed after aaaaaaaaaa, up to cccccccccc  -3.0 % (-4.0 to -2.0 %)  -20 % (-31 to -12 %)  one of 3 commits", "not explained", "58 % (40 to 70 %)", "Level over the range", "bbbbbbbbbb  +5.0 % (+4.0 to +6.0 %)     new", "share       62 % (55 to 69 %) of the difference", "git show bbbbbbbbbb", "--resume")
	if len(d.Culprits) != 2 || d.Culprits[0].Share != nil || *d.Culprits[1].Share != share.Value || *d.Culprits[1].ShareHigh != share.High || d.Fixes[0].Share.Low != -0.31 || d.Rest.Value != 0.58 || len(d.Levels) != 2 || d.Levels[1].Ratio != 1.05 || d.Complete {
		t.Errorf("%+v", d)
	}
	in.Finding.Culprits, in.Finding.Result, in.Finding.Gradual, in.Finding.Spent = nil, bisect.Inconclusive, true, false
	holds(t, textOf(t, pageOf(in)), "Inconclusive: gradual, no single culprit; `time` got worse", "bbbbbbbbbb  +5.0 %")
}

// A case that is slow is named wherever the culprit is, with what the metric did over all cases.
func TestReportNamesTheCase(t *testing.T) {
	in := samples.Found()
	c := &in.Finding.Culprits[0]
	c.Class, c.Phase = bisect.Slow, ""
	c.Effect = &bisect.Effect{Metric: "time", Case: "128", Ratio: 1.12, Low: 1.11, High: 1.13}
	c.Besides = []bisect.Effect{{Metric: "time", Ratio: 1.014, Low: 1.01, High: 1.018}, {Metric: "time", Case: "64", Ratio: 1.5, Low: 1.4, High: 1.6}}
	in.Finding.Complaint = bisect.Complaint{Class: bisect.Slow, Metric: "time of 128"}
	d := report.NewSearch(in)
	p := page.New(d, in.Ledger)
	holds(t, textOf(t, p), "✗ cccccccccc makes `time` of 128 12.0 % slower\n", "effect      time of 128 +12.0 % (95 % CI +11.0 to +13.0 %), lower is better\n",
		"overall     time +1.4 % (95 % CI +1.0 to +1.8 %), lower is better\n", "also        time of 64 +50.0 % (95 % CI +40.0 to +60.0 %), lower is better, more than the other cases\n")
	if own := d.Culprits[0]; own.Effect.Metric != "time" || own.Effect.Case != "128" || len(own.Besides) != 2 || own.Besides[0].Case != "" || own.Besides[0].Ratio != 1.014 {
		t.Errorf("%+v", own)
	}
	holds(t, markdownOf(t, p, 0), "**effect:** time of 128 +12.0 %", "**overall:** time +1.4 %", "of 128 12.0 % slower")
}

// A number without noise goes up or down; nothing is slow of registers. What launches warn of stands once.
func TestReportExactWords(t *testing.T) {
	for _, c := range []struct {
		class bisect.Class
		exact bisect.Exact
		want  string
	}{
		{bisect.Slow, bisect.Exact{Value: 40}, "✗ cccccccccc raises spills of k to 40 from 0 (lower is better)\n"},
		{bisect.Slow, bisect.Exact{Value: 72, Parent: 64}, "✗ cccccccccc raises spills of k to 72 from 64 (+12.5 %, lower is better)\n"},
		{bisect.Improved, bisect.Exact{Parent: 40}, "✗ cccccccccc lowers spills of k to 0 from 40 (lower is better)\n"},
	} {
		in := samples.Found()
		in.Finding.Complaint = bisect.Complaint{Class: c.class, Metric: "spills of k"}
		x := &in.Finding.Culprits[0]
		x.Class, x.Phase, x.Effect = c.class, "", &bisect.Effect{Metric: "spills", Case: "k", Ratio: 1.125, Low: 1.125, High: 1.125, Exact: &c.exact}
		for i := range in.Launches {
			in.Launches[i].Outcome.Warnings = []string{"nvbench skipped copy: too big"}
		}
		in.Launches[0].Outcome.Warnings = append(in.Launches[0].Outcome.Warnings, "alone")
		p := pageOf(in)
		text := textOf(t, p)
		holds(t, text, c.want, "commits aaaaaaaaaa, cccccccccc: nvbench skipped copy: too big", "commit aaaaaaaaaa: alone")
		if strings.Count(text, "nvbench") != 1 {
			t.Error(text)
		}
		holds(t, markdownOf(t, p, 0), strings.TrimSpace(strings.ReplaceAll(c.want, "(", "(")))
	}
}

// A mark that means a suspect where there are some means an undecided commit where there are none.
func TestMarksWithoutSuspects(t *testing.T) {
	p := page.Page{Cards: []page.Card{{Head: "Interrupted"}}, Strip: page.Strip{From: "a", To: "b", States: []page.State{page.Good, page.Unsure, "", page.Bad}}}
	holds(t, textOf(t, p), "  a ✓?·✗ b\n  ✓ passes  ✗ fails  ? undecided  · not tested")
	p.Strip.Suspects = []int{2, 3}
	holds(t, textOf(t, p), "  a ✓·?✗ b\n  ✓ passes  ✗ fails, a suspect too  ? suspect  · not a suspect")
	p.Strip.States, p.Strip.Suspects = []page.State{page.Good, page.Unsure, page.Bad, "", page.Bad}, []int{1, 2}
	holds(t, textOf(t, p), "  a ✓?✗·✗ b\n  ✓ passes  ✗ fails, the first a suspect too  ? suspect  · not a suspect")
}

func TestTextOfComparison(t *testing.T) {
	d := samples.Comparison("regression", samples.Contrast("regression", "", 1.2))
	d.Conclude("", "")
	d.B.Subject = "red \x1b[31m alert"
	d.B.LeftOut = []report.Excluded{{Why: "throttled", Launches: 2}}
	d.Warnings = []string{"mind this"}
	text := textOf(t, page.New(d, report.Ledger{}))
	holds(t, text, "B is worse: time +20.0 %.\n  change      time +20.0 % (99 % CI +18.0 to +22.0 %), lower is better\n", "  A           HEAD^: subject of HEAD^  aaaaaaaaaa\n", "30.00 µs (29.90 to 30.20)", "36.00 µs", "+20.0 % (+18.0 to +22.0 %)", "2.0e-04",
		"regression", "2 left out: throttled", "- mind this", "kbisect run --good HEAD^ --bad HEAD", "kbisect show s1", "changes of 3 % and more, error 1 %")
	if strings.Contains(text, "\x1b") {
		t.Error("a subject drives the terminal")
	}
}

func TestTextOfHistory(t *testing.T) {
	commit := func(v float64) report.HistoryCommit {
		c := report.HistoryCommit{Commit: strings.Repeat("c", 40), Date: "2026-01-01T00:00:00Z", Launches: 2, Values: report.Summary{N: 2, Median: report.Number(v), Low: report.Unknown()}, Ratio: report.Unknown()}
		if math.IsNaN(v) {
			c.Values.N = 0
			c.Failures = []report.Failures{{Class: bisect.Crash, Launches: 2}}
		}
		return c
	}
	h := &report.History{Shown: 4, All: 5, Series: []report.HistorySeries{{Metric: "time", Unit: "s", Command: []string{"./bench"}, Commits: []report.HistoryCommit{commit(1e-3), commit(2e-3), commit(math.NaN()), commit(3e-3)}}}}
	holds(t, textOf(t, page.New(h, report.Ledger{})), "time; no device watched; ./bench\n", "2 crash", "4 of 5 measured commits")
}

func TestTextOfMeasurement(t *testing.T) {
	device := "NVIDIA H100 80GB HBM3 GPU-c3cd64c4-7be0-7ffc-d394-8eaddea72a8d (driver 580.159.04)"
	m := &report.Measurement{
		Verdict: "Each of 6 launches passes.", Candidate: report.CommitInfo{ID: strings.Repeat("d", 40), Subject: "x"}.Candidate("HEAD"),
		Phases:  []report.PhaseTimes{{Phase: "load", Times: report.Summary{N: 5, Median: 2, Min: 1.5, Max: 3}, Cold: report.Summary{N: 1, Median: 90}}},
		Wall:    report.Summary{N: 6, Median: 12, Min: 11, Max: 100},
		Metrics: []report.MetricSummary{{Metric: "rate", Unit: "B/s", Values: report.Summary{N: 6, Median: 1.2e12, Low: 1.1e12, High: 1.3e12, Min: 1.1e12, Max: 1.3e12, Spread: 0.02}, Samples: 60, Within: report.Unknown(), Modes: &report.Modes{Low: 1.1e12, High: 1.3e12, Share: 0.5}}},
		Devices: []report.DeviceState{{Name: device, Clock: report.Summary{N: 6, Min: 1980, Median: 1980, Max: 1980}, Throttled: []string{"thermal"}}},
	}
	holds(t, textOf(t, page.New(m, report.Ledger{})), "with empty caches", "90.00 s", "whole launch  12.00 s", "1.200 TB/s (1.100 to 1.300)", "2 %",
		"two groups: 1.100 TB/s, and in 50 % of the launches 1.300 TB/s", "1980 to 1980   ", "thermal    no      "+device+"\n")
	m.Phases[0].Cold = report.Summary{}
	if got := textOf(t, page.New(m, report.Ledger{})); strings.Contains(got, "empty caches") || !strings.Contains(got, "load          2.000 s ") {
		t.Error("a column without a value, or no phases:", got)
	}
}

// TestTextOfGates: a line for each metric, each verdict with its colour, and nothing that drives the terminal.
func TestTextOfGates(t *testing.T) {
	headlines := map[string]string{
		"pass": "(?m)^✓ Pass: no change of 3 % or more: every metric changes by -2.00 to \\+2.00 %\\.", "improvement": `(?m)^✓ Improvement: time of n1 -20\.0 %\.\n  change +time of n1 -20\.0 % \(99 % CI -22\.0 to -18\.0 %\), lower is better`,
		"regression": `(?m)^✗ Regression: 2 of 4 metrics, most of all time of n1 \+20\.0 %`, "open": "(?m)^\\? Cannot tell: 1 of 2 metrics undecided after 8 pairs, above all time of n1 .*; 8 pairs show a change of 2.1 % four times in five, looked for is 3 %",
		"accepted": `(?m)^✓ Pass: 1 change for the worse, all accepted\.`, "idle": "^✓ Pass: equal inputs; nothing was launched",
		"wrong": "(?m)^✗ Regression: HEAD fails in 2 of 2 launches", "flaky": "(?m)^\\? Cannot tell: HEAD fails in 1 of 40 launches", "gone": "cannot tell  time of n2 .* - .*HEAD does not report it",
		"infra": "(?m)^\\? Stopped: machine problem", "no numbers": "there are no numbers", "blamed": `culprit .*  cccccccccc\n  confidence  99 %, confirmed by fresh launches`,
	}
	for name, g := range samples.Gates() {
		p := page.New(g, report.Ledger{})
		plain := textOf(t, p)
		var painted bytes.Buffer
		if err := Text(&painted, p, Terminal{Colour: true, All: true}); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(plain, "\x1b\x00") || regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(painted.String(), "") != plain {
			t.Errorf("%s: %q", name, painted.String())
		}
		if !regexp.MustCompile(headlines[name]).MatchString(plain) {
			t.Errorf("%s: no %q in\n%s", name, headlines[name], plain)
		}
		if n := strings.Count(plain, "\n  verdict "); (n == 1) != (len(g.Contrasts) > 0) {
			t.Errorf("%s: %d tables", name, n)
		}
	}
	holds(t, textOf(t, page.New(samples.Gates()["accepted"], report.Ledger{})), "accepted  time of n1", "accepted up to +25.0 %: because | of", "Accepted, but not needed: time up to 2 times (old)")
}

// TestMarkdownOfGates: names stay text, and the page stays below its limit.
func TestMarkdownOfGates(t *testing.T) {
	for name, g := range samples.Gates() {
		p := page.New(g, report.Ledger{})
		for _, limit := range []int{1 << 20, 2000, 700, 50, 1} {
			text := markdownOf(t, p, limit)
			if len(text) > limit {
				t.Errorf("%s: %d bytes of %d", name, len(text), limit)
			}
			if strings.Contains(text, "\x00") || strings.Contains(text, "<b>") || regexp.MustCompile(`@\w`).MatchString(text) {
				t.Errorf("%s: %s", name, text)
			}
		}
		for _, line := range strings.Split(markdownOf(t, p, 1<<20), "\n") {
			bars := strings.Count(line, "|") - strings.Count(line, `\|`)
			if strings.HasPrefix(line, "|") && bars != 9 && bars != 8 && bars != 3 { // without notes a column less
				t.Errorf("%s: a row of %d bars: %s", name, bars, line)
			}
		}
	}
	many := samples.Gate(report.GateRegression, 1)
	for i := range 5000 {
		many.Contrasts = append(many.Contrasts, samples.Contrast(report.GatePass, fmt.Sprint("case ", i), 1))
	}
	many.Contrasts = append(many.Contrasts, samples.Contrast(report.GateRegression, "the bad one", 1.3))
	many.Verdict = "Regression."
	text := markdownOf(t, page.New(many, report.Ledger{}), 20_000)
	if len(text) > 20_000 || !strings.Contains(text, "the bad one") || !regexp.MustCompile(`\d+ more are not shown`).MatchString(text) {
		t.Errorf("%d bytes\n%s", len(text), text)
	}
}

// A gate and a comparison are pages too: the verdict, each number with its interval, who was launched as what.
func TestPageOfComparison(t *testing.T) {
	ledger := func(a, b string) (l report.Ledger) {
		for _, x := range []report.Launch{{Candidate: bisect.Candidate{Commit: a}, Purpose: bisect.EndGood}, {Candidate: bisect.Candidate{Commit: b}, Purpose: bisect.EndBad}} {
			x.Outcome = bisect.Outcome{Class: bisect.OK, Wall: 1, Phases: []bisect.PhaseTime{{Name: "measure", Seconds: 1}}}
			l.Launches = append(l.Launches, x)
		}
		return l
	}
	for name, g := range samples.Gates() {
		p := page.New(g, ledger(g.Base.Commit, g.Head.Commit))
		if want := strings.Map(func(r rune) rune {
			if r < ' ' {
				return ' '
			}
			return r
		}, g.Verdict); p.Headline != strings.TrimSpace(want) && !(g.Verdict == "" && p.Headline == g.Result) {
			t.Errorf("%s: headline %q, verdict %q", name, p.Headline, want)
		}
		if g.NotLaunched != nil {
			continue
		}
		if n := len(g.Contrasts); n > 0 {
			first := p.Sections[0]
			if first.ID != "metrics" || len(first.Tables[0].Rows) != n || len(first.Charts) == 0 {
				t.Errorf("%s: %d numbers, %+v", name, n, first)
			}
		}
		holds(t, markdownOf(t, p, MarkdownLimit), "| aaaaaaaaaa (merge base) |", "| bbbbbbbbbb (HEAD) |", "| HEAD | ok |")
	}
	c := samples.Comparison("regression", samples.Contrast("regression", "n1", 1.2), samples.Contrast("no-difference", "", 1), samples.Contrast("cannot-tell", "n2", 1))
	c.Verdict = "B is worse: so it is."
	p := page.New(c, ledger(c.A.Commit, c.B.Commit))
	table := p.Sections[0].Tables[0]
	if p.Headline != c.Verdict || p.State != page.Bad || len(table.Rows) != 3 || table.Columns[4] != "B" || table.States[0] != page.Bad || table.States[1] != page.Good || table.States[2] != page.Unsure || table.Rows[0][5] != "+20.0 % (+18.0 to +22.0 %)" {
		t.Errorf("%q %+v", p.Headline, table)
	}
	var blamed []string
	for _, f := range page.New(samples.Gates()["blamed"], report.Ledger{}).Cards[0].Rows {
		blamed = append(blamed, f.Name+": "+f.Text)
	}
	holds(t, strings.Join(blamed, "\n"), "confidence: 99 %, confirmed by fresh launches against its parent", "lines: a dir/k%1,:.cu:3-9, b:1")
}

// Every document has a page in every format, and all three say the same headline, facts and titles in the same order.
func TestFormatsAgree(t *testing.T) {
	pages := map[string]page.Page{"slow": pageOf(samples.Guilty()), "flags": flagsPage(t), "gate": manyNumbers(), "history": measuredHistory(), "explanation": page.New(&report.Explanation{
		Summary: "Largest changes: registers.", A: report.Candidate{Commit: "a"}, B: report.Candidate{Commit: "b"},
		Rows: []figures.Row{figures.Numbers("resources", "k", "registers per thread", "", figures.SortRegisters, 40, 168)},
	}, report.Ledger{})}
	for name, p := range pages {
		text, md, html := textOf(t, p), markdownOf(t, p, 0), htmlOf(t, p)
		for format, all := range map[string]string{"text": text, "Markdown": strings.NewReplacer("\\", "", "<!-- -->", "", "&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(md), "HTML": strings.ReplaceAll(unescaped(html), "\u00a0", " ")} {
			at := 0
			next := func(what string) {
				i := strings.Index(all[at:], what)
				if i < 0 {
					t.Errorf("%s as %s: %q is missing, or not in its order", name, format, what)
					return
				}
				at += i + len(what)
			}
			// A page folds the details of all cards below the answer.
			for _, details := range []bool{false, true} {
				for _, c := range p.Cards {
					for _, want := range append([]page.Row{{Text: c.Head}}, c.Rows...) {
						if later := format == "HTML" && want.More; later == details && !strings.ContainsAny(want.Text, "`\u202e|<&") {
							next(want.Text)
						}
					}
				}
				if format != "HTML" {
					break
				}
			}
			if format == "text" { // there the answer comes last
				at = 0
			}
			for _, s := range p.Sections {
				if format != "text" || (Terminal{}).section(s) != "" {
					next(s.Title)
				}
			}
		}
	}
}

// Whatever a store holds as a finding, a page is made of it or an error, in every format, and it ends.
func FuzzNew(f *testing.F) {
	doc, _ := samples.Flags()
	f.Add(doc)
	var b bytes.Buffer
	if err := report.WriteJSON(&b, report.NewSearch(samples.Slow())); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"schema":"kbisect.finding/1","axis":"history","culprits":[{"commit":"x","hunks":[{}],"rate":{}}],"tests":[{"assign":null}],"steps":[{}],"safe_sets":[{"ratio":2,"maximum":true}]}`))
	f.Add([]byte(`{"schema":"kbisect.gate/1","result":"regression","verdict":"x","base":{"commit":"a"},"head":null,"pairs":3,"comparisons":[{"metric":"t","unit":"s","result":"regression","a":{"median":1},"bound":{"value":2,"low":1,"high":3}},{}],"accepted":[{"metric":"t","limit":2}],"culprit":{"commit":"c","confidence":1,"effect":{},"places":[{"file":"f"}]}}`))
	f.Add([]byte(`{"schema":"kbisect.comparison/1","a":{"commit":"a"},"b":{"commit":"b"},"comparisons":[{"case":"n","all_cases":true}]}`))
	f.Add([]byte(`{"schema":"kbisect.measurement/1","metrics":[{"modes":{}}],"devices":[{}],"phases":[{}]}`))
	f.Add([]byte(`{"schema":"kbisect.explanation/1","rows":[{"a":1,"b":2}],"builds":[{}]}`))
	f.Add([]byte(`{"schema":"kbisect.history/1","series":[{"commits":[{"values":{"median":1}},{"failures":[{}]}]}]}`))
	in := samples.Slow()
	f.Fuzz(func(t *testing.T, doc []byte) {
		d, err := report.Read(doc, "s")
		if err != nil {
			return
		}
		p := page.New(d, in.Ledger)
		if err := HTML(io.Discard, p); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := Markdown(&b, p, MarkdownLimit); err != nil || b.Len() > MarkdownLimit {
			t.Fatalf("%d bytes, %v", b.Len(), err)
		}
		if err := Text(io.Discard, p, Terminal{Width: len(doc) % 90, All: len(doc)%2 == 0}); err != nil {
			t.Fatal(err)
		}
	})
}

// Text from outside stays text in Markdown: no mentions, no links, no markup. Gates and
// reports have one writer, so that this holds for both.
func TestMarkdownOfStrangers(t *testing.T) {
	for text, want := range map[string]string{
		"thanks @octocat, see #12, GH-7 and gh-8":   "thanks @<!-- -->octocat, see #<!-- -->12, GH-<!-- -->7 and gh-<!-- -->8",
		"a/b#3 at a@b.example":                      "a/b#<!-- -->3 at a@<!-- -->b.example",
		"https://evil.example www.evil.example":     "https:/<!-- -->/evil.example www.<!-- -->evil.example",
		"# title":                                   "#<!-- --> title",
		"<img src=x> | `code` *b* _i_ ~s~ $m$":      "&lt;img src=x&gt; \\| \\`code\\` \\*b\\* \\_i\\_ \\~s\\~ \\$m\\$",
		"![i](http://evil/i.png) [a](b) & &amp; \\": "\\!\\[i\\](http:/<!-- -->/evil/i.png) \\[a\\](b) &amp; &amp;amp; \\\\",
		"one\ntwo\r":                                "one two",
		"plain text, 4.9 % (µs)":                    "plain text, 4.9 % (µs)",
	} {
		if got := escaped(text); got != want {
			t.Errorf("%q:\n%s\nwant\n%s", text, got, want)
		}
	}
	if got, want := inHTML(`@a #1 [x] <b> "q" GH-2`), `@<!-- -->a #<!-- -->1 &#91;x] &lt;b&gt; &#34;q&#34; GH-<!-- -->2`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
