package session

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/pipeline"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// There are as many slots as --jobs allows, each with its own device, folder and mark; without devices, processors
// bound them.
func TestSlotCount(t *testing.T) {
	many := runtime.NumCPU()
	watches := []*gpu.Watch{{}, {}, {}}
	for _, x := range []struct {
		jobs, devices int
		gpus          []string
		none          bool
		want          int
	}{
		{0, 3, nil, false, 1}, {1, 3, nil, false, 1}, {2, 3, nil, false, 2}, {8, 3, nil, false, 3}, {8, 1, nil, false, 1},
		{0, 0, []string{"none"}, false, 1}, {1, 0, []string{"none"}, false, 1}, {many + 1, 0, []string{"none"}, false, max(1, many)},
		{many + 1, 0, []string{"auto"}, true, max(1, many)}, {many + 1, 0, []string{"auto"}, false, 1},
	} {
		s := &Session{Policy: &policy.Policy{Jobs: x.jobs, GPUs: x.gpus}, Devices: &Devices{Held: gpu.Held{Watches: watches[:x.devices]}, None: x.none}}
		dir := t.TempDir()
		config := pipeline.Config{Devices: s.Devices.Watches, Dir: filepath.Join(dir, "work", "s"), Recipe: trial.Recipe{Logs: filepath.Join(dir, "logs")}, Session: "s", Jobs: x.jobs}
		if err := s.openPipes(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		if len(s.Pipes) != x.want || s.Pipe != s.Pipes[0] {
			t.Errorf("%+v: %d slots", x, len(s.Pipes))
		}
		dirs, marks := map[string]bool{}, map[string]bool{}
		for i, p := range s.Pipes {
			dirs[p.Config.Dir], marks[p.Config.Session] = true, true
			if x.want > 1 && x.devices > 0 && (len(p.Config.Devices) != 1 || p.Config.Devices[0] != watches[i]) || x.want == 1 && len(p.Config.Devices) != x.devices {
				t.Errorf("%+v: slot %d has %d devices", x, i, len(p.Config.Devices))
			}
		}
		if len(dirs) != x.want || len(marks) != x.want {
			t.Errorf("%+v: %v %v", x, dirs, marks)
		}
		if err := s.ClosePipes(); err != nil {
			t.Error(err)
		}
	}
}
