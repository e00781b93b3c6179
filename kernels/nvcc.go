package kernels

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/kernels/protocol"
)

// objectDir is where nvcc's objects and dependency files go in an export.
const objectDir = ".kbisect/nvcc"

// nvcc is a project of CUDA sources that nvcc builds by itself. Its builds are clean ones; the
// dependency files say what each has read, headers included.
func nvcc(p Project) (Plan, error) {
	plan := Plan{Build: p.Build, Outputs: p.Outputs, Run: p.Run}
	switch {
	case len(p.Build) > 0:
		return plan, nil
	case len(p.Sources) == 0:
		return Plan{}, errors.New("kind nvcc needs sources or the compiler's command\nhint: set [build] sources = [\"bench.cu\"], or command = [\"nvcc\", \"-O3\", \"-o\", \"bench\", \"bench.cu\"]")
	}
	for _, s := range p.Sources {
		if strings.HasPrefix(s, "-") {
			return Plan{}, fmt.Errorf("source %q looks like an option\nhint: options go to [build] options", s)
		}
	}
	program := strings.TrimSuffix(path.Base(p.Sources[0]), path.Ext(p.Sources[0]))
	if len(plan.Outputs) == 0 {
		plan.Outputs = []string{program}
	}
	if len(plan.Run) == 0 {
		plan.Run = []string{"./" + plan.Outputs[0]}
	}
	plan.Build, plan.Depfiles = nvccBuild(p, plan.Outputs[0])
	return plan, nil
}

// nvccBuild compiles one source with its program in one command, several one by one: a dependency
// file holds the last source of a command only.
func nvccBuild(p Project, program string) (argv, depfiles []string) {
	compiler := append([]string{"nvcc"}, nvccOptions(p)...)
	depfile := func(i int) string { return fmt.Sprintf("%s/%d.d", objectDir, i) }
	if len(p.Sources) == 1 {
		depfiles = []string{depfile(0)}
		line := append(slices.Clone(compiler), "-MD", "-MF", depfile(0), "-o", program, p.Sources[0])
		return []string{"sh", "-ec", "mkdir -p " + objectDir + "\nexec " + shellWords(line)}, depfiles
	}
	script := []string{"mkdir -p " + objectDir}
	link := append(slices.Clone(compiler), "-o", program)
	for i, source := range p.Sources {
		object := fmt.Sprintf("%s/%d.o", objectDir, i)
		depfiles, link = append(depfiles, depfile(i)), append(link, object)
		script = append(script, shellWords(append(slices.Clone(compiler), "-MD", "-MF", depfile(i), "-c", "-o", object, source)))
	}
	return []string{"sh", "-ec", strings.Join(append(script, "exec "+shellWords(link)), "\n")}, depfiles
}

// nvccOptions are those of the user; optimisation, language, architecture and the figures of ptxas
// are added where the user says nothing about them.
func nvccOptions(p Project) []string {
	options := slices.Clone(p.Options)
	add := func(option string, prefixes ...string) {
		has := func(o string) bool {
			return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(o, prefix) })
		}
		if !slices.ContainsFunc(p.Options, has) {
			options = append(options, option)
		}
	}
	add("-O3", "-O", "--optimize")
	add("-std=c++17", "-std", "--std")
	add(ArchOption(p.Device), "-arch", "--gpu-architecture", "-gencode", "--generate-code")
	add("-Xptxas=-v,--warn-on-spills", "-Xptxas=-v", "--resource-usage", "-res-usage")
	return options
}

// OldestArch reports a project for which neither the user nor a device names an architecture: with
// -arch=native and no device nvcc takes its oldest one.
func OldestArch(p Project) bool {
	_, known := archNumber(p.Device)
	return !known && slices.Contains(nvccOptions(p), ArchOption(""))
}

// ArchOption is nvcc's option for a device by its compute capability, such as "8.9". From 9.0 on it
// names the variant with the instructions that only this device has, as the program runs nowhere
// else. Without a capability nvcc looks at the device itself.
func ArchOption(capability string) string {
	arch, ok := archNumber(capability)
	if !ok {
		return "-arch=native"
	}
	return "-gencode=arch=compute_" + arch + ",code=sm_" + arch
}

