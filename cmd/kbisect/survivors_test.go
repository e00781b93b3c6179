package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What a candidate does to its surroundings, to kbisect and to its supervisor is its own fault: the search goes on, to the right commit.
func TestSurvivors(t *testing.T) {
	for _, c := range []struct {
		name, does string
		tmpfs      string // options of a small file system for the working folder
	}{
		{"fills the disk", "head -c 200M /dev/zero >big", "size=32m"},
		{"fills the disk and blocks removal", "mkdir k; head -c 200M /dev/zero >k/big; chmod 0 k", "size=32m"},
		{"takes all inodes", "mkdir k; cd k; i=0; while touch $i; do i=$((i+1)); done 2>/dev/null; cd ..", "nr_inodes=600"},
		{"moves its workspace", "mv \"$(dirname \"$PWD\")\" \"$(dirname \"$PWD\")\".away", ""},
		{"removes its workspace", "cd /; rm -rf \"$OLDPWD\"/..", ""},
		{"removes the working folder", "cd /; rm -rf \"$OLDPWD\"/../..", ""},
		{"immutable file", "echo x >kept; chattr +i kept n; mkdir -p a/b; chattr +i a/b", ""},
		{"append-only folder", "mkdir -p a/b; echo >a/b/c; chattr +a a/b a", ""},
		{"locks folders", "mkdir -p a/b; echo >a/b/c; chmod 0 a/b/c a/b a .", ""},
		{"removes its tree", "rm -rf \"$PWD\"", ""},
		{"puts a link for its tree", "mv \"$PWD\" \"$PWD\".away; ln -s / \"$PWD\"", ""},
		{"puts a file for its tree", "rm -rf \"$PWD\"; echo >\"$PWD\"", ""},
		{"makes long names", "python3 -c '\nimport os\nfor i in range(40):\n os.mkdir(\"d\"*250)\n os.chdir(\"d\"*250)\n open(\"f\"*250,\"w\")\n'", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			if c.tmpfs != "" {
				if !canMount(t) {
					t.SkipNow()
				}
				dir := filepath.Join(r.home, "cache")
				if err := os.MkdirAll(dir, 0o777); err != nil {
					t.Fatal(err)
				}
				if err := unix.Mount("none", dir, "tmpfs", 0, c.tmpfs); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
			}
			t.Cleanup(func() { exec.Command("chattr", "-R", "-ia", r.home).Run() })
			ids := r.history(8, func(i int) string {
				switch {
				case i >= 6:
					return c.does + "\nexit 3"
				case i > 1:
					return c.does + "\nexit 0"
				}
				return "exit 0"
			})
			d := r.finding(0, "--no-hunks", "--good", ids[0], "--limit", "1m", "--", "./test.sh")
			if len(d.Culprits) != 1 || d.Culprits[0].Commit != ids[5] || !d.Culprits[0].Confirmed {
				t.Errorf("culprits %+v, want %s", d.Culprits, ids[5])
			}
		})
	}
}
