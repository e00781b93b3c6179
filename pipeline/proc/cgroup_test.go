package proc

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kbisect/kbisect/pipeline/proc/internal/cgroup"
	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
)

func TestContained(t *testing.T) {
	bothWays(t, func(t *testing.T, way string) {
		s := contained(shell(t, "cat /proc/self/cgroup; grep PPid /proc/$$/status; cat /proc/$PPID/cgroup"), way)
		r := run(t, s)
		trial, warden, _ := strings.Cut(string(r.Tail), "PPid")
		named := cgroup.Name(s.Cookie) + "\n"
		if r.Contained != way || strings.Contains(trial, named) != (way == byGroup) || strings.Contains(warden, named) {
			t.Errorf("%q: %s", r.Contained, r.Tail)
		}
	})
}

// TestMovesNothing: a program that does nothing at all is killed like others.
func TestMovesNothing(t *testing.T) {
	bothWays(t, func(t *testing.T, way string) {
		s := contained(shell(t, "exec sleep 1000"), way)
		s.Limit, s.Grace = 100*time.Millisecond, -1
		if r := run(t, s); r.Signal != syscall.SIGKILL || r.Timeout == nil || r.Leftover != 0 || r.ProtocolLines != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestLeavesGroup: who has the right to leave the group is still in the tree.
func TestLeavesGroup(t *testing.T) {
	needGroup(t)
	out, _ := Delegated()
	s := contained(shell(t, fmt.Sprintf(`(echo 0 >%s/cgroup.procs && setsid sleep 1000 && echo no) & sleep 0.3`, out)), byGroup)
	if r := run(t, s); r.Exit != 0 || r.Leftover == 0 {
		t.Errorf("%+v\n%s", r, r.Tail)
	}
}

// TestGroupsBelow: a program may make groups of its own.
func TestGroupsBelow(t *testing.T) {
	needGroup(t)
	s := shell(t, "")
	parent, _ := Delegated()
	dir := filepath.Join(parent, cgroup.Name(s.Cookie), "inner")
	s.Argv[2] = fmt.Sprintf("mkdir -p %[1]s/deep; sleep 1000 & echo $! >%[1]s/deep/cgroup.procs; sleep 1000", dir)
	s.Limit, s.Grace = 300*time.Millisecond, -1
	s = contained(s, byGroup)
	if r := run(t, s); r.Timeout == nil || r.Leftover == 0 {
		t.Errorf("%+v\n%s", r, r.Tail)
	}
}

func TestGroupInUse(t *testing.T) {
	needGroup(t)
	s := shell(t, "exit 3")
	g := cgroup.Make(cgroup.Name(s.Cookie), 0)
	if r := run(t, s); r.Exit != 3 || r.Contained != bySubreaper {
		t.Errorf("%+v", r)
	}
	if !g.Remove() {
		t.Errorf("cannot remove %s", g.Dir)
	}
	s.Cookie = "a/b" + s.Cookie
	if r := run(t, s); r.Exit != 3 || r.Contained != bySubreaper {
		t.Errorf("%+v", r)
	}
}

func TestStartErrorLeavesNoGroup(t *testing.T) {
	s := shell(t, "")
	s.Argv = []string{"/proc/self/mem"}
	if _, err := Run(t.Context(), s); err == nil {
		t.Error("started")
	}
}

// TestSweepWiped: kbisect and warden are killed, and a process that has neither
// parent nor environment is left.
func TestSweepWiped(t *testing.T) {
	needGroup(t)
	s := shell(t, "")
	pids := filepath.Join(s.Dir, "pid")
	for range 3 { // killed with its parents before it is on its own, it proves nothing
		g := cgroup.Make(cgroup.Name(s.Cookie), 0)
		fd, err := g.Open()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("env", "-i", "sh", "-c", "setsid sleep 1000 & echo $! >"+pids)
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		syscall.Close(fd)
		if n := len(alive(t, s.Cookie)); n != 0 {
			t.Errorf("%d processes found by their environment", n)
		}
		if n, err := Sweep(s.Cookie[:len(s.Cookie)-1]); n != 1 || err != nil {
			t.Errorf("swept %d, %v", n, err)
		}
		b, _ := os.ReadFile(pids)
		pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		if p, err := ps.Read(pid); err == nil && p.Alive() {
			t.Errorf("alive: %+v", p)
		}
	}
}

// TestSweepSpares: a kbisect in the trial of another does not end itself.
func TestSweepSpares(t *testing.T) {
	g := &cgroup.Group{Dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(g.Dir, "cgroup.procs"), fmt.Appendln(nil, os.Getpid()), 0o644); err != nil {
		t.Fatal(err)
	}
	hit := make(map[ps.ID]bool)
	if err := sweepGroup(g, hit); err != nil || len(hit) > 0 {
		t.Errorf("%v %v", hit, err)
	}
}

const hungry = `
#include <stdlib.h>
#include <string.h>
int main(void) { for (int i = 0; i < 400; i++) memset(malloc(1 << 20), 1, 1 << 20); }`

func TestMemoryMax(t *testing.T) {
	s := shell(t, "exec "+program(t, hungry))
	s.MemoryMax = 50 << 20
	r := run(t, s)
	if r.MemoryPeak == 0 {
		t.Skip("NOT TESTED: no memory controller of cgroup v2 is delegated to this process")
	}
	if r.Signal != syscall.SIGKILL || !r.OOMKilled || r.OOMWhere != "trial" || r.MemoryPeak > s.MemoryMax {
		t.Errorf("%+v", r)
	}
	s.MemoryMax = 1 << 30
	if r := run(t, s); r.Exit != 0 || r.OOMKilled || r.MemoryPeak < 400<<20 {
		t.Errorf("%+v", r)
	}
}

// A tree that leaks comes to its bound also where no group holds it; what its processes hold counts together.
func TestMemoryMaxWithoutGroup(t *testing.T) {
	leak := `#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) { fork(); for (int i = 0; i < 60; i++) memset(malloc(1 << 20), 1, 1 << 20); sleep(1000); }`
	everyWay(t, func(t *testing.T, way string) {
		s := contained(shell(t, program(t, leak)+"; exit 0"), way)
		if s.MemoryMax, s.subreaper = 100<<20, true; way == byGroup {
			return
		}
		if r := run(t, s); !r.OOMKilled || r.OOMWhere != "trial" || r.Signal != syscall.SIGKILL {
			t.Errorf("%+v", r)
		}
	})
}

// kills counts what the kernel has killed for memory, anywhere on the machine.
func kills(t *testing.T) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/vmstat")
	_, count, found := strings.Cut(string(b), "\noom_kill ")
	if _, scan := fmt.Sscan(count, &n); err != nil || !found || scan != nil {
		t.Errorf("no count of kills in /proc/vmstat: %v", err)
	}
	return n
}

// limitedMemory makes a memory group of version 1 with a limit for the test.
func limitedMemory(t *testing.T, bytes int64) (dir string) {
	t.Helper()
	dir = fmt.Sprintf("/sys/fs/cgroup/memory/proc-test-%d-%s", os.Getpid(), rand.Text())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("NOT TESTED: no version 1 memory group can be made")
	}
	t.Cleanup(func() { ps.Within(5*time.Second, func() bool { return os.Remove(dir) == nil }) })
	if err := os.WriteFile(dir+"/memory.limit_in_bytes", fmt.Append(nil, bytes), 0); err != nil {
		t.Skip("NOT TESTED: ", err)
	}
	return dir
}

// TestMachineOOM runs kbisect in a group with too little memory for the program.
func TestMachineOOM(t *testing.T) {
	dir := limitedMemory(t, 300<<20)
	file := program(t, hungry)
	pid := filepath.Join(t.TempDir(), "pid")
	crowd := program(t, `
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
	int status;
	for (int i = 0; i < 80; i++) if (fork() == 0) { memset(malloc(4 << 20), 1, 4 << 20); sleep(1000); }
	wait(&status);
	return 9;
}`)
	bothWays(t, func(t *testing.T, way string) {
		for _, c := range []struct {
			script, where string
			own           bool
		}{
			{"exec " + file, "machine", true},     // the leader is killed
			{file + "; exit $?", "machine", true}, // a shell tells
			{file + " || exit 9", "near", false},  // a shell keeps it to itself
			{crowd + "; exit $?", "some", false},  // many small ones leak, and not the largest of all is killed: a parent may see it, or we
			{"(setsid " + file + " & echo $! >" + pid + "); while kill -0 $(cat " + pid + "); do sleep 0.05; done", "machine", true}, // an orphan is killed
			{"kill -KILL $$", "", false}, // not for memory
		} {
			s := contained(posing(t, "limited", dir, c.script), way)
			cmd := exec.Command(s.Argv[0], s.Argv[1:]...) // not as a trial, which is the first to be killed
			cmd.Env, cmd.Dir = s.Env, s.Dir
			var r Result
			if b, err := cmd.Output(); json.Unmarshal(b, &r) != nil || r.Contained != way {
				t.Errorf("%q: %v: %s", c.script, err, b)
				continue
			}
			if c.where == "some" && r.OOMWhere != "" {
				c.where = r.OOMWhere
			}
			if r.OOMKilled != (c.where == "machine") || r.OOMWhere != c.where || r.OOMOwn != c.own {
				t.Errorf("%q: %+v", c.script, r)
			}
		}
	})
}

// TestOOMElsewhere: while memory runs out in another group, whoever kills itself or
// its warden did it, and not the kernel.
func TestOOMElsewhere(t *testing.T) {
	elsewhere, file := limitedMemory(t, 50<<20), program(t, hungry)
	bothWays(t, func(t *testing.T, way string) {
		for _, victim := range []string{"$$", "$PPID"} {
			s := contained(shell(t, "echo >&$FD; while [ ! -e now ]; do sleep 0.01; done; kill -KILL "+victim+"; sleep 9"), way)
			s.Watch = func(string, time.Duration) Transition {
				before := kills(t)
				_ = exec.Command("sh", "-c", "echo $$ >"+elsewhere+"/cgroup.procs; exec "+file).Run()
				if kills(t) == before {
					t.Error("the kernel killed nothing, or does not count it")
				}
				if err := os.WriteFile(s.Dir+"/now", nil, 0o644); err != nil {
					t.Error(err)
				}
				return Transition{}
			}
			if r := run(t, s); r.OOMKilled || r.Signal != syscall.SIGKILL || r.KilledParent != (victim == "$PPID") {
				t.Errorf("%s: %+v", victim, r)
			}
		}
	})
}
