package ci

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
)

// The elements of a JUnit report, as Jenkins and GitLab read them. Times are seconds with three decimals. A test case
// has at most one of Skipped, Error and Failure; one without any has passed.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Time     string       `xml:"time,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name    string     `xml:"name,attr"`
		Class   string     `xml:"classname,attr"`
		Time    string     `xml:"time,attr"`
		Skipped *junitText `xml:"skipped"`
		Error   *junitText `xml:"error"`
		Failure *junitText `xml:"failure"`
		Out     string     `xml:"system-out,omitempty"`
	}
	junitText struct {
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes a gate as a JUnit report, with a test case for each number and one for whether HEAD runs at all. A
// regression is a failure, machine trouble an error, and a candidate that cannot be built or tested is skipped. A
// number of which nothing can be said is an error, or skipped where the gate lets that pass. The error is that of w.
func JUnit(w io.Writer, g *report.Gate) error {
	s := junitSuite{Name: "kbisect gate", Time: seconds(g.Totals.Wall), Properties: []junitProperty{
		{"base", g.Base.Commit}, {"head", g.Head.Commit}, {"into", g.Into}, {"result", g.Result},
		{"effect", fmt.Sprint(g.Effect)}, {"error", fmt.Sprint(g.ErrorRate)}, {"pairs", fmt.Sprint(g.Pairs)},
	}}
	if g.Culprit != nil {
		s.Properties = append(s.Properties, junitProperty{"culprit", g.Culprit.Commit})
	}
	s.Cases = append(s.Cases, junitRuns(g))
	for _, x := range g.Contrasts {
		s.Cases = append(s.Cases, junitNumber(g, x))
	}
	for _, c := range s.Cases {
		s.Tests++
		switch {
		case c.Failure != nil:
			s.Failures++
		case c.Error != nil:
			s.Errors++
		case c.Skipped != nil:
			s.Skipped++
		}
	}
	// encoding/xml leaves out the declaration.
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	all := junitSuites{Name: s.Name, Time: s.Time, Tests: s.Tests, Failures: s.Failures, Errors: s.Errors, Suites: []junitSuite{s}}
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// junitRuns is the test case that HEAD ends well, on which every number rests. It fails, is an error or is skipped by
// the same rules as the exit code, so that a CI system which reads only one of them decides the same way.
func junitRuns(g *report.Gate) junitCase {
	c := junitCase{Class: "kbisect.gate", Name: "HEAD runs", Time: "0.000", Out: strings.Join(append([]string{g.Verdict}, g.Warnings...), "\nnote: ")}
	tell := func(kind string) *junitText {
		text := g.Verdict
		if g.Error != nil {
			text += "\n" + *g.Error
		}
		return &junitText{Type: kind, Message: g.Verdict, Text: text + junitCulprit(g)}
	}
	switch {
	case g.Stopped():
		c.Error = tell(g.Result)
	case g.Failure != nil && (g.Failure.Class == bisect.BuildFailed || g.Failure.Class == bisect.Skip):
		c.Skipped = tell(string(g.Failure.Class))
	case g.Failure != nil && g.Result == report.GateRegression:
		c.Failure = tell(string(g.Failure.Class))
	case g.Failure != nil && g.ExitCode == 0: // let pass
		c.Skipped = tell(report.GateOpen)
	case g.Failure != nil, g.Result == report.GateOpen && len(g.Contrasts) == 0:
		c.Error = tell(report.GateOpen)
	}
	return c
}

// junitNumber is the test case of one number. Where nothing can be said of it and the gate does not fail for that
// reason, it is skipped. It takes no time of its own: all numbers come from the same launches.
func junitNumber(g *report.Gate, x report.Contrast) junitCase {
	word, why := g.Line(x)
	why = strings.TrimSuffix(x.Change(g.ErrorRate)+"; "+why, "; ")
	c := junitCase{Class: "kbisect.gate", Name: x.Name(), Time: "0.000"}
	said := &junitText{Type: x.Result, Message: word + ": " + why, Text: fmt.Sprintf("base %s, HEAD %s\n%s: %s", x.A.Words(x.Unit), x.B.Words(x.Unit), word, why)}
	switch {
	case x.Result == report.GateRegression:
		said.Type = string(bisect.Slow)
		said.Text += junitCulprit(g)
		c.Failure = said
	case x.Result != report.GateOpen:
		c.Out = said.Text
	case g.Result == report.GateOpen && g.ExitCode != 0:
		c.Error = said
	default: // let pass, or not waited for because of another result
		c.Skipped = said
	}
	return c
}

// junitCulprit names the culprit and its first places at the end of a text; "" without a culprit.
func junitCulprit(g *report.Gate) string {
	if g.Culprit == nil {
		return ""
	}
	s := "\nculprit: " + g.Culprit.Sentence() + ": " + g.Culprit.Subject
	var places []string
	for _, p := range g.Culprit.Places {
		places = append(places, p.String())
	}
	if len(places) > 0 {
		s += "\n" + strings.Join(places[:min(5, len(places))], "\n")
	}
	return s
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }
