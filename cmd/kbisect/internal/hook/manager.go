package hook

import (
	"path/filepath"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source"
)

// Snippet are the lines of a hook of sh that call kbisect.
const Snippet = `# only the first command that reads standard input gets git's lines
kbisect hook pre-push "$@" || exit 1
`

// Managed is the hook that belongs to somebody else where core.hooksPath is set, and why; "" where git's own folder is
// used. What lies there is often committed, or made anew by husky.
func Managed(repo *source.Repo, dir string) (file, why string) {
	switch {
	case source.SameFolder(dir, filepath.Join(repo.CommonDir(), "hooks")):
		return "", ""
	case strings.Contains(filepath.ToSlash(dir)+"/", "/.husky/"):
		return ".husky/pre-push", "husky manages the hooks of this repository"
	}
	return filepath.Join(dir, "pre-push"), "core.hooksPath is " + dir
}
