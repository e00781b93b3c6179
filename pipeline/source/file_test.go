package source

import (
	"testing"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// TestFile reads files of commits, through both back ends, as git does.
func TestFile(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "a", "one\n")
	r.Write(t, "dir/sub/b", "two\x00bytes\n")
	r.Git(t, "add", "-A")
	r.Git(t, "commit", "-qm", "first")
	first := r.Git(t, "rev-parse", "HEAD")
	r.Write(t, "a", "changed\n")
	r.Git(t, "commit", "-qam", "second")
	repo, err := Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	for _, x := range []struct {
		commit, name, want string
		found              bool
	}{
		{first, "a", "one\n", true}, {r.Git(t, "rev-parse", "HEAD"), "a", "changed\n", true}, {first, "./dir//sub/b", "two\x00bytes\n", true},
		{first, "dir", "", false}, {first, "dir/sub/c", "", false}, {first, "a/b", "", false}, {first, "nosuch", "", false},
	} {
		got, found, err := repo.File(x.commit, x.name)
		if err != nil || string(got) != x.want || found != x.found {
			t.Errorf("%s: %q, %v, %v", x.name, got, found, err)
		}
	}
	if _, _, err := repo.File("0123456789012345678901234567890123456789", "a"); err == nil {
		t.Error("a commit that there is not")
	}
}
