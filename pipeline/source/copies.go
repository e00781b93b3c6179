package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
)

// Origin is the address of the remote of that name, "" where there is none or it cannot be read.
func Origin(r *Repo) string {
	data, err := os.ReadFile(filepath.Join(r.read.CommonDir, "config"))
	if err != nil {
		return ""
	}
	cfg, err := objects.ParseConfig(data)
	if err != nil {
		return ""
	}
	return cfg.Section("remote").Subsection("origin").Option("url")
}

// Mirror makes dir a bare copy of a repository, with these commits whether references lead to them
// or not, or brings the copy that is there up to date.
func Mirror(ctx context.Context, r *Repo, dir string, commits ...string) error {
	return copyInto(ctx, r, dir, []string{"--prune", "--update-shallow"}, []string{"+refs/*:refs/*"}, commits)
}

// Extract makes dir a bare repository of these commits alone, in one pack, without what came before
// them.
func Extract(ctx context.Context, r *Repo, dir string, commits ...string) error {
	return copyInto(ctx, r, dir, []string{"--depth=1", "--no-tags", "--keep"}, nil, commits)
}

func copyInto(ctx context.Context, r *Repo, dir string, options, refs, commits []string) error {
	to := objects.Layout{GitDir: dir, CommonDir: dir}
	format, err := r.read.Run(ctx, nil, "rev-parse", "--show-object-format")
	if err = errors.Join(err, os.MkdirAll(dir, 0o700)); err == nil {
		_, err = to.Run(ctx, nil, "init", "--quiet", "--bare", "--template=", "--object-format="+strings.TrimSpace(format))
	}
	args := append([]string{"fetch", "--quiet", "--no-write-fetch-head", "--no-recurse-submodules"}, options...)
	args = append(append(args, r.read.CommonDir), refs...)
	for _, id := range commits {
		args = append(args, "+"+id+":refs/kbisect/"+id)
	}
	if err == nil {
		_, err = to.Run(ctx, nil, args...)
	}
	return err
}

// SameFile reports whether two names are of one file or folder that exists.
func SameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// SameFolder compares two folders, which need not exist.
func SameFolder(a, b string) bool {
	return filepath.Clean(a) == filepath.Clean(b) || SameFile(a, b)
}
