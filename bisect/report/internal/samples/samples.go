// Package samples holds documents of every kind, made up, for the tests of package report and of those that write
// its documents.
// The documents are as real searches left them in kind and proportion, with hostile texts wherever strangers may write.
// Tests compare what is made of them with golden files, so that a change here changes those.
package samples

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/sets"
)

// Hostile is what a commit message or a program may say.
// It tries elements of HTML, links, images and mentions of Markdown, a change of the direction of text, control
// characters, invalid UTF-8, and the ends of comments and CDATA.
const Hostile = "</script><script>parent.hacked=1</script><img src=x onerror=hacked=1> | `x` [a](http://b) ![i](http://evil/i.png) @octocat #12 \u202etxt\x00\x1b[31m\u2028 ${1} {{.}} \xff--> ]]>"

// HostileCase is a name that a program under test may send.
// It would end a cell of a table, and begin a workflow command of GitHub.
const HostileCase = "n|1 <b>`x`</b> @all %0A::error::\n::warning::]]>\x00"

// The commits of [Found].
var (
	GoodID    = strings.Repeat("a", 40)
	BadID     = strings.Repeat("b", 40)
	CulpritID = strings.Repeat("c", 40)
)

// CommitID is the id of commit i of [Slow].
func CommitID(i int) string { return fmt.Sprintf("%08d%032d", i, i) }

// Launch is one launch.
func Launch(commit string, why bisect.Purpose, o bisect.Outcome) report.Launch {
	return report.Launch{Candidate: bisect.Candidate{Commit: commit}, Purpose: why, Outcome: o}
}

// Found is a search that has found a commit that times out.
func Found() report.Input {
	// Its good end takes two seconds in a phase that the culprit runs into its limit of three.
	o := bisect.Outcome{Class: bisect.OK, Wall: 2, Built: true, Build: 3, Phases: []bisect.PhaseTime{{Name: "build", Seconds: 3}, {Name: "load", Seconds: 2}}}
	hang := bisect.Outcome{Class: bisect.Timeout, Phase: "load", Limit: 3, Why: "load reached its limit of 3s", Wall: 3, CacheHit: true, Phases: []bisect.PhaseTime{{Name: "load", Seconds: 3}}, Warnings: []string{"odd"}}
	return report.Input{
		Session: "s1", GPUHour: 3600, Spent: []report.Spent{{Account: "build", Seconds: 60}, {Account: "load", Seconds: 29.7}, {Account: "store", Seconds: 0.3}}, Devices: []string{"NVIDIA H200"},
		Good: report.CommitInfo{ID: GoodID, Subject: "old"}, Bad: report.CommitInfo{ID: BadID, Subject: "new"},
		Ledger: report.Ledger{Commits: map[string]report.CommitInfo{GoodID: {ID: GoodID, Subject: "old"}, BadID: {ID: BadID, Subject: "new"}, CulpritID: {ID: CulpritID, Subject: "tune: search harder", Author: "Mira", Email: "m@x", When: time.Unix(0, 0).UTC(), Files: []string{"src/tune.c"}}}, Launches: []report.Launch{Launch(GoodID, bisect.EndGood, o), Launch(CulpritID, bisect.Searching, hang)}},
		Finding: bisect.Finding{
			Result: bisect.Found, Complaint: bisect.Complaint{Class: bisect.Timeout, Phase: "load"}, Range: 40, Matter: 30, Inferred: 1,
			Culprits: []bisect.Culprit{{Commit: CulpritID, Parents: []string{GoodID}, Class: bisect.Timeout, Phase: "load", Confidence: 0.997, Confirmed: true}},
			Steps:    []bisect.Step{{Commit: GoodID, Role: bisect.RoleGoodEnd, Verdict: bisect.Verdict{Call: bisect.Good, Why: "ok"}}, {Commit: CulpritID, Role: bisect.RoleSearch, Verdict: bisect.Verdict{Call: bisect.Bad, Why: "timeout"}, Remaining: 1}},
		},
	}
}

