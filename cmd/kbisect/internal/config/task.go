package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/kbisect/kbisect/bisect/hint"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/kernelbot"
)

// TaskConfig is the table [task], for the kinds torch and kernelbot: what the
// submission is checked against.
type TaskConfig struct {
	Problem    string   // kernelbot: folder of task.yml, from the configuration file; may lie outside of the repository
	Mode       string   // kernelbot: test, benchmark or leaderboard
	Submission string   // path in the repository
	Reference  string   // torch: path in the repository
	Cases      []string // torch: "m: 256; n: 512; seed: 1"
}

// kindsOf lists the kinds that a key of [build] or [task] belongs to; none for a key that every kind reads.
func kindsOf(key string) (names []string) {
	for _, k := range kernels.Kinds() {
		if slices.Contains(k.Keys, key) {
			names = append(names, k.Name)
		}
	}
	return names
}

// readTask reads [task], whose keys depend on the kind of project. A key of another kind is a mistake, as it would have
// no effect.
func readTask(t table, kind string) TaskConfig {
	for key := range t.values {
		if kinds := kindsOf(key); len(kinds) > 0 && !slices.Contains(kinds, kind) {
			t.errorf(key, "belongs to kind = %s; this is kind %q", OneOf(kinds), cmp.Or(kind, kernels.KindCommand))
		}
	}
	return TaskConfig{
		Problem:    t.str("problem"),
		Mode:       t.choice("mode", []string{"test", "benchmark", "leaderboard"}), // those of KernelBot's server
		Submission: t.file("submission"),
		Reference:  t.file("reference"),
		Cases:      t.strs("cases", `an array of cases, such as ["m: 256; n: 512; seed: 1"]`),
	}
}

// Project is the configuration in the terms of package kernels. device is the compute capability of the device that
// trials run on, such as "9.0", or "". The problem of kind kernelbot and the files of [run] are read now, so that
// every candidate of a search is judged by the same ones. Errors carry a hint.
func (c *Config) Project(device string) (kernels.Project, error) {
	p := kernels.Project{
		Kind: c.Kind, Build: c.Build.Command, Outputs: c.Build.Outputs, Incremental: c.Build.Incremental, Run: c.Run.Command,
		Sources: c.Build.Sources, Options: c.Build.Options, Device: device,
		Submission: c.Task.Submission, Reference: c.Task.Reference, Cases: c.Task.Cases, Mode: c.Task.Mode,
	}
	var err error
	if c.Kind != kernels.KindKernelbot {
		p.Files, err = c.files()
		return p, err
	}
	if len(c.Run.Files) > 0 {
		return p, hint.Add(errors.New("kind kernelbot takes its files from task.yml"), "remove [run] files")
	}
	if len(p.Build)+len(p.Run) > 0 {
		return p, hint.Add(errors.New("kind kernelbot builds and runs as the problem says"), "remove [build] command and [run] command")
	}
	problem := cmp.Or(c.Task.Problem, ".")
	if !filepath.IsAbs(problem) {
		problem = filepath.Join(filepath.Dir(c.Path), problem)
	}
	p.Task, err = kernelbot.ReadTask(problem)
	return p, err
}

// files reads what is put into every candidate. The paths are relative to the folder of the configuration, and not to
// the one in which the user stands.
func (c *Config) files() (out []kernels.File, err error) {
	for _, name := range c.Run.Files {
		f, err := kernels.ReadFile(filepath.Dir(c.Path), name)
		if err != nil {
			return nil, hint.Add(fmt.Errorf("run.files: %w", err), "paths in files name plain files and are relative to the folder of "+FileName)
		}
		out = append(out, f)
	}
	return out, nil
}
