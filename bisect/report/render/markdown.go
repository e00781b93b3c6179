package render

import (
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"

	"github.com/kbisect/kbisect/bisect/report/page"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// MarkdownLimit is how long a comment on GitHub may be (65,536 characters), with a little room.
const MarkdownLimit = 65000

const mostRows = 40 // of a table in Markdown where there is room

// Markdown writes a page for a pull request, in at most limit bytes; 0 is no limit. Cards come first, then the
// commands, then the sections: what comes later is cut first. A table that does not fit loses rows, and a section that
// still does not fit is named at the end. If not even the first card fits, nothing is written, since half an answer
// misleads. The error is that of w.
func Markdown(w io.Writer, p page.Page, limit int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### kbisect: %s\n", escaped(strings.ReplaceAll(p.Result, "-", " ")))
	end := ""
	if p.Session != "" {
		end = fmt.Sprintf("\n---\nkbisect, session %s\n", escaped(p.Session))
	}
	for i, c := range p.Cards {
		text := markdownCard(c)
		// The end is short and says which session this is: it always has its place.
		if limit > 0 && b.Len()+len(text)+len(end) > limit {
			if i == 0 {
				return nil
			}
			fmt.Fprintf(&b, "\n%d more culprits\n", len(p.Cards)-i)
			break
		}
		b.WriteString(text)
	}
	if text := markdownEnd(p); limit == 0 || b.Len()+len(text)+len(end) <= limit {
		b.WriteString(text)
	}
	// A section that is too long is written again with as many rows as fit; room is for the names of those that do not.
	const room = 300
	var missing []string
	for _, s := range p.Sections {
		text := markdownSection(s, mostRows)
		if space := limit - b.Len() - len(end) - room; limit > 0 && len(text) > space {
			if text = markdownSection(s, max(1, space/rowBytes)); len(text) > space {
				missing = append(missing, s.Title)
				continue
			}
		}
		b.WriteString(text)
	}
	if more := fmt.Sprintf("\nToo long for here, and in the HTML report: %s.\n", escaped(words.Cut(strings.Join(missing, ", "), 200))); len(missing) > 0 && (limit == 0 || b.Len()+len(more)+len(end) <= limit) {
		b.WriteString(more)
	}
	b.WriteString(end)
	_, err := io.WriteString(w, b.String())
	return err
}

// markdownCard is one answer: what was found in bold, and its rows as a list.
func markdownCard(c page.Card) string {
	var b strings.Builder
	head := mark(c.State) + c.Head
	if c.Title != "" {
		head = c.Title + ": " + head
	}
	fmt.Fprintf(&b, "\n**%s**\n\n", escaped(words.Cut(head, 600)))
	return b.String() + markdownRows(c.Rows)
}

// markdownRows are rows as a list, with their lines of code below.
func markdownRows(rows []page.Row) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "- **%s:** %s", escaped(r.Name), escaped(mark(r.State)+words.Cut(r.Text, 600)))
		switch {
		case r.Link != "":
			fmt.Fprintf(&b, " [%s](%s)", escaped(r.ID), r.Link)
		case r.ID != "":
			b.WriteString(" " + escaped(r.ID))
		}
		// A setting is copied from here, so nothing in it may be cut.
		if r.Copy != "" {
			b.WriteString(" " + coded(r.Copy))
		}
		b.WriteString("\n")
		if len(r.Lines) > 0 {
			var code strings.Builder
			for _, l := range r.Lines {
				code.WriteString(words.Cut(l.Text, 240) + "\n")
			}
			for line := range strings.Lines(fenced("diff", code.String())) {
				b.WriteString("  " + line)
			}
		}
	}
	return b.String()
}

// coded is a text on one line in the font of code, with a fence longer than any run of backquotes in it.
// CommonMark has no escapes inside a code span (spec 0.31, section 6.1).
func coded(s string) string {
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + " " + s + " " + fence
}

// markdownEnd is what to type next, as a block that can be copied, and what the job took.
func markdownEnd(p page.Page) string {
	var b strings.Builder
	for _, c := range p.Next {
		b.WriteString(c.Line())
		if c.Why != "" {
			b.WriteString("    # " + c.Why)
		}
		b.WriteString("\n")
	}
	out := ""
	if b.Len() > 0 {
		out = "\n" + fenced("sh", b.String())
	}
	if p.Totals != "" {
		out += "\n" + escaped(p.Totals) + "\n"
	}
	return out
}

// rowBytes is about the most that one row of a table takes; what fits is worked out from it.
const rowBytes = 700