// Slow is a search for a slowdown at commit 40 of 64, with noise, phases, devices and an untestable
// commit, as a real one is kept.
func Slow() report.Input {
	// The seed is fixed: golden files hold what comes of it.
	r := rand.New(rand.NewPCG(1, 2))
	in := report.Input{
		Session: "20261121-074512-3f9a", GPUHour: 2.49, Spent: []report.Spent{{Account: "measure", Seconds: 95}}, Devices: []string{"NVIDIA H200 GPU-1 (driver 570)"},
		Ledger: report.Ledger{Commits: map[string]report.CommitInfo{}, Limits: map[string]float64{"build": 60, bisect.WholeTrial: 20, "load": 5, "warmup": 2, "measure": 8},
			Diffs: map[string]string{CommitID(40): "diff --git a/gemm.cu b/gemm.cu\nindex 1..2 100644\n--- a/gemm.cu\n+++ b/gemm.cu\n@@ -10,4 +10,5 @@ __global__\n \tfloat acc = 0;\n-\tload(a);\n+\tload_swizzled(a);\n+\t__syncthreads();\n \tmma(acc); // </script> " + Hostile + "\n@@ -40 +41 @@\n-int unused;\n+int renamed;\n"}},
		Explain:  &report.Table{Title: "gemm_kernel", Columns: []string{"figure", "parent", "culprit"}, Rows: [][]string{{"registers", "96", "128"}, {"spills, bytes", "0", "144"}, {"occupancy", "0.50", "0.38"}}, Notes: []string{"from cuobjdump"}},
		Warnings: []string{"the clone is shallow\nhint: git fetch --unshallow"},
	}
	for i := 0; i <= 64; i++ {
		in.Order = append(in.Order, CommitID(i))
		subject := fmt.Sprintf("gemm: tune tile %d", i)
		if i == 40 {
			subject = "gemm: swizzle " + Hostile
		}
		in.Commits[CommitID(i)] = report.CommitInfo{ID: CommitID(i), Subject: subject, Author: "Mira", Email: "m@x", When: time.Unix(0, 0).UTC(), Files: []string{"gemm.cu"}}
	}
	in.Good, in.Bad = in.Commits[CommitID(0)], in.Commits[CommitID(64)]
	at := 0.0
	// Launches take about two seconds, in µs the level of their commit within half a per cent.
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
		// The device is held back for a while, as the timeline has to show.
		clock, throttled := 1980, ""
		if at > 20 && at < 26 {
			clock, throttled = 1590, "software thermal slowdown for 1.2 s"
		}
		state := func(temp int) json.RawMessage {
			return json.RawMessage(fmt.Sprintf(`{"sm_clock":%d,"mem_clock":3201,"temperature":%d,"power_w":%d}`, clock, temp, 120+4*temp))
		}
		o.Devices = []bisect.DeviceNote{{UUID: "GPU-1", Before: state(40 + int(at/3)), After: state(44 + int(at/3)), Throttled: throttled}}
		at += o.Wall + 1
		in.Launches = append(in.Launches, report.Launch{Candidate: bisect.Candidate{Commit: CommitID(i)}, Purpose: why, Nth: len(in.Launches), Outcome: o})
	}
	f := &in.Finding
	*f = bisect.Finding{Result: bisect.Found, Complaint: bisect.Complaint{Class: bisect.Slow, Metric: "time"}, Range: 64, Matter: 61, Inferred: 2}
	// Verdicts are as a search says them; that of the bad end carries the ratio, from which intervals are made.
	judge := func(i int, role bisect.Role, call bisect.Call, p float64, left int) {
		v := bisect.Verdict{Call: call, Probability: p, Why: fmt.Sprintf("time: slow with probability %.3g, launched 3 times for it", p), Class: bisect.OK, Trials: 3, Metric: "time"}
		if i == 37 {
			v.Class, v.Why = bisect.Crash, "crash in load: signal 11"
		}
		if role == bisect.RoleBadEnd {
			v.Ratio = &bisect.Effect{Metric: "time", Ratio: 1.09, Low: 1.085, High: 1.095}
		}
		f.Steps = append(f.Steps, bisect.Step{Commit: CommitID(i), Role: role, Verdict: v, Remaining: left})
	}
	// Both ends first, in turn, as a search begins.
	for range 3 {
		run(0, bisect.EndGood)
		run(64, bisect.EndBad)
	}
	judge(0, bisect.RoleGoodEnd, bisect.Good, 1, 0)
	judge(64, bisect.RoleBadEnd, bisect.Bad, 0.999, 0)
	// Then bisection by hand, with a commit that crashes in its way.
	for k, i := range []int{32, 48, 37, 41, 38, 39, 40} {
		run(i, bisect.Searching)
		if i == 37 {
			judge(i, bisect.RoleSearch, bisect.Untestable, 1, 16)
			continue
		}
		run(i, bisect.Searching)
		call := bisect.Good
		if i >= 40 {
			call = bisect.Bad
		}
		judge(i, bisect.RoleSearch, call, 0.97+0.004*float64(k), max(1, 61>>(k+1)))
	}
	for range 3 {
		run(40, bisect.ConfirmCulprit)
		run(39, bisect.ConfirmParent)
	}
	judge(40, bisect.RoleCulprit, bisect.Bad, 0.995, 1)
	judge(39, bisect.RoleParent, bisect.Good, 0.995, 1)
	f.Culprits = []bisect.Culprit{{Commit: CommitID(40), Parents: []string{CommitID(39)}, Class: bisect.Slow, Effect: &bisect.Effect{Metric: "time", Ratio: 1.09, Low: 1.085, High: 1.095}, Confidence: 0.993, Confirmed: true}}
	return in
}

