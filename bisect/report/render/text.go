// Package render writes a page as text for a terminal ([Text]), as Markdown for a pull request ([Markdown]), or as one
// HTML file ([HTML]). Each writes the same answer, card by card, and the same sections in the same order. Text and
// Markdown have no pictures: the tables hold the same values.
//
// It must not know documents: what to say is decided in package page, and here only how it looks, what fits, and what
// has to be escaped. A page is printable already ([words.Printable]); what markup a format adds is escaped here.
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

// Terminal is what the place that text goes to can show. The zero value is a file: no colours, no width.
type Terminal struct {
	Colour bool
	Width  int  // characters in a line; 0: any number
	All    bool // every row and section, rather than what fits a screen
}

// mostLines is how many lines the output takes at most where not All is wanted: less than the 24 of a small terminal.
const mostLines = 20

// Text writes a page for a terminal, with the answer last, where the eye is when a command ends. Details that stand
// behind pictures are left out; unless All is wanted, so are the sections that the answer can do without, and the rest
// fits mostLines. The commands are never cut. The error is that of w.
func Text(w io.Writer, p page.Page, t Terminal) error {
	end := t.end(p)
	var out []string
	if t.All {
		for _, s := range p.Sections {
			if body := t.section(s); body != "" {
				out = append(out, t.bold(t.fit(s.Title)), strings.TrimSuffix(body, "\n"), "")
			}
		}
		out = append(out, t.answer(p, 0)...)
	} else {
		// The commands have their lines first, then the answer; what is left goes to the sections, in their order.
		answer := t.answer(p, mostLines-len(end))
		room := mostLines - len(end) - len(answer)
		for _, s := range p.Sections {
			lines := t.brief(s, room-1)
			if len(lines) > 0 {
				out = append(append(out, lines...), "")
				room -= len(lines) + 1
			}
		}
		out = append(out, answer...)
	}
	out = append(out, end...)
	if t.Colour {
		w = words.Raw(w) // a page is printable
	}
	_, err := io.WriteString(w, strings.Join(out, "\n")+"\n")
	return err
}

// answer is the cards in at most `most` lines, shared out evenly; 0 is no limit. The last line counts the cards that do
// not fit.
func (t Terminal) answer(p page.Page, most int) (out []string) {
	const least = 3 // lines of a card
	shown, room := len(p.Cards), 0
	// Few culprits that can be read are better than a line of each; one line counts the rest.
	if most > 0 && shown > 1 && most < least*shown {
		most--
		shown = max(most/least, 1)
	}
	for i, c := range p.Cards[:shown] {
		if most > 0 {
			room = (most - len(out)) / (shown - i)
		}
		out = append(out, t.card(c, room)...)
	}
	if n := len(p.Cards) - shown; n > 0 {
		out = append(out, t.fit(fmt.Sprintf("and %s more, with --verbose", words.Count(n, "culprit"))))
	}
	return out
}

// card is one answer in at most `most` lines; 0 is no limit. Where there is not room for all, the lines of code go
// first, then the last rows.
func (t Terminal) card(c page.Card, most int) []string {
	head := c.Head
	if c.Title != "" {
		head = c.Title + ": " + head
	}
	out := words.Wrapped(head, t.Width-len("✗ "), 2)
	for i := range out {
		lead := mark(c.State)
		if lead != "" && i > 0 {
			lead = "  "
		}
		out[i] = t.paint(lead+out[i], c.State)
	}
	rows := slices.DeleteFunc(slices.Clone(c.Rows), func(r page.Row) bool { return r.More && most > 0 })
	// The names of all rows share a column, and what the rows take without code decides how much code there is room
	// for.
	width := nameWidth
	for _, r := range rows {
		width = max(width, utf8.RuneCountInString(r.Name))
	}
	code := 1 << 20 // lines of code that there is room for
	// Every row keeps its text before any code gets a line.
	if most > 0 {
		code = most - len(out)
		for i, r := range rows {
			code -= len(t.row(r, named(rows, i), width, 0, true))
		}
	}
	for i, r := range rows {
		lines := t.row(r, named(rows, i), width, max(code, 0), most > 0)
		code -= min(len(r.Lines), max(code, 0))
		if most > 0 && len(out)+len(lines) > most {
			break
		}
		out = append(out, lines...)
	}
	return out
}

