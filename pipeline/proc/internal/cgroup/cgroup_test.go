package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestOldKernel: without cgroup.kill and cgroup.freeze the old way remains.
func TestOldKernel(t *testing.T) {
	g := &Group{Dir: t.TempDir()}
	could := func(g *Group) bool { could, still := g.Freeze(true); return could || still }
	if g.Kill() || could(g) || !g.Empties(time.Second) || g.number("memory.peak", "") != -1 {
		t.Error("a folder does as a group")
	}
	if left, err := os.ReadDir(g.Dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	var none *Group
	if none.Kill() || could(none) || !none.Empties(time.Second) || none.number("cpu.stat", "x") != -1 || !none.Remove() {
		t.Error("no group does as one")
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

func TestLimitMemory(t *testing.T) {
	g := &Group{Dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(g.Dir, "memory.max"), []byte("max\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	g.limitMemory(t.TempDir(), 1<<20)
	if got := g.number("memory.max", ""); got != 1<<20 {
		t.Errorf("limit %d", got)
	}
}
