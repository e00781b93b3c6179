package objects

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/config"

	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/pipeline/source/owner"
)

// Layout is where the parts of one repository lie; all paths are absolute.
type Layout struct {
	GitDir    string // HEAD and what belongs to one work tree
	CommonDir string // objects and refs; equal to GitDir except in linked worktrees
	WorkDir   string // "" when bare
}

// Features are the properties of a repository that decide who can read it.
type Features struct {
	needGit string // why the git binary is needed, "" when it is not
	partial bool   // objects may have to be fetched on demand
	Shallow map[string]bool
	Replace bool // refs/replace exists
	Grafts  bool

	Extensions [][2]string // of the repository's format: name and value
}

// ErrNoRepository is what [Open] finds where there is no repository at all.
var ErrNoRepository = errors.New("no git repository")

// Locate finds the repository that holds dir, looking upward as git does. One that belongs to
// somebody else is refused, as git does: its configuration can name programs to be run.
func Locate(dir string) (Layout, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Layout{}, fmt.Errorf("open repository %s: %w", dir, err)
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	} else {
		return Layout{}, hint.Add(fmt.Errorf("open repository %s: %w", dir, err), "name an existing folder with -C")
	}
	for at := abs; ; at = filepath.Dir(at) {
		l, ok, err := At(at)
		if ok && err == nil {
			err = owner.Check(at, at, filepath.Join(at, ".git"), l.GitDir)
		}
		if err != nil || ok {
			return l, err
		}
		if at == filepath.Dir(at) {
			return Layout{}, hint.Add(fmt.Errorf("%w at %s or above it", ErrNoRepository, abs),
				"run this inside a repository, or name one with -C DIR")
		}
	}
}

// At reports whether dir is a work tree or a bare repository. The file .git of a linked worktree or a
// submodule leads to its git directory.
func At(dir string) (Layout, bool, error) {
	dot := filepath.Join(dir, ".git")
	fi, err := os.Stat(dot)
	switch {
	case err == nil && fi.IsDir() && looksLikeGitDir(dot):
		l, err := withCommon(dot, dir)
		return l, true, err
	case err == nil && fi.Mode().IsRegular():
		gitDir, err := readGitFile(dot)
		if err != nil {
			return Layout{}, false, err
		}
		l, err := withCommon(gitDir, dir)
		return l, true, err
	case looksLikeGitDir(dir):
		l, err := withCommon(dir, "")
		return l, true, err
	}
	return Layout{}, false, nil
}

// looksLikeGitDir applies git's own test. A linked worktree's folder has commondir in place of
// objects and refs.
func looksLikeGitDir(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, "HEAD")); err != nil {
		return false
	}
	if _, err := os.Stat(filepath.Join(dir, "commondir")); err == nil {
		return true
	}
	for _, sub := range []string{"objects", "refs"} {
		if fi, err := os.Stat(filepath.Join(dir, sub)); err != nil || !fi.IsDir() {
			return false
		}
	}
	return true
}

// readGitFile follows the file .git of a linked worktree or a submodule.
func readGitFile(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("open repository: %w", err)
	}
	target, ok := strings.CutPrefix(strings.TrimRight(string(data), "\r\n"), "gitdir: ")
	if !ok {
		return "", fmt.Errorf("open repository: %s has no line \"gitdir: PATH\"", file)
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(file), target)
	}
	if !looksLikeGitDir(target) {
		return "", hint.Add(fmt.Errorf("open repository: %s points to %s, which is not a repository", file, target),
			"git worktree repair")
	}
	return target, nil
}

// withCommon completes a layout by the folder that linked worktrees share.
func withCommon(gitDir, workDir string) (Layout, error) {
	l := Layout{GitDir: filepath.Clean(gitDir), WorkDir: workDir}
	l.CommonDir = l.GitDir
	data, err := os.ReadFile(filepath.Join(gitDir, "commondir"))
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return Layout{}, fmt.Errorf("open repository: %w", err)
	}
	common := strings.TrimRight(string(data), "\r\n")
	if !filepath.IsAbs(common) {
		common = filepath.Join(gitDir, common)
	}
	l.CommonDir = filepath.Clean(common)
	return l, nil
}

// inspect reads the configuration as data: go-git would refuse to open some repositories whose
// objects it can read well.
func inspect(l Layout) (Features, error) {
	f := Features{Shallow: map[string]bool{}}
	data, err := os.ReadFile(filepath.Join(l.CommonDir, "config"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f, fmt.Errorf("open repository: %w", err)
	}
	cfg, err := ParseConfig(data)
	if err != nil {
		f.needGit = fmt.Sprintf("its configuration cannot be read here (%v)", err)
	}
	inspectExtensions(cfg, &f)
	inspectRemotes(cfg, &f)
	if err := readShallow(filepath.Join(l.CommonDir, "shallow"), f.Shallow); err != nil {
		return f, err
	}
	f.Replace = hasReplace(l.CommonDir)
	if fi, err := os.Stat(filepath.Join(l.CommonDir, "info", "grafts")); err == nil && fi.Size() > 0 {
		f.Grafts = true
	}
	if f.needGit == "" && (f.Replace || f.Grafts) {
		f.needGit = "it has replace refs or grafts"
	}
	return f, nil
}

// ParseConfig reads a file in the format of git's configuration, as far as it goes.
func ParseConfig(data []byte) (*config.Config, error) {
	cfg := config.New()
	return cfg, config.NewDecoder(bytes.NewReader(data)).Decode(cfg)
}

// inspectExtensions looks for what go-git cannot read. An unknown extension is left to git: it may
// change what objects or refs mean.
func inspectExtensions(cfg *config.Config, f *Features) {
	for _, o := range cfg.Section("extensions").Options {
		value := strings.ToLower(o.Value)
		f.Extensions = append(f.Extensions, [2]string{o.Key, o.Value})
		switch strings.ToLower(o.Key) {
		case "objectformat":
			if value != "sha1" {
				f.needGit = "its object ids are " + value
			}
		case "refstorage":
			if value != "files" {
				f.needGit = "its refs are stored as " + value
			}
		case "partialclone":
			f.needGit, f.partial = "it is a partial clone", true
		case "noop", "noop-v1", "preciousobjects", "worktreeconfig", "relativeworktrees", "submodulepathconfig":
		default:
			f.needGit = "it uses the extension " + o.Key
		}
	}
}

// inspectRemotes finds partial clones; they need not have the extension.
func inspectRemotes(cfg *config.Config, f *Features) {
	for _, s := range cfg.Section("remote").Subsections {
		for _, o := range s.Options {
			on := strings.EqualFold(o.Value, "true") || o.Value == "1" || o.Value == "" || strings.EqualFold(o.Value, "yes")
			if strings.EqualFold(o.Key, "promisor") && on || strings.EqualFold(o.Key, "partialclonefilter") {
				f.needGit, f.partial = "it is a partial clone", true
			}
		}
	}
}

// readShallow adds the ids of the commits at which a shallow clone ends.
func readShallow(file string, into map[string]bool) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open repository: %w", err)
	}
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		if id := strings.TrimSpace(s.Text()); IsID(id) {
			into[id] = true
		}
	}
	return nil
}

// hasReplace reports whether an object may stand for another. A name in packed-refs may have been
// deleted since; then git reads what go-git could have.
func hasReplace(commonDir string) bool {
	if names, err := os.ReadDir(filepath.Join(commonDir, "refs", "replace")); err == nil && len(names) > 0 {
		return true
	}
	packed, err := os.ReadFile(filepath.Join(commonDir, "packed-refs"))
	return err == nil && bytes.Contains(packed, []byte(" refs/replace/"))
}
