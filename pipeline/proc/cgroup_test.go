package proc

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestContained(t *testing.T) {
	bothWays(t, func(t *testing.T, way string) {
		s := contained(shell(t, "cat /proc/self/cgroup; grep PPid /proc/$$/status; cat /proc/$PPID/cgroup"), way)
		r := run(t, s)
		trial, warden, _ := strings.Cut(string(r.Tail), "PPid")
		named := groupPrefix + s.Cookie + "\n"
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
	out := version2.own()[0]
	s := contained(shell(t, fmt.Sprintf(`(echo 0 >%s/cgroup.procs && setsid sleep 1000 && echo no) & sleep 0.3`, out)), byGroup)
	if r := run(t, s); r.Exit != 0 || r.Leftover == 0 {
		t.Errorf("%+v\n%s", r, r.Tail)
	}
}

// TestGroupsBelow: a program may make groups of its own.
func TestGroupsBelow(t *testing.T) {
	needGroup(t)
	s := shell(t, "")
	dir := filepath.Join(version2.own()[0], groupName(s.Cookie), "inner")
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
	g := makeGroup(groupName(s.Cookie), 0)
	if r := run(t, s); r.Exit != 3 || r.Contained != bySubreaper {
		t.Errorf("%+v", r)
	}
	if !g.remove() {
		t.Errorf("cannot remove %s", g.dir)
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

// TestOldKernel: without cgroup.kill and cgroup.freeze the old way remains.
func TestOldKernel(t *testing.T) {
	g := &group{dir: t.TempDir()}
	if g.kill() || g.freeze(true) || !g.empties(time.Second) || g.number("memory.peak", "") != -1 {
		t.Error("a folder does as a group")
	}
	if left, err := os.ReadDir(g.dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	var none *group
	if none.kill() || none.freeze(true) || !none.empties(time.Second) || none.number("cpu.stat", "x") != -1 || !none.remove() {
		t.Error("no group does as one")
	}
}

// TestSweepWiped: kbisect and warden are killed, and a process that has neither
// parent nor environment is left.
func TestSweepWiped(t *testing.T) {
	needGroup(t)
	s := shell(t, "")
	pids := filepath.Join(s.Dir, "pid")
	for range 3 { // killed with its parents before it is on its own, it proves nothing
		g := makeGroup(groupName(s.Cookie), 0)
		fd, err := g.open()
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
		if p, err := readProcess(pid); err == nil && p.alive() {
			t.Errorf("alive: %+v", p)
		}
	}
}

// TestSweepSpares: a kbisect in the trial of another does not end itself.
func TestSweepSpares(t *testing.T) {
	g := &group{dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), fmt.Appendln(nil, os.Getpid()), 0o644); err != nil {
		t.Fatal(err)
	}
	hit := make(map[process]bool)
	if err := sweepGroup(g, hit); err != nil || len(hit) > 0 {
		t.Errorf("%v %v", hit, err)
	}
}

func TestOwnPath(t *testing.T) {
	for text, want := range map[string]string{
		"0::/\n": "/",
		"9:name=systemd:/\n4:memory:/a\n0::/user.slice/x y\n": "/user.slice/x y",
		"1:cpu:/\n": "",
		"":          "",
	} {
		if got, ok := version2.path(text); got != want || ok != (want != "") {
			t.Errorf("%q: %q %v", text, got, ok)
		}
	}
}

func TestFolder(t *testing.T) {
	const pure = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 master:1 - cgroup2 cgroup2 rw,nsdelegate\n"
	const hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" +
		"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
	const bound = `50 1 0:26 /docker/abc /mnt/my\040groups ro - cgroup2 c rw` + "\n"
	for _, c := range []struct {
		info, path string
		want       []string
	}{
		{pure, "/", []string{"/sys/fs/cgroup"}},
		{pure, "/user.slice/a", []string{"/sys/fs/cgroup/user.slice/a"}},
		{pure, "/../other", nil},
		{hybrid, "/a", []string{"/sys/fs/cgroup/unified/a"}},
		{bound, "/docker/abc", []string{"/mnt/my groups"}},
		{bound, "/docker/abc/d", []string{"/mnt/my groups/d"}},
		{bound, "/docker/abcd", nil},
		{bound, "/", nil},
		{pure + bound, "/docker/abc", []string{"/sys/fs/cgroup/docker/abc", "/mnt/my groups"}},
	} {
		var got []string
		for _, m := range version2.parseMounts(c.info) {
			if dir, ok := m.folder(c.path); ok {
				got = append(got, dir)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q in %q: %q, want %q", c.path, c.info, got, c.want)
		}
	}
}

// TestMemoryV1 finds a controller of version 1, which may share its mount.
func TestMemoryV1(t *testing.T) {
	const info = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" +
		"33 31 0:30 /docker/a /sys/fs/cgroup/memory ro - cgroup cgroup rw,hugetlb,memory\n" +
		"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,memory_recursiveprot\n"
	path, ok := memoryV1.path("9:name=systemd:/x\n4:hugetlb,memory:/docker/a/b:c\n0::/y\n")
	mounts := memoryV1.parseMounts(info)
	if path != "/docker/a/b:c" || !ok || len(mounts) != 1 {
		t.Fatalf("%q %v %+v", path, ok, mounts)
	}
	if dir, ok := mounts[0].folder(path); dir != "/sys/fs/cgroup/memory/b:c" || !ok {
		t.Errorf("%q %v", dir, ok)
	}
}

func FuzzParseMounts(f *testing.F) {
	own, _ := os.ReadFile("/proc/self/mountinfo")
	f.Add(string(own), "/a/b")
	f.Add(`50 1 0:26 /a\134 /\04 ro - cgroup2 c rw`, "/a")
	f.Fuzz(func(t *testing.T, text, path string) {
		for _, m := range version2.parseMounts(text) {
			if dir, ok := m.folder(path); ok && !strings.HasPrefix(dir, filepath.Clean(m.point)) {
				t.Errorf("%q is not in %+v", dir, m)
			}
		}
	})
}

func TestNumberIn(t *testing.T) {
	const events = "low 0\noom 2\noom_kill 3\n"
	for key, want := range map[string]int64{"oom": 2, "oom_kill": 3, "oom_k": -1, "": -1} {
		if got := numberIn(events, key); got != want {
			t.Errorf("%q: %d", key, got)
		}
	}
	if got := numberIn("4096\n", ""); got != 4096 {
		t.Errorf("%d", got)
	}
}

func TestOOMWhere(t *testing.T) {
	for _, c := range []struct {
		oom  oom
		want string
	}{
		{oom{killed: -1, limit: -1}, ""},
		{oom{killed: 0, limit: 0, above: true, foreign: true}, ""}, // killed by somebody else
		{oom{killed: 1, limit: 3, above: true, foreign: true}, oomTrial},
		{oom{killed: 1, limit: 0, above: true}, oomMachine},
		{oom{killed: -1, above: true, foreign: true}, oomMachine},
		{oom{killed: -1, above: true}, ""},
		{oom{killed: -1, foreign: true}, ""},
	} {
		if got := oomWhere(c.oom); got != c.want {
			t.Errorf("%+v: %q, want %q", c.oom, got, c.want)
		}
	}
}

// TestAccount reads the files of a group with the memory controller.
func TestAccount(t *testing.T) {
	g := &group{dir: t.TempDir()}
	for name, text := range map[string]string{
		"cpu.stat":      "usage_usec 3000\nuser_usec 1000\nsystem_usec 2000\n",
		"memory.peak":   "123456\n",
		"memory.events": "low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\noom_group_kill 0\n",
		"memory.max":    "max\n",
	} {
		if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g.limitMemory(t.TempDir(), 1<<20)
	if got := g.number("memory.max", ""); got != 1<<20 {
		t.Errorf("limit %d", got)
	}
	var r report
	(&supervisor{group: g}).account(&r)
	if r.User != time.Millisecond || r.System != 2*time.Millisecond || r.Peak != 123456 || r.OOM != oomTrial {
		t.Errorf("%+v", r)
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
		if r.Exit != 0 || r.OOMKilled || r.OOMWhere != "" {
			t.Errorf("%+v", r)
		}
		t.Skip("NOT TESTED: no memory controller of cgroup v2 is delegated to this process")
	}
	if r.Signal != syscall.SIGKILL || !r.OOMKilled || r.OOMWhere != oomTrial || r.MemoryPeak > s.MemoryMax {
		t.Errorf("%+v", r)
	}
	s.MemoryMax = 1 << 30
	if r := run(t, s); r.Exit != 0 || r.OOMKilled || r.MemoryPeak < 400<<20 {
		t.Errorf("%+v", r)
	}
}

// limitedMemory makes a memory group of version 1 with a limit for the test.
func limitedMemory(t *testing.T, bytes int64) (dir string) {
	t.Helper()
	dir = fmt.Sprintf("/sys/fs/cgroup/memory/proc-test-%d-%s", os.Getpid(), rand.Text())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("NOT TESTED: no version 1 memory group can be made")
	}
	t.Cleanup(func() { within(5*time.Second, func() bool { return os.Remove(dir) == nil }) })
	if err := os.WriteFile(dir+"/memory.limit_in_bytes", fmt.Append(nil, bytes), 0); err != nil {
		t.Skip("NOT TESTED: ", err)
	}
	return dir
}

// TestMachineOOM runs kbisect in a group with too little memory for the program.
func TestMachineOOM(t *testing.T) {
	dir := limitedMemory(t, 300<<20)
	file := program(t, hungry)
	bothWays(t, func(t *testing.T, way string) {
		for _, c := range []struct{ script, where string }{
			{"exec " + file, oomMachine},                     // the leader is killed
			{file + "; exit $?", oomMachine},                 // a shell tells
			{"(setsid " + file + " &); sleep 1", oomMachine}, // an orphan is killed
			{"kill -KILL $$", ""},                            // not for memory
		} {
			s := contained(posing(t, "limited", dir, c.script), way)
			s.Tail = 1 << 20
			var r Result
			if b := run(t, s).Tail; json.Unmarshal(b, &r) != nil || r.Contained != way {
				t.Fatalf("%s", b)
			}
			if r.OOMKilled != (c.where != "") || r.OOMWhere != c.where {
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
				before := machineOOM()
				_ = exec.Command("sh", "-c", "echo $$ >"+elsewhere+"/cgroup.procs; exec "+file).Run()
				if machineOOM() == before {
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

// TestNearestOOM: the group above counts where the memory controller is off.
func TestNearestOOM(t *testing.T) {
	top := t.TempDir()
	inner := filepath.Join(top, "a", "b")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(dir, name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{inner, filepath.Dir(inner)} {
		write(dir, "cgroup.procs", "")
		if n := nearestOOM(inner); n != -1 {
			t.Errorf("without a controller: %d", n)
		}
	}
	write(filepath.Dir(inner), "memory.events", "low 0\noom_kill 7\n")
	if n := nearestOOM(inner); n != 7 {
		t.Errorf("above: %d", n)
	}
	write(inner, "memory.events", "oom_kill 5\n")
	write(inner, "memory.events.local", "oom_kill 3\n")
	if n := nearestOOM(inner); n != 3 {
		t.Errorf("own: %d", n)
	}
}
