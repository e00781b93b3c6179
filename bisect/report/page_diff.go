package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Diff is a unified diff with the lines marked that are to blame.
type Diff struct {
	Lines []DiffLine
	Cut   int // lines that were left out
}

// DiffLine is one line of a diff.
type DiffLine struct {
	Kind     string // file, hunk, add, del, same, note
	Old, New int    // line numbers; 0: none
	Text     string
	Role     string // culprit or carrier, where hunks were searched
}

// mark is a hunk of a finding document: a part of a difference and its role.
type mark struct {
	File  string `json:"file"`
	Start int    `json:"start"`
	End   int    `json:"end"`
	Old   bool   `json:"old"`
	Role  string `json:"role"`
}

func (m mark) where() string {
	switch {
	case m.Start == 0:
		return m.File
	case m.End <= m.Start:
		return fmt.Sprintf("%s:%d", m.File, m.Start)
	}
	return fmt.Sprintf("%s:%d-%d", m.File, m.Start, m.End)
}

// covers reports whether a line is marked. Where lines were replaced the mark names the new ones,
// and those that went away for them stand right before.
func (m mark) covers(l DiffLine, file, oldFile string) bool {
	switch {
	case m.Start == 0:
		return m.File == file || m.File == oldFile
	case m.Old:
		return l.Kind == "del" && (m.File == oldFile || m.File == file) && l.Old >= m.Start && l.Old <= m.End
	}
	return l.Kind == "add" && m.File == file && l.New >= m.Start && l.New <= m.End
}

// mostDiff is how many lines of a diff a page holds.
const mostDiff = 1500

func (p *pager) diff() Section {
	s := Section{ID: "diff", Title: "What the culprit changed"}
	var all []DiffLine
	marked := false
	for _, c := range p.Culprits {
		text := p.in.Diffs[c.Commit]
		if text == "" {
			continue
		}
		if len(p.Culprits) > 1 {
			all = append(all, DiffLine{Kind: "file", Text: printable(p.named(c.Commit))})
		}
		all = append(all, parseDiff(text, c.Hunks)...)
		marked = marked || len(c.Hunks) > 0
	}
	if len(all) == 0 {
		return s
	}
	s.Words = "Against the first parent."
	if marked {
		s.Words += " Lines with a bar and the word “guilty” are those without which the complaint goes away; “carrier” lines are only needed to build."
		s.Tables = []Table{p.hunkTable()}
	}
	s.Diff = boundedDiff(all)
	return s
}

// boundedDiff keeps the beginning, and every marked line with what is around it.
func boundedDiff(all []DiffLine) *Diff {
	if len(all) <= mostDiff {
		return &Diff{Lines: all}
	}
	keep := make([]bool, len(all))
	left := mostDiff
	take := func(from, to int) {
		for i := max(0, from); i < min(to, len(all)) && left > 0; i++ {
			if !keep[i] {
				keep[i], left = true, left-1
			}
		}
	}
	for i, l := range all {
		if l.Role != "" {
			take(i-3, i+4)
		}
	}
	take(0, len(all))
	d := &Diff{Cut: len(all) - (mostDiff - left)}
	for i, l := range all {
		if keep[i] {
			d.Lines = append(d.Lines, l)
		}
	}
	return d
}

var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@`)

// parseDiff reads a unified diff, as git writes it.
func parseDiff(text string, marks []mark) []DiffLine {
	var out []DiffLine
	var file, oldFile string
	oldLine, newLine, inside := 0, 0, false
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		l := DiffLine{Kind: "note", Text: tabbed(line)}
		sign := ""
		if line != "" {
			sign = line[:1]
		}
		switch head := hunkHead.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "diff --git "):
			l.Kind, inside, file, oldFile = "file", false, "", ""
		case head != nil:
			l.Kind, inside = "hunk", true
			oldLine, newLine = number(head[1]), number(head[2])
		case !inside && strings.HasPrefix(line, "--- "):
			oldFile = diffPath(line[4:], "a/")
		case !inside && strings.HasPrefix(line, "+++ "):
			file = diffPath(line[4:], "b/")
		case inside && sign == "+":
			l.Kind, l.New, newLine = "add", newLine, newLine+1
		case inside && sign == "-":
			l.Kind, l.Old, oldLine = "del", oldLine, oldLine+1
		case inside && sign == " ":
			l.Kind, l.Old, l.New, oldLine, newLine = "same", oldLine, newLine, oldLine+1, newLine+1
		}
		if l.Kind == "add" || l.Kind == "del" {
			for _, m := range marks {
				if m.covers(l, file, oldFile) {
					l.Role = m.Role
				}
			}
		}
		out = append(out, l)
	}
	replaced(out)
	return out
}

// replaced marks the removed lines right before marked new ones as what these replaced.
func replaced(lines []DiffLine) {
	for i := len(lines) - 2; i >= 0; i-- {
		next := lines[i+1]
		if lines[i].Kind == "del" && lines[i].Role == "" && next.Role != "" && (next.Kind == "add" || next.Kind == "del") {
			lines[i].Role = next.Role
		}
	}
}

// diffPath is the path in a line that begins with --- or +++.
func diffPath(s, prefix string) string {
	s, _, _ = strings.Cut(s, "\t")
	if q, err := strconv.Unquote(s); err == nil {
		s = q
	}
	return strings.TrimPrefix(s, prefix)
}

func number(s string) int {
	n, _ := strconv.Atoi(s) // digits by the pattern; too many of them give 0
	return n
}

func (p *pager) hunkTable() Table {
	t := Table{Title: "Hunks that matter", Columns: []string{"where", "role"}}
	for _, c := range p.Culprits {
		for _, m := range c.Hunks {
			t.Rows = append(t.Rows, []string{m.where(), m.Role})
			t.States = append(t.States, map[string]string{"culprit": "bad", "carrier": "other"}[m.Role])
		}
	}
	return t
}

// tabbed cleans a line of text, and keeps its tabs.
func tabbed(s string) string {
	parts := strings.Split(s, "\t")
	for i := range parts {
		parts[i] = printable(parts[i])
	}
	return strings.Join(parts, "\t")
}

// multiline cleans a text, and keeps its lines.
func multiline(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(tabbed(lines[i]), " ")
	}
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return l == "" }), "\n")
}
