package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/pipeline/source"
)

// hookMarker stands in every hook that kbisect has written.
const hookMarker = "# pre-push hook of kbisect."

// keptSuffix is appended to the name of the hook that was there before.
const keptSuffix = ".kbisect-kept"

// hookScript calls what was there before, then kbisect. It is plain sh, and lets a push go whatever
// becomes of kbisect.
func hookScript(binary, deadline string) []byte {
	set := ""
	if deadline != "" {
		set = fmt.Sprintf("export %[1]s=\"${%[1]s:-%[2]s}\"\n", deadlineVariable, deadline)
	}
	return fmt.Appendf(nil, `#!/bin/sh
%s
# kbisect hook uninstall removes it and puts back what was here before.
# KBISECT_SKIP=1 git push, or git push --no-verify, pushes without asking.
kbisect=%s
%slines=$(cat) # what is pushed, for both hooks
say() { [ -z "$lines" ] || printf '%%s\n' "$lines"; }
kept="$0%s"
if [ -x "$kept" ]; then
	say | "$kept" "$@" || exit
fi
if [ ! -x "$kbisect" ] && ! kbisect=$(command -v kbisect); then
	echo "kbisect: the program is not found: this push is not checked" >&2
	echo "hint: kbisect hook install where it is now, or remove $0" >&2
	exit 0
fi
say | "$kbisect" hook pre-push "$@"
code=$?
case $code in
0 | 1 | 130) exit $code ;;
esac
echo "kbisect: ended with $code: this push is not checked" >&2
exit 0
`, hookMarker, shellQuote(binary), set, keptSuffix)
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// installed is the place of the hook.
type installed struct {
	dir        string // of the hooks
	path, kept string
}

func hookAt(dir string) installed {
	path := filepath.Join(dir, "pre-push")
	return installed{dir, path, path + keptSuffix}
}

// ours reports whether the hook at a path was written by kbisect, and whether there is any.
func ours(path string) (yes, any bool, err error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	} else if err != nil {
		return false, false, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) { // a link to nowhere
		return false, true, nil
	}
	head, _, _ := bytes.Cut(text, []byte("\nkbisect="))
	return bytes.Contains(head, []byte("\n"+hookMarker)), true, err
}

func installHook(c *cli.Context) error {
	repo, err := openForHook(c)
	if err != nil {
		return err
	}
	defer repo.Close()
	dir, err := hooksDir(c.Context, repo)
	if err != nil {
		return usage(err)
	}
	if m := managed(repo, dir, c.Bool("force")); m != nil {
		fmt.Fprint(c.App.Writer, m.snippet)
		return usagef("nothing was installed: %s\nhint: add the lines above to %s%s", m.why, m.file, m.hint)
	}
	binary, err := ownPath()
	if err != nil {
		return &codeError{exitMachine, err}
	}
	deadline := ""
	if d := duration(c, "deadline"); d > 0 {
		deadline = d.String()
	}
	words, err := hookAt(dir).install(hookScript(binary, deadline))
	if err != nil {
		return usage(err)
	}
	fmt.Fprint(c.App.Writer, words)
	if repo.WorkDir() != "" {
		if _, err := os.Stat(filepath.Join(repo.WorkDir(), configName)); err != nil {
			fmt.Fprintf(c.App.Writer, "Next: kbisect init, since without %s the hook checks nothing\n", configName)
		}
	}
	return nil
}

// openForHook opens the repository for a command that takes no arguments.
func openForHook(c *cli.Context) (*source.Repo, error) {
	if c.Args().Present() {
		return nil, usagef("hook %s takes no arguments, not %q", c.Command.Name, c.Args().Slice())
	}
	repo, err := source.Open(globals(c).dir)
	return repo, usage(err)
}

// hooksDir is the folder in which git looks for hooks.
func hooksDir(ctx context.Context, repo *source.Repo) (string, error) {
	dir, err := gitSays(ctx, repo, "rev-parse", "--path-format=absolute", "--git-path", "hooks")
	if err != nil {
		return "", fmt.Errorf("where the hooks are: %w", err)
	}
	return filepath.Clean(dir), nil
}

// install writes the hook, and keeps what is there. There is no moment without a hook where there was one.
func (h installed) install(script []byte) (words string, err error) {
	mine, any, err := ours(h.path)
	if err != nil {
		return "", err
	}
	_, keptErr := os.Lstat(h.kept)
	if any && !mine && keptErr == nil {
		return "", fmt.Errorf("%s is another program's, and %s is kept already\nhint: call the one from the other, and remove %[2]s", h.path, h.kept)
	}
	if err := os.MkdirAll(h.dir, 0o777); err != nil {
		return "", err
	}
	draft := h.path + ".kbisect-new"
	if err := os.WriteFile(draft, script, 0o777); err != nil {
		return "", err
	}
	defer os.Remove(draft)
	if err := os.Chmod(draft, 0o755); err != nil {
		return "", err
	}
	if any && !mine {
		if err := h.keep(); err != nil {
			return "", err
		}
		words = fmt.Sprintf("the hook that was there is kept as %s, and called first\n", h.kept)
		if st, err := os.Stat(h.kept); err != nil || st.Mode()&0o111 == 0 {
			words = fmt.Sprintf("what was there is kept as %s; git did not call it, since it is not executable, and neither will kbisect\n", h.kept)
		}
	}
	if err := os.Rename(draft, h.path); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s written\n%s", h.path, words), nil
}

// keep gives what is there its other name; the hook goes over the old name.
func (h installed) keep() error {
	if err := os.Link(h.path, h.kept); err == nil {
		return nil
	}
	return os.Rename(h.path, h.kept) // some file systems have no hard links
}

func uninstallHook(c *cli.Context) error {
	repo, err := openForHook(c)
	if err != nil {
		return err
	}
	defer repo.Close()
	dir, err := hooksDir(c.Context, repo)
	if err != nil {
		return usage(err)
	}
	words, err := hookAt(dir).uninstall()
	if err != nil {
		return usage(err)
	}
	fmt.Fprint(c.App.Writer, words)
	return nil
}

// uninstall puts back what was there before.
func (h installed) uninstall() (words string, err error) {
	mine, any, err := ours(h.path)
	if err != nil {
		return "", err
	}
	_, keptErr := os.Lstat(h.kept)
	switch {
	case any && !mine:
		return "", fmt.Errorf("%s is not kbisect's: it stays\nhint: remove the lines that call kbisect by hand", h.path)
	case keptErr == nil:
		if err := os.Rename(h.kept, h.path); err != nil {
			return "", err
		}
		return h.path + " is as it was before\n", nil
	case !any:
		return "", fmt.Errorf("there is no pre-push hook in %s", h.dir)
	}
	if err := os.Remove(h.path); err != nil {
		return "", err
	}
	return h.path + " removed\n", nil
}
