package chart

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/internal/samples"
)

var update = flag.Bool("update", false, "write the pictures of testdata anew")

// slow is the slow sample as pictures take it.
func slow() Range {
	in := samples.Slow()
	r := Range{Search: report.NewSearch(in), Ledger: in.Ledger, At: map[string]int{}, Length: len(in.Order), Searched: func(c bisect.Candidate) bool { return c.Assign == "" }}
	for i, id := range in.Order {
		r.At[id] = i
	}
	for at, state := range map[int]State{0: Good, 32: Good, 37: Skipped, 39: Good, 40: Culprit, 64: Bad} {
		r.Places = append(r.Places, Place{At: at, Commit: samples.CommitID(at), Subject: samples.Hostile, State: state, Why: samples.Hostile})
	}
	slices.SortFunc(r.Places, func(a, b Place) int { return a.At - b.At })
	return r
}

// Levels of commits are where they were planted, with the intervals of their verdicts.
func TestLevels(t *testing.T) {
	m := slow().Metrics()[0]
	if m.Name != "time" || m.Unit != "us" {
		t.Fatalf("%s in %s comes first", m.Name, m.Unit)
	}
	for _, l := range m.Levels {
		want := 42.7
		if l.At >= 40 {
			want *= 1.09
		}
		if l.Y < want*0.99 || l.Y > want*1.01 || l.Low > l.Y || l.High < l.Y {
			t.Errorf("%+v, planted %g", l, want)
		}
	}
	if last := m.Levels[len(m.Levels)-1]; last.How != "95 % interval, against the good end" {
		t.Errorf("the bad end: %+v", last)
	}
}

// Verdicts on all cases together have a picture of their own, which comes first.
func TestAllCases(t *testing.T) {
	r := slow()
	for i := range r.Ledger.Launches {
		o := &r.Ledger.Launches[i].Outcome
		for _, s := range o.Series {
			big := bisect.Series{Metric: s.Metric, Case: "m=2", Unit: s.Unit}
			for _, v := range s.Values {
				big.Values = append(big.Values, 3*v)
			}
			s.Case = "m=1"
			o.Series = []bisect.Series{s, big}
		}
	}
	all := r.Metrics()
	if m := all[0]; m.Name != "time, all cases (geometric mean)" || m.Unit != "" || math.Abs(m.Levels[0].Y-1) > 0.01 || math.Abs(m.Levels[len(m.Levels)-1].Y-1.09) > 0.02 {
		t.Errorf("%s %q %+v", m.Name, m.Unit, m.Levels)
	}
	if all[1].Name != "time of m=1" || all[2].Name != "time of m=2" {
		t.Errorf("then %s and %s", all[1].Name, all[2].Name)
	}
}

// Times are shown in the unit that keeps them readable, with their limit.
func TestScale(t *testing.T) {
	for _, c := range []struct {
		seconds, want float64
		unit          string
	}{{12, 12, "s"}, {0.25, 0.25, "s"}, {0.02, 20, "ms"}, {46.8e-6, 46.8, "µs"}, {5e-9, 5, "ns"}, {0, 0, "s"}} {
		m := Metric{Unit: "s", Limit: 2 * c.seconds, Points: []Point{{Y: c.seconds, Low: c.seconds, High: c.seconds}}}
		m.scale()
		if x := m.Points[0]; m.Unit != c.unit || math.Abs(x.Y-c.want) > 1e-9*c.want || x.High != x.Y || math.Abs(m.Limit-2*c.want) > 1e-9*c.want {
			t.Errorf("%g s: %+v", c.seconds, m)
		}
	}
}

// Of many candidates the picture holds the ends and a window around the answer, in their order.
func TestNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(MostCandidates+1, 90).Draw(t, "candidates")
		all := make([]Timed, n)
		for i := range all {
			all[i].Name = fmt.Sprint(i)
			all[i].State = rapid.SampledFrom([]State{Good, Bad, Skipped, ""}).Draw(t, "state")
		}
		answer := rapid.IntRange(-1, n-1).Draw(t, "culprit")
		if answer >= 0 {
			all[answer].State = Culprit
		} else {
			answer = max(0, slices.IndexFunc(all, func(b Timed) bool { return b.State == Bad }))
		}
		got := nearest(all)
		if len(got) != MostCandidates || got[0].Name != "0" || got[len(got)-1].Name != fmt.Sprint(n-1) {
			t.Fatalf("%d from %s to %s", len(got), got[0].Name, got[len(got)-1].Name)
		}
		held, last := false, -1
		for _, b := range got {
			i := slices.IndexFunc(all, func(x Timed) bool { return x.Name == b.Name })
			if i <= last {
				t.Fatalf("%s after %d", b.Name, last)
			}
			held, last = held || i == answer, i
		}
		if !held {
			t.Fatalf("without the answer, %d of %d", answer, n)
		}
	})
}

