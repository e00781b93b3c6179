package kernels

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

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

// casePair is what the strictest of the evaluations reads.
func casePair() *regexp.Regexp {
	return regexp.MustCompile(`^([a-zA-Z_]+): ([a-zA-Z]+|[+-]?[0-9]+)$`)
}

// maxCasePair bounds one `key: value` of a case, in bytes: some cases hold a list.
const maxCasePair = 2000

// lines writes cases as a case file has them: `key: value; key: value`, in the order of the file.
func (t *Task) lines(cases []yaml.MapSlice) []string {
	var out []string
	for _, c := range cases {
		var parts []string
		for _, kv := range lastOfEqual(c) {
			t.world(kv)
			parts = append(parts, protocol.Plain(fmt.Sprintf("%v: %v", kv.Key, pythonValue(kv.Value)), maxCasePair))
		}
		out = append(out, strings.Join(parts, "; "))
	}
	return out
}

// lastOfEqual leaves the last value of equal keys in the place of the first, as Python's dict does: a merged
// mapping has been overridden.
func lastOfEqual(m yaml.MapSlice) (out yaml.MapSlice) {
	at := map[string]int{}
	for _, kv := range m {
		key := fmt.Sprint(kv.Key)
		if i, known := at[key]; known {
			out[i].Value = kv.Value
			continue
		}
		at[key] = len(out)
		out = append(out, kv)
	}
	return out
}

// odd are the values of all cases that not every evaluation reads: one word about all of them, since
// the evaluation of such a problem mostly does.
func (t *Task) odd() {
	pair, n, first := casePair(), 0, ""
	for _, line := range append(append([]string(nil), t.Tests...), t.Benchmarks...) {
		for part := range strings.SplitSeq(line, "; ") {
			if pair.MatchString(part) {
				continue
			}
			if n++; n == 1 {
				first = protocol.Plain(part, 80)
			}
		}
	}
	if n > 0 {
		t.Warnings = append(t.Warnings, fmt.Sprintf("case values that are more than letters or a whole number (%d, such as %q): an evaluation that reads no others ends with exit 113", n, first))
	}
}

func (t *Task) world(kv yaml.MapItem) {
	if n, ok := kv.Value.(uint64); ok && kv.Key == "world_size" && n < 1<<10 {
		t.World = max(t.World, int(n))
	}
}

