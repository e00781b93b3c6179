package detect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
)

// config is the commented kbisect.toml of a project.
func (p project) config() ([]byte, error) {
	text := p.render()
	if p.kind == config.KindKernelbot && p.task.Problem == "" {
		p.task.Problem = "." // as the user will fill it in
	}
	if _, err := config.Parse(config.FileName, []byte(p.render())); err != nil { // a file name that TOML cannot hold
		return nil, fmt.Errorf("write configuration for %s: %w", p.what, err)
	}
	return []byte(text), nil
}

// writeProject writes a commented kbisect.toml for the kind of project in dir. It
// never overwrites a file: the error then wraps fs.ErrExist.
func writeProject(dir string) (path, kind string, err error) {
	p, err := detectProject(dir)
	if err != nil {
		return "", "", err
	}
	return p.write(dir)
}

// write writes the configuration of a project into dir.
func (p project) write(dir string) (path, kind string, err error) {
	path = filepath.Join(dir, config.FileName)
	text, err := p.config()
	if err != nil {
		return "", "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return "", "", fmt.Errorf("%s was not changed: %w\nhint: edit it, or move it away and run kbisect init again", path, fs.ErrExist)
	}
	if err != nil {
		return "", "", fmt.Errorf("write configuration: %w", err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path) // half a configuration is worse than none
		return "", "", fmt.Errorf("write configuration %s: %w", path, err)
	}
	return path, p.kind, nil
}

// render writes the file, one comment for each key.
func (p project) render() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	line("# kbisect.toml: how kbisect builds and runs this repository, detected as %s.", p.what)
	line("# Next: kbisect doctor checks whether it will work; kbisect run --good REV --bad REV searches.")
	line("# Unknown keys and wrong units are errors.")
	line("version = 1")
	line("kind    = %-12s # %s", tomlString(p.kind), kindNote())
	line("# What the build and the run read, relative to the top of the repository. Commits that")
	line("# change none of it are never built: when in doubt name more, or delete the line to name all.")
	if len(p.paths) == 0 {
		line(`# paths = ["src/", "bench.py"]`)
	} else {
		line("paths = %s", tomlStrings(p.paths))
	}
	p.renderTask(line)
	p.renderBuild(line)
	p.renderRun(line)
	sources := strings.Join(config.MetricSources(), " | ")
	rest, metrics, _ := strings.Cut(strings.Replace(renderRest(), "SOURCES", sources, 1), "\n# [metric]")
	b.WriteString(rest) // it begins with what belongs to [run]
	p.renderMetric(line)
	b.WriteString("\n# [metric]" + metrics)
	return b.String()
}

func kindNote() string {
	return strings.Join(config.Kinds(), " | ") + ": how build and run are understood"
}

// renderTask writes the table of the kinds that check a submission.
func (p project) renderTask(line func(string, ...any)) {
	switch p.kind {
	case config.KindKernelbot:
		line("\n[task]")
		line("# The problem and its judge come from your work tree and are the same for every commit.")
		for _, note := range p.judged {
			line("# %s", note)
		}
		note := "folder of task.yml, may be outside the repository"
		if p.task.Problem == "" {
			note = "FILL IN: folder of task.yml, may be outside the repository"
		}
		line("problem    = %-16s # %s", tomlString(p.task.Problem), note)
		line("submission = %s", tomlString(p.task.Submission))
		line("mode       = \"leaderboard\"    # test, then benchmark, then the ranked run; cheaper: test | benchmark")
	case config.KindTorch:
		line("\n[task]")
		line("# kbisect's own driver imports both, then warms up, checks and measures, each as a phase.")
		line("submission = %-16s # has custom_kernel(data)", tomlString(p.task.Submission))
		line("reference  = %-16s # has generate_input and check_implementation or ref_kernel", tomlString(p.task.Reference))
		line("# cases = [\"m: 256; n: 512; seed: 1\"]   # arguments of generate_input; else CASES of the reference")
	}
}

func (p project) renderBuild(line func(string, ...any)) {
	line("\n[build]")
	switch {
	case p.kind == config.KindKernelbot:
		line("# The problem says what to build, and for how long.")
		return
	case len(p.sources) > 0:
		line("# nvcc compiles these for the device; the files they include count as input too.")
		line("sources = %s", tomlStrings(p.sources))
		if len(p.options) == 0 {
			line("# options = [\"-O3\", \"-lineinfo\"]   # of nvcc; or command = [\"nvcc\", …] instead of both")
		} else {
			line("options = %s   # of nvcc", tomlStrings(p.options))
		}
	default:
		line("# The words of one command, run at the top of a clean export; for shell: [\"sh\", \"-c\", \"…\"].")
		if len(p.build) == 0 {
			line("# command = [\"make\", \"-j2\"]   # nothing to build was found")
		} else {
			line("command = %s", tomlStrings(p.build))
		}
	}
	line("limit   = \"10m\"             # a build that takes longer has failed")
	line("# What the build makes and the run needs; it is cached, so that nothing is built twice.")
	if len(p.outputs) == 0 {
		line("# outputs = [\"bench\"]")
	} else {
		line("outputs = %s", tomlStrings(p.outputs))
	}
	if p.kind == config.KindMake || p.kind == config.KindCMake {
		line("# incremental = false       # build every candidate from nothing, where the rules miss dependencies")
	}
}

