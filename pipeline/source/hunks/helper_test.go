package hunks

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

func export(t testing.TB, repo *source.Repo) *source.Export {
	t.Helper()
	e, err := repo.Export(t.Context(), filepath.Join(t.TempDir(), "slot"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func hop(t gittest.Failer, e *source.Export, commit string, clean bool) source.SwitchStats {
	t.Helper()
	stats, err := e.Switch(context.Background(), commit, clean)
	if err != nil {
		t.Fatalf("switch to %s: %v", commit, err)
	}
	return stats
}
