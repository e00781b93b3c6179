package kernels

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect/hint"
)

// objectDir holds nvcc's objects and dependency files in an export.
const objectDir = ".kbisect/nvcc"

// nvccPlan is a project of CUDA sources without build rules. Every build starts clean;
// its dependency files list what the compiler read, headers included.
func nvccPlan(p Project) (Plan, error) {
	plan := Plan{Build: p.Build, Outputs: p.Outputs, Run: p.Run}
	switch {
	case len(p.Build) > 0:
		return plan, nil
	case len(p.Sources) == 0:
		return Plan{}, hint.Add(errors.New("kind nvcc needs sources or a build command"), "set [build] sources = [\"bench.cu\"], or command = [\"nvcc\", \"-O3\", \"-o\", \"bench\", \"bench.cu\"]")
	}
	for _, s := range p.Sources {
		if strings.HasPrefix(s, "-") {
			return Plan{}, hint.Add(fmt.Errorf("source %q looks like an option", s), "put options into [build] options")
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

// nvccBuild compiles and links one source in one command, but several sources one by
// one, because nvcc writes the dependency file for the last source of a command only.
func nvccBuild(p Project, program string) (argv, depfiles []string) {
	compiler := append([]string{"nvcc"}, nvccOptions(p)...)
	depfile := func(i int) string { return fmt.Sprintf("%s/%d.d", objectDir, i) }
	if len(p.Sources) == 1 {
		depfiles = []string{depfile(0)}
		line := append(slices.Clone(compiler), "-MD", "-MF", depfile(0), "-o", program, p.Sources[0])
		return []string{"sh", "-ec", "mkdir -p " + objectDir + "\nexec " + ShellWords(line...)}, depfiles
	}
	script := []string{"mkdir -p " + objectDir}
	link := append(slices.Clone(compiler), "-o", program)
	for i, source := range p.Sources {
		object := fmt.Sprintf("%s/%d.o", objectDir, i)
		depfiles, link = append(depfiles, depfile(i)), append(link, object)
		script = append(script, ShellWords(append(slices.Clone(compiler), "-MD", "-MF", depfile(i), "-c", "-o", object, source)...))
	}
	return []string{"sh", "-ec", strings.Join(append(script, "exec "+ShellWords(link...)), "\n")}, depfiles
}

// nvccOptions are the user's options, with defaults for optimisation, language standard,
// architecture and ptxas statistics where the user sets none.
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
	add(archOption(p.Device), "-arch", "--gpu-architecture", "-gencode", "--generate-code")
	add("-Xptxas=-v,--warn-on-spills", "-Xptxas=-v", "--resource-usage", "-res-usage")
	return options
}

// OldestArch reports whether nvcc will compile for the oldest architecture it supports:
// that is what -arch=native means on a machine without a device.
func OldestArch(p Project) bool {
	_, known := archNumber(p.Device)
	return !known && slices.Contains(nvccOptions(p), archOption(""))
}

// archOption is nvcc's option for a compute capability such as "8.9". From 9.0 on it
// selects the architecture-specific variant (sm_90a), as the program runs on no other
// device. Without a capability nvcc asks the device.
func archOption(capability string) string {
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

// ShellWords quotes words so that a shell splits the result into the same words.
func ShellWords(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool { return !strings.ContainsRune(plainWord, r) }) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// plainWord holds the characters that need no quotes in any shell.
const plainWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%"
