package hook

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/baseline"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

func TestReadPushed(t *testing.T) {
	id, other := strings.Repeat("1", 40), strings.Repeat("ab", 32)
	for text, want := range map[string]string{
		"": "[]", "\n": "[]",
		"refs/heads/a " + id + " refs/heads/b " + other + "\n": "[{" + id + " refs/heads/b " + other + "}]",
		"HEAD^{/a b} " + id + " refs/heads/b " + other:         "[{" + id + " refs/heads/b " + other + "}]",
		"a " + id + " refs/heads/b\n":                          "error", "a b c d\n": "error", id + "\n": "error",
		"a " + id + " heads/b " + id + "\n": "error", "a " + id[1:] + " refs/heads/b " + id + "\n": "error",
	} {
		all, err := readPushed(strings.NewReader(text))
		got := fmt.Sprint(all)
		if err != nil {
			got = "error"
		}
		if got != cmp.Or(want, "[]") {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

func FuzzReadPushed(f *testing.F) {
	f.Add("refs/heads/a " + strings.Repeat("1", 40) + " refs/heads/b " + strings.Repeat("0", 40) + "\n")
	f.Add("HEAD~1  x \x00\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := readPushed(strings.NewReader(text))
		if err != nil && all != nil {
			t.Error("an error and lines")
		}
		for _, p := range all {
			if !baseline.ObjectID(p.local) || !baseline.ObjectID(p.remote) || !strings.Contains(text, " "+p.local+" "+p.remoteRef+" "+p.remote) {
				t.Errorf("%q of %q", p, text)
			}
			if strings.HasPrefix(p.remoteRef, "refs/tags/") && p.skipReason() == "" {
				t.Errorf("%q is checked", p)
			}
		}
	})
}

// TestOpenHookRepo goes by GIT_DIR where git sets it.
func TestOpenHookRepo(t *testing.T) {
	h, other := gittest.New(t), gittest.New(t)
	t.Chdir(h.Dir)
	t.Setenv("GIT_DIR", filepath.Join(other.Dir, ".git"))
	repo, err := openRepo(".")
	if err != nil || !source.SameFile(repo.CommonDir(), filepath.Join(other.Dir, ".git")) {
		t.Fatal(repo, err)
	}
	repo.Close()
	t.Setenv("GIT_DIR", "/nonexistent")
	if repo, err = openRepo("."); err != nil || !source.SameFile(repo.CommonDir(), filepath.Join(h.Dir, ".git")) {
		t.Fatal(repo, err)
	}
	repo.Close()
}
