package kernels

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/kernels/plainfile"
	"github.com/kbisect/kbisect/kernels/protocol"
)

// maxDeps is the largest number of paths in one dependency file.
const maxDeps = 1 << 16

// Deps reads a dependency file as make does, `target : prerequisite ...` with \ before
// line breaks, and returns the prerequisites of all rules, sorted and without duplicates.
func Deps(data []byte) ([]string, error) {
	if len(data) > plainfile.Most {
		return nil, fmt.Errorf("dependency file has %d bytes; at most %d are read", len(data), plainfile.Most)
	}
	var out []string
	text := bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("\\\n"), []byte(" "))
	for raw := range bytes.Lines(text) {
		words, colon := depWords(strings.TrimSuffix(string(raw), "\n"))
		if len(words) == 0 {
			continue
		}
		if colon < 0 {
			return nil, fmt.Errorf("dependency file: invalid rule %q", protocol.Plain(string(raw), 80))
		}
		out = append(out, words[colon:]...)
		if len(out) > maxDeps {
			return nil, fmt.Errorf("dependency file lists more than %d paths", maxDeps)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// depWords splits one rule into words; colon is the number of targets, or -1 without a
// colon. As in make, a backslash escapes a space, #, : or backslash, and $$ is a dollar.
func depWords(line string) (words []string, colon int) {
	colon = -1
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	for i := 0; i < len(line); i++ {
		next := byte(0)
		if i+1 < len(line) {
			next = line[i+1]
		}
		switch c := line[i]; {
		case c == '\\' && strings.IndexByte(" #:\\", next) >= 0 && next != 0, c == '$' && next == '$':
			word.WriteByte(next)
			i++
		case c == ' ' || c == '\t':
			end()
		case c == '#' && word.Len() == 0:
			return words, colon
		case c == ':' && colon < 0 && (next == ' ' || next == '\t' || next == 0):
			end()
			colon = len(words)
		default:
			word.WriteByte(c)
		}
	}
	end()
	return words, colon
}

// Inputs are the prerequisites of a build that ran in dir which lie below root, relative to it with slashes. The others
// are headers of the system.
func Inputs(root, dir string, deps []string) (inside []string) {
	for _, d := range deps {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		if rel, err := filepath.Rel(root, d); err == nil && filepath.IsLocal(rel) {
			inside = append(inside, filepath.ToSlash(rel))
		}
	}
	return inside
}

// maxIncluded is the largest number of files that FollowIncludes returns.
const maxIncluded = 100

// FollowIncludes returns files and everything they include, directly or indirectly.
// find resolves an included name to files of the project; angled means <name>.
func FollowIncludes(files []string, read func(name string) []byte, find func(from, name string, angled bool) []string) []string {
	all := slices.Clone(files)
	for i := 0; i < len(all) && len(all) < maxIncluded; i++ {
		for _, m := range includeLine.FindAllSubmatch(read(all[i]), -1) {
			for _, file := range find(all[i], string(m[2]), m[1][0] == '<') {
				if !slices.Contains(all, file) {
					all = append(all, file)
				}
			}
		}
	}
	return all
}

var includeLine = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]`)
