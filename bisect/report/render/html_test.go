package render

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/internal/samples"
	"github.com/kbisect/kbisect/bisect/report/page"
)

func htmlOf(t *testing.T, p page.Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// walk calls visit for every element.
func walk(n *html.Node, visit func(*html.Node)) {
	if n.Type == html.ElementNode {
		visit(n)
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		walk(c, visit)
	}
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// inert fails if a page holds anything that could act or ask for something.
func inert(t *testing.T, text string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	scripts, ids := 0, map[string]bool{}
	walk(doc, func(n *html.Node) {
		switch n.Data {
		case "script":
			scripts++
		case "img", "iframe", "object", "embed", "form", "link", "base", "video", "audio":
			t.Errorf("an element %s", n.Data)
		}
		for _, a := range n.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "src", a.Key == "style":
				t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			case a.Key == "href" && n.Data == "a" && strings.HasPrefix(a.Val, "https://") && attr(n, "rel") == "noopener noreferrer": // a commit at its forge
			case a.Key == "href" && !strings.HasPrefix(a.Val, "#"):
				t.Errorf("a link that leaves the page: %q", a.Val)
			case a.Key == "id" && ids[a.Val]:
				t.Errorf("two elements with the id %s", a.Val)
			case a.Key == "id":
				ids[a.Val] = true
			}
		}
		if attr(n, "role") == "group" && attr(n, "aria-label") == "" {
			t.Error("a picture that says nothing to who does not see it")
		}
	})
	if scripts != 1 {
		t.Errorf("%d scripts", scripts)
	}
}

func TestHTMLIsInert(t *testing.T) {
	for _, p := range []page.Page{pageOf(samples.Slow()), pageOf(samples.Found()), flagsPage(t), pageOf(report.Input{})} {
		text := htmlOf(t, p)
		inert(t, text)
		if len(text) > 200_000 {
			t.Errorf("%d bytes", len(text))
		}
	}
}

