package doctor

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/metrics"
	"github.com/kbisect/kbisect/pipeline/gpu"
	"github.com/kbisect/kbisect/pipeline/source"
)

// subject is what the checks look at. It does not change while they run, so that they may run side by side.
type subject struct {
	dir       string
	repo      *source.Repo // nil with repoErr
	repoErr   error
	config    *config.Config // with defaults; never nil
	configErr error
	named     bool // the file was named by --config, so that it is an error if it does not exist

	// probe asks the driver, once, and before the checks that use a device: their load would show in its clocks and in
	// its list of processes. A driver that hangs makes it hang as well.
	probe func() gpu.Report
}

// open reads the repository in dir and its configuration, or configFile if that is not "". It does not fail: what
// goes wrong is kept for the check that reports it.
func open(dir, configFile string) *subject {
	s := &subject{dir: dir, named: configFile != "", probe: sync.OnceValue(gpu.Probe)}
	if abs, err := filepath.Abs(dir); err == nil {
		s.dir = abs
	}
	s.repo, s.repoErr = source.Open(s.dir)
	// Without a configuration the checks go by the defaults: kind command, all devices.
	cfg, err := config.Load(cmp.Or(configFile, filepath.Join(s.top(), config.FileName)))
	if cfg == nil {
		cfg, s.configErr = &config.Config{}, err
	}
	s.config = cfg.WithDefaults()
	return s
}

// close closes the repository, if one was opened.
func (s *subject) close() {
	if s.repo != nil {
		_ = s.repo.Close()
	}
}

// top is the top of the work tree, or the directory itself where there is none.
func (s *subject) top() string {
	if s.repoErr == nil && s.repo.WorkDir() != "" {
		return s.repo.WorkDir()
	}
	return s.dir
}

// waitForDriver lets the probe finish before other checks begin, but does not wait for a driver that hangs.
func (s *subject) waitForDriver(ctx context.Context) {
	machine.Within(ctx, 20*time.Second, s.probe)
}

// kind names the kind of project in brackets, for the last line of the table, as it decides what is needed. It is "" if
// the configuration cannot be read.
func (s *subject) kind() string {
	if isInvalid(s.configErr) {
		return ""
	}
	return " (kind " + s.config.Kind + ")"
}

// checks lists what there is to check, in the order of the table. A check is needed if the configured project
// cannot be searched without it. The limits are for slow machines: importing torch for the first time takes ten
// seconds on a fast one.
func (s *subject) checks() []check {
	const quick = 20 * time.Second
	cfg := s.config
	is := func(kinds ...string) bool { return slices.Contains(kinds, cfg.Kind) }
	return []check{
		{"system", false, quick, system},
		{"git", false, quick, toolCheck("git", "git", "install git; without it only plain repositories can be read")},
		{"repository", true, quick, s.repository},
		{"kbisect.toml", cfg.Path != "" || isInvalid(s.configErr), quick, s.configuration},
		{"commands", len(cfg.Build.Command)+len(cfg.Run.Command) > 0, quick, func(context.Context) Finding { return commands(cfg) }},
		{"C compiler", is(kernels.KindCMake), 60 * time.Second, cCompiler},
		{"make", is(kernels.KindMake), quick, toolCheck("make", "GNU Make", "install make")},
		{"cmake", is(kernels.KindCMake), quick, toolCheck("cmake", "cmake", "install cmake")},
		{"ninja", false, quick, toolCheck("ninja", "", "")},
		{"nvcc", is(kernels.KindNvcc) || cudaTask(cfg), 150 * time.Second, func(ctx context.Context) Finding { return nvcc(ctx, s.probe()) }},
		{"python3", is(kernels.KindTorch, kernels.KindKernelbot), quick, toolCheck("python3", "Python", "install python3")},
		{"torch", is(kernels.KindTorch), 70 * time.Second, func(ctx context.Context) Finding { return torch(ctx, s.probe()) }},
		{"profilers", false, quick, profilers},
		{"devices", namesDevices(cfg.GPUs), 40 * time.Second, func(context.Context) Finding { return devicesHere(s.probe(), cfg.GPUs) }},
		{"cgroup", false, quick, cgroup},
		{"sandbox", cfg.Run.Sandbox, quick, sandbox},
		{"instructions", slices.ContainsFunc(cfg.Metrics, func(m config.Metric) bool { return m.From == metrics.Instructions }), quick, instructions},
		{"build cache", true, quick, buildCache},
		{"workspaces", false, quick, workspaces},
		{"store", s.repoErr == nil, quick, s.store},
		{"hooks", false, quick, s.hooks},
	}
}
