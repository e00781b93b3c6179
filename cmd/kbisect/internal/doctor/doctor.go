// Package doctor checks what a search needs on this machine and in this repository, and
// prints a table of what works, what does not, and what to do about it ([Run]). Checks
// know nothing of one another and each has its own limit, since drivers may hang.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/source"
)

// state is what a check came to.
type state string

const (
	StateOK      state = "ok"
	stateMissing state = "missing" // not there; matters only where it is needed
	StateProblem state = "problem" // there and broken
)

// Finding is the answer of one check. Found may have several lines.
type Finding struct {
	State state
	Found string
	Hint  string // what a person can do; "" where there is nothing to do
}

func Ok(format string, args ...any) Finding {
	return Finding{State: StateOK, Found: fmt.Sprintf(format, args...)}
}

func missing(found, hint string) Finding { return Finding{stateMissing, found, hint} }

func Problem(found, hint string) Finding { return Finding{StateProblem, found, hint} }

// problemOf takes the hint out of an error that carries one.
func problemOf(err error) Finding {
	text, hint, _ := strings.Cut(err.Error(), "\nhint: ")
	return Problem(text, hint)
}

// check is one line of the table. Checks know nothing of one another and may
// run at the same time; each has its own limit.
type check struct {
	Name   string
	needed bool // without it the configured kind of project cannot be searched
	limit  time.Duration
	run    func(ctx context.Context) Finding
}

// Run looks at the machine and at the repository in dir, with its configuration unless another file
// is named, and writes a table of what it found and what to do about it. It is not ok only when something
// is broken that the configured kind of project needs.
func Run(ctx context.Context, out io.Writer, version, dir, config string) (ok bool) {
	e := NewExamination(dir, config)
	fmt.Fprintf(out, "kbisect %s looks at %s\n\n", version, e.dir)
	defer e.Close()
	e.ProbeFirst(ctx)
	checks := e.Checks()
	width := 0
	for _, c := range checks {
		width = max(width, len(c.Name))
	}
	var stopping []string
	for i, f := range examine(ctx, checks) {
		f := f()
		if f.State == stateMissing && !checks[i].needed {
			f.Hint = "" // nobody needs to install it
		}
		f.print(out, checks[i].Name, width)
		if checks[i].needed && f.State != StateOK {
			stopping = append(stopping, checks[i].Name)
		}
	}
	if len(stopping) > 0 {
		fmt.Fprintf(out, "\nIn the way of a search here%s: %s.\n", e.ofKind(), strings.Join(stopping, ", "))
		return false
	}
	fmt.Fprintf(out, "\nNothing is in the way of a search here%s; what is missing is not needed for it.\n", e.ofKind())
	return true
}

// examine runs the checks a few at a time and returns, in their order,
// functions that wait for each finding.
func examine(ctx context.Context, checks []check) []func() Finding {
	slots := make(chan struct{}, 3)
	out := make([]func() Finding, len(checks))
	for i, c := range checks {
		out[i] = sync.OnceValue(func() Finding { return c.Bounded(ctx) })
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out[i]()
		}()
	}
	return out
}

// Bounded gives a check its limit, and does not wait for one that ignores it: a
// driver may hang inside the kernel.
func (c check) Bounded(ctx context.Context) Finding {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	answer := make(chan Finding, 1)
	go func() { answer <- c.run(ctx) }()
	late := Problem(fmt.Sprintf("no answer within %v", c.limit), "")
	select {
	case f := <-answer:
		return f
	case <-ctx.Done():
	}
	select { // a check that notices the end of its time says more
	case f := <-answer:
		return f
	case <-time.After(15 * time.Second):
		return late
	}
}

// print writes one line of the table, and more for more lines found.
func (f Finding) print(out io.Writer, name string, width int) {
	indent := strings.Repeat(" ", width+11)
	found := strings.ReplaceAll(strings.TrimRight(f.Found, "\n"), "\n", "\n"+indent)
	fmt.Fprintf(out, "%-7s  %-*s  %s\n", f.State, width, name, found)
	if f.Hint != "" {
		fmt.Fprintf(out, "%shint: %s\n", indent, strings.ReplaceAll(f.Hint, "\n", "\n"+indent))
	}
}

