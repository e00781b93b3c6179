package proc

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/perf"
)

// worker is a program that shares a fixed amount of work among children: none, waited for, ignored, or daemons in
// sessions of their own. It ends after the last of them. The work is instructions and page faults, or processor time.
const worker = `
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long sink;

static void count(int share) {
	const long page = 4096, chunk = 500;
	for (int n = 60 / share; n > 0; n--) {
		char *p = mmap(0, chunk * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		madvise(p, chunk * page, MADV_NOHUGEPAGE);
		for (long i = 0; i < chunk; i++) p[i * page] = 1;
		munmap(p, chunk * page);
		for (long i = 0; i < 500000; i++) sink += i;
	}
}

static void spend(int share) {
	struct timespec t;
	do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < 120 / share);
}

int main(int argc, char **argv) {
	void (*work)(int) = strcmp(argv[1], "count") ? spend : count;
	int children = atoi(argv[2]), end[2];
	const char *way = argv[3], *share = argv[2];
	if (!children) return work(argc > 4 ? atoi(argv[4]) : 1), 0;
	if (!strcmp(way, "ignored")) signal(SIGCHLD, SIG_IGN);
	pipe(end);
	for (int i = 0; i < children; i++) {
		if (fork()) continue;
		if (!strcmp(way, "daemon")) { setsid(); if (fork()) _exit(0); }
		if (!strcmp(way, "exec")) { close(end[0]); execl(argv[0], argv[0], argv[1], "0", "", share, (char *)0); }
		work(children);
		_exit(0);
	}
	close(end[1]);
	char c;
	read(end[0], &c, 1); // its end: all have closed it
	while (wait(0) > 0);
	return 0;
}
`

var ways = []struct {
	children int
	way      string
}{{0, ""}, {1, "waited"}, {3, "waited"}, {3, "exec"}, {2, "ignored"}, {2, "daemon"}}

// TestCounts counts the same work done in different processes. Page faults, which every kernel counts, are inherited
// as instructions are.
func TestCounts(t *testing.T) {
	path := program(t, worker)
	for name, count := range map[string]perf.Event{"page faults": {Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_PAGE_FAULTS}, "instructions": perf.Instructions()} {
		t.Run(name, func(t *testing.T) {
			if err := CanCount(); err != nil && count == perf.Instructions() {
				t.Skipf("NOT TESTED: %v", err)
			}
			bothWays(t, func(t *testing.T, way string) {
				var first float64
				for _, c := range ways {
					s := contained(shell(t, ""), way)
					s.Argv, s.count = []string{path, "count", fmt.Sprint(c.children), c.way}, &count
					r := run(t, s)
					n := float64(r.Instructions)
					if first == 0 {
						first = n
					}
					t.Logf("%d children %s: %.0f", c.children, c.way, n)
					if r.Exit != 0 || n < 30000 || math.Abs(n/first-1) > 0.04 || r.Counted == 0 || r.Counted > r.Enabled {
						t.Errorf("%d children %s: %.0f counted in %v of %v, %.0f without children, exit %d", c.children, c.way, n, r.Counted, r.Enabled, first, r.Exit)
					}
				}
			})
		})
	}
}

// TestCountsOnlyTheProgram: what the supervisor does before the exec, and a program that is not asked about, count nothing.
func TestCountsOnlyTheProgram(t *testing.T) {
	s := shell(t, "exit 3")
	if r := run(t, s); r.Exit != 3 || r.Instructions != 0 || r.Enabled != 0 {
		t.Errorf("%+v", r)
	}
	path := program(t, "int main(void) { return 0; }")
	s.Argv, s.count = []string{path}, &perf.Event{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_PAGE_FAULTS}
	if r := run(t, s); r.Instructions == 0 || r.Instructions > 400 { // the warden itself takes thousands
		t.Errorf("%d page faults of an empty program", r.Instructions)
	}
}

// TestCannotCount: a machine without the counter is not the program's fault.
func TestCannotCount(t *testing.T) {
	s := shell(t, "touch started")
	s.count = &perf.Event{Type: unix.PERF_TYPE_HARDWARE, Config: 1 << 20}
	_, err := Run(t.Context(), s)
	var start *StartError
	if err == nil || errors.As(err, &start) {
		t.Errorf("%T %v", err, err)
	}
}

// TestProcessorTime: none of the work escapes the account, however its processes are started and left.
func TestProcessorTime(t *testing.T) {
	path := program(t, worker)
	everyWay(t, func(t *testing.T, way string) {
		for _, c := range ways {
			if c.way == "ignored" && way != byGroup {
				continue // the kernel counts those nowhere but in a group
			}
			s := contained(shell(t, ""), way)
			s.Argv = []string{path, "spend", fmt.Sprint(c.children), c.way}
			if c.children == 0 && way == byGroup { // who has the right to leave the group is still in the tree
				out, _ := Delegated()
				s.Argv = append([]string{"sh", "-c", `echo 0 >"$0"/cgroup.procs && exec "$@"`, out}, s.Argv...)
			}
			if r := run(t, s); r.Exit != 0 || r.User+r.System < 115*time.Millisecond {
				t.Errorf("%d children %s: %v, exit %d", c.children, c.way, r.User+r.System, r.Exit)
			}
		}
	})
}
