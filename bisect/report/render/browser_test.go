package render

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
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
func (b *browser) open(p page.Page, width int, scheme string) {
	b.t.Helper()
	var text bytes.Buffer
	if err := HTML(&text, p); err != nil {
		b.t.Fatal(err)
	}
	path := filepath.Join(b.t.TempDir(), "report.html")
	if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
		b.t.Fatal(err)
	}
	command(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: int64(width), Height: 900, DeviceScaleFactor: 1, Mobile: width < 500})
	command(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	b.do(chromedp.Navigate("file://" + path)) // waits for the load event, and with it for the scripts
	var drawn string
	if b.eval(`document.documentElement.dataset.charts ?? ""`, &drawn); drawn != fmt.Sprint(len(charts(p))) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.t.Fatalf("%q charts of %d are drawn: %v", drawn, len(charts(p)), b.trouble)
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

// accessible runs axe over the page; there is nothing to load before, and it would wait long for it.
func (b *browser) accessible(name string) {
	b.t.Helper()
	packed, err := os.Open("testdata/axe-4.14.1.min.js.gz")
	if err != nil {
		b.t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		b.t.Fatal(err)
	}
	axe, err := io.ReadAll(z)
	if err != nil {
		b.t.Fatal(err)
	}
	b.do(chromedp.Evaluate[chromedp.Void](string(axe)))
	var result struct {
		Violations []struct {
			ID, Impact, Help string
			Nodes            []struct{ Target []any }
		}
		Passes int
	}
	b.eval(`axe.run(document, {resultTypes: ["violations"], preload: false}).then(r => ({violations: r.violations.map(v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 5).map(n => ({target: n.target}))})), passes: r.passes.length}))`, &result)
	if result.Passes < 10 {
		b.t.Errorf("%s: axe passed %d rules only: did it see the page?", name, result.Passes)
	}
	for _, v := range result.Violations {
		b.t.Errorf("%s: axe, %s: %s: %s, at %v", name, v.Impact, v.ID, v.Help, v.Nodes)
	}
}

// narrow shows a page on a phone in the dark.
func (b *browser) narrow(p page.Page, name string) {
	b.open(p, 360, "dark")
	b.fits("narrow " + name)
	b.picture(name + "-narrow-dark")
}

// fits fails if the page is wider than its window.
func (b *browser) fits(name string) {
	b.t.Helper()
	var size struct{ Page, Window int }
	b.eval(`({page: document.documentElement.scrollWidth, window: innerWidth})`, &size)
	if size.Page > size.Window {
		b.t.Errorf("%s: the page is %d wide, its window %d", name, size.Page, size.Window)
	}
}

// TestInBrowser opens reports as people do: it reads values off the charts, hovers over one, and looks
// for requests, injected code, and what keeps people from reading.
func TestInBrowser(t *testing.T) {
	b := chromium(t)
	p := pageOf(samples.Guilty())
	b.open(p, 1280, "light")
	b.readsSearch(p)
	b.chooses()
	b.hovers(p)
	b.harmless()
	b.picture("slow-hover")
	b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 1, 1))
	b.picture("slow-light")
	b.accessible("light")
	b.fits("wide")
	b.do(chromedp.Click(chromedp.ID("theme")), chromedp.Click(chromedp.ID("theme")))
	var theme string
	if b.eval(`document.documentElement.dataset.theme`, &theme); theme != "dark" {
		t.Errorf("the switch leads to %q", theme)
	}
	b.do(chromedp.Click(chromedp.ID("theme"))) // auto again
	b.open(p, 1280, "dark")
	b.picture("slow-dark")
	b.accessible("dark")
	b.open(p, 360, "light")
	b.fits("narrow")
	b.picture("slow-narrow")
	b.accessible("narrow")
	b.open(flagsPage(t), 1280, "light")
	b.picture("flags-light")
	b.accessible("flags")
	b.narrow(flagsPage(t), "flags")
	b.open(measuredHistory(), 1280, "light")
	b.readsHistory()
	b.picture("history-light")
	b.accessible("history")
	b.narrow(measuredHistory(), "history")
	b.open(manyNumbers(), 1280, "light")
	b.picture("gate-light")
	b.accessible("gate")
	b.narrow(manyNumbers(), "gate")
	b.quiet()
}

