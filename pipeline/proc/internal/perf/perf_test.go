package perf

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		err      error
		paranoid int
		want     string
	}{
		{unix.ENOENT, 2, "virtual machines"},
		{unix.EOPNOTSUPP, 4, "virtual machines"},
		{unix.EACCES, 3, "perf_event_paranoid is 3, and may be 2 at most\nhint: sudo sysctl"},
		{unix.EPERM, 4, "perf_event_paranoid is 4"},
		{unix.EPERM, 2, "--cap-add PERFMON"},
		{unix.EACCES, -1, "--cap-add PERFMON"},
		{unix.EBUSY, 2, "other programs hold all counters"},
		{unix.ENOSYS, 0, "the kernel has no performance counters"},
		{unix.EMFILE, 2, "too many open files"},
	} {
		err := refusal(c.err, c.paranoid)
		var no unix.Errno
		if text := err.Error(); !strings.HasPrefix(text, "instructions cannot be counted here: ") || !strings.Contains(text, c.want) || strings.Count(text, "\nhint: ") != 1 || errors.As(err, &no) {
			t.Errorf("%v at %d: %v", c.err, c.paranoid, err)
		}
	}
}

// TestNoCounter: no counter has counted nothing.
func TestNoCounter(t *testing.T) {
	var none *Counter
	if n := none.Read(); n != (Count{}) {
		t.Errorf("%+v", n)
	}
	if n := (&Counter{-1}).Read(); n != (Count{}) {
		t.Errorf("%+v", n)
	}
}
