package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/kernels/kernelbot"
	"github.com/kbisect/kbisect/kernels/protocol"
)

// problemDir is the flat folder of a problem in an export.
const problemDir = ".kbisect/problem"

// The case files in problemDir.
const (
	testCases      = "kbisect-tests.txt"
	benchmarkCases = "kbisect-benchmarks.txt"
)

// compileLimit is KernelBot's wall-clock limit of a build.
const compileLimit = 120 * time.Second

// kernelbotPlan runs a problem folder of KernelBot unchanged. The judge's files are the
// same for every candidate, and only the submission is the candidate's. A trial does
// what the server does with one submission: an import that fills the caches, then tests,
// benchmarks and ranked benchmarks. Each process tree has its own limit and starts only
// when the one before passed.
func kernelbotPlan(p Project) (Plan, error) {
	t := p.Task
	if t == nil {
		return Plan{}, hint.Add(errors.New("kind kernelbot needs a problem"), "name the folder of its task.yml, [task] problem = \"problems/matmul\"")
	}
	mode, source := cmp.Or(p.Mode, "leaderboard"), cmp.Or(p.Submission, t.Submission())
	plan := Plan{Dir: problemDir, Files: problemFiles(t, source), Warnings: slices.Clone(t.Warnings)}
	if mode != "test" {
		plan.Warnings = append(plan.Warnings, unrankedWarning(t)...)
	}
	eval := []string{"python3", t.Main}
	if t.Lang == "cu" {
		eval = []string{"./eval.out"}
		plan.Build, plan.BuildLimit = problemCompiler(t, p.Device), compileLimit
		plan.Outputs = []string{problemDir + "/eval.out"}
	} else if t.Has("submission.py") {
		plan.Stages = append(plan.Stages, Stage{
			Name: "compile", Run: []string{"python3", "submission.py"}, Env: []string{"POPCORN_SEED=1"}, Limit: compileLimit,
			Base: "compile", Speaks: PopcornFD, Optional: true, Killed: protocol.ExitTimeout,
		})
	}
	stages, err := problemStages(t, mode, eval)
	plan.Stages = append(plan.Stages, stages...)
	return plan, err
}

// problemFiles is the content of problemDir for a submission at a path of the candidate.
func problemFiles(t *kernelbot.Task, submission string) []File {
	var files []File
	for _, f := range t.Files {
		if f.Source == kernelbot.SubmissionMark {
			f.Source = submission
		}
		files = append(files, File{Name: f.Name, Source: f.Source, Text: f.Text})
	}
	return append(files,
		File{Name: testCases, Text: caseFile(t.Tests)},
		File{Name: benchmarkCases, Text: caseFile(t.Ranked())})
}

// caseFile is the text of a case file. No case is an empty file: an empty line would be an invalid case.
func caseFile(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// unrankedWarning names the benchmarks that do not run: a slowdown there stays unseen.
func unrankedWarning(t *kernelbot.Task) []string {
	ranked := t.Ranked()
	skipped := len(t.Benchmarks) - len(ranked)
	if skipped == 0 {
		return nil
	}
	return []string{fmt.Sprintf("only the last benchmark (%s) is ranked and run, as on the server; benchmarks not run: %d",
		protocol.Plain(ranked[0], 80), skipped)}
}

// problemStages are the processes of a mode. The timings of the last stage are the
// metric "time"; those of earlier stages are named after their stage.
func problemStages(t *kernelbot.Task, mode string, eval []string) ([]Stage, error) {
	stage := func(name, cases string, limit time.Duration) Stage {
		s := Stage{
			Name: name, Run: append(slices.Clone(eval), name, cases), Env: problemEnv(t), Limit: limit,
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
	test := stage("test", testCases, t.TestLimit)
	benchmark := stage("benchmark", benchmarkCases, t.BenchmarkLimit)
	switch {
	case mode != "test" && len(t.Benchmarks) == 0:
		return nil, fmt.Errorf("mode %s: the problem has no benchmarks", mode)
	case mode == "test":
		return []Stage{test}, nil
	case mode == "benchmark":
		return []Stage{benchmark}, nil
	case mode == "leaderboard":
		return []Stage{test, benchmark, stage("leaderboard", benchmarkCases, t.RankedLimit)}, nil
	}
	return nil, fmt.Errorf("invalid mode %q: use test, benchmark or leaderboard", mode)
}

// problemEnv is the environment of the judge: the seed of the secret cases, and how many GPUs a problem asks for.
func problemEnv(t *kernelbot.Task) []string {
	var env []string
	if t.Seed != nil {
		env = append(env, "POPCORN_SEED="+strconv.FormatInt(*t.Seed, 10))
	}
	if t.MultiGPU {
		env = append(env, "POPCORN_GPUS="+strconv.Itoa(t.World))
	}
	return env
}

// problemCompiler is the server's compiler command for CUDA C++.
func problemCompiler(t *kernelbot.Task, device string) []string {
	argv := []string{"nvcc", "--std=c++20", "-DNDEBUG", "-Xcompiler=-Wno-psabi", "-Xcompiler=-fno-strict-aliasing",
		"--expt-extended-lambda", "--expt-relaxed-constexpr", "-forward-unknown-to-host-compiler", "-O3",
		"-Xnvlink=--verbose", "-Xptxas=--verbose", "-Xptxas=--warn-on-spills"}
	for _, d := range t.Includes {
		argv = append(argv, "-I"+d)
	}
	for _, d := range t.Defines {
		argv = append(argv, "-D"+d)
	}
	return append(append(append(argv, t.Sources...), archOption(device)), "-o", "eval.out")
}

// AsKernelbot puts any plan under the rules of KernelBot's server: 120 s for the build,
// 180 s for the process tree of the run, imports included, and a POPCORN_FD that is read
// only when the process has ended. Stages keep their own limits.
func (p Plan) AsKernelbot() Plan {
	p.BuildLimit = compileLimit
	p.Undrained = true
	if len(p.Stages) == 0 {
		p.Stages = []Stage{{Run: p.Run, Limit: kernelbot.DefaultLimit, Killed: protocol.ExitTimeout}}
		p.Run = nil
	}
	return p
}
