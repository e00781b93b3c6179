package kernels

import (
	"cmp"
	"fmt"
	"path"
	"strings"
)

// torchDriver is where the driver goes in an export, beside the module that it uses.
const torchDriver = ".kbisect/torch_driver.py"

// torch is a submission with custom_kernel(data) and a reference with generate_input(**case), both the
// candidate's. The driver that kbisect brings along imports them, calls the kernel for the first
// time, warms it up, captures a graph where the submission offers one, checks and measures, each as
// a phase of its own.
func torch(p Project) (Plan, error) {
	plan := Plan{Build: p.Build, Outputs: p.Outputs, Run: p.Run}
	if len(p.Run) > 0 {
		return plan, nil
	}
	for _, name := range []string{TorchDriver, Module} {
		plan.Files = append(plan.Files, File{Name: path.Join(path.Dir(torchDriver), name), Text: string(HarnessFile(name))})
	}
	plan.Run = []string{"python3", torchDriver, "--submission", cmp.Or(p.Submission, "submission.py")}
	if p.Reference != "" {
		plan.Run = append(plan.Run, "--reference", p.Reference)
	}
	pair := casePair()
	for _, c := range p.Cases {
		for part := range strings.SplitSeq(c, ";") {
			if !pair.MatchString(strings.TrimSpace(part)) {
				return Plan{}, fmt.Errorf("case %q: %q is no pair of a name and a value\nhint: write a case as \"m: 256; n: 512; seed: 1\"", c, strings.TrimSpace(part))
			}
		}
		plan.Run = append(plan.Run, "--case", c)
	}
	return plan, nil
}
