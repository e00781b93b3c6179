package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Sentence says in a sentence what a comparison came to; why is of a result that rests on no number.
func (c Comparison) Sentence(why string) string {
	var s string
	switch c.Result {
	case "regression":
		s = c.worse(why)
	case "improvement":
		s = "B is better: " + cmp.Or(c.most(c.Result), why) + "."
	case "no-difference":
		s = c.alike()
	case "infra":
		s = "Stopped by machine trouble; nothing is said of A and B."
	case "interrupted":
		s = "Interrupted; the launches made so far are kept."
	default:
		s = c.open(why)
	}
	if c.SameCommit {
		s += " A and B are the same commit: this tells of the machine, not of a change."
	}
	return s
}

func (c Comparison) worse(why string) string {
	if c.Failure != nil {
		return "B is worse: " + why + "."
	}
	return "B is worse: " + c.most(c.Result) + "."
}

// most tells of the contrast with this result that is clearest, and names the others.
func (c Comparison) most(result string) string {
	var all []Contrast
	for _, x := range c.Contrasts {
		if x.Result == result {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.SortStableFunc(all, func(a, b Contrast) int { return cmp.Compare(far(b.Ratio.Value), far(a.Ratio.Value)) })
	first := all[0]
	s := fmt.Sprintf("%s is %.3f times A's", printable(first.Name()), float64(first.Ratio.Value))
	if first.Ratio.Low.Known() {
		s += fmt.Sprintf(" (95 %% interval %.3f to %.3f)", float64(first.Ratio.Low), float64(first.Ratio.High))
	}
	if len(all) == 1 {
		return s
	}
	var others []string
	for _, x := range all[1:] {
		others = append(others, printable(x.Name()))
	}
	if len(others) > 4 {
		others = append(others[:3], fmt.Sprintf("%d more", len(others)-3))
	}
	return s + "; likewise " + strings.Join(others, ", ")
}

func far(n Number) float64 { return math.Abs(math.Log(float64(n))) }

// alike says how much of a difference there may be at most.
func (c Comparison) alike() string {
	low, high := Number(math.Inf(1)), Number(math.Inf(-1))
	for _, x := range c.Contrasts {
		low, high = min(low, x.Bound.Low), max(high, x.Bound.High)
	}
	what := "every number"
	if len(c.Contrasts) == 1 {
		what = printable(c.Contrasts[0].Name())
	}
	return fmt.Sprintf("No difference of %s or more: %s lies between %.3f and %.3f times A's.", percent(c.Effect), what, float64(low), float64(high))
}

// open says what can neither be shown nor ruled out.
func (c Comparison) open(why string) string {
	switch {
	case why != "":
		return "Cannot tell: " + why + "."
	case len(c.Contrasts) == 0:
		return "Cannot tell: there are no numbers to compare."
	}
	var names []string
	widest := c.Contrasts[0]
	for _, x := range c.Contrasts {
		if x.Result != "cannot-tell" {
			continue
		}
		if len(names) == 0 || far(x.Bound.High)+far(x.Bound.Low) > far(widest.Bound.High)+far(widest.Bound.Low) {
			widest = x
		}
		names = append(names, printable(x.Name()))
	}
	s := fmt.Sprintf("Cannot tell: after %s a change of %s in %s can be neither shown nor ruled out", count(c.Pairs, "pair"), percent(c.Effect), widest.Name())
	if widest.Bound.Low.Known() && widest.Bound.High.Known() {
		s += fmt.Sprintf(" (it lies between %.3f and %.3f times A's)", float64(widest.Bound.Low), float64(widest.Bound.High))
	}
	if len(names) > 1 {
		s += fmt.Sprintf(", nor in %s", others(len(names)-1))
	}
	switch {
	case c.BudgetOver:
		s += "; the budget is used up"
	case c.Hopeless:
		s += "; on this machine, as noisy as it is now, many more pairs would not do either"
	}
	return s + "."
}

func others(n int) string {
	if n == 1 {
		return "one other"
	}
	return fmt.Sprintf("%d others", n)
}