// Contrast is a comparison of one metric.
func Contrast(result, one string, ratio float64) report.Contrast {
	c := report.Contrast{Metric: "time", Unit: "s", Result: result, Pairs: 8, Holm: 0.0002, Visible: 0.021}
	if one != "" {
		c.Case = &one
	}
	// Bounds are partly unknown, as they are of few launches.
	unknown := report.Number(math.NaN())
	c.A = report.Summary{N: 8, Median: 30e-6, Low: 29.9e-6, High: 30.2e-6, Spread: unknown}
	c.B = report.Summary{N: 8, Median: report.Number(30e-6 * ratio), Low: unknown, High: unknown}
	r := report.Number(ratio)
	c.Ratio = report.Estimate{Value: r, Low: r - 0.01, High: r + 0.01}
	c.Bound = report.Estimate{Value: r, Low: r - 0.02, High: r + 0.02}
	return c
}

// Comparison is of two candidates.
func Comparison(result string, cs ...report.Contrast) *report.Comparison {
	id := func(c string) string { return strings.Repeat(c, 40) }
	side := func(rev, c string) report.Candidate {
		return report.CommitInfo{ID: id(c), Subject: "subject of " + rev}.Candidate(rev)
	}
	return &report.Comparison{
		Schema: report.ComparisonSchema, Session: "s1", Result: result, A: side("HEAD^", "a"), B: side("HEAD", "b"),
		Compared: report.Compared{Effect: 0.03, ErrorRate: 0.01, Pairs: 8, Contrasts: cs, Devices: []string{}, Warnings: []string{}},
	}
}

// Gate is a document of a result.
func Gate(result string, code int, cs ...report.Contrast) *report.Gate {
	c := Comparison(result, cs...)
	g := &report.Gate{
		Schema: report.GateSchema, Session: &c.Session, Result: result, ExitCode: code, Into: "origin/main", Base: c.A, Head: c.B,
		Accepted: []report.Acceptance{}, Changed: []report.Place{}, Compared: c.Compared,
	}
	g.Contrasts = append([]report.Contrast{}, cs...)
	g.Conclude("")
	return g
}

// Gates are documents of every kind.
func Gates() map[string]*report.Gate {
	one := "n1"
	all := map[string]*report.Gate{
		"pass":        Gate(report.GatePass, 0, Contrast(report.GatePass, "n1", 1), Contrast(report.GatePass, HostileCase, 1)),
		"improvement": Gate(report.GateImprovement, 0, Contrast(report.GateImprovement, "n1", 0.8)),
		"regression":  Gate(report.GateRegression, 1, Contrast(report.GateRegression, "n1", 1.2), Contrast(report.GatePass, "n2", 1), Contrast(report.GateOpen, "n3", 1.01), Contrast(report.GateRegression, HostileCase, 1.1)),
		"open":        Gate(report.GateOpen, 3, Contrast(report.GateOpen, "n1", 1.02), Contrast(report.GatePass, "n2", 1)),
		"tolerated":   Gate(report.GateOpen, 0, Contrast(report.GateOpen, "n1", 1.02)),
		"infra":       Gate("infra", 5),
		"interrupted": Gate("interrupted", 130),
		"no numbers":  Gate(report.GateOpen, 3),
	}
	// What the repository accepts: one entry that was needed, one that was not.
	accepted := Gate(report.GatePass, 0, Contrast(report.GateAccepted, "n1", 1.2))
	accepted.Accepted = []report.Acceptance{{Metric: "time", Case: &one, Limit: 1.25, Reason: "because | of", Seen: true}, {Metric: "time", Limit: 2, Reason: "old"}}
	accepted.Conclude("")
	all["accepted"] = accepted
	// Failures of HEAD, by each class that has a rule of its own in SARIF.
	for _, class := range []bisect.Class{bisect.Timeout, bisect.Wrong, bisect.Crash, bisect.BuildFailed} {
		g := Gate(report.GateRegression, 1)
		g.Failure = &report.Failure{Class: class, Why: "exit 7"}
		g.Conclude("HEAD fails in 2 of 2 launches")
		all[string(class)] = g
	}
	skip := Gate(report.GateOpen, 3)
	skip.Failure = &report.Failure{Class: bisect.Skip, Why: "no such shape"}
	all["skip"] = skip
	// A HEAD that fails now and then, which may be chance.
	flaky := Gate(report.GateOpen, 3, Contrast(report.GatePass, "n1", 1))
	flaky.Failure = &report.Failure{Class: bisect.Crash, Why: "SIGSEGV"}
	flaky.Conclude("HEAD fails in 1 of 40 launches, the merge base in none of 40")
	all["flaky"] = flaky
	tolerated := *flaky
	tolerated.ExitCode = 0
	all["flaky, tolerated"] = &tolerated
	lacking, unknown := Contrast(report.GateOpen, "n2", math.NaN()), "HEAD does not report it\x00"
	lacking.Why, lacking.B.Median, lacking.Visible = &unknown, report.Number(math.NaN()), report.Number(math.NaN())
	all["gone"] = Gate(report.GateOpen, 3, Contrast(report.GatePass, "n1", 1), lacking)
	idle, why := Gate(report.GatePass, 0), "equal inputs"
	idle.NotLaunched, idle.Session = &why, nil
	idle.Conclude("")
	all["idle"] = idle
	trouble := "device lost\nat pair 3"
	all["infra"].Error = &trouble
	// A culprit in files whose names need escapes in every format.
	sure := 0.99
	blamed := *all["regression"]
	blamed.Culprit = &report.GateCulprit{
		Commit: strings.Repeat("c", 40), Subject: HostileCase, Confidence: &sure, Confirmed: true, Class: bisect.Slow,
		Places: []report.Place{{File: "a dir/k%1,:.cu", Start: 3, End: 9}, {File: "b", Start: 1, End: 1}},
	}
	all["blamed"] = &blamed
	return all
}

