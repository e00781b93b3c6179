package kernels

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbisect/kbisect/kernels/harness"
	"github.com/kbisect/kbisect/kernels/protocol"
)

func TestTorchPlan(t *testing.T) {
	plan, err := NewPlan(Project{Kind: "torch", Submission: "k/submission.py", Reference: "ref.py", Cases: []string{"m: 1; seed: 2", "m: 3"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"python3", ".kbisect/torch_driver.py", "--submission", "k/submission.py", "--reference", "ref.py", "--case", "m: 1; seed: 2", "--case", "m: 3"}
	if d := cmp.Diff(want, plan.Run); d != "" {
		t.Error(d)
	}
	root := t.TempDir()
	if err := plan.Write(root); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{harness.TorchDriver, harness.Module} {
		if _, err := os.Stat(filepath.Join(root, ".kbisect", name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := NewPlan(Project{Kind: "torch", Cases: []string{"m=1"}}); err == nil || !strings.Contains(err.Error(), "\nhint: ") {
		t.Errorf("got %v", err)
	}
	own, err := NewPlan(Project{Kind: "torch", Run: []string{"python3", "bench.py"}})
	if err != nil || len(own.Files) != 0 || own.Run[1] != "bench.py" {
		t.Errorf("%+v, %v", own, err)
	}
}

// drive calls the driver once for each folder below the working one, in one process, and leaves what it
// said and its status there.
const drive = `
import os, sys
import torch
torch.set_num_threads(1)
sys.path.insert(0, os.path.abspath(".kbisect"))
import torch_driver
for name in sorted(d for d in os.listdir(".") if d.startswith("case")):
    fd = os.open(name + "/said", os.O_CREAT | os.O_WRONLY)
    os.environ["KBISECT_FD"] = str(fd)
    sys.argv = ["driver", "--submission", name + "/" + name + "_submission.py", "--reference", name + "/" + name + "_reference.py",
                "--case", "n: 8; seed: 1", "--samples", "4", "--seconds", "1"]
    with open(name + "/exit", "w") as f:
        f.write(str(torch_driver.main()))
`

// needTorch skips a test where there is no PyTorch.
func needTorch(t *testing.T) {
	t.Helper()
	if err := exec.Command("python3", "-c", "import torch").Run(); err != nil {
		t.Skip("SKIPPED: there is no PyTorch; its driver was not run")
	}
}

const (
	doubling = `
import torch
def generate_input(n, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.rand(n, generator=g), torch.empty(n)
def ref_kernel(data):
    assert data[0].dtype == torch.float64
    return data[0] * 2
`
	double = "import torch\ndef custom_kernel(data):\n    return torch.mul(data[0], 2, out=data[1])\n"
)

// fault is a submission with what the driver has to say of it.
type fault struct {
	name, submission, reference string
	exit                        int
	said                        protocol.Said
}

func faults() []fault {
	wrong := func(why string) protocol.Said {
		return protocol.Said{Wrong: "case n: 8; seed: 1: " + why}
	}
	return []fault{
		{"right", double, doubling, 0, protocol.Said{}},
		{"captured", double + "def capture(data):\n    return lambda: custom_kernel(data)\n", doubling, 0, protocol.Said{}},
		{"wrong", "def custom_kernel(data):\n    return data[0] * 2.01\n", doubling, 1, wrong("8 of 8 values differ, the first at 0: ")},
		{"leaves a value alone after the first call", leaves, doubling, 1, wrong("1 of 8 values differ, the first at 7: nan instead of ")},
		{"remembers its result", "memo = []\ndef custom_kernel(data):\n    if not memo: memo.append(data[0] * 2)\n    return memo[0]\n", doubling, 1, wrong("8 of 8 values differ")},
		{"another shape", "def custom_kernel(data):\n    return data[0][1:] * 2\n", doubling, 1, wrong("shape (7,) instead of (8,)")},
		{"own check", double, doubling + "def check_implementation(data, out):\n    return False, 'mismatch found!\\nlots'\n", 1, wrong("mismatch found! lots")},
		{"exception", "raise ValueError('no')\n", doubling, 134, protocol.Said{}},
		{"no kernel", "", doubling, 125, protocol.Said{Skip: "case8_submission has no custom_kernel"}},
		{"no inputs", double, "", 125, protocol.Said{Skip: "case9_reference has no generate_input"}},
	}
}

const leaves = `
import torch
first = True
def custom_kernel(data):
    global first
    x, y = data
    torch.mul(x[:-1], 2, out=y[:-1])
    if first: y[-1] = 2 * x[-1]
    first = False
    return y
`

func TestTorchDriver(t *testing.T) {
	needTorch(t)
	root := t.TempDir()
	plan, err := NewPlan(Project{Kind: "torch"})
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Write(root); err != nil {
		t.Fatal(err)
	}
	for i, c := range faults() {
		name := fmt.Sprintf("case%d", i)
		for file, text := range map[string]string{"submission": c.submission, "reference": c.reference} {
			if err := errors.Join(os.MkdirAll(filepath.Join(root, name), 0o777), os.WriteFile(filepath.Join(root, name, name+"_"+file+".py"), []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, _, out := heard(t, root, "python3", "-c", drive)
	for i, c := range faults() {
		dir := filepath.Join(root, fmt.Sprintf("case%d", i))
		exit, err := os.ReadFile(filepath.Join(dir, "exit"))
		text, err2 := os.ReadFile(filepath.Join(dir, "said"))
		if err := errors.Join(err, err2); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		p := &protocol.Reader{}
		for l := range strings.Lines(string(text)) {
			p.Line(strings.TrimSuffix(l, "\n"), 0)
		}
		said := p.Said()
		if string(exit) != fmt.Sprint(c.exit) || (said.Wrong == "") != (c.said.Wrong == "") || !strings.HasPrefix(said.Wrong, c.said.Wrong) || said.Skip != c.said.Skip {
			t.Errorf("%s: exit %s, said %+v\n%s", c.name, exit, said, out)
		}
		want := []string{"load", "import", "compile", "warmup", "check", "measure", "teardown"}
		if c.name == "captured" {
			want = slices.Insert(want, 4, "capture")
		}
		if d := cmp.Diff(want, phaseNames(p)); c.exit == 0 && (d != "" || counts(p)["time n: 8; seed: 1"] != 4) {
			t.Errorf("%s: %v\n%s", c.name, counts(p), d)
		}
	}
}

// TestTorchExample runs the example as a plan does.
func TestTorchExample(t *testing.T) {
	needTorch(t)
	t.Setenv("OMP_NUM_THREADS", "1")
	root := example(t, "torch")
	plan, err := NewPlan(Project{Kind: "torch", Cases: []string{"m: 64; n: 256; k: 128; seed: 1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Write(root); err != nil {
		t.Fatal(err)
	}
	p, exit, out := heard(t, root, append(plan.Run, "--samples", "3")...)
	if exit != 0 || counts(p)["time m: 64; n: 256; k: 128; seed: 1"] != 3 {
		t.Errorf("exit %d, %v\n%s", exit, counts(p), out)
	}
}
