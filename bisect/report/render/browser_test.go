package render

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/internal/samples"
	"github.com/kbisect/kbisect/bisect/report/page"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// browser is a headless Chromium with one page of a report.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	requests []string
	trouble  []string // exceptions, and what the page's policy refused
}

// chromium starts the browser of the machine, or skips the test.
func chromium(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("SKIPPED: there is no Chromium: the charts, their hover, the page's policy and its accessibility were NOT tested\nhint: apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true))
	b := &browser{t: t}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	ctx, closePage := chromedp.NewContext(ctx, chromedp.WithListener(b.heard))
	t.Cleanup(func() { closePage(); stop(); cancel() })
	b.ctx = ctx
	b.eval("1", new(int)) // starts it
	command(b, network.Enable, network.EnableParams{})
	command(b, runtime.Enable, cdp.Empty{})
	command(b, log.Enable, cdp.Empty{})
	return b
}

// heard takes down what should not be.
func (b *browser) heard(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, ev.Request.URL)
	case *runtime.EventExceptionThrown:
		b.trouble = append(b.trouble, fmt.Sprintf("%s %+v", ev.ExceptionDetails.Text, ev.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		b.trouble = append(b.trouble, ev.Entry.Text)
	}
}

func command[P, R any](b *browser, c cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, c, params); err != nil {
		b.t.Fatalf("%s: %v", c.Method, err)
	}
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// eval evaluates an expression, waits for what it promises, and decodes its JSON.
func (b *browser) eval(expression string, into any) {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("(async () => JSON.stringify(await ("+expression+")))()", chromedp.EvalAwaitPromise))
	if err == nil {
		err = json.Unmarshal([]byte(text), into)
	}
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", expression, err, text)
	}
}

// open shows a page, from a file as a person would.
func (b *browser) open(p page.Page, width, height int, scheme string) {
	b.t.Helper()
	var text bytes.Buffer
	if err := HTML(&text, p); err != nil {
		b.t.Fatal(err)
	}
	path := filepath.Join(b.t.TempDir(), "report.html")
	if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
		b.t.Fatal(err)
	}
	command(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: int64(width), Height: int64(height), DeviceScaleFactor: 1, Mobile: width < 500})
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	b.do(chromedp.Navigate("file://" + path)) // waits for the load event, and with it for the scripts
	var ready string
	if b.eval(`document.documentElement.dataset.ready ?? ""`, &ready); ready != "yes" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.t.Fatalf("the script did not run to its end: %v", b.trouble)
	}
}

// picture keeps what is seen, for people, in the folder that KBISECT_PICTURES names.
func (b *browser) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("KBISECT_PICTURES")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// quiet fails if the page asked for anything but itself, or anything went wrong in it.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.requests {
		if !strings.HasPrefix(url, "file://") || !strings.HasSuffix(url, "/report.html") {
			b.t.Errorf("a request left the page: %.200s", url)
		}
	}
	if len(b.requests) == 0 {
		b.t.Error("not even the page itself was seen to be asked for: nothing was watched")
	}
	for _, x := range b.trouble {
		b.t.Errorf("in the page: %s", x)
	}
}

