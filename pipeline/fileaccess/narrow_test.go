package fileaccess

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/find"
	"github.com/kbisect/kbisect/bisect/search"
	"github.com/kbisect/kbisect/pipeline/source"
)

// memory is a history in memory: what each commit has in each file.
type memory struct {
	commits  []bisect.Commit
	index    map[string]int
	content  map[string]map[string]int // by commit and file
	compared int                       // pairs of commits
}

func newMemory() *memory {
	return &memory{index: map[string]int{}, content: map[string]map[string]int{"good": {}}}
}

// commit adds a commit that writes one file. Of a merge, what the first parent has of a file counts.
func (m *memory) commit(file string, text int, parents ...string) string {
	x := bisect.Commit{ID: fmt.Sprintf("c%06d", len(m.commits)), Parents: parents}
	files := map[string]int{}
	for _, p := range slices.Backward(parents) {
		for name, at := range m.content[p] {
			files[name] = at
		}
		if k, known := m.index[p]; known {
			x.InRange = append(x.InRange, k)
		}
	}
	slices.Sort(x.InRange)
	files[file] = text
	m.content[x.ID], m.index[x.ID], m.commits = files, len(m.commits), append(m.commits, x)
	return x.ID
}

func (m *memory) changes(from, to string) (out []source.TreeChange, err error) {
	m.compared++
	names := map[string]bool{}
	for _, id := range []string{from, to} {
		for name := range m.content[id] {
			names[name] = true
		}
	}
	for name := range names {
		if m.content[from][name] != m.content[to][name] {
			e := &source.Entry{Mode: source.ModeFile}
			out = append(out, source.TreeChange{Path: name, Folder: ".", Old: e, New: e})
		}
	}
	return out, nil
}

func (m *memory) comparer(each bool) *comparer {
	return newComparer(context.Background(), m.commits, each, m.changes)
}

// line is a history without forks, whose commits write the files that write names, each another text.
func line(n int, write func(i int) string) *memory {
	m, tip := newMemory(), "good"
	for i := range n {
		tip = m.commit(write(i), i+1, tip)
	}
	return m
}

// TestDiffersWhereItPays: few pairs of commits are compared where few commits count, and next to none where it would not pay.
func TestDiffersWhereItPays(t *testing.T) {
	m := line(100_000, func(i int) string {
		if i == 70_000 {
			return "read"
		}
		return "other"
	})
	c := m.comparer(false)
	out := c.differs([]string{"read"}, 60)
	for i, d := range out {
		if len(d) != 1 || (d[0] == bisect.Same) != (i != 70_000) {
			t.Fatalf("commit %d: %v", i, d)
		}
	}
	if out == nil || m.compared > 60 {
		t.Errorf("%d pairs were compared: %v", m.compared, out != nil)
	}
	before := m.compared
	if c.differs([]string{"read", "new"}, 60); m.compared != before {
		t.Errorf("%d pairs were compared again", m.compared-before)
	}
	for _, every := range []int{1, 20} {
		m := line(3000, func(i int) string {
			if i%every == 0 {
				return "read"
			}
			return "other"
		})
		c := m.comparer(false)
		for range 8 { // pairs that are known count like others
			if out := c.differs([]string{"read"}, 30); out != nil || m.compared > 200 {
				t.Errorf("one in %d: %d pairs were compared: %v", every, m.compared, out != nil)
			}
		}
		if out := m.comparer(true).differs([]string{"read"}, 30); out != nil {
			t.Errorf("one in %d, if each counts: %d pairs were compared", every, m.compared)
		}
		if out := c.differs([]string{"read"}, math.MaxInt32); out == nil || (out[1][0] == bisect.Same) != (every > 1) {
			t.Errorf("one in %d: %v", every, out)
		}
	}
}

// TestDiffersIfEachCommitCounts: in a range that is not too large each is compared, whatever launches take, since one that is
// missed would not be named.
func TestDiffersIfEachCommitCounts(t *testing.T) {
	m := line(600, func(i int) string { return []string{"read", "other", "another"}[i%3] })
	if m.comparer(false).differs([]string{"read"}, 1) != nil {
		t.Error("it paid")
	}
	for i, d := range m.comparer(true).differs([]string{"read"}, 1) {
		if (d[0] == bisect.Same) != (i%3 > 0) {
			t.Errorf("commit %d: %v", i, d)
		}
	}
	if m.compared < 600 {
		t.Errorf("%d pairs were compared", m.compared)
	}
}

// TestSkippedLinesMisleadNobody: in histories with forks, merges, and changes that are taken back and made again, the culprit breaks
// the program. Where lines are skipped it is found as often as where every commit is compared, no more often what was learned is
// contradicted, and from the culprit on to the bad end the program is broken along some line at least as often.
func TestSkippedLinesMisleadNobody(t *testing.T) {
	found, lasting, misread := map[bool]int{}, map[bool]int{}, map[bool]int{}
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 0))
		m := newMemory()
		tips := []string{"good"}
		for range 20 + rng.IntN(60) {
			k := rng.IntN(len(tips))
			at, file, text := tips[k], "other", len(m.commits)+1
			if rng.IntN(6) == 0 {
				file, text = "read", rng.IntN(2)
			}
			switch x := rng.IntN(8); {
			case x == 0 && len(tips) < 3:
				tips = append(tips, m.commit(file, text, at))
			case x == 1 && len(tips) > 1:
				other := (k + 1) % len(tips)
				tips[k] = m.commit("other", text, at, tips[other])
				tips = slices.Delete(tips, other, other+1)
			default:
				tips[k] = m.commit(file, text, at)
			}
		}
		end := tips[0]
		for _, other := range tips[1:] {
			end = m.commit("other", len(m.commits)+1, end, other)
		}
		if m.content[end]["read"] == 0 {
			end = m.commit("read", 1, end)
		}
		broken := func(id string) bool { return m.content[id]["read"] == 1 }
		lasts := map[string]bool{end: true} // broken from there on, along some line
		for _, c := range slices.Backward(m.commits) {
			if lasts[c.ID] {
				for _, p := range c.Parents {
					lasts[p] = lasts[p] || broken(p)
				}
			}
		}
		for _, each := range []bool{true, false} {
			s := &search.Search{Commits: m.commits, Good: bisect.Candidate{Commit: "good"}, Differs: m.comparer(each).differs}
			s.Sampler = bisect.SamplerFunc(func(_ context.Context, r bisect.Request) (bisect.Outcome, error) {
				o := bisect.Outcome{Class: bisect.OK, Wall: 1, Opened: []string{"read"}}
				if broken(r.Candidate.Commit) {
					o.Class, o.Phase = bisect.Crash, "run"
				}
				return o, nil
			})
			f, err := find.Culprits(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if f.Misread {
				misread[each]++
			}
			if f.Result != bisect.Found {
				continue
			}
			found[each]++
			if len(f.Culprits) != 1 || !broken(f.Culprits[0].Commit) || slices.ContainsFunc(f.Culprits[0].Parents, broken) {
				t.Errorf("seed %d, each commit compared %v: %v", seed, each, f.Culprits)
			} else if lasts[f.Culprits[0].Commit] {
				lasting[each]++
			}
		}
	}
	t.Logf("found %v, broken until the bad end %v, contradicted %v; true: each commit was compared", found, lasting, misread)
	if found[false] < found[true] || lasting[false] < lasting[true] || misread[false] > misread[true] {
		t.Error("skipping lines misleads")
	}
}
