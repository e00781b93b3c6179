package pipeline

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/trial"
)

// A launch that loads beside the one before it holds device memory, but does not count as another user's process. A
// process of another user still does.
func TestHeadStartSharesNoDevice(t *testing.T) {
	for _, other := range []bool{false, true} {
		t.Run(fmt.Sprint("another process ", other), func(t *testing.T) {
			t.Parallel()
			on := t.TempDir() // a file for each process on the device
			body := script(fmt.Sprintf(`touch %[1]s/$$; trap 'rm %[1]s/$$' EXIT
sleep 0.5
echo "phase: compile" >&$KBISECT_FD; sleep 0.3; echo "phase: measure" >&$KBISECT_FD; echo "sample: 10 us" >&$KBISECT_FD`, on))
			b := newBench(t, kernels.Plan{Run: []string{"./run.sh"}}, trial.Limits{Run: time.Minute}, body, body, body)
			c := b.Config
			c.Dir += "-device"
			c.Recipe.Prestart, c.Recipe.SampleMetric = true, "t"
			c.Devices = []*gpu.Watch{gpu.Scripted(gpu.Device{UUID: "GPU-1"}, func(int) gpu.Reading {
				var x gpu.Reading
				entries, _ := os.ReadDir(on)
				for i := range entries {
					x.Processes = append(x.Processes, gpu.Process{PID: i + 1})
				}
				return x
			}, nil)}
			p, err := New(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			p.machine.greeting = met()
			ask := func(why bisect.Purpose, commit int) bisect.Request {
				return bisect.Request{Purpose: why, Candidate: bisect.Candidate{Commit: b.ids[commit]}, Timing: true}
			}
			sample := func(r bisect.Request) bisect.Outcome {
				o, err := p.Sample(t.Context(), r)
				if err != nil || o.Class != bisect.OK {
					t.Fatal(o, err)
				}
				return o
			}
			sample(ask(bisect.EndGood, 0))
			if other {
				if err := os.WriteFile(filepath.Join(on, "other"), nil, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			parent, culprit := ask(bisect.ConfirmParent, 1), ask(bisect.ConfirmCulprit, 2)
			NextLaunch(p, parent, culprit)
			for _, r := range []bisect.Request{parent, culprit} {
				if o := sample(r); (len(o.Marks) > 0) != other || len(o.Repeated) > 0 && !other {
					t.Errorf("%v: %v, made again: %v", r.Purpose, o.Marks, o.Repeated)
				}
				if r == parent && !p.headStart.has(culprit) {
					t.Error("the culprit has not begun")
				}
			}
		})
	}
}
