package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
)

// hostile is what a commit message or a program may say.
const hostile = "</script><script>parent.hacked=1</script><img src=x onerror=hacked=1> | `x` [a](http://b) ![i](http://evil/i.png) @octocat #12 \u202etxt\x00\x1b[31m\u2028 ${1} {{.}} \xff--> ]]>"

func commitID(i int) string { return fmt.Sprintf("%08d%032d", i, i) }

// slow is a search for a slowdown at commit 40 of 64, with noise, phases, devices and an untestable
// commit, as a real one is kept.
func slow() Input {
	r := rand.New(rand.NewPCG(1, 2))
	in := Input{
		Session: "20261121-074512-3f9a", GPUHour: 2.49, Wall: 95 * time.Second, Devices: []string{"NVIDIA H200 GPU-1 (driver 570)"},
		Commits: map[string]CommitInfo{}, Limits: map[string]float64{"build": 60, bisect.WholeTrial: 20, "load": 5, "warmup": 2, "measure": 8},
		Diffs:    map[string]string{commitID(40): "diff --git a/gemm.cu b/gemm.cu\nindex 1..2 100644\n--- a/gemm.cu\n+++ b/gemm.cu\n@@ -10,4 +10,5 @@ __global__\n \tfloat acc = 0;\n-\tload(a);\n+\tload_swizzled(a);\n+\t__syncthreads();\n \tmma(acc); // </script> " + hostile + "\n@@ -40 +41 @@\n-int unused;\n+int renamed;\n"},
		Explain:  &Table{Title: "gemm_kernel", Columns: []string{"figure", "parent", "culprit"}, Rows: [][]string{{"registers", "96", "128"}, {"spills, bytes", "0", "144"}, {"occupancy", "0.50", "0.38"}}, Notes: []string{"from cuobjdump"}},
		Warnings: []string{"the clone is shallow\nhint: git fetch --unshallow"},
	}
	for i := 0; i <= 64; i++ {
		in.Order = append(in.Order, commitID(i))
		subject := fmt.Sprintf("gemm: tune tile %d", i)
		if i == 40 {
			subject = "gemm: swizzle " + hostile
		}
		in.Commits[commitID(i)] = CommitInfo{ID: commitID(i), Subject: subject, Author: "Mira", Email: "m@x", When: time.Unix(0, 0).UTC(), Files: []File{{"modified", "gemm.cu"}}}
	}
	in.Good, in.Bad = in.Commits[commitID(0)], in.Commits[commitID(64)]
	at := 0.0
	run := func(i int, why bisect.Purpose) {
		level := 42.7
		if i >= 40 {
			level *= 1.09
		}
		level *= 1 + 0.01*(r.Float64()-0.5)
		o := bisect.Outcome{
			Class: bisect.OK, Wall: 1.9 + r.Float64()*0.2, At: at, Built: why == bisect.Searching, Build: 2.5, Exit: 0,
			Phases: []bisect.PhaseTime{{Name: "build", Seconds: 2.5}, {Name: "load", Seconds: 0.6}, {Name: "warmup", Seconds: 0.5}, {Name: "measure", Seconds: 0.7}, {Name: "teardown", Seconds: 0.1}},
			Series: []bisect.Series{{Metric: "time", Unit: "us", Values: []float64{level, level * 1.001, level * 0.999}}},
		}
		if i == 37 {
			o.Class, o.Phase, o.Why, o.Series = bisect.Crash, "load", "signal 11", nil
		}
		clock, throttled := 1980, ""
		if at > 20 && at < 26 {
			clock, throttled = 1590, "software thermal slowdown for 1.2 s"
		}
		state := func(temp int) json.RawMessage {
			return json.RawMessage(fmt.Sprintf(`{"sm_clock":%d,"mem_clock":3201,"temperature":%d,"power_w":%d}`, clock, temp, 120+4*temp))
		}
		o.Devices = []bisect.DeviceNote{{UUID: "GPU-1", Before: state(40 + int(at/3)), After: state(44 + int(at/3)), Throttled: throttled}}
		at += o.Wall + 1
		in.Launches = append(in.Launches, Launch{Candidate: bisect.Candidate{Commit: commitID(i)}, Purpose: why, Nth: len(in.Launches), Outcome: o})
	}
	f := &in.Finding
	*f = bisect.Finding{Result: bisect.Found, Complaint: bisect.Complaint{Class: bisect.Slow, Metric: "time"}, Range: 64, Matter: 61, Inferred: 2}
	judge := func(i int, role string, call bisect.Call, p float64, left int) {
		v := bisect.Verdict{Call: call, Probability: p, Why: fmt.Sprintf("time: slow with probability %.3g, launched 3 times for it", p), Class: bisect.OK, Trials: 3}
		if i == 37 {
			v.Class, v.Why = bisect.Crash, "crash in load: signal 11"
		}
		if role == "bad end" {
			v.Ratio = &bisect.Effect{Metric: "time", Ratio: 1.09, Low: 1.085, High: 1.095}
		}
		f.Steps = append(f.Steps, bisect.Step{Commit: commitID(i), Role: role, Verdict: v, Remaining: left})
	}
	for range 3 {
		run(0, bisect.EndGood)
		run(64, bisect.EndBad)
	}
	judge(0, "good end", bisect.Good, 1, 0)
	judge(64, "bad end", bisect.Bad, 0.999, 0)
	for k, i := range []int{32, 48, 37, 41, 38, 39, 40} {
		run(i, bisect.Searching)
		if i == 37 {
			judge(i, "search", bisect.Untestable, 1, 16)
			continue
		}
		run(i, bisect.Searching)
		call := bisect.Good
		if i >= 40 {
			call = bisect.Bad
		}
		judge(i, "search", call, 0.97+0.004*float64(k), max(1, 61>>(k+1)))
	}
	for range 3 {
		run(40, bisect.ConfirmCulprit)
		run(39, bisect.ConfirmParent)
	}
	judge(40, "culprit", bisect.Bad, 0.995, 1)
	judge(39, "parent", bisect.Good, 0.995, 1)
	f.Culprits = []bisect.Culprit{{Commit: commitID(40), Parents: []string{commitID(39)}, Class: bisect.Slow, Effect: &bisect.Effect{Metric: "time", Ratio: 1.09, Low: 1.085, High: 1.095}, Confidence: 0.993, Confirmed: true}}
	return in
}

