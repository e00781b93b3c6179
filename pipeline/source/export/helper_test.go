package export

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

func open(t testing.TB, dir string) *source.Repo {
	t.Helper()
	repo, err := source.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	return repo
}

func export(t testing.TB, repo *source.Repo) *Export {
	t.Helper()
	e, err := New(t.Context(), repo, filepath.Join(t.TempDir(), "slot"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func hop(t gittest.Failer, e *Export, commit string, clean bool) SwitchStats {
	t.Helper()
	stats, err := e.Switch(context.Background(), commit, clean)
	if err != nil {
		t.Fatalf("switch to %s: %v", commit, err)
	}
	return stats
}
