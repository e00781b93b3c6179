package main

import (
	"bufio"
	"cmp"
	"embed"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/baseline"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/source"
)

// completionScripts hold, by the name of the shell, what binds its completion key to kbisect complete.
//
//go:embed completion
var completionScripts embed.FS

func completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print a completion script for a shell", ArgsUsage: "bash|zsh|fish", OnUsageError: usageError,
		Description: "bash:  source <(kbisect completion bash)   in ~/.bashrc\n" +
			"zsh:   source <(kbisect completion zsh)   in ~/.zshrc, below compinit\n" +
			"fish:  kbisect completion fish > ~/.config/fish/completions/kbisect.fish\n\n" +
			"Commands, options, values of options, revisions and sessions are completed, in the repository at -C.",
		Action: func(c *cli.Context) error {
			script, err := completionScripts.ReadFile("completion/" + c.Args().First())
			if c.NArg() != 1 || err != nil {
				return exit.Usagef("completion is for bash, zsh or fish, not %q\nhint: kbisect completion --help", c.Args().Slice())
			}
			_, err = c.App.Writer.Write(script)
			return err
		},
	}
}

// completeCommand answers the scripts: the words before the cursor follow the name of the shell, or the line
// up to the cursor does.
func completeCommand() *cli.Command {
	return &cli.Command{
		Name: "complete", Usage: "what a word could become", ArgsUsage: "SHELL WORD...", Hidden: true, SkipFlagParsing: true, HideHelpCommand: true,
		Action: func(c *cli.Context) error {
			if c.NArg() < 2 {
				return exit.Usagef("complete takes a shell and the words so far")
			}
			shell, words := c.Args().First(), c.Args().Tail()
			if shell == "bash" {
				words = splitLine(words[0])[1:]
			}
			last := len(words) - 1
			at := findPlace(c.App, words[:last])
			return writeCompletions(c.App.Writer, shell, words[last], at.completions(words[last]))
		},
	}
}

// completion is one word that could stand at the cursor.
type completion struct{ word, about string }

// fileNames stands for all names of files, which shells know better.
const fileNames = ":files"

// writeCompletions writes those that go on from word, a line each, as a shell wants them.
func writeCompletions(w io.Writer, shell, word string, all []completion) error {
	const most = 200 // more than that is no help
	written := 0
	for _, x := range all {
		if x.word != fileNames && !strings.HasPrefix(x.word, word) || written == most {
			continue
		}
		written++
		line := x.word
		switch {
		case line == fileNames:
		case shell == "bash": // it replaces only what stands behind the last of these
			line = line[strings.LastIndexAny(word, "=:@")+1:]
		case shell == "zsh" && x.about != "":
			line = strings.ReplaceAll(line, ":", `\:`) + ":" + x.about
		case shell == "zsh":
			line = strings.ReplaceAll(line, ":", `\:`)
		case x.about != "":
			line += "\t" + x.about
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// splitLine takes a line of a shell apart at its spaces, and its quotes away. The last word is the one at the
// cursor, "" behind a space; there is always a first.
func splitLine(line string) []string {
	var words []string
	var word strings.Builder
	begun, quote := false, byte(0)
	escaped := false
	for _, b := range []byte(line) { // names of files need not be UTF-8
		switch {
		case escaped:
			word.WriteByte(b)
			escaped = false
		case b == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0 && b == quote:
			quote = 0
		case quote == 0 && (b == '\'' || b == '"'):
			quote, begun = b, true
		case quote == 0 && (b == ' ' || b == '\t' || b == '\n'):
			if begun {
				words = append(words, word.String())
				word.Reset()
			}
			begun = false
		default:
			word.WriteByte(b)
			begun = true
		}
	}
	words = append(words, word.String())
	if len(words) == 1 { // the cursor is at the program's own name
		words = append(words, "")
	}
	return words
}

// place is where a command line has come to.
type place struct {
	app      *cli.App
	command  *cli.Command // nil: only the program is named
	commands []*cli.Command
	flags    []cli.Flag
	option   cli.Flag // whose value comes next, or nil
	operands []string
	behind   bool   // --
	dir      string // of the repository
	config   string
}

// findPlace reads the words behind the program's name as permute and operands do.
func findPlace(app *cli.App, words []string) place {
	p := place{app: app, commands: app.Commands, flags: app.Flags, dir: "."}
	for len(words) > 0 && words[0] != "--" && !p.behind {
		n := optionWords(p.flags, words)
		if n > 0 {
			p.take(words[:n])
			words = words[n:]
			continue
		}
		word := words[0]
		words = words[1:]
		i := slices.IndexFunc(p.commands, func(c *cli.Command) bool { return c.HasName(word) })
		if i < 0 || len(p.operands) > 0 {
			p.operands = append(p.operands, word)
			p.behind = p.command != nil && p.command.Name == "run" // as for git bisect run, -- may be left out
			continue
		}
		p.command = p.commands[i]
		p.commands, p.flags = p.command.Subcommands, p.command.Flags
	}
	p.behind = p.behind || len(words) > 0
	return p
}

// take reads one option, which may lack its value yet.
func (p *place) take(words []string) {
	name, value, given := strings.Cut(strings.TrimLeft(words[0], "-"), "=")
	f := flagNamed(p.flags, name)
	if _, isBool := f.(*cli.BoolFlag); f == nil || isBool {
		return
	}
	if len(words) == 1 && !given {
		p.option = f
		return
	}
	if !given {
		value = words[1]
	}
	switch name {
	case "C":
		p.dir = value
	case "config":
		p.config = value
	}
}

func flagNamed(flags []cli.Flag, name string) cli.Flag {
	i := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return nil
	}
	return flags[i]
}

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

func manCommand() *cli.Command {
	return &cli.Command{
		Name: "man", Usage: "print the manual page", OnUsageError: usageError,
		Description: "kbisect man | man -l -   reads it here.\n" +
			"kbisect man > /usr/local/share/man/man1/kbisect.1   installs it.",
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return exit.Usagef("man takes no arguments, not %q\nhint: kbisect help COMMAND explains one command", c.Args().Slice())
			}
			return writeMan(c.App.Writer, c.App)
		},
	}
}

