package session

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
)

// missingWords are how programs say that a file is not there.
var missingWords = regexp.MustCompile(`(?i)no such file|not found|cannot open|can't open|cannot find|does not exist`)

// pathWords are what may be a path in a message.
var pathWords = regexp.MustCompile(`[^\s'"` + "`" + `:;,()\[\]<>=]+`)

// Lacking says what failed launches lacked that the user's work tree has, or that a linked work tree has, with the
// option that helps; "" where their output does not show it.
func Lacking(s *Session) string {
	head, err := s.Repo.Resolve("HEAD")
	if err != nil || s.Repo.WorkDir() == "" {
		return ""
	}
	if why := windowsScript(s); why != "" {
		return why
	}
	for _, l := range s.Launches {
		if l.Outcome.Class == bisect.OK {
			continue
		}
		for line := range strings.Lines(l.Outcome.Tail + "\n" + l.Outcome.Why) {
			if missingWords.MatchString(line) {
				for _, word := range pathWords.FindAllString(line, -1) {
					if name := ownPath(s, head, word); name != "" {
						return fmt.Sprintf("%s is in the work tree and not committed: --keep %s gives it to every candidate", name, name)
					}
				}
			}
			if strings.HasPrefix(line, "fatal: ") && !s.Policy.Plan.InWorktree {
				return "git says " + strings.TrimSpace(line) + ": --in-worktree makes candidates linked work trees of the repository"
			}
		}
	}
	return ""
}

// windowsScript says that the lines of the user's script end as on Windows, "" where they do not.
func windowsScript(s *Session) string {
	_, name := kernels.Script(s.Policy.Plan.Run)
	if name == "" {
		return ""
	}
	file, err := kernels.ReadFile(filepath.Join(s.Repo.WorkDir(), filepath.FromSlash(s.Policy.Plan.Dir)), name)
	line, _, _ := strings.Cut(file.Text, "\n")
	if err != nil || !strings.HasSuffix(line, "\r") {
		return ""
	}
	return name + " has Windows line endings (CRLF), which a shell takes for parts of names: dos2unix " + name + ", and commit that"
}

// ownPath is the topmost part of a path that the work tree has and HEAD has not; "" where there is none.
func ownPath(s *Session, head, word string) string {
	word = path.Clean(filepath.ToSlash(word))
	if !filepath.IsLocal(filepath.FromSlash(word)) || word == "." {
		return ""
	}
	if _, err := os.Lstat(filepath.Join(s.Repo.WorkDir(), filepath.FromSlash(word))); err != nil {
		return ""
	}
	for i := 0; i <= len(word); i++ {
		if i < len(word) && word[i] != '/' {
			continue
		}
		if held, err := s.Repo.Has(head, word[:i]); err == nil && !held {
			return word[:i]
		}
	}
	return ""
}
