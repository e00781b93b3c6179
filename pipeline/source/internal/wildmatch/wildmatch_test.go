package wildmatch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// pieces are what patterns and paths are made of; those of paths come from the same letters, so that many match.
var (
	patternPieces = []string{
		"a", "b", "a", "b", "/", "/", "*", "*", "**", "/**", "**/", "/**/", "***", "?", `\a`, `\*`, `\\`, `\/`, "-", "]", "A", "0", "_", "é",
		"[ab]", "[!a]", "[^b]", "[a-c]", "[c-a]", "[]a]", "[!]a]", "[a-]", "[-a]", `[\]]`, `[a\-c]`, `[\\]`, "[!/]", "[/]", "[a", "[", "[]", "[[]",
		"[[:alpha:]]", "[[:digit:]x]", "[![:upper:]]", "[[:punct:]]", "[[:nosuch:]]", "[[:alpha:]-z]", "[a-[:digit:]]", "[[:xdigit:]", "[[.a.]]", "[[:]", "[[::]]", "[[:a]", "[[:a]b:]]", "[[:",
	}
	pathPieces = []string{"a", "b", "a", "b", "c", "/", "/", "/", "*", "?", `\`, "[", "]", "-", "A", "0", "_", "é", "x", "!", "^", ":"}
)

func draw(rng *rand.Rand, pieces []string, most int) string {
	var b strings.Builder
	for range 1 + rng.IntN(most) {
		b.WriteString(pieces[rng.IntN(len(pieces))])
	}
	return b.String()
}

// afterLiteral matches as git does for attributes: what stands before the first special character by itself.
func afterLiteral(pattern, path string) bool {
	at := strings.IndexAny(pattern, `*?[\`)
	if at < 0 {
		return pattern == path
	}
	rest, ok := strings.CutPrefix(path, pattern[:at])
	return ok && Match(pattern[at:], rest)
}

// Any pattern matches what git matches with it: it is the pattern of an attribute, which git tells for each path.
func TestMatchEqualsGit(t *testing.T) {
	r := gittest.New(t)
	rng := rand.New(rand.NewPCG(3, 14))
	var paths []string
	for len(paths) < 400 {
		p := draw(rng, pathPieces, 7)
		if strings.Trim(p, "/") == p && !strings.Contains(p, "//") {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	matched := 0
	for range 8 {
		var patterns, lines []string
		for len(patterns) < 150 {
			p := draw(rng, patternPieces, 6)
			if strings.Trim(p, "/") != p || strings.Contains(p, "//") || p == "" {
				continue // folders, and what no path can match
			}
			lines = append(lines, fmt.Sprintf("/%s p%d", p, len(patterns)))
			patterns = append(patterns, p)
		}
		r.Write(t, ".gitattributes", strings.Join(lines, "\n")+"\n")
		out := strings.Split(r.Pipe(t, strings.Join(paths, "\x00")+"\x00", "check-attr", "-z", "--stdin", "--all"), "\x00")
		want := map[[2]string]bool{}
		for i := 0; i+2 < len(out); i += 3 {
			var n int
			if _, err := fmt.Sscanf(out[i+1], "p%d", &n); err != nil {
				t.Fatal(err)
			}
			want[[2]string{patterns[n], out[i]}] = true
		}
		matched += len(want)
		for _, pattern := range patterns {
			for _, path := range paths {
				if got := afterLiteral(pattern, path); got != want[[2]string{pattern, path}] {
					t.Errorf("pattern %q, path %q: %v, git says %v", pattern, path, got, !got)
				}
			}
		}
	}
	if matched < 1000 {
		t.Errorf("only %d matches were compared", matched)
	}
}

// Each named class holds what it does in git, over all bytes that a path can have.
func TestNamedClassesEqualGit(t *testing.T) {
	r := gittest.New(t)
	names := []string{"alpha", "digit", "alnum", "lower", "upper", "space", "blank", "punct", "cntrl", "graph", "print", "xdigit", "nosuch", ""}
	var lines, paths []string
	for i, name := range names {
		lines = append(lines, fmt.Sprintf("/x[[:%s:]] p%d", name, i))
	}
	for c := 1; c < 256; c++ {
		if c != '/' {
			paths = append(paths, "x"+string([]byte{byte(c)}))
		}
	}
	r.Write(t, ".gitattributes", strings.Join(lines, "\n")+"\n")
	out := strings.Split(r.Pipe(t, strings.Join(paths, "\x00")+"\x00", "check-attr", "-z", "--stdin", "--all"), "\x00")
	want := map[string]bool{}
	for i := 0; i+2 < len(out); i += 3 {
		want[out[i+1]+out[i]] = true
	}
	for i, name := range names {
		for _, path := range paths {
			if got := Match("x[[:"+name+":]]", path); got != want[fmt.Sprintf("p%d%s", i, path)] {
				t.Errorf("class %q, path %q: %v", name, path, got)
			}
		}
	}
}

// A pattern of many stars is decided in steps that grow with the product of the lengths: tried one after the other,
// the places of the stars below are more than anybody waits for.
func TestManyStars(t *testing.T) {
	long := strings.Repeat("a", 100)
	for _, part := range []string{"*a", "**a", "a*", "[ab]*", "?*"} {
		if pattern := strings.Repeat(part, 20) + "b"; Match(pattern, long) || !Match(pattern, long+"b") {
			t.Errorf("pattern %q", pattern)
		}
	}
	if folders := strings.Repeat("a/", 100); Match(strings.Repeat("**/a/", 20)+"b", folders) || !Match(strings.Repeat("**/a/", 20)+"b", folders+"b") {
		t.Error("many folders")
	}
}

func FuzzMatch(f *testing.F) {
	for _, p := range patternPieces {
		f.Add(p, "a/b")
		f.Add(p, "a")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if Match(pattern, text) && !strings.ContainsAny(pattern, `*?[\`) && pattern != text {
			t.Errorf("%q matches %q", pattern, text)
		}
	})
}
