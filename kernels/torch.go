package kernels

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/kernels/harness"
	"github.com/kbisect/kbisect/kernels/kernelbot"
)

// torchDriver is the path of the driver in an export; the module that it imports lies
// beside it.
const torchDriver = ".kbisect/torch_driver.py"

// torchPlan is a submission with custom_kernel(data) and a reference with
// generate_input(**case), both the candidate's. The driver imports them, calls the
// kernel for the first time, warms it up, captures a graph where the submission offers
// one, checks and measures, each as its own phase.
func torchPlan(p Project) (Plan, error) {
	plan := Plan{Build: p.Build, Outputs: p.Outputs, Run: p.Run}
	if len(p.Run) > 0 {
		return plan, nil
	}
	for _, name := range []string{harness.TorchDriver, harness.Module} {
		plan.Files = append(plan.Files, File{Name: path.Join(path.Dir(torchDriver), name), Text: string(harness.File(name))})
	}
	plan.Run = []string{"python3", torchDriver, "--submission", cmp.Or(p.Submission, "submission.py")}
	if p.Reference != "" {
		plan.Run = append(plan.Run, "--reference", p.Reference)
	}
	for _, c := range p.Cases {
		for part := range strings.SplitSeq(c, ";") {
			if pair := strings.TrimSpace(part); !kernelbot.IsStrictPair(pair) {
				return Plan{}, hint.Add(fmt.Errorf("case %q: expected a name and a value, got %q", c, pair), "write a case as \"m: 256; n: 512; seed: 1\"")
			}
		}
		plan.Run = append(plan.Run, "--case", c)
	}
	return plan, nil
}
