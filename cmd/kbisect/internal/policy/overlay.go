package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Bounds on what is overlaid: enough for the scripts and sources that a person writes. The files become part of the
// plan, which is stored with the session.
const (
	maxOverlay     = 64
	maxOverlaySize = 1 << 20 // bytes of one file
)

// overlayUncommitted adds to the plan the files that its commands name and that are in the work tree but not at
// HEAD, such as a benchmark that is newer than the commits it measures, with the uncommitted files beside it. They
// are copied into the export and not run from the work tree, because a Python script imports from its own folder,
// and those modules have to be the candidate's. Files that HEAD holds are taken from each candidate.
func (r reader) overlayUncommitted() {
	p, dir := r.p, r.p.Plan.Dir
	head, err := source.Head(r.repo)
	if r.repo.WorkDir() == "" || err != nil || dir != "" && !p.OwnScripts {
		return
	}
	root := filepath.Join(r.repo.WorkDir(), filepath.FromSlash(dir))
	committed := func(name string) bool {
		has, err := r.repo.Has(head, path.Join(dir, name))
		return err != nil || has
	}
	if _, name := kernels.Script(p.Plan.Run); p.OwnScripts && name != "" && filepath.IsLocal(name) {
		p.OwnScripts = !committed(path.Clean(filepath.ToSlash(name)))
	}
	var names, lent []string
	for _, name := range namedFiles(p.Plan) {
		if !committed(name) {
			names = append(names, name)
			names = append(names, slices.DeleteFunc(beside(root, name), committed)...)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		file, ok := readOverlay(root, name)
		if !ok || len(p.Plan.Files) >= maxOverlay {
			continue
		}
		if home := r.namedIn(file.Text); home != "" {
			file.Home = home
			r.warnNow(fmt.Sprintf("%s names %s: in candidates that is their own folder", name, home))
		}
		p.Plan.Files = append(p.Plan.Files, file)
		lent = append(lent, path.Join(dir, name))
	}
	if len(lent) > 0 {
		p.Paths = slices.DeleteFunc(slices.Clone(p.Paths), func(name string) bool { // the same in every commit
			return slices.Contains(lent, path.Clean(filepath.ToSlash(name)))
		})
		r.warnNow(fmt.Sprintf("%s: not committed at HEAD; the version in the work tree is added to every commit that lacks it", strings.Join(lent, ", ")))
	}
}

// localArgv is the user's command with paths into the work tree made relative, since candidates lie elsewhere.
// script is a script outside of the work tree that names it in its text: a copy with that path replaced then runs
// from the export's git directory; nil if there is none.
func (r reader) localArgv(argv []string) (out []string, script *kernels.File) {
	root := r.repo.WorkDir()
	if root == "" {
		return argv, nil
	}
	for _, word := range argv {
		at := word
		if dir, err := filepath.EvalSymlinks(filepath.Dir(word)); err == nil && filepath.Clean(word) != root {
			at = filepath.Join(dir, filepath.Base(word))
		}
		if rel, err := filepath.Rel(root, at); filepath.IsAbs(word) && err == nil && filepath.IsLocal(rel) {
			word = rel
			if len(out) == 0 {
				word = "./" + rel
			}
		}
		out = append(out, word)
	}
	at, _ := kernels.Script(out)
	if !filepath.IsAbs(out[at]) {
		return out, nil
	}
	file, ok := readOverlay(filepath.Dir(out[at]), filepath.Base(out[at]))
	if !ok {
		return out, nil
	}
	home := r.namedIn(file.Text)
	if home == "" {
		return out, nil
	}
	if shell := shellOf(out[:at], file.Text); r.q.InWorktree && shell != nil && len(file.Text) < mostInline {
		return slices.Concat(shell, []string{"-c", file.Text}, out[at:]), nil
	} else if r.q.InWorktree {
		r.warnNow(fmt.Sprintf("%s names %s, which is not a candidate\nhint: git rev-parse --show-toplevel names the candidate; or leave out --in-worktree", out[at], home))
		return out, nil
	}
	r.warnNow(fmt.Sprintf("%s names %s: in candidates that is their own folder", out[at], home))
	file.Name, file.Home = path.Join(".git", "kbisect", file.Name), home
	out[at] = "./" + file.Name
	return out, &file
}

// mostInline is how many bytes one argument of a command may have on Linux (MAX_ARG_STRLEN).
const mostInline = 128 << 10

// shellOf is the shell that runs a script: the words before it in the command, or its first line; nil if another
// interpreter runs it.
func shellOf(before []string, script string) []string {
	line, _, _ := strings.Cut(script, "\n")
	if shebang, ok := strings.CutPrefix(line, "#!"); ok && len(before) == 0 {
		before = strings.Fields(shebang)
		if len(before) > 1 && filepath.Base(before[0]) == "env" {
			before = before[1:]
		}
	}
	if len(before) == 0 {
		return []string{"/bin/sh"}
	}
	if slices.Contains([]string{"sh", "dash", "bash", "zsh", "ksh"}, filepath.Base(before[0])) {
		return before
	}
	return nil
}

// namedInline is the path of the work tree if the text of a command such as sh -c TEXT names it, else "".
func namedInline(r reader, argv []string) string {
	at := kernels.Inline(argv)
	if at == 0 {
		return ""
	}
	home := r.namedIn(argv[at])
	if home != "" {
		r.warnNow(fmt.Sprintf("the command names %s: in candidates that is their own folder", home))
	}
	return home
}

// namedIn is the path of the work tree as a script spells it: the real path, or the one through symbolic links by which
// the user came; "" if it contains neither. A script that names it would test the work tree again and again, and not
// the candidates.
func (r reader) namedIn(script string) string {
	root := r.repo.WorkDir()
	if root == "" || kernels.Names(script, root) {
		return root
	}
	came, _ := filepath.Abs(r.q.Dir)
	came = strings.TrimSuffix(came, filepath.FromSlash("/"+r.here()))
	if real, err := filepath.EvalSymlinks(came); err == nil && real == root && kernels.Names(script, came) {
		return came
	}
	return ""
}

// here is the folder in which the user stands, below the top of the work tree and with slashes; "" is the top.
func (r reader) here() string {
	dir, err := filepath.Abs(r.q.Dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	rel, relErr := filepath.Rel(r.repo.WorkDir(), dir)
	if err != nil || relErr != nil || r.repo.WorkDir() == "" || rel == "." || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(rel)
}

// stands reports whether a word of a command is meant relative to a folder below the top: it names something there and
// nothing at the top. A word that begins with a dot, such as ./test.sh, is always meant from where the user stands.
func (r reader) stands(folder, word string) bool {
	if folder == "" || word == "" || word == "." || filepath.IsAbs(word) || strings.HasPrefix(word, "-") {
		return false
	}
	_, here := os.Lstat(filepath.Join(r.repo.WorkDir(), filepath.FromSlash(folder), word))
	_, top := os.Lstat(filepath.Join(r.repo.WorkDir(), word))
	return here == nil && (top != nil || strings.HasPrefix(word, "."))
}

// fromHere makes paths relative to the top if they are meant from where the user stands.
func (r reader) fromHere(names []string) (out []string) {
	for _, name := range names {
		if here := r.here(); r.stands(here, name) {
			name = path.Join(here, filepath.ToSlash(name))
		}
		out = append(out, name)
	}
	return out
}

// warnNow adds a warning to the policy and shows it before the work that it is about.
func (r reader) warnNow(text string) {
	r.p.Warnings = append(r.p.Warnings, text)
	r.q.warn([]string{text})
}

// keep adds to the plan what every candidate gets of the user's work tree. A file that HEAD holds replaces the
// commits' version; anything else is copied where they have nothing. Plan.Kept becomes a digest of what was found,
// by size and time, so that an answer is not reused after the files have changed.
func (r reader) keep(names []string) error {
	root, plan := r.repo.WorkDir(), &r.p.Plan
	if len(names) > 0 && root == "" {
		return exit.Usagef("--keep: the repository is bare and has no work tree to copy from")
	}
	sum := sha256.New()
	for _, name := range names {
		clean := path.Clean(filepath.ToSlash(name))
		if rel, err := filepath.Rel(root, name); filepath.IsAbs(name) && err == nil {
			clean = filepath.ToSlash(rel)
		}
		if !filepath.IsLocal(filepath.FromSlash(clean)) || clean == "." || clean == ".git" || strings.HasPrefix(clean, ".git/") {
			return exit.Usagef("--keep %s: not inside the repository\nhint: name a file or folder below %s", name, root)
		}
		st, err := os.Lstat(filepath.Join(root, filepath.FromSlash(clean)))
		if err != nil {
			return exit.Usagef("--keep %s: the work tree does not have it\nhint: paths are relative to %s", name, root)
		}
		head, err := source.Head(r.repo)
		if err != nil {
			return exit.Usage(err)
		}
		if held, err := r.repo.Has(head, clean); err == nil && held && st.Mode().IsRegular() {
			file, err := kernels.ReadFile(root, clean)
			if err != nil {
				return exit.Usagef("--keep %s: %w", name, err)
			}
			plan.Files = append(plan.Files, file)
			continue
		}
		plan.Keep = append(plan.Keep, clean)
		fmt.Fprintln(sum, clean)
		err = filepath.WalkDir(filepath.Join(root, filepath.FromSlash(clean)), func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			fi, err := d.Info()
			if err == nil && !d.IsDir() {
				fmt.Fprintln(sum, file, fi.Size(), fi.ModTime().UnixNano(), fi.Mode())
			}
			return err
		})
		if err != nil {
			return exit.Usagef("--keep %s: %w", name, err)
		}
	}
	if len(names) > 0 {
		plan.Kept = hex.EncodeToString(sum.Sum(nil))
		r.warnNow(strings.Join(names, ", ") + ": every candidate gets the version in the work tree")
	}
	return nil
}

// namedFiles lists the words of the commands that may be paths: all of the run, and those of the build that look
// like sources. What the build makes is left out.
func namedFiles(plan kernels.Plan) (names []string) {
	add := func(word string) {
		word = path.Clean(filepath.ToSlash(word))
		if filepath.IsLocal(filepath.FromSlash(word)) && word != "." && !slices.Contains(plan.Outputs, word) {
			names = append(names, word)
		}
	}
	for i, word := range plan.Run {
		if i > 0 || len(plan.Build) == 0 && strings.Contains(word, "/") {
			add(word)
		}
	}
	for _, word := range plan.Build {
		for _, w := range strings.Fields(word) {
			if slices.Contains(sourceSuffixes(), path.Ext(w)) {
				add(w)
			}
		}
	}
	return names
}

// sourceSuffixes end the names of files that people write, as opposed to what a build makes.
func sourceSuffixes() []string {
	return []string{".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".py", ".sh"}
}

// beside lists the files in the same folder that a script or a source may use: modules for Python, headers and CUDA
// sources for C.
func beside(root, name string) (names []string) {
	suffixes := []string{".cu", ".cuh", ".h", ".hpp"}
	switch path.Ext(name) {
	case ".py":
		suffixes = []string{".py"}
	case ".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx":
	default:
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(path.Dir(name))))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.Type().IsRegular() && slices.Contains(suffixes, path.Ext(e.Name())) && len(names) < maxOverlay {
			names = append(names, path.Join(path.Dir(name), e.Name()))
		}
	}
	return names
}

// readOverlay reads a file of the work tree. ok is false if it cannot be read, and for large and binary files: those
// were probably built there, from one commit, and must not be tested as part of all others.
func readOverlay(root, name string) (kernels.File, bool) {
	f, err := kernels.ReadFile(root, name)
	f.Overlay = true
	return f, err == nil && len(f.Text) <= maxOverlaySize && strings.IndexByte(f.Text, 0) < 0
}
