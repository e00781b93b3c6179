package hunks

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/source/export"
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

func slot(t testing.TB, repo *source.Repo) *export.Export {
	t.Helper()
	e, err := export.New(t.Context(), repo, filepath.Join(t.TempDir(), "slot"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func hop(t gittest.Failer, e *export.Export, commit string, clean bool) export.SwitchStats {
	t.Helper()
	stats, err := e.Switch(context.Background(), commit, clean)
	if err != nil {
		t.Fatalf("switch to %s: %v", commit, err)
	}
	return stats
}
