package hook

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
)

// marker is in every hook that kbisect has written, in any version, so that later ones recognise it.
const marker = "# pre-push hook of kbisect."

// keptSuffix is appended to the name of the hook that was there before.
const keptSuffix = ".kbisect-kept"

// Script is a hook that calls the hook that was there before, then kbisect at the path binary. It is plain sh, and
// a kbisect that is missing, killed or broken does not stop a push: only exit codes 0, 1 and 130 are passed on.
// git's lines are kept in a variable because both hooks read them. A deadline of 0 sets none.
func Script(binary string, deadline time.Duration) []byte {
	set := ""
	if deadline > 0 {
		set = fmt.Sprintf("export %[1]s=\"${%[1]s:-%[2]v}\"\n", DeadlineVariable, deadline)
	}
	return fmt.Appendf(nil, `#!/bin/sh
%s
# kbisect hook uninstall removes it and puts back what was here before.
# KBISECT_SKIP=1 git push, or git push --no-verify, pushes without a check.
kbisect=%s
%slines=$(cat) # what is pushed, for both hooks
say() { [ -z "$lines" ] || printf '%%s\n' "$lines"; }
kept="$0%s"
if [ -x "$kept" ]; then
	say | "$kept" "$@" || exit
fi
if [ ! -x "$kbisect" ] && ! kbisect=$(command -v kbisect); then
	echo "kbisect: the program is not found: this push is not checked" >&2
	echo "hint: run kbisect hook install again from its new place, or remove $0" >&2
	exit 0
fi
say | "$kbisect" hook pre-push "$@"
code=$?
case $code in
0 | 1 | 130) exit $code ;;
esac
echo "kbisect: exit $code: this push is not checked" >&2
exit 0
`, marker, shellQuote(binary), set, keptSuffix)
}

// shellQuote quotes a path in any case: even a plain word behind "=" may be expanded, such as one that begins with
// ~.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// file is the pre-push hook in a folder of hooks, with the place of another one that it replaced.
type file struct {
	dir  string
	path string // of the hook that git calls
	kept string // of the hook that was there before
}

// At is the pre-push hook of a folder of hooks. Neither the hook nor the folder need exist.
func At(dir string) file {
	path := filepath.Join(dir, "pre-push")
	return file{dir, path, path + keptSuffix}
}

// read reports whether there is a hook, and whether kbisect wrote it. The marker counts only above the first line
// that the script sets: another hook may contain kbisect's further down.
func (h file) read() (exists, ours bool, err error) {
	if _, err := os.Lstat(h.path); errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	} else if err != nil {
		return false, false, err
	}
	text, err := os.ReadFile(h.path)
	if errors.Is(err, fs.ErrNotExist) { // a link to nowhere
		return true, false, nil
	}
	head, _, _ := bytes.Cut(text, []byte("\nkbisect="))
	return true, bytes.Contains(head, []byte("\n"+marker)), err
}

// Install writes the hook and keeps the one that is there under another name; done says so in whole lines. It is an
// error if both names are taken by other programs. If there was a hook, there is one at every moment: the new one
// is written first, then the old one gets its second name, then the new one is renamed over the first.
func (h file) Install(script []byte) (done string, err error) {
	exists, ours, err := h.read()
	if err != nil {
		return "", err
	}
	_, keptErr := os.Lstat(h.kept)
	if exists && !ours && keptErr == nil {
		return "", fmt.Errorf("%s belongs to another program, and another hook is kept as %s already\nhint: call the kept hook from the other, and remove %[2]s", h.path, h.kept)
	}
	if err := os.MkdirAll(h.dir, 0o777); err != nil {
		return "", err
	}
	draft, err := renameio.NewPendingFile(h.path, renameio.WithTempDir(h.dir), renameio.WithStaticPermissions(0o755))
	if err != nil {
		return "", err
	}
	defer draft.Cleanup()
	if _, err := draft.Write(script); err != nil {
		return "", err
	}
	if exists && !ours {
		if err := h.keep(); err != nil {
			return "", err
		}
		done = fmt.Sprintf("the existing hook is kept as %s and called first\n", h.kept)
		if st, err := os.Stat(h.kept); err != nil || st.Mode()&0o111 == 0 {
			done = fmt.Sprintf("the existing hook is kept as %s; it is not executable, so git did not call it, and neither will kbisect\n", h.kept)
		}
	}
	if err := draft.CloseAtomicallyReplace(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s written\n%s", h.path, done), nil
}

// keep gives the existing hook its other name. A hard link leaves the old name in place until the new hook takes
// it.
func (h file) keep() error {
	if err := os.Link(h.path, h.kept); err == nil {
		return nil
	}
	return os.Rename(h.path, h.kept) // some file systems have no hard links
}

// Uninstall removes kbisect's hook and puts back what was there before. A hook of another program is left alone,
// with an error.
func (h file) Uninstall() (done string, err error) {
	exists, ours, err := h.read()
	if err != nil {
		return "", err
	}
	_, keptErr := os.Lstat(h.kept)
	switch {
	case exists && !ours:
		return "", fmt.Errorf("%s was not written by kbisect and stays\nhint: remove the lines that call kbisect by hand", h.path)
	case keptErr == nil:
		if err := os.Rename(h.kept, h.path); err != nil {
			return "", err
		}
		return h.path + " is as it was before\n", nil
	case !exists:
		return "", fmt.Errorf("there is no pre-push hook in %s", h.dir)
	}
	if err := os.Remove(h.path); err != nil {
		return "", err
	}
	return h.path + " removed\n", nil
}

// DefaultDeadline is how long a push waits unless it is told otherwise. Servers drop a connection that is silent for
// some minutes, and people lose patience sooner.
const DefaultDeadline = 30 * time.Second

// DeadlineVariable is the environment variable that sets the deadline if there is no option. The script exports it.
const DeadlineVariable = "KBISECT_HOOK_DEADLINE"
