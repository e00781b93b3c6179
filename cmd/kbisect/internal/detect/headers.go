package detect

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/kernels"
)

// libraries are what programs need that include these headers of the CUDA toolkit.
func libraries() map[string]string {
	return map[string]string{"cublas_v2.h": "-lcublas", "cublasLt.h": "-lcublasLt", "curand.h": "-lcurand", "cufft.h": "-lcufft",
		"cusparse.h": "-lcusparse", "cusolverDn.h": "-lcusolver"}
}

// standardHeader matches what compilers and systems bring along: C, C++, POSIX and the CUDA toolkit.
func standardHeader() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[a-z_0-9]+|(?:assert|complex|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|setjmp|signal|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|tgmath|threads|time|uchar|wchar|wctype` +
		`|aio|cpio|dirent|dlfcn|fcntl|fmtmsg|fnmatch|ftw|getopt|glob|grp|iconv|langinfo|libgen|malloc|memory|mqueue|netdb|nl_types|omp|poll|pthread|pwd|regex|sched|search|semaphore|spawn|strings|syslog|tar|termios|unistd|utime|utmpx|wordexp|windows|io|direct|intrin|immintrin|x86intrin` +
		`|cuda|cuda_runtime|cuda_runtime_api|cuda_fp16|cuda_fp8|cuda_fp4|cuda_bf16|cuda_profiler_api|cooperative_groups|mma|device_launch_parameters|nvrtc|nvml)\.h|(?:sys|arpa|net|netinet|linux|bits|cooperative_groups|nvtx3)/.*)$`)
}

// follow goes from the sources of a program to all files of the project that they include. Where nothing
// says how it is compiled, the folders of those, sources beside headers and libraries are added.
func (d *detector) follow(p *project, folders []string, guess bool) {
	option := func(o string) {
		if guess && !slices.Contains(p.options, o) {
			p.options = append(p.options, o)
		}
	}
	p.paths = kernels.FollowIncludes(p.sources, d.read, func(from, name string, angled bool) []string {
		if lib, ok := libraries()[name]; ok {
			option(lib)
			return nil
		}
		if angled && standardHeader().MatchString(name) { // the compiler has it; a file of that name is for another system
			return nil
		}
		header := d.header(name, append([]string{path.Dir(from)}, folders...))
		if header == "" && guess {
			if header = d.anywhere(name); header != "" {
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
		if !slices.Contains(p.sources, source) {
			p.sources = append(p.sources, source)
		}
		return []string{header, source}
	})
}

// header finds an included file in folders, "" if it is not the project's.
func (d *detector) header(name string, folders []string) string {
	for _, folder := range folders {
		if h := path.Join(folder, name); filepath.IsLocal(h) && d.isPlain(h) {
			return h
		}
	}
	return ""
}

// anywhere finds the one file of the project whose path ends so, "" where there is none or more than one.
func (d *detector) anywhere(name string) string {
	var found []string
	d.below(math.MaxInt, func(file string) {
		if !strings.HasSuffix("/"+file, "/"+name) {
			return
		}
		if info, err := os.Lstat(filepath.Join(d.dir, file)); err == nil && info.Mode().IsRegular() { // a link is of a file that is met itself
			found = append(found, file)
		}
	})
	if len(found) != 1 {
		return ""
	}
	return found[0]
}
