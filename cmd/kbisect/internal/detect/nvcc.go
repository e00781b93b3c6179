package detect

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/lazy"
)

var cuMain = lazy.Pattern(`(?m)^[ \t]*(?:int|auto)[ \t]+main[ \t]*\(`)

var cuInclude = lazy.Pattern(`(?m)^[ \t]*#[ \t]*include[ \t]*"([^"]+)"`)

// findNvcc recognises CUDA sources without build rules as one program. Files with a
// main function of their own belong to other programs, and those that another file
// includes are compiled with it.
func findNvcc(d *folder) (project, bool) {
	var all, mains []string
	included := map[string]bool{}
	for _, f := range d.files {
		if filepath.Ext(f) != ".cu" {
			continue
		}
		text := d.read(f)
		all = append(all, f)
		if cuMain().Match(text) {
			mains = append(mains, f)
		}
		for _, m := range cuInclude().FindAllSubmatch(text, -1) {
			included[filepath.Base(string(m[1]))] = true
		}
	}
	if len(all) == 0 {
		return project{}, false
	}
	var notes []string
	if len(mains) == 0 {
		if bench := benchScript(d); bench != "" { // an extension that Python loads
			return project{Kind: config.KindCommand, What: "CUDA sources that " + bench + " times", Run: []string{"python3", bench}}, true
		}
		mains = all[:1]
		notes = []string{"FILL IN: no .cu file here has a main function; name the sources of a program, or run what loads them."}
	}
	main := benchLike(mains)
	program := strings.TrimSuffix(main, ".cu")
	p := project{Kind: config.KindNvcc, What: "CUDA sources without build rules", Outputs: []string{program}, Run: []string{"./" + program}, Sources: []string{main}, Notes: notes}
	for _, f := range all {
		if f != main && !slices.Contains(mains, f) && !included[f] {
			p.Sources = append(p.Sources, f)
		}
	}
	return p, true
}

// libraries are the linker options for headers of the CUDA toolkit.
func libraries() map[string]string {
	return map[string]string{"cublas_v2.h": "-lcublas", "cublasLt.h": "-lcublasLt", "curand.h": "-lcurand", "cufft.h": "-lcufft",
		"cusparse.h": "-lcusparse", "cusolverDn.h": "-lcusolver"}
}

// standardHeader matches the headers of C, C++, POSIX and the CUDA toolkit.
var standardHeader = lazy.Pattern(`^(?:[a-z_0-9]+|(?:assert|complex|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|setjmp|signal|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|tgmath|threads|time|uchar|wchar|wctype` +
	`|aio|cpio|dirent|dlfcn|fcntl|fmtmsg|fnmatch|ftw|getopt|glob|grp|iconv|langinfo|libgen|malloc|memory|mqueue|netdb|nl_types|omp|poll|pthread|pwd|regex|sched|search|semaphore|spawn|strings|syslog|tar|termios|unistd|utime|utmpx|wordexp|windows|io|direct|intrin|immintrin|x86intrin` +
	`|cuda|cuda_runtime|cuda_runtime_api|cuda_fp16|cuda_fp8|cuda_fp4|cuda_bf16|cuda_profiler_api|cooperative_groups|mma|device_launch_parameters|nvrtc|nvml)\.h|(?:sys|arpa|net|netinet|linux|bits|cooperative_groups|nvtx3)/.*)$`)

// followIncludes sets the paths of p to its sources and every file of the project
// that they include. With guess, where nothing says how the program is compiled, it
// also adds include folders, sources beside headers, and libraries.
func followIncludes(d *folder, p *project, folders []string, guess bool) {
	option := func(o string) {
		if guess && !slices.Contains(p.Options, o) {
			p.Options = append(p.Options, o)
		}
	}
	p.Paths = kernels.FollowIncludes(p.Sources, d.read, func(from, name string, angled bool) []string {
		if lib, ok := libraries()[name]; ok {
			option(lib)
			return nil
		}
		if angled && standardHeader().MatchString(name) { // a file of that name in the project is for another system
			return nil
		}
		header := findHeader(d, name, append([]string{path.Dir(from)}, folders...))
		if header == "" && guess {
			if header = findAnywhere(d, name); header != "" {
				folder := strings.TrimSuffix(strings.TrimSuffix(header, name), "/")
				option("-I" + folder)
				folders = append(folders, folder)
			}
		}
		if header == "" {
			return nil
		}
		source := strings.TrimSuffix(header, path.Ext(header)) + ".cu"
		if !guess || source == header || !d.isPlain(source) || cuMain().Match(d.read(source)) {
			return []string{header}
		}
		if !slices.Contains(p.Sources, source) {
			p.Sources = append(p.Sources, source)
		}
		return []string{header, source}
	})
}

// findHeader looks for an included file in folders; "" if it is not the project's.
func findHeader(d *folder, name string, folders []string) string {
	for _, folder := range folders {
		if h := path.Join(folder, name); filepath.IsLocal(h) && d.isPlain(h) {
			return h
		}
	}
	return ""
}

// findAnywhere returns the only file of the project whose path ends in name; "" where
// there is none or more than one.
func findAnywhere(d *folder, name string) string {
	var found []string
	d.below(math.MaxInt, func(file string) {
		if !strings.HasSuffix("/"+file, "/"+name) {
			return
		}
		if info, err := os.Lstat(filepath.Join(d.dir, file)); err == nil && info.Mode().IsRegular() { // a link would count its file twice
			found = append(found, file)
		}
	})
	if len(found) != 1 {
		return ""
	}
	return found[0]
}