// Flags is a search over flags: its document as JSON, and what it rests on.
func Flags() ([]byte, report.Ledger) {
	// The document is made as JSON, since most of it is what older sessions keep: keys may be missing.
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
		"schema": report.Schema, "session": "f1", "axis": "flags", "result": "found", "headline": "compile=max graph=on together cause a timeout in warmup",
		"complaint":    m{"class": "timeout", "phase": "warmup", "metric": nil},
		"minimal_sets": []any{m{"assign": set("compile=max graph=on"), "class": "timeout", "phase": "warmup", "certified": true, "culprits": []string{"compile=max", "graph=on"}, "carriers": []string{}}},
		"safe_sets":    []any{safe("compile=max fp8=on", .81, false), safe("graph=on fp8=on", .93, true)}, "recommended": safe("compile=max fp8=on", .81, true),
		"effects":    []any{m{"terms": []string{"compile=max"}, "ratio": .85, "low": .84, "high": .86}, m{"terms": []string{"graph=on"}, "ratio": .98, "low": .96, "high": 1.0}, m{"terms": []string{"graph=on", "fp8=on"}, "ratio": 1.04, "low": 1.02, "high": 1.06}},
		"hypotheses": []any{m{"name": "compile-too-slow " + Hostile, "claim": []string{"compile=max"}, "verdict": "only-in-combination", "with": []string{"graph=on"}, "others": []string{}, "why": "passes alone"}},
		"complete":   true, "ends": m{"good": CommitID(0), "bad": CommitID(0)},
		"tests":  []any{test("", "pass", false), test("compile=max graph=on fp8=on", "fail", false), test("compile=max", "pass", false), test("graph=on", "pass", true), test("compile=max graph=on", "fail", false), test("compile=max fp8=on", "pass", false), test("graph=on fp8=on", "pass", false)},
		"totals": m{"candidates": 6, "trials": 6, "inferred": 1, "builds": 2, "cache_hits": 0, "wall_s": 30, "device_s": 15, "cost": nil}, "warnings": []string{}, "devices": []string{}, "steps": []any{},
	})
	if err != nil {
		panic(err)
	}
	// Launches of only some of the tests: the others were inferred, or are of an earlier session.
	l := report.Ledger{Limits: map[string]float64{"warmup": 2}}
	for _, a := range []string{"", "compile=max,graph=on,fp8=on", "compile=max", "compile=max,graph=on"} {
		o := bisect.Outcome{Class: bisect.OK, Wall: 1.5, Phases: []bisect.PhaseTime{{Name: "load", Seconds: .5}, {Name: "warmup", Seconds: 1}}}
		if strings.Contains(a, "max,graph") {
			o = bisect.Outcome{Class: bisect.Timeout, Phase: "warmup", Wall: 2.5, Phases: []bisect.PhaseTime{{Name: "load", Seconds: .5}, {Name: "warmup", Seconds: 2}}}
		}
		l.Launches = append(l.Launches, report.Launch{Candidate: bisect.Candidate{Commit: CommitID(0), Assign: a}, Purpose: bisect.Searching, Outcome: o})
	}
	return doc, l
}

// Guilty is the slow search after its culprit's hunks were searched.
func Guilty() report.Input {
	in := Slow()
	in.Hunks = map[string][]report.Hunk{CommitID(40): {
		{File: "gemm.cu", Start: 11, End: 12, Role: sets.Culprit, Text: "-\tload(a);\n+\tload_swizzled(a);\n"}, {File: "gemm.cu", Start: 41, End: 41, Role: sets.Carrier},
	}}
	return in
}
