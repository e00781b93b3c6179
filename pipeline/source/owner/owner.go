// Package owner keeps git's rule of safe.directory: what another user owns is neither read as a repository nor run as a
// configuration, unless its folder is listed. Both can name commands, which would then run as this user.
//
// The rule is described in git-config(1), safe.directory, and was made for CVE-2022-24765. The package must not read a
// configuration itself: git knows where they are and which of them count.
package owner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/kbisect/kbisect/bisect/hint"
)

// Check returns an error, with a hint, if one of the paths belongs to another user and folder is not listed in
// safe.directory of the user's or the system's git configuration. A missing path is not an error.
func Check(folder string, paths ...string) error {
	for _, path := range paths {
		fi, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && !ours(st.Uid) && !listed(folder) {
			return hint.Add(fmt.Errorf("%s belongs to the user with id %d, not to you: what it says is not run", path, st.Uid), "git config --global --add safe.directory "+folder)
		}
	}
	return nil
}

// ours reports whether files of a user are ours. Under sudo those of the user who called it are.
func ours(uid uint32) bool {
	me := os.Geteuid()
	return int(uid) == me || me == 0 && os.Getenv("SUDO_UID") == strconv.Itoa(int(uid))
}

// listed asks git, outside of any repository: a repository must not list itself.
func listed(folder string) bool {
	cmd := exec.Command("git", "config", "--path", "--null", "--get-all", "safe.directory")
	cmd.Dir = "/"
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") || strings.HasPrefix(v, "GIT_CONFIG_GLOBAL=") || strings.HasPrefix(v, "GIT_CONFIG_SYSTEM=") || strings.HasPrefix(v, "GIT_CONFIG_NOSYSTEM=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	out, err := cmd.Output()
	if err != nil {
		return false // no git, or none is listed
	}
	safe := false
	for _, entry := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		switch above, all := strings.CutSuffix(entry, "/*"); {
		case entry == "":
			safe = false // an empty one forgets those before
		case entry == "*", filepath.Clean(entry) == folder, all && strings.HasPrefix(folder, filepath.Clean(above)+"/"):
			safe = true
		}
	}
	return safe
}