// nameWidth is the least width of the column of names, in characters, so that the rows of several cards line up.
const nameWidth = len("confidence")

// named is the name of row i; "" where the row above has the same.
func named(rows []page.Row, i int) string {
	if i > 0 && rows[i-1].Name == rows[i].Name {
		return ""
	}
	return rows[i].Name
}

// row is a row of a card or section, with at most `code` of its lines of code; short allows two lines of text.
func (t Terminal) row(r page.Row, name string, width, code int, short bool) (out []string) {
	indent := strings.Repeat(" ", width+4)
	text, id := r.Text, r.ID
	if id != "" && text != "" {
		id = "  " + id
	}
	most := 0
	if short {
		most = 2
	}
	first := "  " + t.dim(pad(name, width, false)) + "  "
	for i, line := range words.Wrapped(mark(r.State)+text+id, t.Width-len(indent), most) {
		if r.State != "" {
			line = t.paint(line, r.State)
		}
		// The escape codes of a link have no width, so they are added only once the text is wrapped.
		if id != "" && strings.HasSuffix(line, r.ID) {
			line = strings.TrimSuffix(line, r.ID) + t.link(r.ID, r.Link)
		}
		if i > 0 {
			first = indent
		}
		out = append(out, strings.TrimRight(first+line, " "))
	}
	for i, l := range r.Lines {
		if i == code {
			break
		}
		line := words.Cut(strings.ReplaceAll(l.Text, "\t", "    "), t.room(len(indent)))
		out = append(out, indent+t.paint(line, map[string]page.State{"add": page.Good, "del": page.Bad}[l.Kind]))
	}
	if r.Copy != "" {
		out = append(out, indent+r.Copy)
	}
	return out
}

const (
	mostNext = 4  // commands below an answer where not all is wanted
	usual    = 80 // columns that a command is folded to where the width is not known
)

// end is what follows the answer: what to type next, the range in a line, and what it all took. A command is folded
// but not cut; its explanation follows on the same line if it fits, and stands above it if not.
func (t Terminal) end(p page.Page) (out []string) {
	name, next := "next", p.Next
	if n := len(next); n > mostNext && !t.All { // the last shows the rest
		next = append(slices.Clone(next[:mostNext-1]), next[n-1])
	}
	// A command is there to be copied, also from a file, and is folded there as well.
	across := t
	if across.Width == 0 {
		across.Width = usual
	}
	for _, c := range next {
		lead, room := "  "+t.dim(pad(name, nameWidth, false))+"  ", across.room(nameWidth+4)
		lines := folded(c.Argv, room)
		switch why := "# " + c.Why; {
		case c.Why == "":
		case len(lines) > 1:
			lines = append([]string{words.Cut(why, room)}, lines...)
		case utf8.RuneCountInString(lines[0]+"    "+why) <= room:
			lines[0] += "    " + why
		}
		for _, line := range lines {
			out = append(out, lead+line)
			lead = strings.Repeat(" ", nameWidth+4)
		}
		name = ""
	}
	if s := p.Strip; len(s.States) > 0 {
		room := min(t.room(2), 100) - len(s.From) - len(s.To) - 2
		s.States = suspected(s)
		out = append(out, "  "+s.From+" "+t.strip(s.States, room)+" "+s.To, t.dim(t.fit("  "+legend(s))))
		if s.Aside != "" {
			out = append(out, t.dim(t.fit("  "+s.Aside)))
		}
	}
	if p.Totals != "" {
		out = append(out, t.fit("  "+p.Totals))
	}
	return out
}

// suspected are the states of a strip in which a commit has room for one mark only. A suspect is shown as one, except
// a bad end that has failed. Where there are suspects, a commit without a verdict has no mark unless it is one.
func suspected(s page.Strip) []page.State {
	out := slices.Clone(s.States)
	if len(s.Suspects) == 0 {
		return out
	}
	for i, state := range out {
		at, is := slices.BinarySearch(s.Suspects, i)
		switch {
		case is && (state != page.Bad || at < len(s.Suspects)-1):
			out[i] = page.Unsure
		case state == page.Unsure:
			out[i] = ""
		}
	}
	return out
}

