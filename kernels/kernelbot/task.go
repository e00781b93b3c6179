package kernelbot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/kernels/plainfile"
	"github.com/kbisect/kbisect/kernels/protocol"
)

// Task is a problem: the content of its task.yml and of the files that it names. A Task without an error from ReadTask
// is complete: it has exactly one submission, and every file that it compiles or runs is among Files.
type Task struct {
	Lang  string // py or cu
	Files []File // the flat folder in which the problem runs

	Main     string   // py: name of the evaluation program
	Sources  []string // cu: files that nvcc compiles
	Includes []string
	Defines  []string // NAME or NAME=value

	Tests, Benchmarks                      []string // lines of a case file
	TestLimit, BenchmarkLimit, RankedLimit time.Duration

	RankingBy string // last, mean or geom
	Seed      *int64
	MultiGPU  bool
	World     int // multi-GPU: the largest number of devices that a case asks for
	Warnings  []string
}

// File is a file of a problem.
type File struct {
	Name   string // base name in the flat folder
	Source string // path from the folder of task.yml, or SubmissionMark; "" once Text is loaded
	Text   string
}

// SubmissionMark is the source of the one file that the user submits.
const SubmissionMark = "@SUBMISSION@"

// DefaultLimit is the limit, in wall time of the whole process tree, of a stage for which the task sets none.
const DefaultLimit = 180 * time.Second

// rawTask is the YAML of a task.yml, as far as it is used. Limits are in seconds.
type rawTask struct {
	Lang  string `yaml:"lang"`
	Files []struct {
		Name   string `yaml:"name"`
		Source string `yaml:"source"`
	} `yaml:"files"`
	Config struct {
		Main     string        `yaml:"main"`
		Sources  []string      `yaml:"sources"`
		Includes []string      `yaml:"include_dirs"`
		Defines  yaml.MapSlice `yaml:"defines"`
		Flags    []string      `yaml:"compile_flags"`
	} `yaml:"config"`
	Tests            []yaml.MapSlice `yaml:"tests"`
	Benchmarks       []yaml.MapSlice `yaml:"benchmarks"`
	TestTimeout      float64         `yaml:"test_timeout"`
	BenchmarkTimeout float64         `yaml:"benchmark_timeout"`
	RankedTimeout    float64         `yaml:"ranked_timeout"`
	RankingBy        string          `yaml:"ranking_by"`
	Seed             *int64          `yaml:"seed"`
	MultiGPU         bool            `yaml:"multi_gpu"`
	GPUs             []string        `yaml:"gpus"`
}

// taskKeys are the top-level keys that KernelBot reads. Others get a warning.
func taskKeys() []string {
	return []string{"lang", "files", "config", "description", "tests", "benchmarks", "templates", "ranked_timeout", "test_timeout",
		"benchmark_timeout", "ranking_by", "gpus", "multi_gpu", "libraries", "seed", "validation"}
}

// maxTask is the largest task.yml, submission header or list of problems that is read, in bytes.
const maxTask = 64 << 10

// withHint adds the general hint for a task.yml to an error that has none of its own.
func withHint(err error) error {
	switch _, own := hint.Split(err); {
	case own != "":
		return err
	case errors.Is(err, errYAML):
		return hint.Add(err, "fix the file; YAML is indented with spaces, never with tabs")
	}
	return hint.Add(err, "fix the file, or name another problem: lang is py or cu, one of files has the source "+SubmissionMark+
		", config has main (py) or sources (cu); the last of equal keys counts, as on the server")
}

// ReadTask reads a problem folder, or the task.yml in it, and the files that it names, which may lie outside the
// folder. Errors name the file, and carry a hint where one can help.
func ReadTask(name string) (*Task, error) {
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		name = filepath.Join(name, "task.yml")
	}
	data, err := plainfile.Read(name, plainfile.Most)
	if err != nil {
		return nil, hint.Add(fmt.Errorf("reading the problem: %w", err), "name the folder that holds task.yml")
	}
	task, err := ParseTask(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, withHint(err))
	}
	if err := task.load(filepath.Dir(name)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return task, nil
}

// ParseTask reads the text of a task.yml. It does not load the files: their Text is empty and their Source set. With
// an error the task may be incomplete.
func ParseTask(data []byte) (*Task, error) {
	if len(data) > maxTask {
		return nil, fmt.Errorf("%d bytes: too large for a task.yml (at most %d)", len(data), maxTask)
	}
	var raw rawTask
	if err := decodeYAML(data, &raw); err != nil {
		return nil, err
	}
	t := &Task{
		Lang: raw.Lang, Main: raw.Config.Main, Sources: raw.Config.Sources, Includes: raw.Config.Includes,
		TestLimit: limit(raw.TestTimeout), BenchmarkLimit: limit(raw.BenchmarkTimeout), RankedLimit: limit(raw.RankedTimeout),
		RankingBy: raw.RankingBy, Seed: raw.Seed, MultiGPU: raw.MultiGPU,
		Tests: caseLines(raw.Tests), Benchmarks: caseLines(raw.Benchmarks),
		World: max(worldSize(raw.Tests), worldSize(raw.Benchmarks)),
	}
	if t.RankingBy == "" {
		t.RankingBy = "last"
	}
	for _, f := range raw.Files {
		t.Files = append(t.Files, File{Name: f.Name, Source: f.Source})
	}
	for _, d := range raw.Config.Defines {
		t.Defines = append(t.Defines, define(d))
	}
	t.Warnings = t.warnings(data, raw)
	return t, t.check()
}