// pythonValue is a value as Python's str prints it, which writes the case file of the server.
func pythonValue(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case nil:
		return "None"
	case float64:
		return pythonFloat(v)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = pythonRepr(v[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case yaml.MapSlice:
		parts := make([]string, len(v))
		for i, kv := range v {
			parts[i] = pythonRepr(kv.Key) + ": " + pythonRepr(kv.Value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v)
}

// pythonRepr is a value within a list or a mapping, where Python quotes strings.
func pythonRepr(v any) string {
	s, ok := v.(string)
	if !ok {
		return pythonValue(v)
	}
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		return `"` + s + `"`
	}
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`).Replace(s) + "'"
}

// pythonFloat has a point or an exponent, and the exponent where Python has it.
func pythonFloat(f float64) string {
	a := math.Abs(f)
	switch {
	case math.IsInf(f, 0) || math.IsNaN(f):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(f, 'g', -1, 64), "+"))
	case a != 0 && (a < 1e-4 || a >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// Bounds on a task.yml.
const (
	maxTask   = 64 << 10 // bytes
	maxNested = 100      // of collections

	maxExpanded = 1 << 20 // with its aliases replaced: nodes and bytes
)

// decodeYAML keeps a parser that gives up in an unorderly way from taking the program with it. Like
// PyYAML it lets the last of equal keys count, and reads aliases, but for those with which a short file
// describes a huge one or one without end. Mappings within values keep their order.
func decodeYAML(data []byte, v any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errYAML, r)
		}
	}()
	if tooDeep(data) {
		return errors.New("collections are nested too deep")
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return fmt.Errorf("%w: %s", errYAML, yaml.FormatError(err, false, false))
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		whole := new(int)
		e := expansion{sizes: map[string]int{}, open: []*anchor{{size: whole}}, endless: new(bool), merges: new(bool)}
		ast.Walk(e, doc.Body)
		switch {
		case *e.endless || *whole > maxExpanded:
			return errors.New("the aliases describe something huge or without end\nhint: write the values out")
		case *e.merges:
			return errors.New("a merge key (<<) is read at the beginning of a mapping and with one alias only\nhint: move it there, or write the values out")
		}
	}
	if err := yaml.UnmarshalWithOptions(data, v, yaml.AllowDuplicateMapKey(), yaml.UseOrderedMap()); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s", errYAML, yaml.FormatError(err, false, false))
	}
	return nil
}

// expansion sums up how much a document is once all aliases are replaced by what they stand for, without
// doing so.
type expansion struct {
	sizes   map[string]int // of closed anchors
	open    []*anchor      // those around the node, the whole document first
	endless *bool
	merges  *bool // where Python's order of values is another than the reader's
}

// anchor is a node with a name, and how much it is so far.
type anchor struct {
	name string
	size *int
}

// Visit is called for each node, in the order of the document.
func (e expansion) Visit(n ast.Node) ast.Visitor {
	size := 1
	if t := n.GetToken(); t != nil {
		size += len(t.Value)
	}
	switch n := n.(type) {
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		for _, a := range e.open[1:] {
			*e.endless = *e.endless || a.name == name
		}
		size += e.sizes[name]
	case *ast.MappingNode:
		for i, v := range n.Values {
			if v.Key.Type() == ast.MergeKeyType && (i > 0 || v.Value.Type() != ast.AliasType) {
				*e.merges = true
			}
		}
	case *ast.AnchorNode:
		a := &anchor{n.Name.GetToken().Value, new(int)}
		inner := e
		inner.open = append(e.open[:len(e.open):len(e.open)], a)
		ast.Walk(inner, n.Value)
		e.sizes[a.name] = *a.size
		return nil
	}
	for _, a := range e.open {
		*a.size = min(*a.size+size, 2*maxExpanded)
	}
	return e
}

// tooDeep bounds what the parser, which calls itself for each level, has to hold.
func tooDeep(data []byte) bool {
	deep := 0
	for line := range bytes.Lines(data) {
		dashes := bytes.Count(line, []byte("- ")) + bytes.Count(line, []byte("? ")) + bytes.Count(line, []byte(": "))
		deep = max(0, deep+bytes.Count(line, []byte("["))+bytes.Count(line, []byte("{"))-bytes.Count(line, []byte("]"))-bytes.Count(line, []byte("}")))
		if dashes > maxNested*10 || deep > maxNested || bytes.Count(line, []byte("[")) > maxNested*10 || bytes.Count(line, []byte("{")) > maxNested*10 {
			return true
		}
	}
	return false
}

// Directives are the lines `#!POPCORN WORD ...` and `//!POPCORN WORD ...` of a submission.
type Directives struct {
	Leaderboard string
	GPUs        []string
	Unknown     []string // words that KernelBot's client does not know
}

// ReadDirectives reads those at the beginning of a submission.
func ReadDirectives(source []byte) Directives {
	var d Directives
	for raw := range bytes.Lines(source[:min(len(source), maxTask)]) {
		line := strings.TrimSpace(string(raw))
		rest, ok := strings.CutPrefix(line, "#!POPCORN ")
		if !ok {
			rest, ok = strings.CutPrefix(line, "//!POPCORN ")
		}
		words := strings.Fields(rest)
		if !ok || len(words) == 0 {
			continue
		}
		switch word := strings.ToLower(words[0]); {
		case word == "leaderboard" && len(words) > 1:
			d.Leaderboard = protocol.Plain(words[1], 80)
		case word == "gpu" || word == "gpus":
			for _, w := range words[1:] {
				d.GPUs = append(d.GPUs, protocol.Plain(w, 40))
			}
		default:
			d.Unknown = append(d.Unknown, protocol.Plain(word, 40))
		}
	}
	return d
}

// NamedProblem is an entry of a list of problems of KernelBot's: the folder of a problem, from that of the list,
// and the leaderboard that it is for.
type NamedProblem struct {
	Folder      string `yaml:"directory"`
	Leaderboard string `yaml:"name"`
}

// ParseProblems reads such a list, a YAML file beside the folders; nil where the text is none.
func ParseProblems(data []byte) []NamedProblem {
	var list struct {
		Problems []NamedProblem `yaml:"problems"`
	}
	if len(data) > maxTask || decodeYAML(data, &list) != nil {
		return nil
	}
	return list.Problems
}
