package hook

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source"
)

// manager is another program that writes the hooks of a repository.
type manager struct {
	Why     string // why kbisect installs nothing
	File    string // where the snippet belongs
	Snippet string // the lines that call kbisect
	Hint    string // what else there is to do, appended to the file
}

const (
	shellSnippet = `# only the first command that reads standard input gets git's lines
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

// Managed finds the program that manages the hooks in dir, nil where there is none. With force only what git
// itself reads counts: core.hooksPath.
func Managed(repo *source.Repo, dir string, force bool) *manager {
	has := func(names ...string) string {
		for _, n := range names {
			if _, err := os.Stat(filepath.Join(repo.WorkDir(), n)); err == nil && repo.WorkDir() != "" {
				return n
			}
		}
		return ""
	}
	if !source.SameFolder(dir, filepath.Join(repo.CommonDir(), "hooks")) {
		if strings.Contains(filepath.ToSlash(dir)+"/", "/.husky/") {
			return &manager{Why: "husky manages the hooks of this repository", File: ".husky/pre-push", Snippet: shellSnippet}
		}
		return &manager{Why: "core.hooksPath is " + dir, File: filepath.Join(dir, "pre-push"), Snippet: shellSnippet,
			Hint: " (executable, with #!/bin/sh as its first line)"}
	}
	if force {
		return nil
	}
	beside := "; kbisect hook install --force installs beside it"
	if f := has("lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".lefthook.yaml", ".config/lefthook.yml", ".config/lefthook.yaml", "lefthook.toml", "lefthook.json"); f != "" {
		return &manager{"lefthook manages the hooks of this repository (" + f + ")", f, lefthookSnippet, ", then lefthook install" + beside}
	}
	if f := has(".pre-commit-config.yaml", ".pre-commit-config.yml"); f != "" {
		return &manager{fmt.Sprintf("pre-commit manages the hooks of this repository (%s); it passes only one ref of a push", f), f + ", below repos:", preCommitSnippet,
			", then pre-commit install --hook-type pre-push" + beside}
	}
	return nil
}
