package report

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// MarkdownLimit is how long a comment on GitHub may be, in characters, with a little room.
const MarkdownLimit = 65000

const mostRows = 40 // of a table in Markdown

// Markdown writes a page for a pull request, in at most limit bytes; 0 is no limit. Sections that do
// not fit are named at the end.
func Markdown(w io.Writer, p Page, limit int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n", escaped(cut(p.Headline, 600)))
	for i, f := range p.Facts {
		if limit > 0 && b.Len() > limit/3 {
			fmt.Fprintf(&b, "- and %d more\n", len(p.Facts)-i)
			break
		}
		fmt.Fprintf(&b, "- **%s:** %s\n", escaped(f.Name), escaped(cut(f.Text, 600)))
	}
	var figures []string
	for _, f := range p.Figures {
		figures = append(figures, escaped(f.Text+" "+f.Name))
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Join(figures, " · "))
	end := fmt.Sprintf("\n---\nkbisect, session %s\n", escaped(p.Session))
	const room = 1500 // for the names of what did not fit
	var missing []string
	for _, s := range p.Sections {
		text := s.markdown()
		if limit > 0 && b.Len()+len(text)+len(end)+room > limit {
			missing = append(missing, s.Title)
			continue
		}
		b.WriteString(text)
	}
	if len(missing) > 0 {
		fmt.Fprintf(&b, "\nToo long for here, and in the HTML report: %s.\n", escaped(strings.Join(missing, ", ")))
	}
	b.WriteString(end)
	_, err := io.WriteString(w, b.String())
	return err
}

func (s Section) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### %s\n", escaped(s.Title))
	for _, x := range []string{s.words(), s.Missing} {
		if x != "" {
			fmt.Fprintf(&b, "\n%s\n", escaped(x))
		}
	}
	b.WriteString(s.bars())
	if s.Diff != nil {
		b.WriteString(s.Diff.markdown())
	}
	if len(s.List) > 0 {
		b.WriteString("\n")
	}
	for _, x := range s.List {
		fmt.Fprintf(&b, "- %s\n", escaped(x))
	}
	for _, t := range s.Tables {
		b.WriteString(t.markdown())
	}
	for _, o := range s.Output {
		fmt.Fprintf(&b, "\n%s\n\n%s", escaped(o.Title), fenced("", o.Text))
	}
	return b.String()
}

// words are those that do not speak of pictures.
func (s Section) words() string {
	if len(s.Charts) > 0 {
		return ""
	}
	return s.Words
}

// bars draws in text what the time was spent on.
func (s Section) bars() string {
	var b strings.Builder
	for _, c := range s.Charts {
		d, ok := c.Data.(costChart)
		if !ok {
			continue
		}
		for _, p := range d.Phases {
			fmt.Fprintf(&b, "%-12s %5.1f %% %s\n", cut(p.Phase, 12), 100*p.Share, strings.Repeat("█", int(40*p.Share+0.5)))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n" + fenced("", b.String())
}

// markdown writes a table; a long one keeps its beginning, one behind a picture is folded.
func (t Table) markdown() string {
	var b strings.Builder
	if t.Behind {
		fmt.Fprintf(&b, "\n<details><summary>%s</summary>\n\n", inHTML(t.Title))
	} else {
		fmt.Fprintf(&b, "\n**%s**\n\n", escaped(t.Title))
	}
	rule := "|"
	for i, c := range t.Columns {
		fmt.Fprintf(&b, "| %s ", escaped(c))
		rule += map[bool]string{true: "---:|", false: "---|"}[isRight(t, i)]
	}
	fmt.Fprintf(&b, "|\n%s\n", rule)
	for i, row := range t.Rows {
		if i == mostRows {
			break
		}
		for _, cell := range row {
			fmt.Fprintf(&b, "| %s ", escaped(cut(cell, 160)))
		}
		b.WriteString("|\n")
	}
	if n := len(t.Rows) - mostRows; n > 0 {
		fmt.Fprintf(&b, "\nand %d more\n", n)
	}
	for _, n := range t.Notes {
		fmt.Fprintf(&b, "\n%s\n", escaped(n))
	}
	if t.Behind {
		b.WriteString("\n</details>\n")
	}
	return b.String()
}

func (d *Diff) markdown() string {
	var b strings.Builder
	const most = 150
	for i, l := range d.Lines {
		if i == most {
			fmt.Fprintf(&b, "… and %d more lines\n", len(d.Lines)+d.Cut-most)
			break
		}
		b.WriteString(cut(l.Text, 240))
		if l.Role == "culprit" {
			b.WriteString("    ◀ guilty")
		}
		b.WriteString("\n")
	}
	return "\n" + fenced("diff", b.String())
}

// fenced is a block of code, with a fence that nothing in it ends.
func fenced(language, text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + strings.TrimSuffix(text, "\n") + "\n" + fence + "\n"
}

// inHTML is a text within an element of HTML, where backslashes would be shown.
func inHTML(s string) string {
	return strings.NewReplacer("[", "&#91;", "@", "@<!-- -->").Replace(html.EscapeString(s))
}

// escaped makes a text that Markdown shows as it is: no markup, no HTML, no pictures from elsewhere,
// and nobody is mentioned.
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
		case '@':
			b.WriteString("@<!-- -->")
		case '\\', '`', '*', '_', '[', ']', '#', '!', '|', '~', '$':
			b.WriteRune('\\')
			b.WriteRune(r)
		case '\n', '\r':
			b.WriteString(" ")
		default:
			b.WriteRune(r)
		}
	}
	return strings.TrimSpace(b.String())
}