// Guilty lines say so in words, not only by a colour.
func TestGuiltyLinesSaySo(t *testing.T) {
	text := htmlOf(t, pageOf(samples.Guilty()))
	for class, want := range map[string]int{`class="add culprit"`: 2, `class="del culprit"`: 1, `class="add carrier"`: 1, `>guilty</td>`: 3, `>carrier</td>`: 2, `gemm.cu:41 (required to build, not the cause)`: 1} {
		if got := strings.Count(text, class); got != want {
			t.Errorf("%d times %s, want %d", got, class, want)
		}
	}
	var b bytes.Buffer
	if err := Markdown(&b, pageOf(samples.Guilty()), 0); err != nil || strings.Count(b.String(), "◀ guilty") != 3 {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// Every chart stands in a section with a table; that of the timeline is the list of all launches.
func TestEveryChartIsATableToo(t *testing.T) {
	for _, p := range []page.Page{pageOf(samples.Slow()), pageOf(samples.Found()), flagsPage(t)} {
		for _, s := range p.Sections {
			if len(s.Charts) > 0 && len(s.Tables) == 0 && s.ID != "timeline" {
				t.Errorf("section %s has no table", s.ID)
			}
			for _, x := range s.Tables {
				for _, row := range x.Rows {
					if len(row) != len(x.Columns) {
						t.Errorf("%s: a row of %d cells in %d columns", x.Title, len(row), len(x.Columns))
					}
				}
			}
		}
	}
}

// What is in the page is ours: it names no other's script, and nothing in it ends the element that it stands in.
func TestScriptIsOurs(t *testing.T) {
	if s := file("page.js"); regexp.MustCompile(`(?i)</script|<!--`).MatchString(s) || len(s) > 12_000 {
		t.Errorf("a script of %d bytes, or one that would end its element", len(s))
	}
}

var hostiles = []string{"", samples.Hostile, "</title>", "-->", "]]>", "\"'`", "\u2028", "\xff", strings.Repeat("x", 5000), "a|b\nc", "```\n````", "javascript:alert(1)", "{{.}}", "@all #1"}

// fouled says something hostile wherever somebody else may say something.
func fouled(r *rand.Rand) report.Input {
	say := func() string { return hostiles[r.IntN(len(hostiles))] }
	in := samples.Slow()
	for id, c := range in.Commits {
		c.Subject, c.Author, c.Email, c.Files = say(), say(), say(), []string{say()}
		in.Commits[id] = c
	}
	for i := range in.Launches {
		o := &in.Launches[i].Outcome
		o.Why, o.Tail, o.Warnings, o.Marks, o.Unfit = say(), say(), []string{say()}, []bisect.Mark{{Kind: bisect.Shared, Text: say()}}, say()
		o.Class, o.Phase = []bisect.Class{bisect.OK, bisect.Timeout, bisect.Crash}[r.IntN(3)], say()
		o.Phases = append(o.Phases, bisect.PhaseTime{Name: say(), Seconds: 1})
		o.Series = append(o.Series, bisect.Series{Metric: say(), Case: say(), Unit: say(), Values: []float64{1}})
		o.Devices[0].Throttled, o.Devices[0].UUID = say(), say()
	}
	in.Diffs[samples.CommitID(40)] = say() + "\n@@ -1 +1 @@\n+" + say()
	in.Explain.Rows = append(in.Explain.Rows, []string{say(), say(), say()})
	in.Warnings, in.Devices = []string{say()}, []string{say()}
	in.Finding.Culprits[0].Phase = say()
	return in
}

func TestHostileWordsStayWords(t *testing.T) {
	for seed := range uint64(8) {
		p := pageOf(fouled(rand.New(rand.NewPCG(seed, 7))))
		inert(t, htmlOf(t, p))
		var b bytes.Buffer
		if err := Markdown(&b, p, MarkdownLimit); err != nil {
			t.Fatal(err)
		}
		harmlessMarkdown(t, b.String())
	}
}

// outsideFences is a text without its blocks of code, as CommonMark finds them.
func outsideFences(text string) string {
	var out []string
	open := ""
	for _, line := range strings.Split(text, "\n") {
		ticks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case open != "" && len(ticks) >= len(open) && strings.TrimSpace(line) == ticks:
			open = ""
		case open == "" && len(ticks) >= 3:
			open = ticks
		case open == "":
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// harmlessMarkdown fails if anything in a text would be taken for markup.
func harmlessMarkdown(t *testing.T, text string) {
	t.Helper()
	if len(text) > MarkdownLimit {
		t.Errorf("%d bytes", len(text))
	}
	words := strings.ReplaceAll(outsideFences(text), "<!-- -->", "·")
	for _, own := range []string{"<details>", "</details>", "<summary>", "</summary>"} {
		words = strings.ReplaceAll(words, own, "")
	}
	if i := strings.IndexAny(words, "<\x1b\u202e"); i >= 0 {
		t.Errorf("markup or a control: %q", words[i:min(len(words), i+60)])
	}
	if m := regexp.MustCompile(`(^|[^\\])(!?\[[^\]]*\]\(|@\w|[^&]#\d|\bGH-\d|:/[/]|www\.\w)`).FindString(words); m != "" {
		t.Errorf("a link, a picture or a mention: %q", m)
	}
}

func TestMarkdown(t *testing.T) {
	var b bytes.Buffer
	if err := Markdown(&b, pageOf(samples.Slow()), MarkdownLimit); err != nil {
		t.Fatal(err)
	}
	harmlessMarkdown(t, b.String())
	for _, want := range []string{"### kbisect: found\n\n**✗ 0000004000 makes \\`time\\` 9.0 % slower**\n\n- **commit:** gemm: swizzle", "#### Search log", "#### What the culprit changed", "```diff", "+\tload_swizzled(a);", "| registers | 96 | 128 |", "software thermal slowdown"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// A report that is too long keeps within its limit and says what is not there.
func TestMarkdownBounded(t *testing.T) {
	in := samples.Slow()
	for i := range 400 {
		in.Warnings = append(in.Warnings, fmt.Sprint(i, strings.Repeat(" warning", 60)))
	}
	var b bytes.Buffer
	if err := Markdown(&b, pageOf(in), MarkdownLimit); err != nil {
		t.Fatal(err)
	}
	in.Finding.Culprits = slices.Repeat(in.Finding.Culprits, 300)
	var many bytes.Buffer
	if err := Markdown(&many, pageOf(in), MarkdownLimit); err != nil || many.Len() > MarkdownLimit {
		t.Errorf("300 culprits: %d bytes, %v", many.Len(), err)
	}
	if n := b.Len(); n > MarkdownLimit || !strings.Contains(b.String(), "Too long for here, and in the HTML report: Notes.") {
		t.Errorf("%d bytes\n%s", n, b.String()[max(0, n-300):])
	}
}

// unescaped is HTML with its entities as the characters that they stand for, without the links to its sections.
func unescaped(s string) string {
	_, body, _ := strings.Cut(s, "<main>")
	before, rest, _ := strings.Cut(body, "<nav")
	_, after, _ := strings.Cut(rest, "</nav>")
	return html.UnescapeString(before + after)
}

// The heading is the answer in the user's terms, with names as code and nothing of it as markup.
func TestHeading(t *testing.T) {
	p := page.Page{Headline: "1234567890 makes `time` 2 % slower", Cards: []page.Card{{Head: "Makes `<b>time` 2 % slower"}}}
	p.Cards[0].Rows, p.Totals = []page.Row{{Name: "use", Text: "time -21.0 % against the base, 1.25 ms", Copy: "-DA=1 -DB=0"}}, "3 launches in 5 s"
	for _, want := range []string{"-21.0 % against the base, 1.25 ms", `<span class="w">-DA=1</span> <span class="w">-DB=0</span>`, "3 launches in 5 s"} {
		if !strings.Contains(htmlOf(t, p), want) {
			t.Errorf("a line may break within %s", want)
		}
	}
	if text, want := htmlOf(t, p), `<h1 id="headline">Makes <code>&lt;b&gt;time</code> 2 % slower</h1>`; !strings.Contains(text, want) {
		t.Errorf("no %s", want)
	}
	p.Cards = append(p.Cards, p.Cards[0])
	if text, want := htmlOf(t, p), `<h1 id="headline">1234567890 makes <code>time</code> 2 % slower</h1>`; !strings.Contains(text, want) {
		t.Errorf("no %s", want)
	}
}
