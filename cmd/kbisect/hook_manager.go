package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source"
)

// manager is something else that writes the hooks of a repository.
type manager struct {
	why     string // nothing was installed
	file    string // where the snippet belongs
	snippet string
	hint    string // more about it
}

const (
	shellSnippet = `# git's lines on standard input are for the first command that reads them
kbisect hook pre-push "$@" || exit 1
`
	lefthookSnippet = `pre-push:
  commands:
    kbisect:
      run: kbisect hook pre-push {1} {2}
      use_stdin: true
`
	preCommitSnippet = `  - repo: local
    hooks:
      - id: kbisect
        name: kbisect
        language: system
        entry: kbisect hook pre-push
        stages: [pre-push]
        always_run: true
        pass_filenames: false
        verbose: true
`
)

// managed finds out who else writes hooks here, nil when nobody does. With force only what git itself goes
// by counts.
func managed(repo *source.Repo, dir string, force bool) *manager {
	has := func(names ...string) string {
		for _, n := range names {
			if _, err := os.Stat(filepath.Join(repo.WorkDir(), n)); err == nil && repo.WorkDir() != "" {
				return n
			}
		}
		return ""
	}
	if !sameFolder(dir, filepath.Join(repo.CommonDir(), "hooks")) {
		if strings.Contains(filepath.ToSlash(dir)+"/", "/.husky/") {
			return &manager{why: "husky manages the hooks of this repository", file: ".husky/pre-push", snippet: shellSnippet}
		}
		return &manager{why: "core.hooksPath leads to " + dir, file: filepath.Join(dir, "pre-push"), snippet: shellSnippet,
			hint: " (executable, and begun by #!/bin/sh)"}
	}
	if force {
		return nil
	}
	beside := "; kbisect hook install --force installs beside it"
	if f := has("lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".lefthook.yaml", ".config/lefthook.yml", ".config/lefthook.yaml", "lefthook.toml", "lefthook.json"); f != "" {
		return &manager{"lefthook manages the hooks of this repository (" + f + ")", f, lefthookSnippet, ", then lefthook install" + beside}
	}
	if f := has(".pre-commit-config.yaml", ".pre-commit-config.yml"); f != "" {
		return &manager{fmt.Sprintf("pre-commit manages the hooks of this repository (%s); it passes on one ref of a push", f), f + ", below repos:", preCommitSnippet,
			", then pre-commit install --hook-type pre-push" + beside}
	}
	return nil
}

// sameFolder compares two folders, which need not exist.
func sameFolder(a, b string) bool {
	return filepath.Clean(a) == filepath.Clean(b) || sameFile(a, b)
}
