package report

import (
	"fmt"
	"strings"
)

// Markdown is a gate as a table in at most limit bytes: what is worse comes first, and what is left out is
// said. It is written to be appended to a page.
func (g Gate) Markdown(limit int) string {
	head := fmt.Sprintf("### kbisect: %s\n\n%s\n\n", strings.ReplaceAll(g.Result, "-", " "), escapeMarkdown(g.Verdict))
	head += fmt.Sprintf("| | commit | |\n|---|---|---|\n| merge base with %s | `%s` | %s |\n| HEAD | `%s` | %s |\n",
		escapeMarkdown(g.Into), short(g.Base.Commit), escapeMarkdown(cut(g.Base.Subject, 80)), short(g.Head.Commit), escapeMarkdown(cut(g.Head.Subject, 80)))
	tail := g.markdownTail()
	table := g.markdownTable(limit - len(head) - len(tail) - 100)
	if out := head + table + tail; len(out) <= limit {
		return out
	}
	if len(head) <= limit {
		return head
	}
	return ""
}

// markdownTable has a row for each number, as many as there is room for.
func (g Gate) markdownTable(room int) string {
	if len(g.Contrasts) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n| verdict | of | base | HEAD | HEAD / base |\n|---|---|---|---|---|\n")
	left := len(g.Contrasts)
	for _, result := range []string{GateRegression, GateOpen, GateAccepted, GateImprovement, GatePass} {
		for _, x := range g.with(result) {
			word, why := g.line(x)
			if result == GateRegression {
				word = "**" + word + "**"
			}
			row := fmt.Sprintf("| %s | %s | %s | %s | %s |\n", word, escapeMarkdown(x.Name()), escapeMarkdown(x.A.middle(x.Unit)), escapeMarkdown(x.B.middle(x.Unit)), escapeMarkdown(why))
			if b.Len()+len(row) > room {
				fmt.Fprintf(&b, "\n%d more are not shown: there is no room.\n", left)
				return b.String()
			}
			b.WriteString(row)
			left--
		}
	}
	return b.String()
}

// markdownTail tells of the culprit and of the terms.
func (g Gate) markdownTail() string {
	var b strings.Builder
	switch {
	case g.Culprit != nil:
		fmt.Fprintf(&b, "\n**Culprit:** %s\n\n- %s (%s)\n", escapeMarkdown(g.Culprit.sentence()), escapeMarkdown(cut(g.Culprit.Subject, 120)), escapeMarkdown(g.Culprit.Author))
		for i, x := range g.Culprit.Places {
			if i == 5 {
				break
			}
			fmt.Fprintf(&b, "- `%s`\n", strings.ReplaceAll(printable(x.String()), "`", "'"))
		}
	case g.Search != nil:
		fmt.Fprintf(&b, "\nNo commit is named: %s\n", escapeMarkdown(cut(g.Search.Why, 400)))
	}
	if g.Error != nil {
		fmt.Fprintf(&b, "\n%s\n", escapeMarkdown(cut(*g.Error, 1000)))
	}
	if g.Pairs > 0 {
		fmt.Fprintf(&b, "\n%s of fresh launches in turn on one machine; looked for %s and more, error %s over all numbers.\n", count(g.Pairs, "pair"), percent(g.Effect), percent(g.ErrorRate))
	}
	for i, w := range g.Warnings {
		if i == 10 {
			break
		}
		fmt.Fprintf(&b, "- note: %s\n", escapeMarkdown(cut(w, 300)))
	}
	return b.String()
}

// escapeMarkdown keeps a text from being anything but text, on one line of a table.
func escapeMarkdown(s string) string {
	var b strings.Builder
	for _, r := range printable(s) {
		switch {
		case r == '&':
			b.WriteString("&amp;")
		case r == '<':
			b.WriteString("&lt;")
		case r == '@': // would notify whoever has that name
			b.WriteString("&#64;")
		case strings.ContainsRune("\\`*_{}[]|~#!>", r):
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
