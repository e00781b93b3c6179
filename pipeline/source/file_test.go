package source

import (
	"testing"
)

// TestFile reads files of commits, through both back ends, as git does.
func TestFile(t *testing.T) {
	r := newTestRepo(t)
	r.write(t, "a", "one\n")
	r.write(t, "dir/sub/b", "two\x00bytes\n")
	r.git(t, "add", "-A")
	r.git(t, "commit", "-qm", "first")
	first := r.git(t, "rev-parse", "HEAD")
	r.write(t, "a", "changed\n")
	r.git(t, "commit", "-qam", "second")
	repo, err := Open(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	for _, x := range []struct {
		commit, name, want string
		found              bool
	}{
		{first, "a", "one\n", true}, {r.git(t, "rev-parse", "HEAD"), "a", "changed\n", true}, {first, "./dir//sub/b", "two\x00bytes\n", true},
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