// archNumber turns "9.0" into "90a".
func archNumber(capability string) (string, bool) {
	major, minor, ok := strings.Cut(capability, ".")
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if !ok || err1 != nil || err2 != nil || a < 1 || a > 99 || b < 0 || b > 9 {
		return "", false
	}
	arch := strconv.Itoa(a) + strconv.Itoa(b)
	if a >= 9 {
		arch += "a"
	}
	return arch, true
}

// shellWords joins words so that a shell takes them apart again as they were.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool { return !strings.ContainsRune(plainWord, r) }) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// plainWord holds what no shell gives a meaning to.
const plainWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%"

// maxDeps bounds the paths of one dependency file.
const maxDeps = 1 << 16

// Deps reads a dependency file as make does, `target : prerequisite ...` with \ at the end of lines,
// and returns the prerequisites of all rules, sorted, each once.
func Deps(data []byte) ([]string, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("dependency file of %d bytes", len(data))
	}
	var out []string
	text := bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("\\\n"), []byte(" "))
	for raw := range bytes.Lines(text) {
		words, colon := depWords(strings.TrimSuffix(string(raw), "\n"))
		if len(words) == 0 {
			continue
		}
		if colon < 0 {
			return nil, fmt.Errorf("dependency file: %q is no rule", protocol.Plain(string(raw), 80))
		}
		out = append(out, words[colon:]...)
		if len(out) > maxDeps {
			return nil, fmt.Errorf("dependency file with more than %d paths", maxDeps)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// depWords takes one rule apart; colon is the number of targets, or -1. A backslash keeps the
// meaning of a space, # or : after it, two dollars are one; others stand for themselves.
func depWords(line string) (words []string, colon int) {
	colon = -1
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	for i := 0; i < len(line); i++ {
		next := byte(0)
		if i+1 < len(line) {
			next = line[i+1]
		}
		switch c := line[i]; {
		case c == '\\' && strings.IndexByte(" #:\\", next) >= 0 && next != 0, c == '$' && next == '$':
			word.WriteByte(next)
			i++
		case c == ' ' || c == '\t':
			end()
		case c == '#' && word.Len() == 0:
			return words, colon
		case c == ':' && colon < 0 && (next == ' ' || next == '\t' || next == 0):
			end()
			colon = len(words)
		default:
			word.WriteByte(c)
		}
	}
	end()
	return words, colon
}

// Inputs sorts the prerequisites of builds in root by whose they are: inside holds paths of the
// export, relative to root with slashes, and outside the headers of the machine, absolute.
func Inputs(root string, deps []string) (inside, outside []string) {
	for _, d := range deps {
		if !filepath.IsAbs(d) {
			d = filepath.Join(root, d)
		}
		rel, err := filepath.Rel(root, filepath.Clean(d))
		if err == nil && filepath.IsLocal(rel) {
			inside = append(inside, path.Clean(filepath.ToSlash(rel)))
		} else {
			outside = append(outside, filepath.Clean(d))
		}
	}
	slices.Sort(inside)
	slices.Sort(outside)
	return slices.Compact(inside), slices.Compact(outside)
}

// mostIncluded bounds how many headers are followed.
const mostIncluded = 100

// FollowIncludes lists files and what they include, directly or not: find tells what of the project is meant
// by a name that a file includes, in angle brackets or in quotes.
func FollowIncludes(files []string, read func(name string) []byte, find func(from, name string, angled bool) []string) []string {
	all := slices.Clone(files)
	for i := 0; i < len(all) && len(all) < mostIncluded; i++ {
		for _, m := range includeLine.FindAllSubmatch(read(all[i]), -1) {
			for _, file := range find(all[i], string(m[2]), m[1][0] == '<') {
				if !slices.Contains(all, file) {
					all = append(all, file)
				}
			}
		}
	}
	return all
}

var includeLine = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]`)
