package effects

import (
	"fmt"
	"slices"
	"strings"
)

func listed(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// percent says by how much a ratio is above or below 1.
func percent(ratio float64) string { return fmt.Sprintf("%+.3g %%", 100*(ratio-1)) }

// Advice is the answer in one sentence: what to keep, what to drop, and what only together costs.
func (r Ranking) Advice() string {
	var keep, drop, both []string
	for _, e := range r.Effects {
		gain := (e.Ratio < 1) != r.Higher
		switch {
		case len(e.Terms) > 1:
			both = append(both, r.together(e, gain))
		case gain:
			keep = append(keep, e.Terms[0]+" ("+percent(e.Ratio)+")")
		default:
			drop = append(drop, e.Terms[0]+" ("+percent(e.Ratio)+")")
		}
	}
	var parts []string
	if len(keep) > 0 {
		parts = append(parts, "keep "+and(keep))
	}
	if len(drop) > 0 {
		parts = append(parts, "drop "+and(drop))
	}
	if parts = append(parts, both...); len(parts) == 0 {
		return r.nothing()
	}
	return strings.Join(parts, ", ")
}

// nothing says that no effect was found, and how much that is worth.
func (r Ranking) nothing() string {
	switch t := r.Total; {
	case r.Launches > 0 && r.Failed == r.Launches:
		return "no launch gave a number"
	case t != nil && (t.Low > 1+r.Smallest || t.High < 1/(1+r.Smallest)):
		return fmt.Sprintf("all flags together make %s, but no flag, pair or three of them does alone", percent(t.Ratio))
	}
	return fmt.Sprintf("no flag and no pair of flags makes a difference; one below %.2g %% may have been missed", 100*r.Smallest)
}

// together says what several flags do, and whether parts of them do something alone.
func (r Ranking) together(e Effect, gain bool) string {
	verb := "cost"
	if gain {
		verb = "gain"
	}
	only := "only together"
	for _, x := range r.Effects {
		if len(x.Terms) < len(e.Terms) && !slices.ContainsFunc(x.Terms, func(t string) bool { return !slices.Contains(e.Terms, t) }) {
			only = "together, beyond what they do apart,"
		}
	}
	return fmt.Sprintf("%s %s %s (%s)", and(e.Terms), only, verb, percent(e.Ratio))
}

// and lists names for people.
func and(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
