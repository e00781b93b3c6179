package kernels

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/kernels/protocol"
)

// maxDeps bounds the paths of one dependency file.
const maxDeps = 1 << 16

// Deps reads a dependency file as make does, `target : prerequisite ...` with \ at the end of lines,
// and returns the prerequisites of all rules, sorted, each once.
func Deps(data []byte) ([]string, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("dependency file of %d bytes", len(data))
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
			return nil, fmt.Errorf("dependency file: %q is no rule", protocol.Plain(string(raw), 80))
		}
		out = append(out, words[colon:]...)
		if len(out) > maxDeps {
			return nil, fmt.Errorf("dependency file with more than %d paths", maxDeps)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// depWords takes one rule apart; colon is the number of targets, or -1. A backslash keeps the
// meaning of a space, # or : after it, two dollars are one; others stand for themselves.
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

// Inputs sorts the prerequisites of builds in root by whose they are: inside holds paths of the
// export, relative to root with slashes, and outside the headers of the machine, absolute.
func Inputs(root string, deps []string) (inside, outside []string) {
	for _, d := range deps {
		if !filepath.IsAbs(d) {
			d = filepath.Join(root, d)
		}
		rel, err := filepath.Rel(root, filepath.Clean(d))
		if err == nil && filepath.IsLocal(rel) {
			inside = append(inside, path.Clean(filepath.ToSlash(rel)))
		} else {
			outside = append(outside, filepath.Clean(d))
		}
	}
	slices.Sort(inside)
	slices.Sort(outside)
	return slices.Compact(inside), slices.Compact(outside)
}
