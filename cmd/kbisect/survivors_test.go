package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/fixtures/faults"
)

// What a candidate does to its surroundings, to kbisect and to its supervisor is its own fault: the search goes on, to
// the right commit.
func TestSurvivors(t *testing.T) {
	const kbisect = "$(cut -d' ' -f4 /proc/$PPID/stat)" // the supervisor's parent
	for _, c := range []struct {
		name, does string
		tmpfs      string // options of a small file system for the working folder
		ends       string // its limit, where it does not come to its exit code: only the commits that fail do it
	}{
		{"fills the disk", "head -c 200M /dev/zero >big", "size=32m", ""},
		{"fills the disk and blocks removal", "mkdir k; head -c 200M /dev/zero >k/big; chmod 0 k", "size=32m", ""},
		{"takes all inodes", "mkdir k; cd k; i=0; while touch $i; do i=$((i+1)); done 2>/dev/null; cd ..", "nr_inodes=600", ""},
		{"moves its workspace", "mv \"$(dirname \"$PWD\")\" \"$(dirname \"$PWD\")\".away", "", ""},
		{"removes its workspace", "cd /; rm -rf \"$OLDPWD\"/..", "", ""},
		{"removes the working folder", "cd /; rm -rf \"$OLDPWD\"/../..", "", ""},
		{"immutable file", "echo x >kept; chattr +i kept n; mkdir -p a/b; chattr +i a/b", "", ""},
		{"append-only folder", "mkdir -p a/b; echo >a/b/c; chattr +a a/b a", "", ""},
		{"locks folders", "mkdir -p a/b; echo >a/b/c; chmod 0 a/b/c a/b a .", "", ""},
		{"removes its tree", "rm -rf \"$PWD\"", "", ""},
		{"puts a link for its tree", "mv \"$PWD\" \"$PWD\".away; ln -s / \"$PWD\"", "", ""},
		{"puts a file for its tree", "rm -rf \"$PWD\"; echo >\"$PWD\"", "", ""},
		{"makes long names", "python3 -c '\nimport os\nfor i in range(40):\n os.mkdir(\"d\"*250)\n os.chdir(\"d\"*250)\n open(\"f\"*250,\"w\")\n'", "", ""},
		{"moves its tree", "mv \"$PWD\" \"$PWD\".away", "", ""},
		{"removes the working folder and its lock", "cd /; rm -rf \"$OLDPWD\"/../../../*", "", ""},
		{"takes kbisect's files", "prlimit --pid " + kbisect + " --nofile=3", "", ""},
		{"takes kbisect's file sizes", "prlimit --pid " + kbisect + " --fsize=0", "", ""},
		{"takes the supervisor's files", "prlimit --pid $PPID --nofile=3", "", ""},
		{"stops kbisect", "kill -STOP " + kbisect, "", ""},
		{"stops both", "kill -STOP " + kbisect + "; kill -STOP $PPID", "", ""},
		{"stops kbisect and hangs", "kill -STOP " + kbisect + "; sleep 1000", "", "4s"},
		{"stops both and hangs", "kill -STOP " + kbisect + "; kill -STOP $PPID; sleep 1000", "", "4s"},
		{"stops kbisect again and again", "K=" + kbisect + "; while :; do kill -STOP $K; done", "", "1m"},
		{"traces kbisect", "exec python3 -c 'import ctypes, sys, time; ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), 0, 0) and sys.exit(3); time.sleep(1000)' " + kbisect, "", "1m"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			command := []string{"--", "./test.sh"}
			if c.tmpfs != "" { // in memory there is more room
				if !faults.CanMount(t, "a full disk") {
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
				if err := os.WriteFile(filepath.Join(r.dir, "kbisect.toml"), []byte("version = 1\nkind = \"command\"\n[run]\ncommand = [\"./test.sh\"]\nworkspace = \"disk\"\n"), 0o666); err != nil {
					t.Fatal(err)
				}
				command = nil
			}
			t.Cleanup(func() { exec.Command("chattr", "-R", "-ia", r.home).Run() })
			ids := r.history(8, func(i int) string {
				switch {
				case i >= 6:
					return c.does + "\nexit 3"
				case i > 1 && c.ends == "":
					return c.does + "\nexit 0"
				}
				return "exit 0"
			})
			d := r.finding(0, append([]string{"--no-hunks", "--good", ids[0], "--limit", cmp.Or(c.ends, "1m")}, command...)...)
			if len(d.Culprits) != 1 || d.Culprits[0].Commit != ids[5] || !d.Culprits[0].Confirmed {
				t.Errorf("culprits %+v, want %s", d.Culprits, ids[5])
			}
		})
	}
}

// What a candidate has another program start, such as one that runs jobs later, is killed when it is known by its
// environment, and told when it is only known by its folder.
func TestProcessesOfOthersAreAccountedFor(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	jobs := filepath.Join(r.home, "jobs")
	if err := unix.Mkfifo(jobs, 0o666); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command("sh", "-c", `exec 3<>"$0"; while read -r job <&3; do (eval "$job") & done`, jobs)
	daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Kill(-daemon.Process.Pid, unix.SIGKILL); daemon.Wait() })
	job := func(command, done string) string {
		return "echo 'cd '$PWD'; '" + `"` + command + `"` + "' & echo >" + done + "' >" + jobs + "; while [ ! -e " + done + " ]; do sleep 0.01; done; "
	}
	ids := r.history(4, func(i int) string {
		if i >= 3 {
			return job("KBISECT_COOKIE=$KBISECT_COOKIE exec sleep 1000", "a") + job("exec sleep 1001", "b") + "sleep 0.2; exit 3"
		}
		return "exit 0"
	})
	d := r.finding(0, "--no-hunks", "--good", ids[0], "--limit", "1m", "--", "./test.sh")
	told := strings.Join(d.Warnings, "\n")
	if len(d.Culprits) != 1 || d.Culprits[0].Commit != ids[2] || !strings.Contains(told, "a process that it did not start itself (sleep) began meanwhile in its folder") {
		t.Errorf("%+v %s", d.Culprits, told)
	}
}