// Scales begin and end where values do, and say round numbers: at most eight of them, on the scale, in order.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		axis Axis
		want string
	}{
		{scale("", true, 0, 341.23958174), "0 100 200 300"},
		{scale("", false, 41.2, 46.9), "42 44 46"},
		{scale("", true, 0.00042), "0 0.0001 0.0002 0.0003 0.0004"},
		{scale("", false, 7, 7), "6.9 7.0 7.1"},
		{scale("", false), "0 0.25 0.50 0.75 1.00"},
		{ratios("", 0.98, 1.09), "−2.5 % 0 % +2.5 % +5 % +7.5 %"},
		{ratios("", 0.9, 12), "1× 2× 5× 10×"},
	} {
		var got []string
		for _, x := range c.axis.ticks() {
			got = append(got, x.Text)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%g to %g: %s, want %s", c.axis.Min, c.axis.Max, s, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) { // of any values
		a, b := rapid.Float64Range(-1e12, 1e12).Draw(t, "a"), rapid.Float64Range(-1e12, 1e12).Draw(t, "b")
		axis := scale("", rapid.Bool().Draw(t, "zero"), a, b)
		last := math.Inf(-1)
		for i, x := range axis.ticks() {
			if i > 7 || x.At <= last || x.At < axis.Min-1e-6*(axis.Max-axis.Min) || x.At > axis.Max+1e-6*(axis.Max-axis.Min) {
				t.Fatalf("tick %d at %g of %g to %g", i, x.At, axis.Min, axis.Max)
			}
			last = x.At
		}
		if x := axis.at(a); x < 0 || x > 1 || math.IsNaN(x) {
			t.Fatalf("%g is at %g", a, x)
		}
	})
}

// pictures are small samples of every kind.
func pictures() map[string]Picture {
	phases := Launches{All: samples.Slow().Launches[:4], Limits: samples.Slow().Limits, At: func(bisect.Candidate) int { return 0 }, Name: func(c bisect.Candidate) string { return c.Brief() }, State: func(bisect.Candidate) State { return Good }, Called: func(p bisect.Purpose) string { return string(p) }}
	devices := phases.Devices([]string{"NVIDIA H200 GPU-1 (driver 570)"})
	r := slow()
	r.Ledger.Launches = r.Ledger.Launches[:3]
	values := Series{Name: "time", Unit: "µs", Commits: []Measured{{Commit: "aaaa", Y: 40, Low: 39, High: 41, N: 5}, {Commit: "bbbb", Y: math.NaN(), Low: math.NaN(), High: math.NaN(), Failed: true, Words: "2 crash"}, {Commit: "cccc", Subject: samples.Hostile, Y: 44, Low: 43, High: 45, N: 5, Change: "+10.0 %"}}}
	return map[string]Picture{
		"forest":   Forest([]Changed{{Group: "Worse", Name: samples.HostileCase, State: Bad, Ratio: 1.09, Low: 1.05, High: 1.13, Value: "+9 %"}, {Group: "Better", Name: "n2", State: Better, Ratio: 0.9, Low: 0.85, High: 0.95}, {Group: "No change that matters", Name: "n3", State: Good, Ratio: 1, Low: math.NaN(), High: math.NaN()}}, 0.03, "band"),
		"bars":     phases.Phases().Bars(),
		"timeline": phases.Timeline(devices),
		"search":   r.Plane(r.Metrics()[0], true),
		"proof":    r.Proof(r.Metrics()[0], []Role{{"good end", samples.CommitID(0)}, {"bad end", samples.CommitID(64)}}),
		"history":  values.Plane([]report.Step{{At: 2, Change: 1.1}}),
		"belief":   Belief{Length: 8, Heads: []Line{{At: 5, Text: "★ cccc"}}, Steps: []Believed{{Words: samples.Hostile, Look: Dot{X: 4, State: Good}, Runs: []Mass{{1, 4, 0.1}, {5, 8, 0.9}}}, {Look: Dot{X: 5, State: Bad}, Runs: []Mass{{5, 5, 0.9999}}}}},
		"matrix":   Matrix{Columns: []string{"compile", samples.HostileCase}, Rows: []MatrixRow{{State: Bad, Name: "fail timeout", Title: samples.Hostile, Cells: []string{"max", ""}}, {State: Good, Name: "pass", Cells: []string{"", "on"}}}},
	}
}

// Pictures are as they were looked at. Everything in them is well-formed, harmless, and within its picture.
func TestPictures(t *testing.T) {
	for name, p := range pictures() {
		got := SVG("c1", "A picture "+samples.Hostile, p)
		path := filepath.Join("testdata", name+".html")
		if *update {
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(got, "><", ">\n<")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ReplaceAll(got, "><", ">\n<")+"\n" != string(want) {
			t.Errorf("%s differs from %s: look at it in a report, then go test -update", name, path)
		}
		doc, err := html.Parse(strings.NewReader(got))
		if err != nil {
			t.Fatal(err)
		}
		var visit func(*html.Node)
		visit = func(n *html.Node) {
			switch n.Data {
			case "script", "img", "a", "iframe", "style":
				if n.Type == html.ElementNode {
					t.Errorf("%s: an element %s", name, n.Data)
				}
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
					t.Errorf("%s: <%s %s=%q>", name, n.Data, a.Key, a.Val)
				}
				var share float64
				if _, err := fmt.Sscanf(a.Val, "%g%%", &share); err == nil && (share < 0 || share > 100) {
					t.Errorf("%s: %s=%q lies outside", name, a.Key, a.Val)
				}
			}
			for c := n.FirstChild; c != nil; c = c.NextSibling {
				visit(c)
			}
		}
		visit(doc)
	}
}

// Launches that overlap lie in tracks of their own, and every launch is drawn.
func TestTracks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []track
		n := rapid.IntRange(1, 60).Draw(t, "launches")
		at := 0.0
		for range n {
			at += rapid.Float64Range(0, 2).Draw(t, "pause")
			all = put(all, bars{from: at, to: at + rapid.Float64Range(0, 5).Draw(t, "length")})
		}
		drawn := 0
		for _, x := range all {
			for i := 1; i < len(x); i++ {
				if x[i].from < x[i-1].to-1e-5 {
					t.Fatalf("%g to %g, then %g", x[i-1].from, x[i-1].to, x[i].from)
				}
			}
			drawn += len(x.bars(0))
		}
		if drawn != n {
			t.Fatalf("%d of %d are drawn", drawn, n)
		}
	})
}