// manyNumbers is the page of a gate of twelve numbers.
func manyNumbers() page.Page {
	g := &report.Gate{
		Schema: report.GateSchema, Result: report.GateRegression, Into: "origin/main", Base: report.CommitInfo{ID: samples.CommitID(1)}.Candidate("merge base with main"),
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
	g.Verdict = g.Sentence("")
	l := samples.Slow().Ledger
	l.Launches = l.Launches[:4]
	return page.New(g, l)
}

// readsSearch compares what the search chart shows with what was measured.
func (b *browser) readsSearch(p page.Page) {
	b.t.Helper()
	var c struct {
		Metrics []struct {
			Points []any
			Levels []struct{ Y float64 }
		}
	}
	if data, err := json.Marshal(charts(p)[0].Data); err != nil || json.Unmarshal(data, &c) != nil || len(c.Metrics) == 0 {
		b.t.Fatal("the first chart is not that of the search")
	}
	var shown []struct {
		Name, Type string
		Data       []struct{ Value []any }
	}
	b.eval(`echarts.getInstanceByDom(document.getElementById("chart-0")).getOption().series.map(s => ({name: s.name, type: s.type, data: s.data.map(d => d.value ? {value: d.value} : {value: []})}))`, &shown)
	launches, levels := 0, map[float64]bool{}
	for _, s := range shown {
		for _, d := range s.Data {
			switch {
			case s.Type == "custom":
				levels[d.Value[2].(float64)] = true
			case s.Type == "scatter" && d.Value[1] != "verdict":
				launches++
			}
		}
	}
	if launches != len(c.Metrics[0].Points) {
		b.t.Errorf("%d launches in the chart, %d were made", launches, len(c.Metrics[0].Points))
	}
	for _, l := range c.Metrics[0].Levels {
		if !levels[l.Y] {
			b.t.Errorf("no level %g in the chart", l.Y)
		}
	}
	var drawn int
	if b.eval(`document.querySelectorAll("#chart-0 svg path").length`, &drawn); drawn < launches {
		b.t.Errorf("%d shapes are drawn for %d launches", drawn, launches)
	}
}

// chooses picks another metric, and the first one again.
func (b *browser) chooses() {
	b.t.Helper()
	var names []string
	b.eval(`(() => {
		const chart = echarts.getInstanceByDom(document.getElementById("chart-0")), select = document.querySelector("#search select"), names = [];
		for (const i of [1, 0]) {
			select.value = i;
			select.dispatchEvent(new Event("change"));
			names.push(chart.getOption().yAxis[0].name);
		}
		return names;
	})()`, &names)
	if fmt.Sprint(names) != "[wall, s time, us]" {
		b.t.Errorf("the metrics chosen: %q", names)
	}
}

// hovers puts the pointer on the culprit's verdict and reads what comes up.
func (b *browser) hovers(p page.Page) {
	b.t.Helper()
	var at struct{ X, Y float64 }
	b.do(chromedp.ScrollIntoView(chromedp.ID("chart-0")))
	b.eval(`(() => {
		const el = document.getElementById("chart-0"), chart = echarts.getInstanceByDom(el), box = el.getBoundingClientRect();
		const s = chart.getOption().series.findIndex(s => s.name === "first bad" && s.xAxisIndex === 1);
		const [x, y] = chart.convertToPixel({seriesIndex: s}, chart.getOption().series[s].data[0].value);
		return {x: x + box.left, y: y + box.top};
	})()`, &at)
	if math.IsNaN(at.X) || at.X == 0 {
		b.t.Fatalf("the culprit is at %v", at)
	}
	b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at.X-3, at.Y-3), chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at.X, at.Y), chromedp.WaitVisible(chromedp.CSS("#chart-0 .tip")))
	var text string
	b.eval(`document.querySelector("#chart-0 .tip").textContent`, &text)
	for _, want := range []string{samples.CommitID(40)[:10], "gemm: swizzle </script>", "first bad"} {
		if !strings.Contains(text, want) {
			b.t.Errorf("no %q in the tip %q", want, text)
		}
	}
}

// harmless fails if anything that a commit said became part of the page.
func (b *browser) harmless() {
	b.t.Helper()
	var found map[string]int
	b.eval(`({hacked: +("hacked" in window), images: document.images.length, scripts: document.scripts.length, forms: document.forms.length, handlers: document.querySelectorAll("[onerror],[onload],[onclick]").length})`, &found)
	if want := (map[string]int{"hacked": 0, "images": 0, "scripts": 3, "forms": 0, "handlers": 0}); fmt.Sprint(found) != fmt.Sprint(want) {
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

// readsHistory compares the picture of a history with what was measured.
func (b *browser) readsHistory() {
	b.t.Helper()
	var shown struct {
		Medians []float64
		Failed  int
		Axis    string
	}
	b.eval(`(() => { const o = echarts.getInstanceByDom(document.getElementById("chart-0")).getOption(); return {
		medians: o.series[0].data.map(d => d.value[1]).filter(v => v !== "-"), failed: o.series[2].data.length, axis: o.yAxis[0].name}; })()`, &shown)
	if len(shown.Medians) != 36 || math.Abs(shown.Medians[0]-40) > 1e-9 || math.Abs(shown.Medians[35]-44) > 1e-9 || shown.Failed != 4 || shown.Axis != "time, µs" {
		b.t.Errorf("%+v", shown)
	}
}