// limit turns the seconds of a task.yml into a limit of at most a week; DefaultLimit where there are none.
func limit(seconds float64) time.Duration {
	const most = 7 * 24 * 3600
	if !(seconds > 0) {
		return DefaultLimit
	}
	return time.Duration(min(seconds, most) * float64(time.Second))
}

// define is a macro as nvcc takes it behind -D.
func define(d yaml.MapItem) string {
	if d.Value == nil {
		return fmt.Sprint(d.Key)
	}
	return fmt.Sprintf("%v=%v", d.Key, d.Value)
}

// warnings lists, sorted, what the task says that the server ignores or that an
// evaluation program may not understand.
func (t *Task) warnings(data []byte, raw rawTask) (out []string) {
	if n, first := unusualPairs(t.Tests, t.Benchmarks); n > 0 {
		out = append(out, fmt.Sprintf("%d case values are not plain words or integers (such as %q): a strict evaluation program rejects them with exit 113", n, first))
	}
	if len(raw.Config.Flags) > 0 {
		out = append(out, "compile_flags are ignored, as on the server")
	}
	var all map[string]any
	if decodeYAML(data, &all) == nil { // an error was reported when raw was read
		for key := range all {
			if !slices.Contains(taskKeys(), key) {
				out = append(out, fmt.Sprintf("KernelBot ignores the key %q", protocol.Plain(key, 80)))
			}
		}
	}
	slices.Sort(out)
	return out
}

// check is strict about everything that decides how the problem runs; what does not is warned of (warnings).
func (t *Task) check() error {
	var submissions int
	for _, f := range t.Files {
		if f.Source == SubmissionMark {
			submissions++
		}
		if f.Name == "" || f.Source == "" || !filepath.IsLocal(f.Name) || path.Base(f.Name) != f.Name {
			return fmt.Errorf("files: invalid entry %q from %q: a file needs a base name and a source", f.Name, f.Source)
		}
	}
	switch {
	case t.Lang != "py" && t.Lang != "cu":
		return fmt.Errorf("lang: %q is neither py nor cu", t.Lang)
	case submissions != 1:
		return fmt.Errorf("files: %d files have the source %s; exactly one is the submission", submissions, SubmissionMark)
	case t.Lang == "py" && !t.Has(t.Main):
		return fmt.Errorf("config.main: %q is not one of the files", t.Main)
	case t.Lang == "cu" && len(t.Sources) == 0:
		return errors.New("config.sources: nothing to compile")
	case t.Lang == "cu" && slices.ContainsFunc(t.Sources, func(s string) bool { return !t.Has(s) }):
		return fmt.Errorf("config.sources: %q are not all among the files", t.Sources)
	case !slices.Contains([]string{"last", "mean", "geom"}, t.RankingBy):
		return fmt.Errorf("ranking_by: invalid value %q; use last, mean or geom", t.RankingBy)
	case len(t.Tests) == 0 && len(t.Benchmarks) == 0:
		return errors.New("neither tests nor benchmarks")
	case t.MultiGPU && t.World == 0:
		return errors.New("multi_gpu: no case has a world_size")
	}
	return nil
}

// Submission is the name of the submitted file in the flat folder, such as submission.py.
func (t *Task) Submission() string {
	for _, f := range t.Files {
		if f.Source == SubmissionMark {
			return f.Name
		}
	}
	return ""
}

// Has reports whether the flat folder has a file of that name.
func (t *Task) Has(name string) bool {
	return slices.ContainsFunc(t.Files, func(f File) bool { return f.Name == name })
}

// Ranked returns the benchmarks that count for the ranking. The server runs no others.
func (t *Task) Ranked() []string {
	if t.RankingBy == "last" && len(t.Benchmarks) > 0 {
		return t.Benchmarks[len(t.Benchmarks)-1:]
	}
	return t.Benchmarks
}

// load reads the files of the judge; the submission comes from the candidate.
func (t *Task) load(dir string) error {
	for i, f := range t.Files {
		if f.Source == SubmissionMark {
			continue
		}
		text, err := plainfile.Read(filepath.Join(dir, filepath.FromSlash(f.Source)), plainfile.Most)
		if errors.Is(err, fs.ErrNotExist) {
			return hint.Add(fmt.Errorf("files: %w", err), "sources are paths from the folder of task.yml; check out the whole set of problems")
		}
		if err != nil {
			return fmt.Errorf("files: %w", err)
		}
		t.Files[i] = File{Name: f.Name, Text: string(text)}
	}
	return nil
}
