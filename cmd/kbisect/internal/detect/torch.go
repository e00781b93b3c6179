package detect

import (
	"bytes"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/kernelbot"
)

// findTorch recognises a submission without a problem folder. kbisect's driver runs it if there is a reference to
// check it against, otherwise the project's own benchmark does.
func findTorch(d *folder) (project, bool) {
	if !bytes.Contains(d.read("submission.py"), []byte("custom_kernel")) {
		return project{}, false
	}
	p := project{Kind: kernels.KindTorch, What: "a PyTorch submission (custom_kernel in submission.py)"}
	if bytes.Contains(d.read("reference.py"), []byte("generate_input")) {
		p.Task = config.TaskConfig{Submission: "submission.py", Reference: "reference.py"}
		return p, true
	}
	if kernelbot.ReadDirectives(d.read("submission.py")).Leaderboard != "" {
		return problemProject(d, "", "submission.py"), true
	}
	p.Kind = kernels.KindCommand
	runPython(d, &p, "submission.py")
	return p, true
}
