package session

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/protocol"
	"github.com/kbisect/kbisect/pipeline/source"
)

// missingWords match what programs print if a file does not exist.
var missingWords = regexp.MustCompile(`(?i)no such file|not found|cannot open|can't open|cannot find|does not exist`)

// pathWords match the parts of a message that may be paths.
var pathWords = regexp.MustCompile(`[^\s'"` + "`" + `:;,()\[\]<>=]+`)

// Lacking says what failed launches lacked that the user's work tree or a linked work tree has, with the option
// that helps; "" if their output does not show it. It guesses from the words of programs, and only ever adds a
// hint: no verdict rests on it.
func Lacking(s *Session) string {
	head, err := source.Head(s.Repo)
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
						return keepHint(name)
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

// keepHint names the option that copies a file of the work tree into every candidate.
func keepHint(name string) string {
	return fmt.Sprintf("%s is in the work tree and not committed: --keep %s gives it to every candidate", name, name)
}

// windowsScript says that the user's script has Windows line endings; "" if it does not. Such a script fails in every
// candidate, with messages that name no cause.
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

// ownPath is the topmost part of a path that the work tree has and HEAD does not; "" if there is none. For data/x.bin
// that is data if nothing below data is committed, since candidates then lack the whole folder.
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

// NotFound is a usage error if every launch failed because something is missing that no candidate brings along: the
// command, a program that it starts, a library, a Python module. Otherwise it is nil. where says for which candidates,
// such as "at either end". Exit codes are those of a shell: 126 not executable, 127 not found.
func NotFound(s *Session, where string) error {
	// One launch that got further shows that it exists; what the others lacked is then their commits' fault.
	var lacks protocol.Missing
	for _, l := range s.Launches {
		missing, ok := protocol.FindMissing(l.Outcome.Exit, []byte(l.Outcome.Tail))
		if l.Outcome.Class == bisect.OK || !ok && l.Outcome.Exit != 126 && l.Outcome.Exit != 127 {
			return nil
		}
		lacks = missing
	}
	if len(s.Launches) == 0 {
		return nil
	}
	o := s.Launches[len(s.Launches)-1].Outcome
	library := missingLibrary(o.Tail)
	switch why := Lacking(s); {
	case library != "":
		return exit.Usagef("the program does not start %s: %s\nhint: the loader does not find %s: install its package, or add its folder to LD_LIBRARY_PATH, which programs under test inherit; ldconfig -p lists known libraries",
			where, o.Describe(), library)
	case lacks.Module:
		top, _, _ := strings.Cut(lacks.Name, ".")
		return exit.Usagef("Python does not find the module %s %s: %s\nhint: %s", lacks.Name, where, o.Describe(),
			cmp.Or(why, ownModule(s, lacks.Name), "install "+top+" for the Python that the command starts or, if it is in the repository, build it and set PYTHONPATH"))
	case lacks.Name != "":
		return exit.Usagef("%s is not found %s: %s\nhint: %s", lacks.Name, where, o.Describe(),
			cmp.Or(why, "install "+lacks.Name+", add its folder to PATH or, if it is in the repository, write ./"+lacks.Name))
	default:
		return exit.Usagef("the command cannot be run %s: %s\nhint: %s", where, o.Describe(),
			cmp.Or(why, "exit 127: command not found; exit 126: not executable; candidates hold only committed files"))
	}
}

// ownModule names the option that gives every candidate a Python module of the work tree; "" if it is not there.
func ownModule(s *Session, name string) string {
	head, err := source.Head(s.Repo)
	if err != nil {
		return ""
	}
	file := path.Join(s.Policy.Plan.Dir, strings.ReplaceAll(name, ".", "/"))
	if own := cmp.Or(ownPath(s, head, file+".py"), ownPath(s, head, file)); own != "" {
		return keepHint(own)
	}
	return ""
}

var missingLibraryMessage = regexp.MustCompile(`error while loading shared libraries: ([^:\n]+):|Error loading shared library ([^:\n]+):`)

// missingLibrary is the shared library that the loader did not find; "" if the output does not say.
func missingLibrary(output string) string {
	m := missingLibraryMessage.FindStringSubmatch(output)
	if m == nil {
		return ""
	}
	return words.Printable(cmp.Or(m[1], m[2]))
}