// axe is Deque Systems' axe-core. It is not part of kbisect: npm downloads it once, where it can. Where it cannot, "" is
// returned and a subtest of its own is skipped, as the tests are that lack another tool.
func axe(t *testing.T) string {
	t.Helper()
	const version = "4.14.1"
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	dir := filepath.Join(cache, "kbisect-tests")
	packed := filepath.Join(dir, "axe-core-"+version+".tgz")
	if _, err := os.Stat(packed); err != nil {
		// npm checks what it fetched; moving it to its place afterwards leaves no half of it to other tests.
		fresh := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		npm := exec.CommandContext(ctx, "npm", "pack", "--silent", "--pack-destination", fresh, "axe-core@"+version)
		npm.Dir = fresh
		if out, err := npm.CombinedOutput(); err != nil {
			t.Run("accessible", func(t *testing.T) {
				t.Skipf("SKIPPED: npm could not fetch axe-core: the accessibility of reports was NOT tested: %v %.300s\nhint: install npm, or put axe-core-%s.tgz into %s", err, out, version, dir)
			})
			return ""
		}
		data, err := os.ReadFile(filepath.Join(fresh, filepath.Base(packed)))
		if err == nil {
			err = os.MkdirAll(dir, 0o755)
		}
		if err == nil {
			err = os.WriteFile(packed+".new", data, 0o644)
		}
		if err == nil {
			err = os.Rename(packed+".new", packed)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	script, err := exec.CommandContext(t.Context(), "tar", "-xzOf", packed, "package/axe.min.js").Output()
	if err != nil {
		t.Fatalf("%s: %v", packed, err)
	}
	return string(script)
}

// accessible runs axe over the page; there is nothing to load before, and it would wait long for it. Contrasts that
// it cannot judge are findings as well, but for those of texts in pictures, and of tables that scroll, which TestColours judges.
func (b *browser) accessible(name, axe string) {
	b.t.Helper()
	if axe == "" {
		return
	}
	b.do(chromedp.Evaluate[chromedp.Void](axe))
	type finding struct {
		ID, Impact, Help string
		Nodes            []struct {
			Target []any
			Why    string
		}
	}
	var result struct {
		Violations, Unclear []finding
		Passes              int
	}
	b.eval(`axe.run(document, {resultTypes: ["violations", "incomplete"], preload: false}).then(r => {
		const brief = all => all.map(v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 3).map(n => ({target: n.target, why: n.failureSummary ?? ""}))}));
		const unclear = r.incomplete.filter(v => v.id === "color-contrast").map(v => ({...v, nodes: v.nodes.filter(n => !document.querySelector(n.target.at(-1))?.closest("svg, .scroll"))}));
		return {violations: brief(r.violations), unclear: brief(unclear.filter(v => v.nodes.length)), passes: r.passes.length};
	})`, &result)
	if result.Passes < 10 {
		b.t.Errorf("%s: axe passed %d rules only: did it see the page?", name, result.Passes)
	}
	for _, v := range append(result.Violations, result.Unclear...) {
		b.t.Errorf("%s: axe, %s: %s: %s, at %v", name, v.Impact, v.ID, v.Help, v.Nodes)
	}
}

// fits fails if the page is wider than its window, if a text leaves its picture, or if two texts of a picture overlap.
func (b *browser) fits(name string) {
	b.t.Helper()
	var size struct {
		Page, Window float64
		Bad          []string
	}
	b.eval(`(() => {
		const wide = document.documentElement.clientWidth, bad = [];
		const inside = el => !el.closest(".scroll") && !el.closest("nav");
		for (const el of document.querySelectorAll("main *")) {
			const r = el.getBoundingClientRect();
			if (r.width && inside(el) && !el.closest(".hidden") && r.right > wide + 1) bad.push("outside: " + el.tagName + " " + (el.textContent || el.getAttribute("class")).slice(0, 60));
		}
		for (const chart of document.querySelectorAll(".chart")) {
			const boxes = [...chart.querySelectorAll("svg text")].map(el => [el, el.getBoundingClientRect()]).filter(x => x[1].width);
			for (let i = 0; i < boxes.length; i++) for (let k = 0; k < i; k++) {
				const [a, p] = boxes[i], [b, q] = boxes[k];
				if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 3) bad.push("overlap: " + a.textContent + " on " + b.textContent);
			}
		}
		return {page: document.documentElement.scrollWidth, window: innerWidth, bad: bad.slice(0, 8)};
	})()`, &size)
	if size.Page > size.Window || len(size.Bad) > 0 {
		b.t.Errorf("%s: the page is %g wide, its window %g: %q", name, size.Page, size.Window, size.Bad)
	}
}

// needed are the rows of an answer that say which change, how sure, why and what to do, by the kind of a report.
var needed = map[string][]string{
	"timeout": {"commit", "confidence", "files", "last good"}, "slow": {"commit", "effect", "confidence", "lines", "last good"}, "flags": {"confidence", "use"},
	"inconclusive": {"evidence", "suspects", "hint"}, "gate": {"base", "HEAD"}, "history": {"note"},
}

// answers fails unless the first screen holds the headline, these rows, and what to type next, with each name beside its text.
func (b *browser) answers(kind, window string, height int) {
	b.t.Helper()
	var seen struct {
		Top, Headline, Next float64
		Rows                map[string]float64
		Overlap             []string
	}
	b.eval(`(() => {
		const bottom = el => el ? el.getBoundingClientRect().bottom : 0, rows = {}, overlap = [];
		for (const name of document.querySelectorAll("#answer dl.card dt")) {
			const text = name.nextElementSibling;
			if (!name.textContent) continue;
			rows[name.textContent] ??= bottom(text);
			if (name.scrollWidth > name.clientWidth || name.getBoundingClientRect().right > text.getBoundingClientRect().left) overlap.push(name.textContent);
		}
		return {top: document.querySelector("h1").getBoundingClientRect().top, headline: bottom(document.querySelector("h1")), next: bottom(document.querySelector(".next li")), rows, overlap};
	})()`, &seen)
	low := map[string]float64{"the headline": seen.Headline, "next": seen.Next}
	if kind == "history" { // there is nothing to do about it
		delete(low, "next")
	}
	for _, name := range needed[kind] {
		low[name] = seen.Rows[name]
	}
	for what, at := range low {
		if at <= 0 || at > float64(height) {
			b.t.Errorf("%s %s: %s ends at %.0f, and the screen at %d", kind, window, what, at, height)
		}
	}
	if seen.Top < 0 || len(seen.Overlap) > 0 {
		b.t.Errorf("%s %s: the headline begins at %.0f; names that run into their text: %q", kind, window, seen.Top, seen.Overlap)
	}
}

// prints looks at a page as a printer gets it.
func (b *browser) prints(name string) {
	b.t.Helper()
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	b.fits(name + ", printed")
	b.picture(name + "-print")
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
}

// The sizes of windows that reports are looked at in, and the themes.
var windows = []struct {
	name, scheme  string
	width, height int
}{{"light", "light", 1400, 900}, {"dark", "dark", 1400, 900}, {"phone", "light", 390, 844}, {"phone-dark", "dark", 390, 844}}

// TestInBrowser opens reports as people do: it reads values off the pictures, points at one, and looks
// for requests, injected code, and what keeps people from reading.
func TestInBrowser(t *testing.T) {
	t.Parallel()
	b, axe := chromium(t), axe(t)
	in := samples.Guilty()
	for i := range in.Finding.Steps {
		in.Finding.Steps[i].Belief = []bisect.Mass{{From: samples.CulpritID, P: 1}}
	}
	p := pageOf(in)
	b.open(p, 1280, 900, "light")
	b.readsSearch()
	b.hovers()
	b.replays(report.NewSearch(in))
	b.harmless()
	b.do(chromedp.Click(chromedp.ID("theme")), chromedp.Click(chromedp.ID("theme")))
	var theme string
	if b.eval(`document.documentElement.dataset.theme`, &theme); theme != "dark" {
		t.Errorf("the switch leads to %q", theme)
	}
	b.do(chromedp.Click(chromedp.ID("theme"))) // auto again
	b.open(measuredHistory(), 1280, 900, "light")
	b.readsHistory()
	all, _ := everyPage(t)
	for name, p := range map[string]page.Page{"slow": p, "flags": all["flags"], "history": measuredHistory(), "gate": manyNumbers(), "timeout": pageOf(samples.Found()), "inconclusive": all["inconclusive"]} {
		for _, w := range windows {
			b.open(p, w.width, w.height, w.scheme)
			b.answers(name, w.name, w.height)
			b.eval(`document.querySelectorAll("details").forEach(d => d.open = true) ?? 0`, new(any))
			b.fits(name + " " + w.name)
			b.picture(name + "-" + w.name)
			if w.name == "light" || name == "slow" && w.name != "phone-dark" {
				b.accessible(name+" "+w.name, axe)
			}
		}
		b.open(p, 760, 1000, "light")
		b.prints(name)
	}
	b.quiet()
}

// manyNumbers is the page of a gate of twelve numbers.
func manyNumbers() page.Page {
	g := &report.Gate{
		Schema: report.GateSchema, Session: new("g1"), Result: report.GateRegression, Into: "origin/main", Base: report.CommitInfo{ID: samples.CommitID(1)}.Candidate("merge base with main"),
		Head: report.CommitInfo{ID: samples.CommitID(2), Subject: samples.Hostile}.Candidate("HEAD"), Compared: report.Compared{Effect: 0.03, ErrorRate: 0.01, Pairs: 9},
	}
	for i := range 12 {
		shape, r := fmt.Sprintf("m%d k4096 n7168, half precision", 1<<i), report.Number(1+0.02*float64(i-3))
		x := samples.Contrast(report.GatePass, shape, float64(r))
		if r > 1.03 {
			x.Result = report.GateRegression
		}
		g.Contrasts = append(g.Contrasts, x)
	}
	g.Conclude("")
	l := samples.Slow().Ledger
	l.Launches = l.Launches[:4]
	return page.New(g, l)
}

// readsSearch reads the launches off the picture of the search: each lies where its value belongs on the scale that
// the ticks make.
func (b *browser) readsSearch() {
	b.t.Helper()
	var seen struct {
		Ticks, Launches [][2]float64 // value and place from the top
	}
	b.eval(`(() => {
		const plane = document.querySelector("#search .plane"), middle = el => { const r = el.getBoundingClientRect(); return (r.top + r.bottom) / 2; };
		return {
			ticks: [...plane.querySelectorAll("text.tick[text-anchor=end][x='-8']")].map(el => [+el.textContent, middle(el)]),
			launches: [...plane.querySelectorAll("use")].filter(el => /^launch/.test(el.dataset.t)).map(el => [+/: ([0-9.]+)/.exec(el.dataset.t)[1], middle(el)]),
		};
	})()`, &seen)
	if want := len(samples.Slow().Launches) - 1; len(seen.Launches) != want || len(seen.Ticks) < 2 { // that of the crash has no time
		b.t.Fatalf("%d launches with a value are drawn, %d were made; ticks %v", len(seen.Launches), want, seen.Ticks)
	}
	low, high := seen.Ticks[0], seen.Ticks[len(seen.Ticks)-1]
	for _, x := range seen.Launches {
		if place := low[1] + (x[0]-low[0])/(high[0]-low[0])*(high[1]-low[1]); math.Abs(place-x[1]) > 2.5 {
			b.t.Errorf("a launch of %g lies at %g, and its value at %g", x[0], x[1], place)
		}
	}
}

// hovers points at the culprit's verdict and reads what comes up; a click marks its launches in all pictures, and the arrow keys
// step from mark to mark.
func (b *browser) hovers() {
	b.t.Helper()
	var at struct{ X, Y float64 }
	b.eval(`(() => {
		const plane = document.querySelector("#search .plane");
		plane.scrollIntoView({block: "center", behavior: "instant"});
		const r = [...plane.querySelectorAll("use[href='#m-culprit']")].at(-1).getBoundingClientRect();
		return {x: (r.left + r.right) / 2, y: (r.top + r.bottom) / 2};
	})()`, &at)
	b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at.X-1, at.Y), chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at.X, at.Y))
	b.do(chromedp.WaitVisible(chromedp.CSS(".tip")))
	var text string
	b.eval(`document.querySelector(".tip").textContent`, &text)
	for _, want := range []string{samples.CommitID(40)[:10], "gemm: swizzle </script>", "first bad"} {
		if !strings.Contains(text, want) {
			b.t.Errorf("no %q in the tip %q", want, text)
		}
	}
	b.do(chromedp.MouseClickXY(at.X, at.Y))
	var marked map[string]int
	b.eval(`Object.fromEntries(["#search", "#timeline", "#proof"].map(q => [q, document.querySelectorAll(q + " .sel").length]))`, &marked)
	for where, n := range marked {
		if n == 0 {
			b.t.Errorf("nothing is marked in %s: %v", where, marked)
		}
	}
	var stepped []string
	b.eval(`["ArrowRight", "ArrowRight", "ArrowLeft"].map(key => {
		const plane = document.querySelector("#search .plane");
		plane.focus();
		plane.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
		return document.querySelector(".tip").textContent;
	})`, &stepped)
	if stepped[0] == stepped[1] || stepped[1] == "" || stepped[0] != stepped[2] {
		b.t.Errorf("the arrow keys step to %q", stepped)
	}
}

