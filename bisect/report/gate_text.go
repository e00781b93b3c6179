package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// GateText writes a gate for people: the result, then a line for each number. With colour, each verdict
// has its own.
func GateText(w io.Writer, g Gate, colour bool) error {
	p := &printer{w: w}
	p.f("%s\n", paint(g.Verdict, g.Result, colour))
	if g.Error != nil {
		p.f("  %s\n", indent(*g.Error, "  "))
	}
	p.f("\n  base  %s\n  HEAD  %s\n", g.Base.line(), g.Head.line())
	p.verdicts(g, colour)
	p.blame(g)
	if g.NotLaunched == nil {
		p.f("\n")
		p.launches("base", g.Base)
		p.launches("HEAD", g.Head)
		p.price(g.Totals, g.Devices)
	}
	p.warnings(g.Warnings)
	p.gateNext(g)
	return p.err
}

// paint gives a text the colour of a result, where colours are wanted.
func paint(text, result string, colour bool) string {
	codes := map[string]string{
		GatePass: "32", GateImprovement: "36", GateRegression: "31;1", GateOpen: "33", GateAccepted: "35", "infra": "33", "interrupted": "33",
	}
	if !colour || codes[result] == "" {
		return text
	}
	return "\x1b[" + codes[result] + "m" + text + "\x1b[0m"
}

// verdicts is the table of the numbers. Colours come in after the columns are set: they have no width.
func (p *printer) verdicts(g Gate, colour bool) {
	if len(g.Contrasts) == 0 {
		return
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  verdict\tof\tbase\tHEAD\tHEAD / base\n")
	for _, x := range g.Contrasts {
		word, why := g.line(x)
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", word, printable(x.Name()), x.A.middle(x.Unit), x.B.middle(x.Unit), why)
	}
	p.flush(t)
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	p.f("\n%s\n", lines[0])
	for i, line := range lines[1:] {
		p.f("%s\n", paint(line, g.Contrasts[i].Result, colour))
	}
	p.f("\n  Looked for: changes of %s and more, with an error of %s over all numbers; in brackets where the ratio surely lies.\n", percent(g.Effect), percent(g.ErrorRate))
	fresh := 0
	for _, a := range g.Accepted {
		if a.New {
			fresh++
		}
		if !a.Seen && g.ExitCode == 0 && g.Result != GateOpen {
			p.f("  Accepted, but not needed: %s up to %.4g (%s).\n", printable(a.Name()), a.Limit, printable(a.Reason))
		}
	}
	if fresh > 0 {
		p.f("  Recorded in kbisect-accepted.toml: %d. Commit it with the change.\n", fresh)
	}
}

// middle is the median with its unit.
func (s Summary) middle(unit string) string {
	if !s.Median.Known() {
		return figure(s.Median)
	}
	scale, name := prefixed(float64(s.Median), unit)
	return figure(s.Median*scale) + unitWord(name)
}

// blame names who brought a regression, or says how the search for it ended.
func (p *printer) blame(g Gate) {
	switch {
	case g.Culprit != nil:
		c := g.Culprit
		p.f("\n%s\n  commit   %s\n  author   %s\n  date     %s\n  subject  %s\n", c.sentence(), c.Commit, printable(c.Author), c.Date, printable(c.Subject))
		for i, x := range c.Places {
			if i == 5 {
				p.f("           and %d more\n", len(c.Places)-i)
				break
			}
			p.f("  %-8s %s\n", map[bool]string{true: "lines"}[i == 0], printable(x.String()))
		}
	case g.Search != nil:
		p.f("\nNo commit is named: %s\n", printable(g.Search.Why))
		for _, s := range g.Search.Suspects {
			p.f("  suspect  %s  %s\n", short(s.Commit), cut(printable(s.Subject), 60))
		}
	}
}

// gateNext says what a person would do now.
func (p *printer) gateNext(g Gate) {
	if g.Session == nil {
		return
	}
	p.f("\nNext\n")
	if g.Culprit != nil {
		p.f("  git show %s\n", short(g.Culprit.Commit))
	}
	if g.Result == GateRegression && g.Culprit == nil && g.Search == nil {
		p.f("  kbisect gate --bisect    # which commit of the branch it was\n")
	}
	if g.Result == GateRegression && g.Failure == nil {
		p.f("  kbisect gate --accept 'REASON'    # if it is meant: records it in the repository\n")
	}
	if g.Result == GateOpen && g.BudgetOver {
		p.f("  a longer --budget, or a larger --effect\n")
	}
	p.f("  kbisect show %s    # every launch of this gate\n", *g.Session)
}
