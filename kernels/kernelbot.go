package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kbisect/kbisect/kernels/protocol"
)

// problemDir is where the flat folder of a problem is made in an export.
const problemDir = ".kbisect/problem"

// The case files in the folder of a problem.
const (
	testCases      = "kbisect-tests.txt"
	benchmarkCases = "kbisect-benchmarks.txt"
)

// kernelbot is a problem folder of KernelBot, as it is: the files of the judge are the same for all
// candidates, the submission is the candidate's. A trial is what the server makes of one submission:
// a run of the submission that fills the caches, the tests, the benchmarks, the ranked benchmarks,
// each with its limit on the whole process tree, each only if the one before went well.
func kernelbot(p Project) (Plan, error) {
	t := p.Task
	if t == nil {
		return Plan{}, errors.New("kind kernelbot needs a problem\nhint: name the folder of its task.yml, [task] problem = \"problems/matmul\"")
	}
	mode, source := cmp.Or(p.Mode, "leaderboard"), cmp.Or(p.Submission, t.Submission())
	plan := Plan{Dir: problemDir, Files: t.flat(source), Warnings: append(slices.Clone(t.Warnings), t.unranked(mode)...)}
	eval := []string{"python3", t.Main}
	if t.Lang == "cu" {
		eval = []string{"./eval.out"}
		plan.Build, plan.BuildLimit = t.compile(p.Device), CompileLimit
		plan.Outputs = []string{problemDir + "/eval.out"}
	} else if t.holds("submission.py") {
		plan.Stages = append(plan.Stages, Stage{
			Name: "compile", Run: []string{"python3", "submission.py"}, Env: []string{"POPCORN_SEED=1"}, Limit: CompileLimit,
			Base: "compile", Speaks: PopcornFD, Optional: true, Killed: protocol.ExitTimeout,
		})
	}
	stages, err := t.stages(mode, eval)
	plan.Stages = append(plan.Stages, stages...)
	return plan, err
}

// flat is the folder of the problem with a submission from a path of the candidate. Of a ranking by
// the last benchmark the server runs that alone.
func (t *Task) flat(submission string) []File {
	files := slices.Clone(t.Files)
	for i := range files {
		if files[i].Source == SubmissionMark {
			files[i].Source = submission
		}
	}
	return append(files,
		File{Name: testCases, Text: caseFile(t.Tests)},
		File{Name: benchmarkCases, Text: caseFile(t.ranked())})
}

func caseFile(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// ranked are the benchmarks that count.
func (t *Task) ranked() []string {
	if t.RankingBy == "last" && len(t.Benchmarks) > 0 {
		return t.Benchmarks[len(t.Benchmarks)-1:]
	}
	return t.Benchmarks
}

// unranked says which benchmarks are left out: what slows down in one of those is not seen.
func (t *Task) unranked(mode string) []string {
	left := len(t.Benchmarks) - len(t.ranked())
	if left == 0 || mode == "test" {
		return nil
	}
	return []string{fmt.Sprintf("the ranking is by the last benchmark (%s): the %d before it are not run, as on the server",
		protocol.Plain(t.ranked()[0], 80), left)}
}

// stages are the processes of a mode. The timings of the last one are those that count; those of
// one before it bear its name.
func (t *Task) stages(mode string, eval []string) ([]Stage, error) {
	one := func(name, cases string, limit time.Duration) Stage {
		s := Stage{
			Name: name, Run: append(slices.Clone(eval), name, cases), Env: t.env(), Limit: limit,
			Base: name + "/load", Speaks: PopcornFD, Metric: name + ".time", Killed: protocol.ExitTimeout,
		}
		if name != "test" {
			s.Base = name + "/warmup"
		}
		if name == mode {
			s.Metric = "time"
		}
		if name == mode && name != "test" {
			s.Ranking = t.RankingBy
		}
		return s
	}
	test := one("test", testCases, t.TestLimit)
	benchmark := one("benchmark", benchmarkCases, t.BenchmarkLimit)
	switch {
	case mode != "test" && len(t.Benchmarks) == 0:
		return nil, fmt.Errorf("mode %s: the problem has no benchmarks", mode)
	case mode == "test":
		return []Stage{test}, nil
	case mode == "benchmark":
		return []Stage{benchmark}, nil
	case mode == "leaderboard":
		return []Stage{test, benchmark, one("leaderboard", benchmarkCases, t.RankedLimit)}, nil
	}
	return nil, fmt.Errorf("mode %q is none of test, benchmark, leaderboard", mode)
}

func (t *Task) env() []string {
	var env []string
	if t.Seed != nil {
		env = append(env, "POPCORN_SEED="+strconv.FormatInt(*t.Seed, 10))
	}
	if t.MultiGPU {
		env = append(env, "POPCORN_GPUS="+strconv.Itoa(t.World))
	}
	return env
}

// compile is the server's command for CUDA C++.
func (t *Task) compile(device string) []string {
	argv := []string{"nvcc", "--std=c++20", "-DNDEBUG", "-Xcompiler=-Wno-psabi", "-Xcompiler=-fno-strict-aliasing",
		"--expt-extended-lambda", "--expt-relaxed-constexpr", "-forward-unknown-to-host-compiler", "-O3",
		"-Xnvlink=--verbose", "-Xptxas=--verbose", "-Xptxas=--warn-on-spills"}
	for _, d := range t.Includes {
		argv = append(argv, "-I"+d)
	}
	for _, d := range t.Defines {
		argv = append(argv, "-D"+d)
	}
	return append(append(append(argv, t.Sources...), ArchOption(device)), "-o", "eval.out")
}

// AsKernelbot puts any plan under the rules of KernelBot's server: 120 s for the build and 180 s for
// the process tree of the run, imports included, unless it has stages with limits of their own, and a
// POPCORN_FD that is read when the process has ended.
func (p Plan) AsKernelbot() Plan {
	p.BuildLimit = CompileLimit
	p.Undrained = true
	if len(p.Stages) == 0 {
		p.Stages = []Stage{{Run: p.Run, Limit: StageLimit, Killed: protocol.ExitTimeout}}
		p.Run = nil
	}
	return p
}