// flags is a search over flags: its finding document, and its launches.
func flags() ([]byte, Input) {
	set := func(s string) map[string]string {
		out := map[string]string{}
		for _, x := range strings.Fields(s) {
			name, value, _ := strings.Cut(x, "=")
			out[name] = value
		}
		return out
	}
	type m = map[string]any
	test := func(s, answer string, inferred bool) m {
		return m{"assign": set(s), "purpose": "search", "answer": answer, "inferred": inferred, "class": map[string]string{"fail": "timeout"}[answer], "phase": nil, "seconds": 2.5}
	}
	safe := func(s string, ratio float64, maximum bool) m {
		return m{"assign": set(s), "metric": m{"time": 42.7 * ratio}, "ratio": ratio, "low": ratio - .01, "high": ratio + .01, "maximum": maximum, "maximal": maximum, "confirmed": true}
	}
	doc, err := json.Marshal(m{
		"schema": Schema, "session": "f1", "axis": "flags", "result": "found", "headline": "compile=max graph=on together are to blame: timeout in warmup",
		"complaint":    m{"class": "timeout", "phase": "warmup", "metric": nil},
		"minimal_sets": []any{m{"assign": set("compile=max graph=on"), "class": "timeout", "phase": "warmup", "certified": true, "culprits": []string{"compile=max", "graph=on"}, "carriers": []string{}}},
		"safe_sets":    []any{safe("compile=max fp8=on", .81, false), safe("graph=on fp8=on", .93, true)}, "recommended": safe("compile=max fp8=on", .81, true),
		"effects":    []any{m{"terms": []string{"compile=max"}, "ratio": .85, "low": .84, "high": .86}, m{"terms": []string{"graph=on"}, "ratio": .98, "low": .96, "high": 1.0}, m{"terms": []string{"graph=on", "fp8=on"}, "ratio": 1.04, "low": 1.02, "high": 1.06}},
		"hypotheses": []any{m{"name": "compile-too-slow " + hostile, "claim": []string{"compile=max"}, "verdict": "only-in-combination", "with": []string{"graph=on"}, "others": []string{}, "why": "passes alone"}},
		"complete":   true, "ends": m{"good": commitID(0), "bad": commitID(0)},
		"tests":  []any{test("", "pass", false), test("compile=max graph=on fp8=on", "fail", false), test("compile=max", "pass", false), test("graph=on", "pass", true), test("compile=max graph=on", "fail", false), test("compile=max fp8=on", "pass", false), test("graph=on fp8=on", "pass", false)},
		"totals": m{"candidates": 6, "trials": 6, "inferred": 1, "builds": 2, "cache_hits": 0, "wall_s": 30, "device_s": 15, "cost": nil}, "warnings": []string{}, "devices": []string{}, "steps": []any{},
	})
	if err != nil {
		panic(err)
	}
	in := Input{Session: "f1", Good: CommitInfo{ID: commitID(0)}, Bad: CommitInfo{ID: commitID(0)}, Limits: map[string]float64{"warmup": 2}}
	for _, a := range []string{"", "compile=max,graph=on,fp8=on", "compile=max", "compile=max,graph=on"} {
		o := bisect.Outcome{Class: bisect.OK, Wall: 1.5, Phases: []bisect.PhaseTime{{Name: "load", Seconds: .5}, {Name: "warmup", Seconds: 1}}}
		if strings.Contains(a, "max,graph") {
			o = bisect.Outcome{Class: bisect.Timeout, Phase: "warmup", Wall: 2.5, Phases: []bisect.PhaseTime{{Name: "load", Seconds: .5}, {Name: "warmup", Seconds: 2}}}
		}
		in.Launches = append(in.Launches, Launch{Candidate: bisect.Candidate{Commit: commitID(0), Assign: a}, Purpose: bisect.Searching, Outcome: o})
	}
	return doc, in
}

