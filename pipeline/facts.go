package pipeline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/cuda"
	"github.com/kbisect/kbisect/pipeline/proc"
)

// facts are what a build says besides leaving its outputs. They are kept with these.
type facts struct {
	Series   []bisect.Series  `json:"series,omitempty"` // of static metrics
	Artefact *bisect.Artefact `json:"artefact,omitempty"`
	Inputs   []string         `json:"inputs,omitempty"`  // files of the repository that it reads; empty where that is unknown
	Outside  []string         `json:"outside,omitempty"` // those of them that are not in the paths
}

// metaFacts is where facts stand in an entry of the build cache.
const metaFacts = "facts"

func (f facts) meta(m map[string]string) map[string]string {
	m[metaFacts] = string(asJSON(f))
	return m
}

func factsOf(meta map[string]string) (f facts) {
	_ = json.Unmarshal([]byte(meta[metaFacts]), &f) // entries of earlier versions have none
	return f
}

// tellFacts adds what a build has said to the outcome of a trial.
func (p *Pipeline) tellFacts(o *bisect.Outcome, f facts) {
	p.noteOthers(slices.Concat(o.Series, f.Series))
	o.Series = append(p.Cases.keep(slices.Clone(o.Series)), shortCases(p.Cases.keep(slices.Clone(f.Series)))...)
	o.Artefact = f.Artefact
	for i, name := range f.Outside {
		if i == 3 {
			p.warnOnce(fmt.Sprintf("and %d files more that the build reads are outside of the paths", len(f.Outside)-i))
			break
		}
		p.warnOnce(fmt.Sprintf("the build reads %s, which is outside of the paths: commits that change only that are taken for equal\nhint: add it to paths (--path)", name))
	}
}

// noteOthers remembers which cases there are of metrics of which one was asked for.
func (p *Pipeline) noteOthers(all []bisect.Series) {
	const most = 200
	for _, s := range all {
		if len(p.Cases[s.Metric]) == 0 || len(s.Values) == 0 || len(p.others[s.Metric]) >= most {
			continue
		}
		if p.others == nil {
			p.others = map[string][]string{}
		}
		name := s.Case
		if slices.Contains(cuda.StaticMetrics(), s.Metric) {
			name = kernelNames(s)[0]
		}
		if !slices.Contains(p.others[s.Metric], name) {
			p.others[s.Metric] = append(p.others[s.Metric], name)
		}
	}
}

// onlyBuilds reports a trial in which nothing is run.
func (p *Pipeline) onlyBuilds(r bisect.Request) bool {
	return len(p.Plan.Build) > 0 && (r.BuildOnly || len(p.Plan.Run)+len(p.Plan.Stages) == 0)
}

// static reports that a metric is about what was built.
func (p *Pipeline) static() bool {
	return slices.ContainsFunc(p.Sources, func(s Source) bool { return s.From == FromStatic })
}

// outputMax bounds the log of a step of which all is read, in bytes.
func (p *Pipeline) outputMax() int64 {
	if p.static() || slices.ContainsFunc(p.Sources, func(s Source) bool { return s.From == FromCutlass && s.File == "" }) {
		return 64 << 20
	}
	return 0
}

// examine looks at what a build has made and said.
func (s *slot) examine(ctx context.Context, r bisect.Request, env []string, log string) (f facts, err error) {
	if f.Artefact, err = s.artefact(); err != nil {
		s.Log.Info("what was built", "candidate", r.Candidate.Brief(), "err", err)
	}
	inputs, whole := s.inputs(r)
	if whole {
		f.Inputs = inputs
	}
	if len(s.Paths) > 0 {
		f.Outside = slices.DeleteFunc(slices.Clone(inputs), s.covers)
	}
	if s.static() {
		f.Series, err = s.staticSeries(ctx, env, log)
		return f, err
	}
	return f, nil
}

// Bounds on the outputs of a build that are looked at.
const (
	maxOutputs = 1000
	maxProgram = 512 << 20 // bytes
)