// legend explains the marks that a strip uses.
func legend(s page.Strip) string {
	var out []string
	bad, unsure := "✗ fails", "? undecided"
	if n := len(s.Suspects); n > 0 {
		unsure = "? suspect"
		switch last := s.Suspects[n-1]; {
		case s.States[last] != page.Bad:
		case slices.Contains(s.States[last+1:], page.Bad):
			bad = "✗ fails, the first a suspect too"
		default:
			bad = "✗ fails, a suspect too"
		}
	}
	for _, k := range []struct {
		state page.State
		words string
	}{{page.Good, "✓ passes"}, {page.Bad, bad}, {page.Culprit, "★ culprit"}, {page.Unsure, unsure}, {page.Skipped, "- cannot be judged"}, {"", "· " + s.Unmarked()}} {
		if slices.Contains(s.States, k.state) {
			out = append(out, k.words)
		}
	}
	return strings.Join(out, "  ")
}

// strip is a mark for each commit, or one for several where there are too many: the mark that says most.
func (t Terminal) strip(states []page.State, room int) string {
	// From what says least to what says most.
	weight := []page.State{"", page.Good, page.Skipped, page.Other, page.Unsure, page.Bad, page.Culprit}
	n := min(max(room, 1), len(states))
	var b strings.Builder
	for i := range n {
		of := states[i*len(states)/n : (i+1)*len(states)/n]
		most := slices.MaxFunc(of, func(a, b page.State) int { return slices.Index(weight, a) - slices.Index(weight, b) })
		b.WriteString(t.paint(map[page.State]string{page.Good: "✓", page.Skipped: "-", page.Other: "!", page.Unsure: "?", page.Bad: "✗", page.Culprit: "★", "": "·"}[most], most))
	}
	return b.String()
}

// mostNotes is how many notes stand beside an answer where not All is wanted.
const mostNotes = 3

// brief is a section in at most `most` lines; nil where those are too few or the answer does without it.
func (t Terminal) brief(s page.Section, most int) []string {
	// A title and less than two lines would say nothing.
	if !s.Brief || most < 3 {
		return nil
	}
	out := []string{t.bold(t.fit(s.Title))}
	for _, line := range t.rows(s.Facts, 0) {
		if len(out) < most {
			out = append(out, line)
		}
	}
	for _, x := range s.Tables {
		if room := most - len(out) - min(len(s.List), 1); !x.Detail && room > 2 {
			x.Notes = nil // they explain the whole table
			if x.Most = len(x.Rows); x.Most > room-1 {
				x.Most = room - 2 // the last line says how many there are
			}
			out = append(out, strings.Split(strings.TrimSuffix(t.table(t.fitting(x.Narrow())), "\n"), "\n")...)
		}
	}
	// Each note has two lines at most; the last line of the section says how many notes there are besides.
	for i, x := range s.List {
		lines := words.Wrapped(strings.ReplaceAll(x, "\n", "; "), t.Width-4, 2)
		if left := len(s.List) - i; i == mostNotes || len(out)+len(lines) > most || len(out)+len(lines) == most && left > 1 {
			out = append(out, fmt.Sprintf("  - and %d more, with --verbose", len(s.List)-i))
			break
		}
		out = append(out, "  - "+strings.Join(lines, "\n    "))
		most -= len(lines) - 1
	}
	if len(out) == 1 {
		return nil
	}
	return out
}

// room is how many characters are left of a line behind so many; practically unlimited where no width is known.
func (t Terminal) room(behind int) int {
	if t.Width == 0 {
		// Any width will do for a file, so nothing is cut there.
		return 1 << 20
	}
	return max(t.Width-behind, 10)
}

// fit cuts a line to the width of the terminal.
func (t Terminal) fit(line string) string { return words.Cut(line, t.room(0)) }