func pageOf(t *testing.T, in Input) Page {
	t.Helper()
	var doc bytes.Buffer
	if err := JSON(&doc, in); err != nil {
		t.Fatal(err)
	}
	p, err := NewPage(doc.Bytes(), in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// guilty is the page of the slow search after its culprit's hunks were searched.
func guilty(t *testing.T) Page {
	t.Helper()
	var doc bytes.Buffer
	if err := JSON(&doc, slow()); err != nil {
		t.Fatal(err)
	}
	hunks := `"hunks": [{"file": "gemm.cu", "start": 11, "end": 12, "role": "culprit"}, {"file": "gemm.cu", "start": 41, "end": 41, "role": "carrier"}]`
	p, err := NewPage(bytes.Replace(doc.Bytes(), []byte(`"hunks": []`), []byte(hunks), 1), slow())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func flagsPage(t *testing.T) Page {
	t.Helper()
	p, err := NewPage(flags())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ids(p Page) (out []string) {
	for _, s := range p.Sections {
		out = append(out, s.ID)
	}
	return out
}

// A section is there exactly when its data is.
func TestSections(t *testing.T) {
	for _, c := range []struct {
		name string
		page Page
		want string
	}{
		{"slow", pageOf(t, slow()), "search posterior diff phases explain device economics launches warnings"},
		{"timeout", pageOf(t, found()), "search posterior phases economics launches warnings"},
		{"flags", flagsPage(t), "sets claims keep effects phases economics launches"},
		{"nothing", pageOf(t, Input{Finding: bisect.Finding{Result: bisect.Broken}}), ""},
	} {
		if got := strings.Join(ids(c.page), " "); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}

func section(t *testing.T, p Page, id string) Section {
	t.Helper()
	i := slices.IndexFunc(p.Sections, func(s Section) bool { return s.ID == id })
	if i < 0 {
		t.Fatalf("no section %s in %v", id, ids(p))
	}
	return p.Sections[i]
}

func TestSearchChart(t *testing.T) {
	c := section(t, pageOf(t, slow()), "search").Charts[0].Data.(searchChart)
	m := c.Metrics[0]
	if m.Name != "time" || m.Unit != "us" || !c.Ordered || c.Length != 65 {
		t.Fatalf("%s %s %v %d", m.Name, m.Unit, c.Ordered, c.Length)
	}
	states := map[int]string{}
	for _, x := range c.Commits {
		states[x.At] = x.State
	}
	if states[40] != "culprit" || states[39] != "good" || states[37] != "skip" || states[64] != "bad" {
		t.Errorf("%v", states)
	}
	for _, l := range m.Levels {
		if want := 42.7 * map[bool]float64{true: 1.09, false: 1}[l.At >= 40]; l.Y < want*0.99 || l.Y > want*1.01 || l.Low > l.Y || l.High < l.Y {
			t.Errorf("%+v, planted %g", l, want)
		}
	}
	if last := m.Levels[len(m.Levels)-1]; last.How != "95 % interval, against the good end" {
		t.Errorf("the bad end: %+v", last)
	}
}

// Times are shown in the unit that keeps them readable, with their limit.
func TestScale(t *testing.T) {
	for _, c := range []struct {
		seconds, want float64
		unit          string
	}{{12, 12, "s"}, {0.25, 0.25, "s"}, {0.02, 20, "ms"}, {46.8e-6, 46.8, "µs"}, {5e-9, 5, "ns"}, {0, 0, "s"}} {
		m := metricPoints{Unit: "s", Limit: 2 * c.seconds, Points: []metricPoint{{Y: c.seconds, Low: c.seconds, High: c.seconds}}}
		m.scale()
		if x := m.Points[0]; m.Unit != c.unit || math.Abs(x.Y-c.want) > 1e-9*c.want || x.High != x.Y || math.Abs(m.Limit-2*c.want) > 1e-9*c.want {
			t.Errorf("%g s: %+v", c.seconds, m)
		}
	}
}

func TestMarkedDiff(t *testing.T) {
	marks := []mark{{File: "gemm.cu", Start: 11, End: 12, Role: "culprit"}}
	var guilty []string
	for _, l := range parseDiff(slow().Diffs[commitID(40)], marks) {
		if l.Role == "culprit" {
			guilty = append(guilty, fmt.Sprintf("%s %d %d", l.Kind, l.Old, l.New))
		}
	}
	if want := []string{"del 11 0", "add 0 11", "add 0 12"}; !slices.Equal(guilty, want) {
		t.Errorf("%q, want %q", guilty, want)
	}
}

// A candidate is named by the flags that are away from their base, or by those that are not.
func TestAway(t *testing.T) {
	base, top := "a=0,b=0,c=0,d=0,t=1", "a=1,b=1,c=1,d=1,t=3"
	in := Input{Launches: []Launch{{Candidate: bisect.Candidate{Assign: base}, Purpose: bisect.EndGood}, {Candidate: bisect.Candidate{Assign: top}, Purpose: bisect.EndBad}}}
	p := &pager{in: in}
	for assign, want := range map[string]string{
		base: "the base", top: "everything on", "a=0,b=1,c=0,d=0,t=2": "b=1 t=2", "a=1,b=1,c=1,d=1,t=1": "all but t=1",
		"a=1,b=1,c=1,d=0,t=2": "a=1 b=1 c=1 t=2", "a=1,b=1,c=1,d=1,t=2": "a=1 b=1 c=1 d=1 t=2", "b=0,c=0,x=2": "b=0 c=0 x=2", "": "the base",
	} {
		if got := p.away(bisect.Candidate{Assign: assign}); got != want {
			t.Errorf("%s is %q, want %q", assign, got, want)
		}
	}
}

func TestLattice(t *testing.T) {
	c := section(t, flagsPage(t), "sets").Charts[0].Data.(latticeChart)
	if len(c.Nodes) != 8 || len(c.Edges) != 12 { // a cube
		t.Fatalf("%d nodes, %d edges", len(c.Nodes), len(c.Edges))
	}
	for _, n := range c.Nodes {
		want := map[string]string{"compile=max graph=on": "bad minimal", "compile=max fp8=on": "good recommended", "fp8=on": "", "the base": "good"}
		got := n.State
		if n.Minimal {
			got += " minimal"
		}
		if n.Recommended {
			got += " recommended"
		}
		if w, ok := want[n.Name]; ok && w != got {
			t.Errorf("%s: %q, want %q", n.Name, got, w)
		}
	}
}

// However many sets there are, the picture is bounded and its edges join sets that hold each other.
func TestLatticeBounded(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := &pager{}
		for range 1 + r.IntN(400) {
			s := flagSet{Assign: map[string]string{}, Answer: []string{"pass", "fail", "unresolved"}[r.IntN(3)]}
			for f := range 12 {
				if r.IntN(3) == 0 {
					s.Assign[fmt.Sprint("f", f)] = "1"
				}
			}
			p.Tests = append(p.Tests, s)
		}
		c := p.latticeChart().bounded()
		if len(c.Nodes) > mostNodes {
			t.Fatalf("%d nodes", len(c.Nodes))
		}
		for _, e := range c.Edges {
			a, b := c.Nodes[e[0]].Atoms, c.Nodes[e[1]].Atoms
			if len(a) >= len(b) || !within(a, b) {
				t.Fatalf("%v is not in %v", a, b)
			}
		}
	}
}

func FuzzParseDiff(f *testing.F) {
	f.Add("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n-a\n b\n", "x", 1, 1, false)
	f.Fuzz(func(t *testing.T, text, file string, start, end int, old bool) {
		lines := parseDiff(text, []mark{{File: file, Start: start, End: end, Old: old, Role: "culprit"}})
		if want := strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1; len(lines) != want {
			t.Fatalf("%d lines of %d", len(lines), want)
		}
	})
}

// Whatever a store holds as a finding, a page is made of it or an error, and it ends.
func FuzzNewPage(f *testing.F) {
	doc, _ := flags()
	f.Add(doc)
	var b bytes.Buffer
	if err := JSON(&b, slow()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"axis":"history","culprits":[{"commit":"x","hunks":[{}]}],"tests":[{"assign":null}],"steps":[{}]}`))
	f.Add([]byte(`{"schema":"kbisect.gate/1","result":"regression","verdict":"x","base":{"commit":"a"},"head":null,"pairs":3,"comparisons":[{"metric":"t","unit":"s","result":"regression","a":{"median":1},"bound":{"value":2,"low":1,"high":3}},{}],"accepted":[{"metric":"t","limit":2}],"culprit":{"commit":"c","confidence":1,"effect":{},"places":[{"file":"f"}]}}`))
	f.Add([]byte(`{"schema":"kbisect.comparison/1","a":{"commit":"a"},"b":{"commit":"b"},"comparisons":[{"case":"n","all_cases":true}]}`))
	in := slow()
	f.Fuzz(func(t *testing.T, doc []byte) {
		p, err := NewPage(doc, in)
		if err != nil {
			return
		}
		if _, err := json.Marshal(p.charts()); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := Markdown(&b, p, MarkdownLimit); err != nil || b.Len() > MarkdownLimit {
			t.Fatalf("%d bytes, %v", b.Len(), err)
		}
	})
}

// What was tested after the search over the commits, parts of the culprit and settings of flags, has bars among
// the phases and is no commit of the range.
func TestPagePartsOfAChange(t *testing.T) {
	in := slow()
	before := guilty(t)
	o := in.Launches[0].Outcome
	for _, c := range []bisect.Candidate{{Commit: commitID(99)}, {Commit: commitID(40), Assign: "graph=off"}} {
		in.Launches = append(in.Launches, Launch{Candidate: c, Purpose: bisect.Searching, Outcome: o})
	}
	var doc bytes.Buffer
	if err := JSON(&doc, in); err != nil {
		t.Fatal(err)
	}
	p, err := NewPage(doc.Bytes(), in)
	if err != nil {
		t.Fatal(err)
	}
	if was, is := section(t, before, "search").Charts[0].Data, section(t, p, "search").Charts[0].Data; !reflect.DeepEqual(was, is) {
		t.Errorf("the chart of the search has changed: %+v, it was %+v", is, was)
	}
	names := map[string]string{}
	for _, c := range section(t, p, "phases").Charts[0].Data.(phaseChart).Candidates {
		names[c.Name] = c.State
	}
	for name, want := range map[string]string{commitID(99)[:10] + " (part of it)": "", commitID(40)[:10] + ":graph=off": "", commitID(40)[:10]: "culprit"} {
		if state, there := names[name]; !there || state != want {
			t.Errorf("%q is %q, want %q, among %q", name, state, want, names)
		}
	}
}
