package page

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/bisect/sets"
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
	Role     sets.Role // where hunks were searched
}

// guiltyFirst puts files with guilty lines first, then those with lines that are only required to build.
func guiltyFirst(lines []DiffLine) (out []DiffLine) {
	// By rank: guilty, required, all others. Within a rank files stay in the order of git.
	var files [3][]DiffLine
	for len(lines) > 0 {
		end := 1 + slices.IndexFunc(lines[1:], func(l DiffLine) bool { return l.Kind == "file" })
		if end == 0 {
			end = len(lines)
		}
		file, rank := lines[:end], 2
		for _, l := range file {
			if l.Role != "" {
				rank = min(rank, 1)
			}
			if l.Role == sets.Culprit {
				rank = 0
			}
		}
		files[rank], lines = append(files[rank], file...), lines[end:]
	}
	return slices.Concat(files[:]...)
}

// covers reports whether a line is part of a hunk. Where lines were replaced the hunk names the new ones, and those
// that went away for them stand right before: replaced marks them. A hunk without a first line is a whole file, such
// as a binary one or a rename.
func covers(h report.Hunk, l DiffLine, file, oldFile string) bool {
	switch {
	case h.Start == 0:
		return h.File == file || h.File == oldFile
	case h.Old:
		return l.Kind == "del" && (h.File == oldFile || h.File == file) && l.Old >= h.Start && l.Old <= h.End
	}
	return l.Kind == "add" && h.File == file && l.New >= h.Start && l.New <= h.End
}

// mostDiff is how many lines of a diff a page holds.
// With more, browsers take seconds to lay the page out.
const mostDiff = 1500

// boundedDiff keeps every marked line with what is around it, and then the beginning, up to mostDiff lines.
func boundedDiff(all []DiffLine) *Diff {
	if len(all) <= mostDiff {
		return &Diff{Lines: all}
	}
	// Lines that are to blame come first where the diff is too long, with three around them as in any diff.
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

// parseDiff reads a unified diff, as git writes it, and marks the lines of hunks. It keeps every line, whatever it
// holds: what it does not understand is a note. Only the text behind a "@@" counts as lines of a file, so that a
// removed line that begins with "-- " is not a header.
func parseDiff(text string, hunks []report.Hunk) []DiffLine {
	var out []DiffLine
	var file, oldFile string
	oldLine, newLine, inside := 0, 0, false
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		l := DiffLine{Kind: "note", Text: words.Tabbed(line)}
		// An empty line has no sign; some mailers strip the space of an empty line of context.
		sign := ""
		if line != "" {
			sign = line[:1]
		}
		switch head := hunkHead.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "diff --git "):
			l.Kind, inside, file, oldFile = "file", false, "", ""
		case head != nil:
			l.Kind, inside = "hunk", true
			oldLine, newLine = lineNumber(head[1]), lineNumber(head[2])
		// A hunk of a removed line names the old path, which differs where the file was renamed.
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
			for _, h := range hunks {
				if covers(h, l, file, oldFile) {
					l.Role = h.Role
				}
			}
		}
		out = append(out, l)
	}
	// A hunk of new lines names only these, and what they replaced belongs to the same change.
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
	// git quotes paths with unusual characters as C does (core.quotePath).
	if q, err := strconv.Unquote(s); err == nil {
		s = q
	}
	return strings.TrimPrefix(s, prefix)
}

// lineNumber reads digits; 0, which is not a line number, where there are too many.
func lineNumber(s string) int {
	n, _ := strconv.Atoi(s) // digits by the pattern; too many of them give 0
	return n
}
