package kernels

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// interpreter matches programs whose first argument is a script.
var interpreter = regexp.MustCompile(`^(sh|dash|bash|zsh|ksh|fish|python[0-9.]*|perl|ruby|node)$`)

// Script tells which word of a command is the user's own program: the first, or what an interpreter is
// given first. It is "" where that is no path below the folder where the command runs, such as the name
// of a program that is looked for, or an option.
func Script(argv []string) (at int, name string) {
	if len(argv) > 1 && interpreter.MatchString(filepath.Base(argv[0])) {
		at = 1
	}
	if len(argv) == 0 || filepath.IsAbs(argv[at]) || at == 0 && !strings.Contains(argv[0], "/") || strings.HasPrefix(argv[at], "-") {
		return at, ""
	}
	return at, argv[at]
}

// Scripts are the files that the plan of a project starts or compiles and that no build can have made.
func (p Plan) Scripts(project Project) []string {
	if len(project.Build) == 0 && len(project.Sources) > 0 {
		return slices.Clone(project.Sources)
	}
	if _, name := Script(p.Run); name != "" && len(p.Build) == 0 && p.Dir == "" && filepath.IsLocal(name) {
		return []string{filepath.Clean(name)}
	}
	return nil
}
