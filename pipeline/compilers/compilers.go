// Package compilers puts wrappers in front of the host compilers that a build finds on PATH. They add a candidate's
// macros and options, and keep objects: a source that reads the same after preprocessing, compiled with the same
// options, is compiled once in a search. So a build from a clean tree takes little more time than one that starts from the
// last candidate's, and no Makefile has to know what depends on what.
package compilers

import (
	"crypto/sha256"
	_ "embed" // compiler.sh
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kbisect/kbisect/kernels"
)

// Names are the compilers that get a wrapper.
var Names = []string{"cc", "gcc", "c++", "g++", "clang", "clang++"}

// Variable is set in the environment of builds that keep and use objects. Without it wrappers only add options.
const Variable = "KBISECT_OBJECTS"

// Wrappers say what the wrappers of a workspace do.
type Wrappers struct {
	Options []string // that every call gets, unless it comes from nvcc, which has passed them on already
	Objects string   // folder in which they are kept; "" for none
	Here    string   // root of the export, whose name does not tell sources apart
}

// special are the characters with a meaning in a regular expression of sed between bars.
var special = regexp.MustCompile(`[\\.*^$[|]`)

//go:embed compiler.sh
var script string

// addOptions does that unless nvcc is among the nearest ancestors.
const addOptions = `p=$PPID
for i in 1 2 3; do
	read -r _ name _ up _ 2>/dev/null </proc/$p/stat || break
	[ "$name" = "(nvcc)" ] && exec "$real" "$@"
	p=$up
done
set -- "$@" `

// Write writes the wrappers into a folder below dir, once, and returns it. It is renamed into place, so that it is
// complete if it exists.
func (w Wrappers) Write(dir string) (string, error) {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{w.Objects, w.Here}, w.Options...), "\x00")))
	dir = filepath.Join(dir, "compilers-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	made := dir + ".new"
	if err := os.MkdirAll(made, 0o777); err != nil {
		return "", err
	}
	if w.Objects != "" {
		if err := os.MkdirAll(w.Objects, 0o777); err != nil {
			return "", err
		}
	}
	options := ""
	if len(w.Options) > 0 {
		options = addOptions + kernels.ShellWords(w.Options...)
	}
	here := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(w.Here) // as the preprocessor writes it
	here = special.ReplaceAllString(here, `\$0`)
	for _, name := range Names {
		real, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if real, err = filepath.Abs(real); err != nil {
			return "", err
		}
		text := strings.NewReplacer("@REAL@", kernels.ShellWords(real), "@OBJECTS@", kernels.ShellWords(w.Objects), "@OPTIONS@", options,
			"@HERE@", kernels.ShellWords(`s|^\(# [0-9]* "\)`+here+`/|\1|`)).Replace(script)
		if err := os.WriteFile(filepath.Join(made, name), []byte(text), 0o777); err != nil {
			return "", err
		}
	}
	return dir, os.Rename(made, dir)
}
