package source

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

func open(t testing.TB, dir string) *Repo {
	t.Helper()
	repo, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	return repo
}

func export(t testing.TB, repo *Repo) *Export {
	t.Helper()
	e, err := repo.Export(t.Context(), filepath.Join(t.TempDir(), "slot"))
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
