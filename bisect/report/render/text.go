// Package render writes a page as text for a terminal, as Markdown for a pull request, or as one HTML file. Each
// writes the same headline, facts and sections in the same order; of pictures, text and Markdown show a sketch or
// leave them to the tables that hold the same values.
//
// It knows no document: what to say is decided in package page.
package render

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kbisect/kbisect/bisect/report/page"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// Terminal is what the place can show where text goes.
type Terminal struct {
	Colour bool
	Marks  []rune // of a line of values, from low to high; none draws no line
}

// Text writes a page for a terminal: the answer, its facts, then every section but the details that stand behind
// pictures.
func Text(w io.Writer, p page.Page, t Terminal) error {
	var b strings.Builder
	fmt.Fprintln(&b, t.paint(p.Headline, p.State))
	if len(p.Facts) > 0 {
		b.WriteString("\n" + textFacts(p.Facts))
	}
	for _, s := range p.Sections {
		if body := t.section(s); body != "" {
			fmt.Fprintf(&b, "\n%s\n%s", s.Title, body)
		}
	}
	if len(p.Next) > 0 {
		b.WriteString("\nNext\n")
	}
	for _, c := range p.Next {
		line := "  " + c.Line
		if c.Why != "" {
			line += "    # " + c.Why
		}
		fmt.Fprintln(&b, line)
	}
	if t.Colour {
		w = words.Raw(w) // a page is printable
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// paint gives a text the colour of a state (the codes of ECMA-48), where colours are wanted.
func (t Terminal) paint(text string, s page.State) string {
	code := map[page.State]string{page.Good: "32", page.Better: "36", page.Bad: "31;1", page.Unsure: "33", page.Other: "35"}[s]
	if !t.Colour || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// section is a section without its title; "" where text has nothing to show of it.
func (t Terminal) section(s page.Section) string {
	var b strings.Builder
	shown := slices.DeleteFunc(slices.Clone(s.Tables), func(x page.Table) bool { return x.Detail })
	b.WriteString(textFacts(s.Facts))
	if len(s.Charts) == 0 && s.Words != "" && len(shown)+len(s.List) > 0 {
		fmt.Fprintf(&b, "  %s\n", s.Words)
	}
	if s.Missing != "" {
		fmt.Fprintf(&b, "  %s\n", s.Missing)
	}
	for i, x := range shown {
		if len(shown) > 1 {
			if i > 0 {
				b.WriteString("\n")
			}
			fmt.Fprintf(&b, "  %s\n", x.Title)
		}
		b.WriteString(t.table(x))
	}
	for _, c := range s.Charts {
		if c.Sketch == nil || len(t.Marks) == 0 {
			continue
		}
		for line := range strings.Lines(c.Sketch.Sketch(t.Marks)) {
			b.WriteString("  " + line)
		}
	}
	for _, x := range s.List {
		fmt.Fprintf(&b, "  - %s\n", strings.ReplaceAll(x, "\n", "\n    "))
	}
	return b.String()
}

// textFacts are facts, their names in a column. A name that stands above already is not repeated.
func textFacts(all []page.Fact) string {
	var b strings.Builder
	width := 0
	for _, f := range all {
		width = max(width, utf8.RuneCountInString(f.Name))
	}
	for i, f := range all {
		name := f.Name
		if i > 0 && all[i-1].Name == name && f.Code == "" {
			name = ""
		}
		fmt.Fprintf(&b, "  %s  %s\n", pad(name, width, false), f.Text)
		if f.Code != "" {
			for _, line := range strings.Split(f.Code, "\n") {
				fmt.Fprintf(&b, "  %s    %s\n", strings.Repeat(" ", width), words.Cut(line, 110))
			}
		}
	}
	return b.String()
}

// cellMost bounds a cell of a column, but for the last one: a long one would push all others away.
const cellMost = 48

// table writes a table in columns, a row a line. Colours come in after the columns are set: they have no width.
func (t Terminal) table(x page.Table) string {
	rows, left := x.Bounded(x.Most)
	last := len(x.Columns) - 1
	lines := [][]string{x.Columns}
	for _, i := range rows {
		cells := slices.Clone(x.Rows[i])
		for k := range cells {
			if k < last {
				cells[k] = words.Cut(cells[k], cellMost)
			}
		}
		lines = append(lines, cells)
	}
	widths := make([]int, len(x.Columns))
	for _, cells := range lines {
		for k, c := range cells[:min(len(cells), len(widths))] {
			widths[k] = max(widths[k], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for n, cells := range lines {
		line := " "
		for k, c := range cells {
			line += " " + pad(c, widths[min(k, last)], slices.Contains(x.Right, k)) + " "
		}
		line = strings.TrimRight(line, " ")
		if n > 0 && rows[n-1] < len(x.States) {
			line = t.paint(line, x.States[rows[n-1]])
		}
		fmt.Fprintln(&b, line)
	}
	if left > 0 {
		fmt.Fprintf(&b, "  and %s more\n", words.Count(left, "row"))
	}
	for _, note := range x.Notes {
		fmt.Fprintf(&b, "  %s\n", note)
	}
	return b.String()
}

// pad fills a text up to a width in characters, on its left for numbers.
func pad(s string, width int, right bool) string {
	space := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
	if right {
		return space + s
	}
	return s + space
}
