package kernels

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
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