// markdownSection is a section with at most `rows` rows of each table.
func markdownSection(s page.Section, rows int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n#### %s\n", escaped(words.Cut(s.Title, 200)))
	if len(s.Facts) > 0 {
		b.WriteString("\n")
	}
	b.WriteString(markdownRows(s.Facts))
	if len(s.Charts) == 0 && s.Words != "" { // else they explain the pictures, which Markdown does not show
		fmt.Fprintf(&b, "\n%s\n", escaped(s.Words))
	}
	if s.Missing != "" {
		fmt.Fprintf(&b, "\n%s\n", escaped(s.Missing))
	}
	if s.Diff != nil {
		b.WriteString(markdownDiff(s.Diff))
	}
	if len(s.List) > 0 {
		b.WriteString("\n")
	}
	for _, x := range s.List {
		fmt.Fprintf(&b, "- %s\n", escaped(x))
	}
	for _, t := range s.Tables {
		b.WriteString(markdownTable(t, rows))
	}
	for _, o := range s.Output {
		fmt.Fprintf(&b, "\n%s\n\n%s", escaped(o.Title), fenced("", o.Text))
	}
	return b.String()
}

// markdownTable writes a table: a long one keeps its beginning, and one that stands behind a picture is folded.
func markdownTable(t page.Table, most int) string {
	var b strings.Builder
	// GitHub shows these elements of HTML and folds them; elsewhere the table just stands there.
	if t.Detail {
		fmt.Fprintf(&b, "\n<details><summary>%s</summary>\n\n", inHTML(t.Title))
	} else {
		fmt.Fprintf(&b, "\n**%s**\n\n", escaped(t.Title))
	}
	rule := "|"
	for i, c := range t.Columns {
		fmt.Fprintf(&b, "| %s ", escaped(c))
		if t.Numeric(i) {
			rule += "---:|"
		} else {
			rule += "---|"
		}
	}
	fmt.Fprintf(&b, "|\n%s\n", rule)
	shown, left := t.Bounded(most)
	for _, i := range shown {
		row := t.Rows[i]
		for _, cell := range row {
			fmt.Fprintf(&b, "| %s ", escaped(words.Cut(cell, 160)))
		}
		b.WriteString("|\n")
	}
	if left > 0 {
		fmt.Fprintf(&b, "\n%d more are not shown\n", left)
	}
	for _, n := range t.Notes {
		fmt.Fprintf(&b, "\n%s\n", escaped(n))
	}
	if t.Detail {
		b.WriteString("\n</details>\n")
	}
	return b.String()
}

// markdownDiff is the beginning of a diff. Guilty lines say so in words, as a fence has no colours of its own.
func markdownDiff(d *page.Diff) string {
	var b strings.Builder
	// A comment is read next to the diff of the pull request itself.
	const most = 150
	for i, l := range d.Lines {
		if i == most {
			fmt.Fprintf(&b, "… and %d more lines\n", len(d.Lines)+d.Cut-most)
			break
		}
		b.WriteString(words.Cut(l.Text, 240))
		if l.Role == "culprit" {
			b.WriteString("    ◀ guilty")
		}
		b.WriteString("\n")
	}
	return "\n" + fenced("diff", b.String())
}

// fenced is a block of code, with a fence that nothing in it can end.
func fenced(language, text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + strings.TrimSuffix(text, "\n") + "\n" + fence + "\n"
}

// inHTML is a text inside an element of HTML, where a backslash would be shown: it escapes by entities.
func inHTML(s string) string {
	marked := html.EscapeString(reference.ReplaceAllString(s, "$0\x00"))
	return strings.NewReplacer("[", "&#91;", "\x00", "<!-- -->").Replace(marked)
}

// reference matches what GitHub turns into links only after it has read the Markdown, so that a backslash does not
// help: people, issues and addresses.
var reference = regexp.MustCompile(`@|#|(?i:\bGH-|:/|\bwww\.)`)

// escaped makes Markdown show a text literally: no markup, HTML, images, mentions or links. An empty comment breaks up
// what GitHub would turn into a link.
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch r {
		case '&':
			b.WriteString("&amp;")
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '\\', '`', '*', '_', '[', ']', '!', '|', '~', '$':
			b.WriteRune('\\')
			b.WriteRune(r)
		// A line feed would end the row of a table or the item of a list.
		case '\n', '\r':
			b.WriteString(" ")
		default:
			b.WriteRune(r)
		}
	}
	return reference.ReplaceAllString(strings.TrimSpace(b.String()), "$0<!-- -->")
}
