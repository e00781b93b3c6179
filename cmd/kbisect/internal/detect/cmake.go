package detect

import (
	"strings"

	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/lazy"
)

// addExecutable finds the first argument of add_executable.
var addExecutable = lazy.Pattern(`(?mi)^[ \t]*add_executable\s*\(\s*([^\s)]+)`)

// cmakeProject finds the name of the project, which is often that of its program.
var cmakeProject = lazy.Pattern(`(?mi)^[ \t]*project\s*\(\s*([^\s)]+)`)

// findCMake recognises a CMakeLists.txt and runs the program in it that is most likely the benchmark.
func findCMake(d *folder) (project, bool) {
	if !d.has("CMakeLists.txt") {
		return project{}, false
	}
	text := d.read("CMakeLists.txt")
	var names []string
	for _, m := range addExecutable().FindAllSubmatch(text, -1) {
		name := string(m[1])
		if p := cmakeProject().FindSubmatch(text); p != nil {
			name = strings.ReplaceAll(name, "${PROJECT_NAME}", string(p[1]))
		}
		if !strings.ContainsAny(name, "${}") {
			names = append(names, name)
		}
	}
	p := project{Kind: kernels.KindCMake, What: "a CMake project"}
	name := benchLike(names)
	if name != "" {
		p.Outputs, p.Run = []string{"build/" + name}, []string{"./build/" + name}
	}
	p.Build = []string{"sh", "-c", kernels.CMakeScript(name)}
	return p, true
}
