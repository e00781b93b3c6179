package warden

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kbisect/kbisect/pipeline/proc/internal/cgroup"
)

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
		{oom{killed: -1, above: true}, oomNear},
		{oom{killed: -1, foreign: true}, ""},
	} {
		if got := oomWhere(c.oom); got != c.want {
			t.Errorf("%+v: %q, want %q", c.oom, got, c.want)
		}
	}
}

// TestAccount reads the files of a group with the memory controller.
func TestAccount(t *testing.T) {
	g := &cgroup.Group{Dir: t.TempDir()}
	for name, text := range map[string]string{
		"cpu.stat":      "usage_usec 3000\nuser_usec 1000\nsystem_usec 2000\n",
		"memory.peak":   "123456\n",
		"memory.events": "low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\noom_group_kill 0\n",
	} {
		if err := os.WriteFile(filepath.Join(g.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var r Report
	(&supervisor{tree: &tree{group: g}}).account(&r)
	if r.User != time.Millisecond || r.System != 2*time.Millisecond || r.Peak != 123456 || r.OOM != oomTrial {
		t.Errorf("%+v", r)
	}
}
