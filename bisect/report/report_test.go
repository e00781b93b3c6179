package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/internal/samples"
)

// Phases that only some launches have stand where they happen.
func TestMergePhases(t *testing.T) {
	var order []string
	for _, launch := range []string{"load measure teardown", "build load import compile", "load import compile warmup capture measure teardown", "first load"} {
		var ps []bisect.PhaseTime
		for _, name := range strings.Fields(launch) {
			ps = append(ps, bisect.PhaseTime{Name: name})
		}
		order = report.MergePhases(order, ps)
	}
	if got := strings.Join(order, " "); got != "build first load import compile warmup capture measure teardown" {
		t.Error(got)
	}
	for i := range 1000 { // by a hostile program
		order = report.MergePhases(order, []bisect.PhaseTime{{Name: fmt.Sprint("p", i)}})
	}
	if len(order) != 256 || order[0] != "build" {
		t.Errorf("%d phases, %s first", len(order), order[0])
	}
}

// The headline is of the launch that had the whole of its limits, and of the commit as it is.
func TestHeadlineIsOfTheWholeLimit(t *testing.T) {
	in := samples.Found()
	early := in.Launches[1].Outcome
	early.Early, early.Why, early.Limit = true, "stopped after 1s", 1
	part := samples.Launch(samples.CulpritID, bisect.Searching, early)
	part.Candidate.Assign = "hunks=1"
	part.Outcome.Early, part.Outcome.Why, part.Outcome.Limit = false, "a part of it", 2
	in.Launches = append([]report.Launch{samples.Launch(samples.CulpritID, bisect.Searching, early)}, append(in.Launches, samples.Launch(samples.CulpritID, bisect.Searching, early), part)...)
	if got := report.NewSearch(in).Headline; got != "cccccccccc makes loading exceed its limit of 3 s (before: 2 s)" {
		t.Error(got)
	}
}

// Keys that do not apply are empty lists or null, never missing.
func TestJSONHasEveryKeyOfTheContract(t *testing.T) {
	for _, result := range []bisect.Result{bisect.Found, bisect.Inconclusive, bisect.NoDifference, bisect.Broken, bisect.Interrupted} {
		in := samples.Found()
		in.Finding.Result = result
		if result != bisect.Found {
			in.Finding.Culprits, in.Finding.Complaint, in.Launches = nil, bisect.Complaint{}, nil
		}
		var b bytes.Buffer
		if err := report.WriteJSON(&b, report.NewSearch(in)); err != nil {
			t.Fatal(err)
		}
		var d map[string]any
		if err := json.Unmarshal(b.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"culprits", "suspects", "levels", "minimal_sets", "safe_sets", "effects", "hypotheses", "warnings"} {
			if _, ok := d[key].([]any); !ok {
				t.Errorf("%s: %s is %v, not a list", result, key, d[key])
			}
		}
		for _, key := range []string{"schema", "session", "axis", "result", "complaint", "recommended", "complete", "ends", "totals"} {
			if _, ok := d[key]; !ok {
				t.Errorf("%s: no key %s", result, key)
			}
		}
		totals := d["totals"].(map[string]any)
		for _, key := range []string{"candidates", "trials", "inferred", "builds", "cache_hits", "reused", "wall_s", "spent", "device_s", "cost"} {
			if _, ok := totals[key]; !ok {
				t.Errorf("%s: no key totals.%s", result, key)
			}
		}
		if d["schema"] != report.Schema || d["result"] != string(result) {
			t.Errorf("%v %v", d["schema"], d["result"])
		}
	}
}

func TestTotals(t *testing.T) {
	got := report.NewSearch(samples.Found()).Totals
	if got.Candidates != 2 || got.Trials != 2 || got.Builds != 1 || got.CacheHits != 1 || got.Inferred != 1 || got.Device != 5 || *got.Cost != 5 {
		t.Errorf("%+v cost %v", got, *got.Cost)
	}
	in := samples.Found()
	in.GPUHour = 0
	if report.NewSearch(in).Totals.Cost != nil {
		t.Error("a cost without a price")
	}
}

func TestPhaseCosts(t *testing.T) {
	want := []report.PhaseCost{{"build", 3, 1, 0, 3}, {"load", 5, 2, 1, 3}}
	got := samples.Found().PhaseCosts()
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v", got)
	}
}
