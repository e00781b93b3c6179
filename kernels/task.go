package kernels

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/kbisect/kbisect/kernels/protocol"
)

// Task is a problem of KernelBot: what its task.yml says, with the texts of the files that it names.
type Task struct {
	Path  string // of the task.yml
	Lang  string // py, cu
	Files []File // of the flat folder of the problem; the submission has the source [SubmissionMark]

	Main     string   // py: the evaluation
	Sources  []string // cu: what nvcc compiles
	Includes []string
	Defines  []string // NAME or NAME=value

	Tests, Benchmarks                      []string // lines of a case file
	TestLimit, BenchmarkLimit, RankedLimit time.Duration

	RankingBy string // last, mean, geom
	Seed      *int64
	MultiGPU  bool
	World     int // multi-GPU: the most devices that a case asks for
	GPUs      []string
	Warnings  []string
}

// SubmissionMark is the source of the file that is the user's.
const SubmissionMark = "@SUBMISSION@"

// The limits of KernelBot where a task sets none: wall clock of a whole process tree.
const (
	CompileLimit = 120 * time.Second
	StageLimit   = 180 * time.Second
)

// rawTask is a task.yml as it stands.
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

// taskKeys are the keys that KernelBot knows; a word about others, but no error.
func taskKeys() []string {
	return []string{"lang", "files", "config", "description", "tests", "benchmarks", "templates", "ranked_timeout", "test_timeout",
		"benchmark_timeout", "ranking_by", "gpus", "multi_gpu", "libraries", "seed", "validation"}
}

// ReadTask reads a problem folder, or the task.yml in it, and the files that it names, which may lie
// outside of the folder.
func ReadTask(name string) (*Task, error) {
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		name = filepath.Join(name, "task.yml")
	}
	data, err := readBounded(name)
	if err != nil {
		return nil, fmt.Errorf("reading the problem: %w\nhint: name the folder that holds task.yml", err)
	}
	task, err := ParseTask(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w%s", name, err, taskHint(err))
	}
	task.Path = name
	if err := task.load(filepath.Dir(name)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return task, nil
}

// errYAML is that a text is no YAML.
var errYAML = errors.New("not read as YAML")

// taskHint says what to do about a task.yml that is not as it should be.
func taskHint(err error) string {
	switch {
	case strings.Contains(err.Error(), "\nhint: "):
		return ""
	case errors.Is(err, errYAML):
		return "\nhint: mend it there; YAML is indented by spaces, never by tabs"
	}
	return "\nhint: mend it there, or name another problem: lang is py or cu, files has one with the source " + SubmissionMark + ", config has main (py) or sources (cu); the last of equal keys counts, as on the server"
}

// ParseTask reads the text of a task.yml. The texts of the files are still missing; their sources
// are paths from the folder of the problem.
func ParseTask(data []byte) (*Task, error) {
	if len(data) > maxTask {
		return nil, fmt.Errorf("%d bytes: this is no task.yml", len(data))
	}
	var raw rawTask
	if err := decodeYAML(data, &raw); err != nil {
		return nil, err
	}
	t := &Task{
		Lang: raw.Lang, Main: raw.Config.Main, Sources: raw.Config.Sources, Includes: raw.Config.Includes,
		TestLimit: taskLimit(raw.TestTimeout), BenchmarkLimit: taskLimit(raw.BenchmarkTimeout), RankedLimit: taskLimit(raw.RankedTimeout),
		RankingBy: raw.RankingBy, Seed: raw.Seed, MultiGPU: raw.MultiGPU, GPUs: raw.GPUs,
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
	t.Tests, t.Benchmarks = t.lines(raw.Tests), t.lines(raw.Benchmarks)
	t.odd()
	t.warnAbout(data, raw)
	return t, t.check()
}

func taskLimit(seconds float64) time.Duration {
	const most = 7 * 24 * 3600
	if !(seconds > 0) {
		return StageLimit
	}
	return time.Duration(min(seconds, most) * float64(time.Second))
}

func define(d yaml.MapItem) string {
	if d.Value == nil {
		return fmt.Sprint(d.Key)
	}
	return fmt.Sprintf("%v=%v", d.Key, d.Value)
}

func (t *Task) warnAbout(data []byte, raw rawTask) {
	var all map[string]any
	if err := decodeYAML(data, &all); err != nil {
		return // said before
	}
	for key := range all {
		if !slices.Contains(taskKeys(), key) {
			t.Warnings = append(t.Warnings, fmt.Sprintf("key %q of the task is not known to KernelBot", protocol.Plain(key, 80)))
		}
	}
	if len(raw.Config.Flags) > 0 {
		t.Warnings = append(t.Warnings, "compile_flags of the task are not used, as on the server")
	}
	slices.Sort(t.Warnings)
}

// check is strict about what decides how the problem runs.
func (t *Task) check() error {
	var marks int
	for _, f := range t.Files {
		if f.Source == SubmissionMark {
			marks++
		}
		if f.Name == "" || f.Source == "" || !filepath.IsLocal(f.Name) || path.Base(f.Name) != f.Name {
			return fmt.Errorf("files: %q from %q: a file has a name without folders, and a source", f.Name, f.Source)
		}
	}
	switch {
	case t.Lang != "py" && t.Lang != "cu":
		return fmt.Errorf("lang: %q is neither py nor cu", t.Lang)
	case marks != 1:
		return fmt.Errorf("files: %d of them are %s; exactly one is the submission", marks, SubmissionMark)
	case t.Lang == "py" && !t.holds(t.Main):
		return fmt.Errorf("config.main: %q is none of the files", t.Main)
	case t.Lang == "cu" && len(t.Sources) == 0:
		return errors.New("config.sources: nothing to compile")
	case t.Lang == "cu" && slices.ContainsFunc(t.Sources, func(s string) bool { return !t.holds(s) }):
		return fmt.Errorf("config.sources: %q are not all among the files", t.Sources)
	case !slices.Contains([]string{"last", "mean", "geom"}, t.RankingBy):
		return fmt.Errorf("ranking_by: %q is none of last, mean, geom", t.RankingBy)
	case len(t.Tests) == 0 && len(t.Benchmarks) == 0:
		return errors.New("neither tests nor benchmarks")
	case t.MultiGPU && t.World == 0:
		return errors.New("multi_gpu: no case has a world_size")
	}
	return nil
}

// Submission is the name of the user's file in the flat folder, such as submission.py.
func (t *Task) Submission() string {
	for _, f := range t.Files {
		if f.Source == SubmissionMark {
			return f.Name
		}
	}
	return ""
}

func (t *Task) holds(name string) bool {
	return slices.ContainsFunc(t.Files, func(f File) bool { return f.Name == name })
}

// load reads the files of the judge.
func (t *Task) load(dir string) error {
	for i, f := range t.Files {
		if f.Source == SubmissionMark {
			continue
		}
		text, err := readBounded(filepath.Join(dir, filepath.FromSlash(f.Source)))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("files: %w\nhint: sources are paths from the folder of task.yml; check out the whole set of problems", err)
		}
		if err != nil {
			return fmt.Errorf("files: %w", err)
		}
		t.Files[i] = File{Name: f.Name, Text: string(text)}
	}
	return nil
}
