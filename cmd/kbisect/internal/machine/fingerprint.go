package machine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// quotes may stand around the path of a file in a command for a shell.
const quotes = `;"'()`

// Fingerprint is a digest of what launches find on this machine besides their candidates: the environment, the
// programs on PATH, the libraries and packages in the usual places, the kernel, the devices and their driver, this
// program, and the files outside of the candidates that the words of a command name. Files count by size, mode and
// time of change, since reading them all would take longer than a launch.
//
// With an equal fingerprint a launch can be expected to end as it did before, and a finished search is answered
// from the store. Where there is too much to look at, the fingerprint is random and equals no other.
func Fingerprint(ctx context.Context, env, words []string) string {
	f := fingerprint{sha256.New()}
	value := map[string]string{}
	for _, v := range slices.Sorted(slices.Values(env)) {
		name, text, _ := strings.Cut(v, "=")
		if value[name] = text; !ofTerminal(name) {
			f.add("env", v)
		}
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		f.add("kernel", name.Nodename, name.Release, name.Version, name.Machine)
	}
	here := Here(ctx)
	f.add("devices", here.Driver, here.Devices)
	if self, err := os.Executable(); err == nil {
		f.stat(self)
	}
	var dirs []string
	for _, list := range []string{"PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "PYTHONPATH", "PKG_CONFIG_PATH"} {
		dirs = append(dirs, filepath.SplitList(value[list])...)
	}
	dirs = append(dirs, "/usr/local/lib", "/usr/local/include", "/usr/local/cuda", value["CUDA_HOME"], value["CUDA_PATH"])
	var all []string
	// Relative folders are the candidate's. Links are resolved because /bin often is /usr/bin.
	for _, dir := range dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil && filepath.IsAbs(dir) {
			all = append(all, real)
		}
	}
	for _, dir := range slices.Compact(slices.Sorted(slices.Values(all))) {
		f.list(dir, func(string) bool { return true })
	}
	for _, dir := range pythonPackages(value["HOME"], filepath.SplitList(value["PATH"])) {
		f.list(dir, func(name string) bool { // not the packages' folders: an import changes them by leaving bytecode
			return strings.HasSuffix(name, "-info") || strings.HasSuffix(name, ".pth") || strings.HasSuffix(name, ".egg-link")
		})
	}
	for _, file := range []string{
		"/var/lib/dpkg/status", "/var/lib/rpm", "/var/lib/pacman/local", "/lib/apk/db/installed", "/etc/ld.so.cache", "/etc/gitconfig",
		filepath.Join(value["HOME"], ".gitconfig"), filepath.Join(value["HOME"], ".config/git/config"),
	} {
		f.stat(file)
	}
	// A word may be a whole command for a shell, or an option with its value. A file after > is written and not read.
	for _, word := range words {
		before := ""
		for _, w := range strings.Fields(word) {
			file := strings.Trim(w, quotes)
			if _, value, ok := strings.Cut(file, "="); ok && !filepath.IsAbs(file) {
				file = strings.Trim(value, quotes)
			}
			if filepath.IsAbs(file) && !strings.HasSuffix(before, ">") {
				f.tree(file)
			}
			before = w
		}
	}
	return hex.EncodeToString(f.sum.Sum(nil))
}

// ofTerminal reports a variable that tells where a command was typed and says nothing about how it runs.
func ofTerminal(name string) bool {
	return strings.HasPrefix(name, "KBISECT_") || strings.HasPrefix(name, "SSH_") || strings.HasPrefix(name, "TMUX") ||
		slices.Contains([]string{"_", "PWD", "OLDPWD", "SHLVL", "STY", "WINDOWID", "COLUMNS", "LINES", "XDG_SESSION_ID", "TERM_SESSION_ID"}, name)
}

// pythonPackages are the folders in which the Pythons on PATH, and the user's own, look for packages; sorted.
func pythonPackages(home string, path []string) (dirs []string) {
	roots := []string{filepath.Join(home, ".local")}
	for _, dir := range path {
		roots = append(roots, filepath.Dir(dir))
	}
	for _, root := range roots {
		for _, pattern := range []string{"lib*/python3*/site-packages", "lib*/python3*/dist-packages"} {
			found, _ := filepath.Glob(filepath.Join(root, pattern)) // the pattern is right
			dirs = append(dirs, found...)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(dirs)))
}

// fingerprint is a digest to which facts are added in a fixed order.
type fingerprint struct{ sum hash.Hash }

// add adds a labelled fact. Go's syntax keeps different lists of values from looking the same. (%q would write every number
// beyond the last character of Unicode alike.)
func (f fingerprint) add(what string, values ...any) { fmt.Fprintf(f.sum, "%s %#v\n", what, values) }

// stat adds a file, followed through links. A missing one adds nothing, so that it changes the digest when it
// appears.
func (f fingerprint) stat(file string) {
	if fi, err := os.Stat(file); err == nil {
		f.add("file", file, fi.Size(), fi.ModTime().UnixNano(), fi.Mode().String())
	}
}

// list adds those files of a folder, not of its subfolders, whose names count.
func (f fingerprint) list(dir string, counts func(name string) bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	f.add("folder", dir)
	for _, e := range entries {
		switch at := filepath.Join(dir, e.Name()); {
		case !counts(e.Name()):
		case e.IsDir(): // by name alone: an import changes the time of one by leaving bytecode
			f.add("folder", at)
		default:
			f.stat(at)
		}
	}
}

// tree adds a file, or all files below a folder. One with more than 10,000 entries makes the fingerprint unlike any
// other.
func (f fingerprint) tree(root string) {
	const most = 10_000
	n := 0
	if real, err := filepath.EvalSymlinks(root); err == nil { // else only the link itself would be seen
		root = real
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if n++; n > most {
			return fs.SkipAll
		}
		if err == nil && !d.IsDir() {
			f.stat(path)
		}
		return nil
	})
	if err != nil || n > most {
		f.add("unknown", rand.Text())
	}
}
