package proc

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxCPUs is more than any kernel knows.
const maxCPUs = 1 << 13

// pin binds the calling thread, and what it starts, to processors and sets its
// nice value. The kernel silently drops processors that do not exist or are
// not ours.
func pin(cpus []int, nice int) error {
	if nice != 0 {
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
			return fmt.Errorf("nice %d: %v\nhint: only root may lower it", nice, err)
		}
	}
	if len(cpus) == 0 {
		return nil
	}
	want := unix.NewCPUSet(maxCPUs)
	for _, n := range cpus {
		if n >= 0 {
			want.Set(n)
		}
	}
	got := unix.NewCPUSet(maxCPUs)
	if unix.SchedSetaffinityDynamic(0, want) == nil { // else all are missing
		_ = unix.SchedGetaffinityDynamic(0, got)
	}
	var missing []string
	for _, n := range cpus {
		if n < 0 || !got.IsSet(n) {
			missing = append(missing, strconv.Itoa(n))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("processors not available: %s\nhint: Cpus_allowed_list in /proc/self/status names those that are", strings.Join(missing, ", "))
	}
	return nil
}
