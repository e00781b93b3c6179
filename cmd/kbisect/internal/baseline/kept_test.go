package baseline

import (
	"io"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/store"
)

// TestImport: a baseline is kept once, and is found again by its id, its revision, or as the newest.
func TestImport(t *testing.T) {
	r := gittest.New(t)
	first, second := r.Commit(t, "first"), r.Commit(t, "second")
	repo, err := source.Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	bring := func(commit string) string {
		t.Helper()
		b := aBaseline()
		b.Commit = commit
		var out strings.Builder
		if err := Import(t.Context(), &out, "devel", repo, b); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if said := bring(first); !strings.Contains(said, "imported as ") || !strings.Contains(said, "only a hint on this machine: ") {
		t.Error(said)
	}
	if said := bring(first); !strings.HasPrefix(said, "already known as ") {
		t.Error(said)
	}
	bring(second)
	st, err := store.Open(store.Dir(repo.CommonDir()), store.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	all, err := List(st)
	if err != nil || len(all) != 2 || !all[0].Imported {
		t.Fatalf("%+v, %v", all, err)
	}
	for name, want := range map[string]string{"": all[0].Commit, "HEAD": second, "main^": first, all[1].Session: all[1].Commit} {
		if b, err := Choose(t.Context(), all, repo, name); err != nil || b.Commit != want {
			t.Errorf("%q: %s, %v", name, b.Commit, err)
		}
	}
	if _, err := Choose(t.Context(), all, repo, "nosuch"); err == nil || !strings.Contains(err.Error(), "neither the id of a baseline nor a revision") {
		t.Error(err)
	}
	third := r.Commit(t, "third")
	if _, err := Choose(t.Context(), all, repo, third); err == nil || !strings.Contains(err.Error(), "has no baseline") {
		t.Error(err)
	}
	// The device of these baselines is not on this machine, so no commit is good here yet.
	if goods, err := st.Goods(); err != nil || len(goods) != 0 {
		t.Errorf("%+v, %v", goods, err)
	}
	for bad, want := range map[string]string{first: "", third: "was good on another machine (NVIDIA H200)"} {
		if hint := GoodElsewhere(t.Context(), repo, bad); !strings.Contains(hint, want) || want == "" && hint != "" {
			t.Errorf("before %s: %q", bad, hint)
		}
	}
	for _, b := range all {
		if err := b.Print(io.Discard, nil); err != nil {
			t.Error(err)
		}
	}
}
