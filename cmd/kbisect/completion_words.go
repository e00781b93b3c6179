package main

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/baseline"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source"
)

// completions lists what could stand here instead of word.
func (p place) completions(word string) []completion {
	name, _, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
	dashed := strings.HasPrefix(word, "-")
	switch {
	case p.behind:
		return []completion{{word: fileNames}}
	case p.option != nil:
		return p.values(p.option, word)
	case dashed && given:
		return prefixed(word[:strings.Index(word, "=")+1], p.values(flagNamed(p.flags, name), word))
	case dashed:
		return p.options()
	case p.command == nil || len(p.commands) > 0:
		return commandNames(p.commands)
	}
	words := p.operandWords(word)
	if len(words) == 0 && word == "" {
		words = p.options()
	}
	return words
}

// prefixed puts what stands before a value before each of them; names of files the shells find themselves.
func prefixed(prefix string, all []completion) (out []completion) {
	for _, x := range all {
		if x.word != fileNames {
			x.word = prefix + x.word
		}
		out = append(out, x)
	}
	return out
}

func commandNames(all []*cli.Command) (out []completion) {
	for _, c := range all {
		if !c.Hidden {
			out = append(out, completion{c.Name, c.Usage})
		}
	}
	return out
}

// options are those of the command, and the global ones, which its help does not repeat.
func (p place) options() (out []completion) {
	for _, f := range p.flags {
		out = append(out, completion{dashed(f.Names()[0]), usageOf(f)})
	}
	if flagNamed(p.flags, "help") == nil {
		out = append(out, completion{"--help", "show help"})
	}
	if len(p.operands) == 0 && p.command != nil && strings.Contains(p.command.ArgsUsage, "-- COMMAND") {
		out = append(out, completion{"--", "a command to run follows"})
	}
	return out
}

// usageOf is what an option is for, without the marks of the library.
func usageOf(f cli.Flag) string {
	if d, ok := f.(cli.DocGenerationFlag); ok {
		return strings.ReplaceAll(d.GetUsage(), "`", "")
	}
	return ""
}

// values are those that an option may have: by its name, else by what its usage calls its value.
func (p place) values(f cli.Flag, word string) []completion {
	if f == nil {
		return nil
	}
	switch f.Names()[0] {
	case "axis":
		return plain(policy.AxisHistory, policy.AxisFlags, policy.AxisHunks)
	case "find":
		return plain("any", "slow", "timeout", "wrong", "crash", "build")
	case "phase":
		return plain(slices.Concat(config.PhaseNames(), kernels.ProbePhases())...)
	case "metric":
		return p.metricNames()
	case "as":
		return plain("kernelbot")
	case "on":
		return plain("cpu", "cuda", "torch", "cuda-small", "slow-build")
	case "cannot-tell":
		return plain("fail", "pass")
	case "harness":
		return plain("cuda", "torch", "python")
	}
	usage := ""
	if d, ok := f.(cli.DocGenerationFlag); ok {
		usage = d.GetUsage()
	}
	switch called := regexp.MustCompile("`([^`]*)`").FindStringSubmatch(usage); {
	case f.Names()[0] == "config", called == nil:
		return []completion{{word: fileNames}}
	case called[1] == "REV":
		return p.revisions(word)
	case slices.Contains([]string{"FILE", "DIR", "P"}, called[1]) && f.Names()[0] != "error":
		return []completion{{word: fileNames}}
	}
	return nil
}

func plain(words ...string) (out []completion) {
	for _, w := range words {
		out = append(out, completion{word: w})
	}
	return out
}

// operandWords are what a command could take next: by its usage, where one word stands for one operand.
func (p place) operandWords(word string) []completion {
	usage, _, _ := strings.Cut(p.command.ArgsUsage, "[-- ")
	wanted := strings.Fields(usage)
	if len(p.operands) >= len(wanted) {
		return nil
	}
	switch strings.Trim(wanted[len(p.operands)], "[]") {
	case "A", "B", "REV":
		return p.revisions(word)
	case "REV|ID":
		return append(p.sessions(func(axis string) bool { return axis == baseline.Kind }), p.revisions(word)...)
	case "SESSION":
		return append(p.sessions(func(string) bool { return true }), completion{"last", "the newest"})
	case "FILE", "SPEC.json":
		return []completion{{word: fileNames}}
	case "COMMAND":
		return commandNames(p.app.Commands)
	case "bash|zsh|fish":
		return plain("bash", "zsh", "fish")
	}
	return nil
}

// open opens the repository; without one there is nothing to complete from it.
func (p place) open() *source.Repo {
	repo, err := source.Open(p.dir)
	if err != nil {
		return nil
	}
	return repo
}

// revisions are the branches and tags, or, behind the colon of compare's operands, its flags.
func (p place) revisions(word string) (out []completion) {
	if rev, set, found := strings.Cut(word, ":"); found {
		return prefixed(rev+":"+set[:strings.LastIndex(set, ",")+1], p.flagValues())
	}
	repo := p.open()
	if repo == nil {
		return nil
	}
	defer repo.Close()
	names, err := repo.Refs()
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return plain(append([]string{"HEAD"}, slices.Compact(names)...)...)
}

// sessions are the newest sessions of some kinds.
func (p place) sessions(wanted func(axis string) bool) (out []completion) {
	repo := p.open()
	if repo == nil {
		return nil
	}
	defer repo.Close()
	st, err := session.ReadStore(repo)
	if err != nil {
		return nil
	}
	defer st.Close()
	const newest = 50
	all, err := st.Sessions(newest)
	if err != nil {
		return nil
	}
	for _, s := range all {
		if wanted(s.Axis) {
			out = append(out, completion{s.ID, wording.Clean(kindWord(s) + ", " + statusWord(s, st.Running()) + ": " + s.Summary)})
		}
	}
	return out
}

// configured is kbisect.toml, or nothing.
func (p place) configured() *config.Config {
	path := p.config
	if path == "" {
		repo := p.open()
		if repo == nil {
			return &config.Config{}
		}
		defer repo.Close()
		path = filepath.Join(cmp.Or(repo.WorkDir(), p.dir), config.FileName)
	}
	cfg, err := config.Load(path)
	if err != nil {
		return &config.Config{}
	}
	return cfg
}

func (p place) metricNames() []completion {
	names := []string{"wall"}
	for _, m := range p.configured().Metrics {
		names = append(names, m.WithDefaults().Name)
	}
	for _, phase := range config.PhaseNames() {
		names = append(names, "phase."+phase)
	}
	return plain(names...)
}

func (p place) flagValues() (out []completion) {
	for _, f := range p.configured().Flags {
		for _, v := range f.Values {
			out = append(out, completion{word: f.Name + "=" + v})
		}
	}
	return out
}
