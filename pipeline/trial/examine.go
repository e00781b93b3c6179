package trial

import (
	"bytes"
	"context"
	"crypto/sha256"
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
	"github.com/kbisect/kbisect/kernels/plainfile"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// examiner looks at what one build has made and printed.
type examiner struct {
	recipe Recipe
	w      *workspace.Workspace
	env    []string // of the build
	log    string   // what it printed
}

// examine returns the facts about the build of a candidate. What cannot be examined is left out: facts save
// launches and give numbers, but a build without them can be tested all the same.
func (x *examiner) examine(ctx context.Context, c bisect.Candidate) (f workspace.Facts, err error) {
	if f.Artefact, err = x.artefact(); err != nil {
		x.recipe.Log.Info("identifying the outputs of the build", "candidate", c.Brief(), "err", err)
	}
	inputs, whole := x.inputs(c)
	if whole { // an incomplete list would let commits share launches that differ in a file that was read
		f.Inputs = inputs
	}
	if len(x.recipe.Paths) > 0 {
		f.Outside = slices.DeleteFunc(slices.Clone(inputs), x.recipe.Covers)
	}
	if x.recipe.Static() {
		f.Series, err = x.staticSeries(ctx)
		return f, err
	}
	return f, nil
}

// Bounds on the outputs of a build that are looked at: outputs may name a whole build folder.
const (
	maxOutputs = 1000
	maxProgram = 512 << 20 // bytes of one that is read
)

// outputFiles lists the files that the build has left, sorted, by absolute path.
func (x *examiner) outputFiles() ([]string, error) {
	var out []string
	for _, pattern := range x.recipe.Plan.Outputs {
		found, err := filepath.Glob(filepath.Join(x.w.Dir, pattern))
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

// artefact identifies all outputs of the build together; nil if the plan names none. Device code and host code have
// digests of their own, so that timestamps and paths in a host program do not hide that the kernels are the same.
func (x *examiner) artefact() (*bisect.Artefact, error) {
	files, err := x.outputFiles()
	if err != nil || len(files) == 0 {
		return nil, err
	}
	var device, host []string
	for _, name := range files {
		data, err := plainfile.Read(name, maxProgram)
		if err != nil {
			return nil, err
		}
		d, h, err := cuda.Artefact(data)
		if err != nil { // not a program: every byte counts
			d, h = "", fmt.Sprintf("%x", sha256.Sum256(data))
		}
		rel, err := filepath.Rel(x.w.Dir, name)
		if err != nil {
			return nil, err
		}
		if d != "" {
			device = append(device, rel+" "+d)
		}
		host = append(host, rel+" "+h)
	}
	return &bisect.Artefact{Device: digestOf(device), Host: digestOf(host)}, nil
}

// digestOf is one digest for several, in their order; "" for none.
func digestOf(digests []string) string {
	if len(digests) == 0 {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(digests, "\n"))))
}

// inputs lists the files of the repository that the build has read, by its dependency files and relative to the
// top. whole reports that none of those was missing.
func (x *examiner) inputs(c bisect.Candidate) (out []string, whole bool) {
	whole = true
	for _, name := range x.recipe.Plan.Depfiles {
		data, err := plainfile.Read(filepath.Join(x.w.Dir, filepath.FromSlash(name)), maxProgram)
		if err != nil {
			whole = false
			continue // of a source that this candidate does not have
		}
		deps, err := kernels.Deps(data)
		if err != nil {
			x.recipe.Log.Info("reading the dependency files of the build", "candidate", c.Brief(), "err", err)
			whole = false
			continue
		}
		for _, path := range kernels.Inputs(x.w.Dir, x.recipe.WorkDir(x.w), deps) {
			if has, err := x.recipe.Repo.Has(c.Commit, path); err == nil && has {
				out = append(out, path)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), whole
}

// toolLimit bounds one look at a program.
const toolLimit = 5 * time.Minute

// staticSeries are the figures of the kernels that were built: from the finished programs, and from what ptxas
// printed, which alone reports spills.
func (x *examiner) staticSeries(ctx context.Context) ([]bisect.Series, error) {
	printed, err := plainfile.Read(x.log, maxProgram)
	if err != nil {
		return nil, &bisect.InfraError{What: "reading the output of the build", Err: err}
	}
	compiled := cuda.Ptxas(printed)
	files, err := x.outputFiles()
	if err != nil {
		return nil, nil // as for the artefact
	}
	var finished []cuda.Usage
	var code []cuda.Function
	for _, name := range files {
		data, err := plainfile.Read(name, maxProgram)
		if err != nil || len(cuda.DeviceCodes(data)) == 0 {
			continue
		}
		sass, resources := cuda.DeviceTools(name)
		text, err := x.look(ctx, resources)
		if err != nil {
			return nil, err
		}
		finished = append(finished, cuda.Resources(text)...)
		if !x.recipe.wantsSASS() {
			continue
		}
		if text, err = x.look(ctx, sass); err != nil {
			return nil, err
		}
		code = append(code, cuda.SASS(text)...)
	}
	return figures(finished, compiled, code), nil
}

// figures joins what finished programs and the compiler report. Spills that were not reported are unknown, and not
// 0.
func figures(finished, compiled []cuda.Usage, code []cuda.Function) []bisect.Series {
	var out []bisect.Series
	reported := map[string]bool{}
	for _, x := range cuda.StaticSeries(compiled, code) {
		reported[x.Case] = true
	}
	for _, x := range cuda.StaticSeries(cuda.Join(finished, compiled), code) {
		if x.Metric == "spills" && (len(compiled) == 0 || !reported[x.Case]) {
			continue
		}
		out = append(out, x)
	}
	return out
}

// look runs a tool on a program and returns its output; nil without an error if the tool is missing or fails.
func (x *examiner) look(ctx context.Context, argv []string) ([]byte, error) {
	text := filepath.Join(x.w.Folder, "tool.txt")
	defer os.Remove(text)
	res, err := x.w.Run(ctx, proc.Spec{Argv: argv, Dir: x.w.Dir, Env: x.env, Output: text, OutputMax: maxProgram, Limit: toolLimit})
	var start *proc.StartError
	switch {
	case errors.As(err, &start):
		x.recipe.Log.Warn("static metrics: tool not found", "tool", argv[0], "err", err)
		return nil, nil
	case err != nil:
		return nil, err
	case res.Exit != 0 || res.Timeout != nil:
		x.recipe.Log.Warn("static metrics: tool failed", "tool", argv[0], "output", string(bytes.TrimSpace(res.Tail)))
		return nil, nil
	}
	data, err := plainfile.Read(text, maxProgram)
	if err != nil {
		return nil, &bisect.InfraError{What: "reading the output of " + argv[0], Err: err}
	}
	return data, nil
}
