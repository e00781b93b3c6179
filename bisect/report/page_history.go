package report

import (
	"fmt"
	"slices"
	"strings"
)

// historyChart is what the commits of a series measured, one after the other.
type historyChart struct {
	Name    string         `json:"name"`
	Unit    string         `json:"unit"`
	Commits []historyPoint `json:"commits"`
}

// historyPoint is one commit of a series; what is not known is null.
type historyPoint struct {
	Commit  string `json:"commit"`
	Subject string `json:"subject"`
	Day     string `json:"day"`
	Y       Number `json:"y"`
	Low     Number `json:"low"`
	High    Number `json:"high"`
	N       int    `json:"n"`
	Words   string `json:"words"` // the median, or how launches ended
	Ratio   string `json:"ratio"`
}

// mostSeries is how many series a page draws.
const mostSeries = 24

// NewHistoryPage makes a page of a history: a picture and a table for each series.
func NewHistoryPage(h History) Page {
	page := Page{
		Result: "history", Headline: "What has been measured, commit by commit",
		Figures: []Fact{{"commits shown", fmt.Sprint(h.Shown)}, {"commits measured", fmt.Sprint(h.All)}, {"series", fmt.Sprint(len(h.Series))}},
		Facts:   []Fact{{"Note", "Launches of different days compare loosely, since machines drift: kbisect compare launches in turn."}},
		Next:    []string{"kbisect compare A B"},
	}
	for i, s := range h.Series {
		if i == mostSeries {
			page.Sections = append(page.Sections, Section{ID: "more", Title: "More", Missing: fmt.Sprintf("%s more: kbisect history --metric NAME shows one", count(len(h.Series)-i, "series"))})
			break
		}
		page.Sections = append(page.Sections, s.section(fmt.Sprintf("series-%d", i+1)).printable())
	}
	return page
}

func (s HistorySeries) section(id string) Section {
	_, _, high := s.line(nil)
	scale, unit := prefixed(float64(high), printable(s.Unit))
	chart := historyChart{Name: printable(s.name()), Unit: strings.TrimSpace(unitWord(unit))}
	t := Table{Title: "Medians by commit, oldest first", Columns: []string{"commit", "date", "launches", "median", "ratio", "subject"}, Right: []int{2, 4}, Behind: true}
	for _, c := range s.Commits {
		x := historyPoint{
			Commit: short(c.Commit), Subject: printable(c.Subject), Day: day(c.Date), N: c.Launches, Words: printable(c.value(s.Unit)), Ratio: ratioWord(c.Ratio),
			Y: c.Values.Median * scale, Low: c.Values.Low * scale, High: c.Values.High * scale,
		}
		chart.Commits = append(chart.Commits, x)
		t.Rows = append(t.Rows, []string{x.Commit, x.Day, fmt.Sprint(x.N), x.Words, x.Ratio, x.Subject})
		state := ""
		if len(c.Failures) > 0 && c.Values.N == 0 {
			state = "bad"
		}
		t.States = append(t.States, state)
	}
	words := printable(s.ways())
	if slices.Contains(t.States, "bad") {
		words += ". A diamond: no launch of that commit ended well"
	}
	if s.Base != nil {
		words += ". Ratios are to " + short(*s.Base) + "."
	}
	return Section{ID: id, Title: s.name(), Words: words, Charts: []Chart{{Kind: "history", Label: "Medians of " + printable(s.name()) + " by commit, oldest first", Data: chart}}, Tables: []Table{t}}
}
