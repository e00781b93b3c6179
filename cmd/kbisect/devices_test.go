package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect/report"
)

// gpuRepo is a repository on a machine of two devices that are not there: a management library lists them, and programs read
// CUDA_VISIBLE_DEVICES as CUDA does. The second one is a third slower than the first.
type gpuRepo struct {
	*repo
	env []string
	ids []string
}

// newGPURepo plants eight commits of which the sixth and later ones are bad: then test.sh does what bad says, which may ask
// for $device, 0 or 1.
func newGPURepo(t *testing.T, bad string) *gpuRepo {
	t.Parallel()
	needTwo(t)
	m := &gpuRepo{repo: newRepo(t)}
	lib := t.TempDir()
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", filepath.Join(lib, "libnvidia-ml.so.1"), "testdata/nvml.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m.watched = true
	own := strconv.FormatUint(rand.Uint64(), 36) // locks are the machine's
	t.Cleanup(func() {
		for i := range 2 {
			os.Remove(fmt.Sprintf("/tmp/kbisect-GPU-%s-%d.lock", own, i))
		}
	})
	m.env = []string{"LD_LIBRARY_PATH=" + lib, "FAKE_GPUS=2", "FAKE_UUID=" + own, "FAKE_BUSY=" + filepath.Join(m.home, "busy")}
	m.write("kbisect.toml", "version = 1\npaths = [\"test.sh\"]\n[run]\ncommand = [\"./test.sh\"]\n")
	m.ids = m.history(8, func(i int) string {
		text := "device=${CUDA_VISIBLE_DEVICES##*-}\ntime=$((100000 + $$ % 7 * 50 + device * 33000))\n" + fmt.Sprintf("echo \"start $$ $device\" >>%[1]s/log\n", m.home)
		if i >= 6 {
			text += bad + "\n"
		}
		return text + fmt.Sprintf("sleep 0.1\necho \"end $$ $device\" >>%[1]s/log\necho \"sample: $time us\" >&$KBISECT_FD\n", m.home)
	})
	return m
}

// search runs a search and returns its finding.
func (m *gpuRepo) search(args ...string) (d report.Search) {
	m.t.Helper()
	cmd := m.command(append([]string{"run", "--json", "--fresh", "--no-hunks", "--no-explain", "--good", m.ids[0]}, args...)...)
	cmd.Env = append(cmd.Env, m.env...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil || json.Unmarshal(out, &d) != nil {
		m.t.Fatalf("%v: %v\n%s", args, err, said.String())
	}
	if len(d.Culprits) != 1 || d.Culprits[0].Commit != m.ids[5] || !d.Culprits[0].Confirmed {
		m.t.Fatalf("%v: %s %+v\n%s", args, d.Result, d.Culprits, said.String())
	}
	return d
}

// most is how many launches ran at a time on each device, and on all.
func (m *gpuRepo) most() map[string]int {
	m.t.Helper()
	path := filepath.Join(m.home, "log")
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	most, now := map[string]int{}, map[string]int{}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		for _, on := range []string{f[2], "all"} {
			if f[0] == "start" {
				now[on]++
			} else {
				now[on]--
			}
			most[on] = max(most[on], now[on])
		}
	}
	return most
}

// disagreed are the warnings of a finding about devices.
func disagreed(d report.Search) []string {
	return slices.DeleteFunc(slices.Clone(d.Warnings), func(w string) bool {
		return !strings.Contains(w, "devices disagree") && !strings.Contains(w, "in use")
	})
}

// A search for a slowdown makes a launch on each of two devices at a time, never two on one, and does not mind that one of
// them is slower than what is searched for.
func TestSlowdownOnTwoDevices(t *testing.T) {
	m := newGPURepo(t, "time=$((time * 110 / 100))")
	d := m.search("--find", "slow", "--gpus", "2")
	if most := m.most(); most["0"] != 1 || most["1"] != 1 || most["all"] != 2 {
		t.Errorf("launches at a time: %v", most)
	}
	if e := d.Culprits[0].Effect; e == nil || e.Ratio < 1.09 || e.Ratio > 1.11 || len(d.Devices) != 2 || len(disagreed(d)) > 0 {
		t.Errorf("%+v %v %q", e, d.Devices, d.Warnings)
	}
	if busy := d.Totals.Device; busy <= 0 || d.Totals.Wall <= 0 {
		t.Errorf("%+v", d.Totals)
	}

	// A device on which somebody else computes is left alone.
	if err := os.WriteFile(filepath.Join(m.home, "busy"), []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	d = m.search("--find", "slow", "--gpus", "all")
	if most := m.most(); most["0"] != 0 || most["1"] != 1 || len(d.Devices) != 1 || len(disagreed(d)) != 1 {
		t.Errorf("%v %v %q", most, d.Devices, d.Warnings)
	}
}

// The answer about what fails is the same on one device and on two.
func TestFailureOnTwoDevices(t *testing.T) {
	m := newGPURepo(t, "exit 1")
	one, two := m.search("--gpus", "1"), m.search("--gpus", "2")
	if len(one.Devices) != 1 || len(two.Devices) != 2 || len(disagreed(two)) > 0 || one.Culprits[0].Class != two.Culprits[0].Class {
		t.Errorf("%v %v %q", one.Devices, two.Devices, two.Warnings)
	}
}

// A command after -- is launched on the devices that are wanted, too, and on none where none is.
func TestDevicesOfACommand(t *testing.T) {
	m := newGPURepo(t, "exit 1")
	for text, n := range map[string]int{"2": 2, "none": 0} {
		if d := m.search("--gpus", text, "--", "./test.sh"); len(d.Devices) != n {
			t.Errorf("--gpus %s: %v %q", text, d.Devices, d.Warnings)
		}
	}
}

// Where the complaint shows on one device alone, the other is left out, and the report says so.
func TestDevicesThatDisagree(t *testing.T) {
	for name, bad := range map[string]string{
		"times": "[ $device = 1 ] || time=$((time * 110 / 100))",
		"fails": "[ $device = 1 ] || exit 1",
	} {
		t.Run(name, func(t *testing.T) {
			m := newGPURepo(t, bad)
			d := m.search("--gpus", "2")
			if w := disagreed(d); len(w) != 1 || !strings.Contains(w[0], "on device 2 (GPU-") {
				t.Errorf("%q", d.Warnings)
			}
		})
	}
}

// What names no devices is the user's mistake.
func TestGPUsThatAreNotThere(t *testing.T) {
	m := newGPURepo(t, "exit 1")
	for text, want := range map[string]string{
		"3": "3 devices asked for, 2 found", "7,": "no such device", "two": "invalid device", "0": "expected 1 to 1024 devices",
	} {
		cmd := m.command("run", "--gpus", text, "--good", m.ids[0])
		cmd.Env = append(cmd.Env, m.env...)
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), want) {
			t.Errorf("--gpus %s: exit %d\n%s", text, cmd.ProcessState.ExitCode(), out)
		}
	}
}