// replays moves the slider of the search by the arrow keys: what is shown are the first steps of the document, and of
// the last of them its commit, its verdict and how many suspects it left.
func (b *browser) replays(d *report.Search) {
	b.t.Helper()
	var steps int
	b.eval(`(() => { const range = document.querySelector(".replay input"); range.focus(); return +range.max; })()`, &steps)
	if steps != len(d.Steps) {
		b.t.Fatalf("the slider has %d steps, and the document %d", steps, len(d.Steps))
	}
	back := func(key string, code int64) {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
			command(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: key, Code: key, WindowsVirtualKeyCode: code})
		}
	}
	at := steps
	for _, move := range []int{0, -1, -1, 1} {
		if at += move; move < 0 {
			back("ArrowLeft", 37)
		} else if move > 0 {
			back("ArrowRight", 39)
		}
		var seen struct {
			Said         string
			Shown, Drawn int
		}
		b.eval(`({said: document.querySelector(".replay output").textContent, drawn: document.querySelectorAll(".step").length, shown: document.querySelectorAll(".step:not(.later)").length})`, &seen)
		s := d.Steps[at-1]
		want := []string{bisect.ShortID(s.Commit), s.Verdict.Word()}
		if s.Role == "search" {
			want = append(want, words.Count(s.Remaining, "suspect")+" left")
		}
		for _, x := range want {
			if !strings.Contains(seen.Said, x) {
				b.t.Errorf("step %d of %d: %q, want %q", at, steps, seen.Said, want)
			}
		}
		if seen.Shown != at || seen.Drawn != steps {
			b.t.Errorf("step %d of %d: %d of %d are shown", at, steps, seen.Shown, seen.Drawn)
		}
	}
}