// outputFiles lists the files that the build has left, sorted.
func (s *slot) outputFiles() ([]string, error) {
	var out []string
	for _, pattern := range s.Plan.Outputs {
		found, err := filepath.Glob(filepath.Join(s.dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, top := range found {
			err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					out = append(out, path)
				}
				if len(out) > maxOutputs {
					return errors.New("the build leaves too many files")
				}
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func readProgram(name string) ([]byte, error) {
	st, err := os.Stat(name)
	if err == nil && st.Size() > maxProgram {
		err = fmt.Errorf("%s has %d bytes", name, st.Size())
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}

// artefact identifies all outputs of the build together; nil where it names none.
func (s *slot) artefact() (*bisect.Artefact, error) {
	files, err := s.outputFiles()
	if err != nil || len(files) == 0 {
		return nil, err
	}
	var device, host []string
	for _, name := range files {
		data, err := readProgram(name)
		if err != nil {
			return nil, err
		}
		d, h, err := cuda.Artefact(data)
		if err != nil { // no program: every byte counts
			sum := sha256.Sum256(data)
			d, h = "", hex.EncodeToString(sum[:])
		}
		rel, err := filepath.Rel(s.dir, name)
		if err != nil {
			return nil, err
		}
		if d != "" {
			device = append(device, rel+" "+d)
		}
		host = append(host, rel+" "+h)
	}
	return &bisect.Artefact{Device: joined(device), Host: joined(host)}, nil
}

func joined(digests []string) string {
	if len(digests) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(digests, "\n")))
	return hex.EncodeToString(sum[:])
}

// inputs lists the files of the repository that the build has read, by its dependency files; whole reports
// that each of these was there.
func (s *slot) inputs(r bisect.Request) (out []string, whole bool) {
	whole = true
	for _, name := range s.Plan.Depfiles {
		data, err := readProgram(filepath.Join(s.dir, filepath.FromSlash(name)))
		if err != nil {
			whole = false
			continue // of a source that this candidate does not have
		}
		deps, err := kernels.Deps(data)
		if err != nil {
			s.Log.Info("dependencies of the build", "candidate", r.Candidate.Brief(), "err", err)
			whole = false
			continue
		}
		for i, d := range deps {
			if !filepath.IsAbs(d) {
				deps[i] = filepath.Join(s.workDir(), d)
			}
		}
		inside, _ := kernels.Inputs(s.dir, deps)
		for _, path := range inside {
			if has, err := s.Repo.Has(r.Candidate.Commit, path); err == nil && has {
				out = append(out, path)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), whole
}

// covers reports whether a file is in the paths.
func (s *slot) covers(file string) bool {
	return slices.ContainsFunc(s.Paths, func(p string) bool {
		p = filepath.ToSlash(filepath.Clean(p))
		return p == "." || p == file || strings.HasPrefix(file, p+"/")
	})
}

// toolLimit bounds one look at a program.
const toolLimit = 5 * time.Minute

// staticSeries are the figures of the kernels that were built: from the finished programs, and from the
// compiler's own words, which alone tell of spills.
func (s *slot) staticSeries(ctx context.Context, env []string, log string) ([]bisect.Series, error) {
	said, err := readProgram(log)
	if err != nil {
		return nil, &bisect.InfraError{What: "reading what the build has said", Err: err}
	}
	compiled := cuda.Ptxas(said)
	files, err := s.outputFiles()
	if err != nil {
		return nil, nil // as for the artefact
	}
	var finished []cuda.Usage
	var code []cuda.Function
	for _, name := range files {
		data, err := readProgram(name)
		if err != nil || len(cuda.DeviceCodes(data)) == 0 {
			continue
		}
		sass, resources := cuda.DeviceTools(name)
		text, err := s.look(ctx, env, resources)
		if err != nil {
			return nil, err
		}
		finished = append(finished, cuda.Resources(text)...)
		if !s.wantsSASS() {
			continue
		}
		if text, err = s.look(ctx, env, sass); err != nil {
			return nil, err
		}
		code = append(code, cuda.SASS(text)...)
	}
	return s.figures(finished, compiled, code), nil
}

// figures puts together what is known. Spills that nobody has spoken of are not none.
func (s *slot) figures(finished, compiled []cuda.Usage, code []cuda.Function) []bisect.Series {
	var out []bisect.Series
	told := map[string]bool{}
	for _, x := range cuda.StaticSeries(compiled, code) {
		told[x.Case] = true
	}
	for _, x := range cuda.StaticSeries(cuda.Join(finished, compiled), code) {
		if x.Metric == "spills" && (len(compiled) == 0 || !told[x.Case]) {
			continue
		}
		out = append(out, bisect.Series(x))
	}
	return out
}

// wantsSASS reports that a metric is about the machine code itself, which takes longer to look at.
func (p *Pipeline) wantsSASS() bool {
	return slices.ContainsFunc(p.Sources, func(s Source) bool {
		return s.From == FromStatic && (s.Metric == "sass" || s.Metric == "instructions")
	})
}

// look runs a tool on a program. A tool that is not there says nothing.
func (s *slot) look(ctx context.Context, env, argv []string) ([]byte, error) {
	text := filepath.Join(filepath.Dir(s.dir), "tool.txt")
	defer os.Remove(text)
	res, err := s.run(ctx, proc.Spec{Argv: argv, Dir: s.dir, Env: env, Output: text, OutputMax: maxProgram, Limit: toolLimit})
	var start *proc.StartError
	switch {
	case errors.As(err, &start):
		s.Log.Warn("static metrics: what is not there says nothing", "tool", argv[0], "err", err)
		return nil, nil
	case err != nil:
		return nil, err
	case res.Exit != 0 || res.Timeout != nil:
		s.Log.Warn("static metrics", "tool", argv[0], "says", string(bytes.TrimSpace(res.Tail)))
		return nil, nil
	}
	data, err := readProgram(text)
	if err != nil {
		return nil, &bisect.InfraError{What: "reading what " + argv[0] + " has said", Err: err}
	}
	return data, nil
}
