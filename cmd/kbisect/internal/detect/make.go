package detect

import (
	"bytes"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/lazy"
)

// outputOption matches the option of compilers that names the file to write.
var outputOption = lazy.Pattern(`(?:^|\s)-o[ \t]*(\S+)`)

// makeReference matches a reference to a variable, $(NAME) or ${NAME}.
var makeReference = lazy.Pattern(`\$[({]([A-Za-z_][A-Za-z0-9_]*)[)}]`)

// makeAssignment matches any assignment to a variable, with its whole value.
var makeAssignment = lazy.Pattern(`(?m)^[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*[:?+]*=[ \t]*([^#\n]*)`)

// findMake recognises a Makefile. It builds the program that is most likely the benchmark, or else runs the target
// that is.
func findMake(d *folder) (project, bool) {
	name := d.first("GNUmakefile", "makefile", "Makefile")
	if name == "" {
		return project{}, false
	}
	rules := makeTargets(d.read(name))
	p := project{Kind: kernels.KindMake, What: "a project with a " + name, Build: []string{"make", "-j2"}}
	if program := benchLike(rules.programs); program != "" {
		p.Build = append(p.Build, program)
		p.Outputs, p.Run = []string{program}, []string{"./" + program}
		if file, ok := rules.files[program]; ok {
			p.Outputs, p.Run = []string{file}, []string{"./" + file}
		}
		return p, true
	}
	if rules.idle { // plain make, which kind make would run, builds nothing
		p.Kind, p.Build = kernels.KindCommand, nil
	}
	if action := benchAction(rules.actions); action != "" {
		p.Run = []string{"make", action}
		p.Notes = []string{"This times make as well; name the program instead if you can."}
	}
	return p, true
}

// benchAction picks the target that is most likely a benchmark.
func benchAction(actions []string) string {
	for _, name := range []string{"bench", "benchmark", "perf", "*bench*", "run", "check", "test"} {
		for _, a := range actions {
			if ok, _ := path.Match(name, a); ok {
				return a
			}
		}
	}
	return ""
}

// makeRules are the targets of a Makefile: programs, and actions, which only name something to do.
type makeRules struct {
	programs, actions []string
	files             map[string]string // by target: the program that its rule writes under another name
	idle              bool              // the default target checks, tests or profiles, and builds nothing
}

// otherTools matches a recipe that checks, tests, profiles, installs or publishes: what it makes is not a benchmark.
var otherTools = lazy.Pattern(`(?m)(?:^|[\s;&|@(/])(?:sudo|ncu|nsys|nv-nsight-cu-cli|nvprof|compute-sanitizer|cuda-memcheck|valgrind|gdb|pytest|unittest|tox|pip3?|uv|conda|docker|podman|ruff|black|isort|flake8|mypy|pylint|clang-format|clang-tidy|pre-commit|twine|mkdocs|sphinx-build|doxygen|rsync|scp|ssh)(?:[\s;&|)]|$)`)

// makeTargets reads the rules of a Makefile as text. make itself is not asked, since reading a Makefile may run
// commands ($(shell …)). Conditionals and includes are not followed: at worst the guess is wrong, and the user
// corrects it.
func makeTargets(text []byte) makeRules {
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r"), nil), []byte("\\\n"), []byte(" "))
	words, lines := makeVariables(text)
	var phony []string
	for _, m := range makePhony().FindAllSubmatch(text, -1) {
		phony = append(phony, strings.Fields(string(m[1]))...)
	}
	rules, first := makeRules{files: map[string]string{}}, ""
	tools, needed := map[string]bool{}, map[string][]string{}
	for _, at := range makeRule().FindAllSubmatchIndex(text, -1) {
		needs, recipe := text[at[4]:at[5]], lines.expand(makeRecipe(text[at[1]:]))
		for _, target := range strings.Fields(string(text[at[2]:at[3]])) {
			v, named := words[target]
			if named {
				target = v
			} else if path := string(lines.expand([]byte(target))); !strings.ContainsAny(path, " $") { // such as $(BUILD)/bench
				target = path
			}
			if first == "" && !strings.HasPrefix(target, ".") && !strings.Contains(target, "%") {
				first = target
			}
			needed[target] = append(needed[target], strings.Fields(string(needs))...)
			if otherTools().Match(recipe) {
				tools[target] = true
				continue
			}
			rules.add(target, needs, recipe, named, slices.Contains(phony, target))
		}
	}
	rules.idle = tools[first] || slices.ContainsFunc(needed[first], func(need string) bool { return tools[need] })
	return rules
}

