package firsts

import (
	"fmt"
	"math"
	"testing"

	"github.com/kbisect/kbisect/bisect"
)

// The first process of a candidate is enough where those of both ends gave what later ones give.
func TestFirsts(t *testing.T) {
	type numbers map[string]float64 // by case
	outcome := func(caches string, n numbers) bisect.Outcome {
		o := bisect.Outcome{Class: bisect.OK, Caches: caches}
		for name, v := range n {
			o.Series = append(o.Series, bisect.Series{Metric: "t", Case: name, Unit: "us", Values: []float64{v}})
		}
		return o
	}
	one := func(values ...float64) (out []numbers) {
		for _, v := range values {
			out = append(out, numbers{"": v})
		}
		return out
	}
	for name, c := range map[string]struct {
		coldGood, good, coldBad, bad []numbers
		want                         bool
	}{
		"the same":                          {one(100), one(100, 101), one(130), one(130, 129), true},
		"a little off, and a large step":    {one(103), one(100, 100), one(134), one(130, 130), true},
		"as far off as the step":            {one(130), one(100, 101), one(131), one(130, 129), false},
		"off at the bad end only":           {one(100), one(100, 101), one(150), one(130, 129), false},
		"one of the first ones off":         {one(100, 120), one(100, 101), one(130), one(130, 129), false},
		"off by less than they scatter":     {one(100), one(100, 104), one(138), one(130, 136), true},
		"off by what three may scatter":     {one(354), one(353.7, 355.9), one(435.8), one(428.5, 422.9), true},
		"they scatter as much as they step": {one(100), one(100, 130), one(130), one(130, 101), false},
		"three later ones":                  {one(100), one(100), one(130), one(130, 129), true},
		"three, and one is off":             {one(100), one(106), one(130), one(130, 129), false},
		"two later ones":                    {one(100), one(100), one(130), one(130), false},
		"two, and a step far above them":    {one(100), one(101), one(940), one(930), true},
		"two that differ, and a far step":   {one(100), one(105), one(940), one(930), false},
		"two, and only one case steps":      {[]numbers{{"a": 100, "b": 9}}, []numbers{{"a": 100, "b": 9.1}}, []numbers{{"a": 940, "b": 9}}, []numbers{{"a": 930, "b": 9}}, true},
		"two, and the other case is off":    {[]numbers{{"a": 100, "b": 9}}, []numbers{{"a": 100, "b": 9}}, []numbers{{"a": 940, "b": 9}}, []numbers{{"a": 930, "b": 8}}, false},
		"three of one end":                  {one(100), nil, one(130), one(130, 129, 130), false},
		"no first one":                      {nil, one(100, 101), one(130), one(130, 129), false},
		"no number":                         {one(100), one(100, math.NaN()), one(130), one(130, 129), false},
		"one case of two steps": {[]numbers{{"a": 100, "b": 9}}, []numbers{{"a": 100, "b": 7}, {"a": 101, "b": 7.01}},
			[]numbers{{"a": 130, "b": 9}}, []numbers{{"a": 130, "b": 7}, {"a": 129, "b": 7.01}}, true},
		"both do, and one is off": {[]numbers{{"a": 100, "b": 9}}, []numbers{{"a": 100, "b": 7}, {"a": 101, "b": 7.01}},
			[]numbers{{"a": 130, "b": 9}}, []numbers{{"a": 130, "b": 8}, {"a": 129, "b": 8.01}}, false},
		"a case that the bad end lacks": {[]numbers{{"a": 100, "b": 9}}, []numbers{{"a": 100, "b": 9}, {"a": 101, "b": 9.01}},
			one(130), one(130, 129), false},
	} {
		var f Launches
		for why, n := range map[bisect.Purpose][2][]numbers{bisect.EndGood: {c.coldGood, c.good}, bisect.EndBad: {c.coldBad, c.bad}} {
			for i, caches := range []string{Cold, Warm} {
				for _, v := range n[i] {
					f.Learn(bisect.Request{Purpose: why}, outcome(caches, v))
				}
			}
		}
		if got := f.Serve("t"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if f.Serve("") || f.Serve("other") {
			t.Errorf("%s: of another metric", name)
		}
	}
}

// What launches scattered by in earlier sessions serves where each end has one later launch.
func TestFirstsOfKnownScatter(t *testing.T) {
	at := func(cold, warm float64) (e end) {
		of := func(v float64) []bisect.Outcome {
			return []bisect.Outcome{{Series: []bisect.Series{{Metric: "t", Unit: "us", Values: []float64{v}}}}}
		}
		e.cold, e.warm = of(cold), of(warm)
		return e
	}
	for name, c := range map[string]struct {
		good, bad end
		sd        float64
		want      bool
	}{
		"the same":                        {at(100, 100), at(130, 130), 0.01, true},
		"nothing is known":                {at(100, 100), at(130, 130), 0, false},
		"a little off":                    {at(102, 100), at(132, 130), 0.01, true},
		"as far off as the step":          {at(130, 100), at(131, 130), 0.01, false},
		"launches scatter by the step":    {at(100, 100), at(130, 130), 0.1, false},
		"off at the bad end alone":        {at(100, 100), at(150, 130), 0.01, false},
		"off by what launches scatter by": {at(104, 100), at(130, 130), 0.02, true},
	} {
		f := Launches{good: c.good, bad: c.bad}
		if c.sd > 0 {
			f.Past = map[string]bisect.Scatter{"t": {SD: c.sd}}
		}
		if got := f.Serve("t"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// An early start shows where an end is off by a quarter of the step, in any case, or where no step is seen.
func TestAlike(t *testing.T) {
	launch := func(values ...float64) bisect.Outcome {
		o := bisect.Outcome{Class: bisect.OK}
		for i, v := range values {
			o.Series = append(o.Series, bisect.Series{Metric: "t", Case: fmt.Sprint(i), Unit: "ms", Values: []float64{v}})
		}
		return o
	}
	all := func(launches ...bisect.Outcome) []bisect.Outcome { return launches }
	for _, c := range []struct {
		early        bisect.Outcome
		plain, other []bisect.Outcome
		want         bool
	}{
		{launch(102), all(launch(100)), all(launch(140)), true},
		{launch(110), all(launch(100)), all(launch(140)), false},
		{launch(90), all(launch(100)), all(launch(140)), false},
		{launch(140), all(launch(100)), all(launch(140)), false},
		{launch(100, 100), all(launch(101, 100)), all(launch(100, 140)), true},
		{launch(120, 100), all(launch(100, 100)), all(launch(100, 140)), false},
		{launch(100), all(launch(100)), all(launch(100)), false},
		{launch(100), all(launch(100)), all(launch()), false},
		{launch(100), nil, all(launch(140)), false},
		{launch(), all(launch(100)), all(launch(140)), false},
		// Plain ones scatter as well.
		{launch(170), all(launch(130), launch(200)), all(launch(400)), true},
		{launch(210), all(launch(130), launch(200)), all(launch(400)), true},
		{launch(100), all(launch(130), launch(200)), all(launch(400)), false},
		{launch(260), all(launch(130), launch(200)), all(launch(400)), false},
		{launch(1), all(launch(10), launch(2)), all(launch(20), launch(4)), false},
	} {
		if got, _ := Alike(c.early, c.plain, c.other); got != c.want {
			t.Errorf("%v, %v and %v: %v", c.early, c.plain, c.other, got)
		}
	}
	for _, c := range []struct {
		plain, other []bisect.Outcome
		want         bool
	}{
		{all(launch(100)), all(launch(140)), false},
		{all(launch(100), launch(101)), all(launch(140)), true},
		{all(launch(100)), all(launch(140), launch(141)), true},
		{all(launch(100), launch(130)), all(launch(140), launch(141)), false},
		{all(launch(100), launch(101)), all(launch(140), launch(190)), false},
	} {
		if _, clear := Alike(launch(70), c.plain, c.other); clear != c.want {
			t.Errorf("%v and %v: clear %v", c.plain, c.other, clear)
		}
	}
}
