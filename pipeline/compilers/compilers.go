// Package compilers puts wrappers in front of the compilers that a build finds on PATH. They add a candidate's
// macros and options, and keep objects: what is compiled by the same command from files with the same content is compiled
// once in a search. So a build from a clean tree takes little more time than one that starts from the last candidate's, and
// no Makefile has to know what depends on what.
package compilers

import (
	"context"
	"crypto/sha256"
	_ "embed" // compiler.sh
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Names are the host compilers that get a wrapper. So does nvcc, to which options go by its own variable.
var Names = []string{"cc", "gcc", "c++", "g++", "clang", "clang++"}

// Environ is what a build's environment needs for its wrappers to keep objects in a folder; without it they only add
// options. root is that of the export, tree what [Tree] says of it.
func Environ(objects, root, tree string) []string {
	return []string{"KBISECT_OBJECTS=" + objects, "KBISECT_ROOT=" + root, "KBISECT_TREE=" + tree}
}

// Tree is a digest of the names of a commit's files that may be taken for others when headers are looked for. It is made from
// what differs from another commit, the same one for all that are compared.
func Tree(ctx context.Context, repo *source.Repo, from, commit string) (string, error) {
	both, err := source.CompareTrees(ctx, repo, from, commit)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, c := range both.Changes {
		switch {
		case c.New == nil && (named(c.Path) || behind(c.Old)):
			fmt.Fprintf(h, "%q is gone\n", c.Path)
		case c.New != nil && behind(c.New):
			fmt.Fprintf(h, "%q %v %s\n", c.Path, c.New.Mode, c.New.ID)
		case c.New == nil || !named(c.Path):
		case c.Old == nil || c.Old.Mode != c.New.Mode:
			fmt.Fprintf(h, "%q %v\n", c.Path, c.New.Mode)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// behind reports an entry behind which there may be other names: a link or a submodule.
func behind(e *source.Entry) bool { return e.Mode == source.ModeLink || e.Mode == source.ModeGitlink }

// headers are the extensions of files that are taken for headers of the system. Others are looked for by their names.
var headers = []string{"", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".ipp", ".cuh"}

func named(file string) bool { return slices.Contains(headers, path.Ext(file)) }

//go:embed compiler.sh
var script string

// addOptions does that unless nvcc is among the nearest ancestors, which has passed them on already.
const addOptions = `p=$PPID
for i in 1 2 3; do
	read -r _ name _ up _ 2>/dev/null </proc/$p/stat || break
	[ "$name" = "(nvcc)" ] && exec "$real" "$@"
	p=$up
done
set -- "$@" `

// Write writes wrappers that add options into a folder below dir, once, and returns it. It is renamed into place, so that
// it is complete if it exists. ccache goes by size and time: the same options give the same in every workspace, others give
// others.
func Write(dir string, options []string) (string, error) {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{script}, options...), "\x00")))
	dir = filepath.Join(dir, "compilers-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	age := time.Duration(0)
	if len(options) > 0 { // tells them apart where they are as long
		age = time.Duration(binary.BigEndian.Uint16(sum[:])+1) * time.Second
	}
	made := dir + ".new"
	if err := os.MkdirAll(made, 0o777); err != nil {
		return "", err
	}
	more := ""
	if len(options) > 0 {
		more = addOptions + kernels.ShellWords(options...)
	}
	// A process forked while a wrapper is open for writing inherits it, and until that process has called exec, running
	// the wrapper fails with ETXTBSY.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for _, name := range append(slices.Clone(Names), "nvcc") {
		real := find(name, len(options) > 0)
		if real == "" {
			continue
		}
		if name == "nvcc" {
			more = ""
		}
		wrapper := filepath.Join(made, name)
		text := strings.NewReplacer("@REAL@", kernels.ShellWords(real), "@OPTIONS@", more).Replace(script)
		if err := os.WriteFile(wrapper, []byte(text), 0o777); err != nil {
			return "", err
		}
		if st, err := os.Stat(real); err == nil {
			at := st.ModTime().Add(-age)
			_ = os.Chtimes(wrapper, at, at)
		}
	}
	return dir, os.Rename(made, dir)
}

// masks are programs that stand in front of compilers under their names, and look for them on PATH.
var masks = []string{"ccache", "sccache", "distcc", "icecc"}

// find is the path of a compiler; "" if there is none, or something else in front of it which need not be passed by.
func find(name string, pass bool) string {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		file, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		st, err := os.Stat(file)
		if err != nil || st.IsDir() || st.Mode()&0o111 == 0 {
			continue
		}
		if target, err := filepath.EvalSymlinks(file); err != nil || !slices.Contains(masks, filepath.Base(target)) {
			return file
		}
		if !pass {
			return ""
		}
	}
	return ""
}