// add files a target as a program, as an action, or as neither. A rule makes a program if it says so, by a variable
// that names its target or by sources and objects among its needs.
func (r *makeRules) add(target string, needs, recipe []byte, named, phony bool) {
	made := named || fromSources().Match(needs)
	idle := len(recipe) > 0 && !bytes.Contains(recipe, []byte("$@")) && !bytes.Contains(recipe, []byte("-o"))
	aggregate := len(recipe) == 0 && (neverProgram(target) || strings.HasPrefix(target, "all_")) && !namesSource().Match(needs)
	switch {
	case aggregate, phony && !namesSource().Match(needs), !made && (idle || neverProgram(target)):
		r.actions = append(r.actions, target)
	case programName(target):
		r.programs = append(r.programs, target)
		if file := writtenTo(recipe, target); file != target {
			r.files[target] = file
		}
	}
}

// makeVariables returns the variables whose value is one word, keyed as they are referenced ($(NAME), ${NAME}), and
// the values of all variables.
func makeVariables(text []byte) (words map[string]string, lines makeLines) {
	words, lines = map[string]string{}, makeLines{}
	for _, m := range makeVariable().FindAllSubmatch(text, -1) {
		words["$("+string(m[1])+")"], words["${"+string(m[1])+"}"] = string(m[2]), string(m[2])
	}
	for _, m := range makeAssignment().FindAllSubmatch(text, -1) {
		lines[string(m[1])] += string(m[2]) + " "
	}
	return words, lines
}

// makeLines holds the values of variables by name.
type makeLines map[string]string

// expand replaces the references in a recipe, and in what they expand to, four levels deep and up to 64 KiB: a
// variable may refer to itself.
func (l makeLines) expand(recipe []byte) []byte {
	const depth, most = 4, 64 << 10
	size := len(recipe)
	for range depth {
		recipe = makeReference().ReplaceAllFunc(recipe, func(m []byte) []byte {
			v, ok := l[string(m[2:len(m)-1])]
			if !ok || size+len(v) > most {
				return m
			}
			size += len(v)
			return []byte(strings.TrimSpace(v))
		})
	}
	return recipe
}

// writtenTo is the file to which a recipe writes a program (-o), which often is the target itself.
func writtenTo(recipe []byte, target string) string {
	m := outputOption().FindSubmatch(recipe)
	if m == nil {
		return target
	}
	file := path.Clean(strings.NewReplacer("$@", target, "$(@)", target).Replace(string(m[1])))
	if strings.ContainsAny(file, "$(){}%*\"'`") || !filepath.IsLocal(file) || !programName(file) {
		return target
	}
	return file
}

// makeRecipe is the recipe at the beginning of a text that follows the line of a target.
func makeRecipe(text []byte) []byte {
	text = bytes.TrimPrefix(text, []byte("\n"))
	n := 0
	for line := range bytes.Lines(text) {
		if line[0] != '\t' {
			break
		}
		n += len(line)
	}
	return text[:n]
}

// makeRule matches the line of a rule: its targets, and after one or two colons what they need. A := is an
// assignment.
var makeRule = lazy.Pattern(`(?m)^([A-Za-z0-9_$(){}./ -]+?)[ \t]*::?((?:[^=:\n][^\n]*)?)$`)

// fromSources matches what a program is made of.
var fromSources = lazy.Pattern(`\.(c|cc|cpp|cxx|cu|o|obj|f90|rs|go)\b|\$[<^({]`)

// namesSource matches the name of a source file: a target that is made from one is a program even if it is phony.
var namesSource = lazy.Pattern(`\w\.(c|cc|cpp|cxx|cu|f90|rs)\b`)

// makePhony matches a declaration of targets that are not files.
var makePhony = lazy.Pattern(`(?m)^\.PHONY[ \t]*:(.*)$`)

// makeVariable matches an assignment of a single word, which may be the name of a program.
var makeVariable = lazy.Pattern(`(?m)^[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*[:?]?=[ \t]*([A-Za-z0-9_./-]+)[ \t]*(?:#.*)?$`)

// neverProgram reports whether a name is customarily that of an action.
func neverProgram(target string) bool {
	verb, _, two := strings.Cut(strings.ReplaceAll(target, "_", "-"), "-")
	if two && slices.Contains([]string{"run", "test", "check", "clean", "install", "lint", "format", "serve", "build", "docs"}, verb) {
		return true
	}
	return slices.Contains([]string{"all", "clean", "install", "uninstall", "format", "lint", "help", "distclean", "check", "test",
		"bench", "benchmark", "perf", "run"}, target)
}

// programName reports whether a name may be a program's: not an object, library, variable or special target.
func programName(s string) bool {
	return !strings.HasPrefix(s, ".") && !strings.HasPrefix(s, "/") && !strings.HasSuffix(s, "/") && !strings.ContainsAny(s, "$(){}%") &&
		!slices.Contains(strings.Split(s, "/"), "..") && (filepath.Ext(s) == "" || filepath.Ext(s) == ".out" || filepath.Ext(s) == ".exe")
}