func (p project) renderRun(line func(string, ...any)) {
	line("\n[run]")
	line("# One trial, a fresh process each time. Exit 0 is good, 125 is skip, anything else is bad.")
	for _, note := range p.notes {
		line("# %s", note)
	}
	switch {
	case p.kind == config.KindKernelbot:
		line("# Each process has the limit of the problem, imports included, as on the server.")
		line("# limit = \"10m\"             # of all of them together")
		return
	case p.kind == config.KindTorch && len(p.run) == 0:
		line("# command = [\"python3\", \"bench.py\"]   # instead of kbisect's driver")
	case len(p.run) == 0:
		line("# command = [\"./bench\"]     # FILL IN: nothing to run was found")
		line("# No benchmark yet? kbisect init --harness cuda | torch | python adds an example.")
	default:
		line("command = %s", tomlStrings(p.run))
	}
	line("limit   = \"180s\"            # of the whole trial without the build")
	line("# files  = [\"bench.py\"]      # copied into every commit as they are now: for a benchmark")
	line("#                              # newer than what it measures; may include sources of [build]")
	line("# keep   = [\"data/\"]         # ignored or untracked paths of the work tree that every commit gets")
}

// renderRest is the same for every kind: the defaults, as comments.
func renderRest() string {
	return `
# caches = "auto"             # compiler caches (Triton, Inductor, …) of measured runs: cold | warm; auto is
                              # warm where times are compared, else cold; your own caches are never touched
# memory = "8G"               # that its processes may hold together; more is a crash: out of memory
# sandbox = true              # it and the build write only their own folders and see no network and no other process
# network = true              # but the network in a sandbox
# probe  = "auto"             # asks Python for the phases import, extension, compile, capture: on | off

# [run.limits]                # per phase; the program names its phases, see kbisect run --help
# load    = "60s"
# warmup  = "4x"              # or a multiple of the baseline
# measure = "120s"

# [metric]                    # what "slow" is about; for more than one write [[metrics]]
# name    = "time"
# unit    = "us"              # ns us ms s, GB/s, TFLOP/s, MiB, …
# better  = "lower"           # lower | higher; without it by the unit of the values
# from    = "protocol"        # SOURCES
# pattern = 'time: (?P<value>[0-9.]+) (?P<unit>ms|us)'   # only for from = "regex"
# case    = "block_size=256"  # only this case, as the program names it, or group=value for a group of the pattern

# [judge]
# effect = "3%"               # the smallest change worth finding
# error  = 0.01               # the chance that the final answer is wrong

# [device]
# gpus = "auto"               # none | auto | indices or UUIDs, as [0] or ["GPU-…"]

# [cost]
# gpu_hour = 0.68             # prices the session

# [[flag]]                    # a switch of the project, for the search over settings
# name   = "compile"
# values = ["off", "on"]      # the first is the safe base
# env    = "USE_COMPILE"      # or define = "USE_COMPILE" (-DUSE_COMPILE=on), arg = "--compile={value}", option = "-maxrregcount={value}"
                              # arg and option of a switch, off and on, need no {value}: option = "--use_fast_math" is
                              # passed at "on" alone; the value "unset" passes nothing, so #ifdef X: define = "X" and
                              # values = ["unset", "1"]
# bad    = "on"               # the value to blame; default: the last
# ordered  = true             # each value includes the ones before it
# a value that stands for other flags has parts = ["tune=on", "graphs=on"]; once it is blamed, these are searched

# [[flag]]
# name   = "graph"
# values = ["off", "on"]
# env    = "USE_GRAPH"
# requires = ["compile!=off"] # "on" only where this holds; excludes = ["…"]: only where it does not

# [[hypothesis]]              # a claim, tested by the same search
# name  = "compiling takes too long"
# claim = ["compile=on"]
`
}

// tomlString quotes s as a basic string.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case unicode.IsControl(c):
			fmt.Fprintf(&b, `\u%04X`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func tomlStrings(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = tomlString(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