// writeMan writes the manual page of a program in the macros of man(7).
func writeMan(w io.Writer, app *cli.App) error {
	m := &manPage{bufio.NewWriter(w)}
	m.macro("TH", strings.ToUpper(app.Name), "1", "", app.Name+" "+app.Version, "User Commands")
	m.macro("SH", "NAME")
	m.text(app.Name + " - " + app.Usage)
	m.macro("SH", "SYNOPSIS")
	m.macro("B", app.Name)
	m.text("[global options] command [command options]")
	m.macro("SH", "DESCRIPTION")
	m.lines(app.Description)
	m.macro("SH", "GLOBAL OPTIONS")
	m.text("These may stand before the command or behind it.")
	m.flags(app.VisibleFlags())
	m.macro("SH", "COMMANDS")
	m.commands(app.Name, app.Commands)
	return m.Flush()
}

// manPage writes roff.
type manPage struct{ *bufio.Writer }

func (m *manPage) commands(above string, all []*cli.Command) {
	for _, c := range all {
		if c.Hidden {
			continue
		}
		name := above + " " + c.Name
		m.macro("SS", strings.TrimSpace(name+" "+c.ArgsUsage))
		m.text(c.Usage)
		if c.Description != "" {
			m.macro("PP")
			m.lines(c.Description)
		}
		m.flags(c.VisibleFlags())
		m.commands(name, c.Subcommands)
	}
}

// flags lists options as --help does.
func (m *manPage) flags(all []cli.Flag) {
	for _, f := range all {
		name, about, _ := strings.Cut(f.String(), "\t")
		m.macro("TP")
		m.macro("B", name)
		m.text(about)
	}
}

// lines writes paragraphs; a line that holds an example, or is part of a list, stays one.
func (m *manPage) lines(s string) {
	for line := range strings.SplitSeq(s, "\n") {
		switch {
		case line == "":
			m.macro("PP")
			continue
		case strings.HasPrefix(line, "kbisect "), strings.Contains(line, "  "):
			m.macro("br")
		}
		m.text(line)
	}
}

// text writes lines none of which is taken for a macro.
func (m *manPage) text(s string) {
	for line := range strings.SplitSeq(s, "\n") {
		line = roff(line)
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		fmt.Fprintln(m, line)
	}
}

// macro writes a call of a macro with its arguments.
func (m *manPage) macro(name string, arguments ...string) {
	m.WriteString("." + name)
	for _, a := range arguments {
		m.WriteString(` "` + strings.ReplaceAll(roff(a), `"`, `\(dq`) + `"`)
	}
	m.WriteString("\n")
}

// roff escapes what would be typeset as something else: people copy options and quotes from manual pages.
func roff(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(s)
}
