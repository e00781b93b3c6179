package hook

import (
	"path/filepath"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source"
)

// Snippet is what a person has to add to a hook of sh that another program manages.
const Snippet = `# only the first command that reads standard input gets git's lines
kbisect hook pre-push "$@" || exit 1
`

// Managed says whether core.hooksPath leads to hooks that belong to somebody else: file is the hook to edit by hand
// and why the reason; both are "" if git's own folder is used. Such a folder is often committed, or written anew by
// husky, so kbisect must not write to it.
func Managed(repo *source.Repo, dir string) (file, why string) {
	switch {
	case source.SameFolder(dir, filepath.Join(repo.CommonDir(), "hooks")):
		return "", ""
	case strings.Contains(filepath.ToSlash(dir)+"/", "/.husky/"):
		return ".husky/pre-push", "husky manages the hooks of this repository"
	}
	return filepath.Join(dir, "pre-push"), "core.hooksPath is " + dir
}
