package source

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// resolveRev understands names, ids and abbreviations with ^, ^N, ~N and
// ^{...} behind them. Anything else gives "": git is asked when it is there.
func resolveRev(g *gogit, rev string) (string, error) {
	base, ops := splitRev(rev)
	if base == "" || strings.Contains(base, "@{") || strings.ContainsAny(base, ":?*[\\ ") || strings.Contains(base, "..") {
		return "", nil
	}
	id, err := resolveBase(g, base)
	if err != nil || id == "" {
		return "", err
	}
	for _, op := range ops {
		if id, err = applyOp(g, id, op); err != nil || id == "" {
			return "", err
		}
	}
	return id, nil
}

// splitRev cuts "v1^2~3" into "v1" and {"^2", "~3"}.
func splitRev(rev string) (base string, ops []string) {
	end := strings.IndexAny(rev, "^~")
	if end < 0 {
		return rev, nil
	}
	base, rest := rev[:end], rev[end:]
	for rest != "" {
		next := strings.IndexAny(rest[1:], "^~") + 1
		if next == 0 {
			next = len(rest)
		}
		ops = append(ops, rest[:next])
		rest = rest[next:]
	}
	return base, ops
}

func resolveBase(g *gogit, base string) (string, error) {
	if base == "@" {
		base = "HEAD"
	}
	if isFullID(base) {
		return base, nil
	}
	for _, format := range []string{"%s", "refs/%s", "refs/tags/%s", "refs/heads/%s", "refs/remotes/%s", "refs/remotes/%s/HEAD"} {
		name := fmt.Sprintf(format, base)
		// In the top folder only names such as HEAD and FETCH_HEAD are references.
		if format == "%s" && !strings.HasPrefix(base, "refs/") && base != strings.ToUpper(base) {
			continue
		}
		if id, err := g.ref(name); err == nil && id != "" && strings.Trim(id, "0") != "" {
			return id, nil
		}
	}
	if len(base) < 4 || len(base) > 40 || !isHex(strings.ToLower(base)) {
		return "", nil
	}
	return resolveAbbreviation(g, strings.ToLower(base))
}

// resolveAbbreviation prefers commits and tags, as git does where a commit is
// wanted.
func resolveAbbreviation(g *gogit, prefix string) (string, error) {
	ids, err := g.abbreviated(prefix)
	if err != nil {
		return "", err
	}
	var commits []string
	for _, id := range ids {
		if kind, err := kindOf(g, id); err == nil && (kind == "commit" || kind == "tag") {
			commits = append(commits, id)
		}
	}
	if len(commits) > 1 {
		slices.Sort(commits)
		return "", fmt.Errorf("abbreviation %s is ambiguous: %s\nhint: use more digits", prefix, strings.Join(commits, ", "))
	}
	if len(commits) == 1 {
		return commits[0], nil
	}
	return "", nil
}

func applyOp(o objects, id, op string) (string, error) {
	arg := op[1:]
	if strings.HasPrefix(arg, "{") {
		switch arg {
		case "{}", "{commit}":
			return peel(o, id)
		}
		return "", nil
	}
	id, err := peel(o, id)
	if err != nil {
		return "", err
	}
	n := 1
	if arg != "" {
		if n, err = strconv.Atoi(arg); err != nil || n < 0 {
			return "", nil
		}
	}
	if op[0] == '~' {
		return climb(o, id, n)
	}
	if n == 0 {
		return id, nil
	}
	return parentOf(o, id, n)
}

func climb(o objects, id string, n int) (string, error) {
	for range n {
		next, err := parentOf(o, id, 1)
		if err != nil || next == "" {
			return "", err
		}
		id = next
	}
	return id, nil
}

func parentOf(o objects, id string, n int) (string, error) {
	c, err := readCommit(o, id)
	if err != nil || n > len(c.Parents) {
		return "", err
	}
	return c.Parents[n-1], nil
}

// nearNames picks up to three names that a mistyped one may have meant.
func nearNames(rev string, names []string) []string {
	base, _ := splitRev(rev)
	if base == "" {
		return nil
	}
	type scored struct {
		name string
		dist int
	}
	var near []scored
	seen := map[string]bool{}
	for _, name := range names {
		d := editDistance(strings.ToLower(base), strings.ToLower(name))
		if len(base) >= 3 && strings.Contains(strings.ToLower(name), strings.ToLower(base)) {
			d = min(d, 1)
		}
		if d <= max(1, len(base)/3) && !seen[name] {
			seen[name] = true
			near = append(near, scored{name, d})
		}
	}
	slices.SortFunc(near, func(a, b scored) int {
		if a.dist != b.dist {
			return a.dist - b.dist
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, s := range near[:min(3, len(near))] {
		out = append(out, s.name)
	}
	return out
}

// editDistance is Levenshtein's, on bytes.
func editDistance(a, b string) int {
	if len(a) > 200 || len(b) > 200 {
		return 200
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost++
			}
			diag = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
