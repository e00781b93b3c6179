package owner

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect/hint"
)

// global makes a configuration of the user with these safe.directory entries, in order.
func global(t *testing.T, entries ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	text := "[safe]\n"
	for _, e := range entries {
		text += fmt.Sprintf("\tdirectory = %q\n", e)
	}
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_CONFIG_GLOBAL", file)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
}

// Which folders the user has listed as safe, by the rules of git-config(1).
func TestListed(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for name, c := range map[string]struct {
		entries []string
		folder  string
		want    bool
	}{
		"none":                        {nil, "/a/b", false},
		"itself":                      {[]string{"/x", "/a/b"}, "/a/b", true},
		"itself, with a slash":        {[]string{"/a/b/"}, "/a/b", true},
		"another":                     {[]string{"/a/bc"}, "/a/b", false},
		"the folder above":            {[]string{"/a"}, "/a/b", false},
		"all":                         {[]string{"*"}, "/a/b", true},
		"all below":                   {[]string{"/a/*"}, "/a/b", true},
		"all further below":           {[]string{"/a/*"}, "/a/b/c", true},
		"all below, but not itself":   {[]string{"/a/*"}, "/a", false},
		"a folder of a similar name":  {[]string{"/a/*"}, "/ab/c", false},
		"an empty one forgets":        {[]string{"*", ""}, "/a/b", false},
		"what comes after it counts":  {[]string{"*", "", "/a/b"}, "/a/b", true},
		"in the home":                 {[]string{"~/b"}, home + "/b", true},
		"in the home of another user": {[]string{"~/b"}, "/b", false},
	} {
		global(t, c.entries...)
		if got := listed(c.folder); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A repository cannot declare itself safe, nor can variables that git does not heed here either.
func TestListedByTheUserOnly(t *testing.T) {
	global(t)
	dir := t.TempDir()
	for _, args := range [][]string{{"init", "-q"}, {"config", "safe.directory", "*"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
	}
	t.Chdir(dir)
	t.Setenv("GIT_DIR", filepath.Join(dir, ".git"))
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "safe.directory")
	t.Setenv("GIT_CONFIG_VALUE_0", "*")
	if listed(dir) {
		t.Error("a repository declared itself safe")
	}
}

// Files of another user are refused with the way out, unless their folder is listed; files that are missing are not
// looked at. Root runs what the user owns who became root.
func TestCheck(t *testing.T) {
	global(t)
	dir := t.TempDir()
	mine, theirs := filepath.Join(dir, "mine"), filepath.Join(dir, "theirs")
	for _, file := range []string{mine, theirs} {
		if err := os.WriteFile(file, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := Check(dir, mine, filepath.Join(dir, "missing")); err != nil {
		t.Error(err)
	}
	if err := Check(dir, filepath.Join(mine, "below a file")); err == nil {
		t.Error("what cannot be looked at was taken for one's own")
	}
	if os.Chown(theirs, 4242, -1) != nil {
		t.Skip("NOT TESTED: files of another user: only root can make them")
	}
	err := Check(dir, mine, theirs)
	if err == nil || !strings.Contains(err.Error(), theirs+" belongs to the user with id 4242") || !strings.Contains(err.Error(), "safe.directory "+dir) {
		t.Errorf("%v", err)
	}
	if words, advice := hint.Split(err); advice != "git config --global --add safe.directory "+dir || strings.Contains(words, "\n") {
		t.Errorf("%q, hint %q", words, advice)
	}
	t.Setenv("SUDO_UID", "4242")
	if err := Check(dir, theirs); err != nil {
		t.Errorf("of the user who became root: %v", err)
	}
	t.Setenv("SUDO_UID", "4243")
	if err := Check(dir, theirs); err == nil {
		t.Error("of a third user")
	}
	global(t, dir)
	if err := Check(dir, theirs); err != nil {
		t.Errorf("listed: %v", err)
	}
}