// harmless fails if anything that a commit said became part of the page.
func (b *browser) harmless() {
	b.t.Helper()
	var found map[string]int
	b.eval(`({hacked: +("hacked" in window), images: document.images.length, scripts: document.scripts.length, forms: document.forms.length, handlers: document.querySelectorAll("[onerror],[onload],[onclick]").length})`, &found)
	if want := (map[string]int{"hacked": 0, "images": 0, "scripts": 1, "forms": 0, "handlers": 0}); fmt.Sprint(found) != fmt.Sprint(want) {
		b.t.Errorf("%v, want %v", found, want)
	}
}

// historyPage is of a metric that got worse, and of commits that fail.
func measuredHistory() page.Page {
	nan := report.Number(math.NaN())
	s := report.HistorySeries{Devices: []string{"GPU-1"}, Command: []string{"./bench", samples.Hostile}, Metric: "time", Unit: "s", Base: new(string)}
	*s.Base = samples.CommitID(0)
	for i := range 40 {
		v := report.Number(40e-6)
		if i >= 20 {
			v = 44e-6
		}
		c := report.HistoryCommit{Commit: samples.CommitID(i), Subject: samples.Hostile, Date: "2026-11-21T07:45:12Z", Launches: 8, Ratio: v / 40e-6, Values: report.Summary{N: 8, Median: v, Low: v * .99, High: v * 1.01}}
		if i%10 == 9 {
			c.Values, c.Ratio, c.Failures = report.Summary{Median: nan, Low: nan, High: nan}, nan, []report.Failures{{Class: bisect.Crash, Launches: 8}}
		}
		s.Commits = append(s.Commits, c)
	}
	return page.New(&report.History{Shown: 40, All: 40, Series: []report.HistorySeries{s, {Metric: "wall", Unit: "s", Command: s.Command, Commits: s.Commits[:1]}}}, report.Ledger{})
}

// readsHistory counts what a history shows.
func (b *browser) readsHistory() {
	b.t.Helper()
	var shown struct {
		Medians, Failed int
		Axis, Head      string
	}
	b.eval(`(() => { const s = document.querySelector("#series-1 .plane"); return {
		medians: s.querySelectorAll("use[href='#m-tick']").length, failed: s.querySelectorAll("use[href='#m-bad']").length,
		axis: document.querySelector("#series-1 .axis-name").textContent, head: s.querySelector("text.mark").textContent}; })()`, &shown)
	if shown.Medians != 36 || shown.Failed != 4 || shown.Axis != "time, µs" || !strings.HasPrefix(shown.Head, "+10 % "+samples.CommitID(20)[:7]) {
		b.t.Errorf("%+v", shown)
	}
}