// folded is a command in lines that a shell joins again. It is not cut, since it is there to be copied.
func folded(argv []string, width int) (out []string) {
	const joint = " \\"
	line := ""
	for i, x := range argv {
		switch word := words.Shell([]string{x}); {
		case i == 0:
			line = word
		case utf8.RuneCountInString(line+" "+word+joint) > width && utf8.RuneCountInString("  "+word) <= width:
			out, line = append(out, line+joint), "  "+word
		default:
			line += " " + word
		}
	}
	return append(out, line)
}

// mark is the sign of a state and a space; "" for a state without a sign.
func mark(s page.State) string {
	return map[page.State]string{page.Good: "✓ ", page.Better: "✓ ", page.Bad: "✗ ", page.Culprit: "✗ ", page.Unsure: "? "}[s]
}

// paint gives a text the colour of a state (the codes of ECMA-48) where colours are wanted.
func (t Terminal) paint(text string, s page.State) string {
	return t.code(text, map[page.State]string{page.Good: "32", page.Better: "36", page.Bad: "31;1", page.Culprit: "31;1", page.Unsure: "33", page.Other: "35"}[s])
}

// bold, like dim and paint, leaves a text as it is where there are no colours.
func (t Terminal) bold(text string) string { return t.code(text, "1") }

func (t Terminal) dim(text string) string { return t.code(text, "2") }

func (t Terminal) code(text, code string) string {
	if !t.Colour || code == "" || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// link is a text that opens an address (OSC 8). A terminal that does not know that shows the text alone.
func (t Terminal) link(text, address string) string {
	if !t.Colour || address == "" {
		return text
	}
	return "\x1b]8;;" + address + "\x1b\\" + text + "\x1b]8;;\x1b\\"
}

// section is a section without its title; "" where text has nothing to show of it.
func (t Terminal) section(s page.Section) string {
	var b strings.Builder
	shown := slices.DeleteFunc(slices.Clone(s.Tables), func(x page.Table) bool { return x.Detail })
	for _, line := range t.rows(s.Facts, 0) {
		b.WriteString(line + "\n")
	}
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
	for _, x := range s.List {
		fmt.Fprintf(&b, "  - %s\n", strings.ReplaceAll(x, "\n", "\n    "))
	}
	return b.String()
}

// rows are rows whose names stand in a column at least `width` characters wide.
func (t Terminal) rows(all []page.Row, width int) (out []string) {
	for _, r := range all {
		width = max(width, utf8.RuneCountInString(r.Name))
	}
	for i, r := range all {
		out = append(out, t.row(r, named(all, i), width, len(r.Lines), false)...)
	}
	return out
}

// cellMost bounds the cells of all columns but the last one: a long cell would push the others off the screen.
const cellMost = 48

// table writes a table in columns, one row a line. Colours are added once the columns stand, since they have no width.
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
	// Widths are those of the rows that are shown: a long cell further down must not stretch them.
	for n, cells := range lines {
		line := " "
		for k, c := range cells {
			line += " " + pad(c, widths[min(k, last)], x.Numeric(k)) + " "
		}
		line = t.fit(strings.TrimRight(line, " "))
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

// fitting drops the last columns of a table until it fits the width; three always stay.
func (t Terminal) fitting(x page.Table) page.Table {
	const least = 3 // columns
	// Columns stand in the order of their weight, so the last one is missed least.
	for ; len(x.Columns) > least; x.Columns = x.Columns[:len(x.Columns)-1] {
		wide := 0
		for k, name := range x.Columns {
			most := utf8.RuneCountInString(name)
			for _, row := range x.Rows {
				if k < len(row) {
					most = max(most, utf8.RuneCountInString(row[k]))
				}
			}
			wide += most + 2
		}
		if wide <= t.room(0) {
			break
		}
	}
	x.Rows = slices.Clone(x.Rows)
	for i, row := range x.Rows {
		x.Rows[i] = row[:min(len(row), len(x.Columns))]
	}
	return x
}

// pad fills a text up to a width in characters, on its left for numbers (right).
func pad(s string, width int, right bool) string {
	space := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
	if right {
		return space + s
	}
	return s + space
}