// examination is what the checks share; it is not changed while they run.
type examination struct {
	dir       string
	repo      *source.Repo
	repoErr   error
	config    *config.Config // never nil
	configErr error
	named     bool // the configuration, by --config

	// probe asks the driver once, before the checks that use the device begin:
	// they would be seen as its clocks and as strangers on it.
	probe func() gpu.Report
}

func NewExamination(dir, configFile string) *examination {
	e := &examination{dir: dir, named: configFile != "", probe: sync.OnceValue(gpu.Probe)}
	if abs, err := filepath.Abs(dir); err == nil {
		e.dir = abs
	}
	e.repo, e.repoErr = source.Open(e.dir)
	cfg, err := config.Load(cmp.Or(configFile, e.configPath()))
	if cfg == nil {
		cfg, e.configErr = &config.Config{}, err
	}
	e.config = cfg.WithDefaults()
	return e
}

// ProbeFirst waits for the driver, but not for one that hangs.
func (e *examination) ProbeFirst(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.probe()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	case <-time.After(20 * time.Second):
	}
}

func (e *examination) Close() {
	if e.repo != nil {
		_ = e.repo.Close()
	}
}

func (e *examination) configPath() string {
	if e.repoErr == nil && e.repo.WorkDir() != "" {
		return filepath.Join(e.repo.WorkDir(), config.FileName)
	}
	return filepath.Join(e.dir, config.FileName)
}

func (e *examination) kind() string { return e.config.Kind }

// isKind reports whether the project is of one of these kinds.
func (e *examination) isKind(kinds ...string) bool { return slices.Contains(kinds, e.kind()) }

// ofKind names the kind in brackets, unless the configuration that says it cannot be read.
func (e *examination) ofKind() string {
	if isConfigError(e.configErr) {
		return ""
	}
	return " (kind " + e.kind() + ")"
}

func (e *examination) Checks() []check {
	const quick = 20 * time.Second
	commands := len(e.config.Build.Command)+len(e.config.Run.Command) > 0
	python := e.isKind(config.KindTorch, config.KindKernelbot)
	program := e.pythonProgram()
	list := []check{
		{"system", false, quick, e.system},
		{"git", false, quick, toolCheck("git", "git", "install git; without it only plain repositories can be read", "--version")},
		{"repository", true, quick, e.repository},
		{"kbisect.toml", e.config.Path != "" || isConfigError(e.configErr), quick, e.configuration},
		{"commands", commands, quick, e.commands},
		{"C compiler", e.isKind(config.KindCMake), 60 * time.Second, e.cCompiler},
		{"make", e.isKind(config.KindMake), quick, toolCheck("make", "GNU Make", "install make", "--version")},
		{"cmake", e.isKind(config.KindCMake), quick, toolCheck("cmake", "cmake", "install cmake", "--version")},
		{"ninja", false, quick, toolCheck("ninja", "", "", "--version")},
		{"nvcc", e.isKind(config.KindNvcc) || e.cudaTask(), 150 * time.Second, e.nvcc},
		{"python3", python, quick, toolCheck("python3", "Python", "install python3", "--version")},
		{"modules", true, quick + 30*time.Second, program.modules},
		{"torch", e.isKind(config.KindTorch), 70 * time.Second, e.torch},
		{"nvcc chain", e.isKind(config.KindNvcc) && len(e.probe().Devices) > 0, chainBuild + chainRun, e.nvccChain},
		{"torch chain", false, chainRun + 65*time.Second, e.torchChain},
		{"devices", e.namesDevices(), 40 * time.Second, e.devices},
		{"cgroup", false, quick, e.cgroup},
		{"build cache", true, quick, e.cache},
		{"store", e.repoErr == nil, quick, e.store},
		{"hooks", false, quick, e.hooks},
	}
	return slices.DeleteFunc(list, func(c check) bool { return c.Name == "modules" && program == nil })
}

// toolCheck looks a program up and asks for its version; prefix is how the line
// that tells it begins, "" for any.
func toolCheck(name, prefix, hint string, args ...string) func(context.Context) Finding {
	return func(ctx context.Context) Finding {
		path, err := exec.LookPath(name)
		if err != nil {
			return missing("not in PATH", hint)
		}
		s := machine.RunTool(ctx, 15*time.Second, "", append([]string{path}, args...)...)
		if s.Err != nil {
			return Problem(fmt.Sprintf("%s: %v", path, s.Err), "it is installed but does not run; install it again, or mend PATH")
		}
		return Ok("%s (%s)", machine.VersionLine(s, prefix), path)
	}
}
