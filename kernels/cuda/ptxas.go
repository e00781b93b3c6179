package cuda

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/lazy"
	"github.com/kbisect/kbisect/kernels/protocol"
)

// Usage is the resources that a kernel needs: registers per thread, all others in bytes.
type Usage struct {
	Kernel      string `json:"kernel"` // mangled, without what depends on the source path
	Arch        string `json:"arch"`   // such as sm_90
	Registers   int    `json:"registers"`
	Stack       int    `json:"stack"`
	SpillStores int    `json:"spill_stores"`
	SpillLoads  int    `json:"spill_loads"`
	Shared      int    `json:"shared"`
}

// maxKernels is the largest number of kernels read from one output.
const maxKernels = 1 << 14

var (
	ptxasEntry  = lazy.Pattern(`Compiling entry function '([^']+)' for '(sm_[0-9a-z]+)'`)
	ptxasFrame  = lazy.Pattern(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	ptxasUsed   = lazy.Pattern(`Used (\d+) registers`)
	ptxasShared = lazy.Pattern(`(\d+)(?:\+(\d+))? bytes smem`)
	ptxasAnchor = []byte("ptxas")
)

// Ptxas reads the messages of `ptxas -v` in the output of a build: one Usage per kernel and
// architecture, none for device functions. A compiler cache prints no messages.
func Ptxas(output []byte) []Usage {
	var all []Usage
	var now *Usage
	for raw := range bytes.Lines(output) {
		line := string(raw[:min(len(raw), protocol.MaxLine)])
		if m := ptxasEntry().FindStringSubmatch(line); m != nil {
			if len(all) == maxKernels {
				break
			}
			all = append(all, Usage{Kernel: kernelName(m[1]), Arch: m[2]})
			now = &all[len(all)-1]
			continue
		}
		if bytes.Contains(raw, ptxasAnchor) && strings.Contains(line, "Function properties for ") && now != nil &&
			kernelName(strings.TrimSpace(line[strings.Index(line, "Function properties for ")+24:])) != now.Kernel {
			now = nil // the properties are those of a device function
		}
		if now != nil {
			now.ptxas(line)
		}
	}
	return all
}

// ptxas takes in what one line says about the kernel. Shared memory is listed as a static part and one of the driver.
func (u *Usage) ptxas(line string) {
	if m := ptxasFrame().FindStringSubmatch(line); m != nil {
		u.Stack, u.SpillStores, u.SpillLoads = atoi(m[1]), atoi(m[2]), atoi(m[3])
	}
	m := ptxasUsed().FindStringSubmatch(line)
	if m == nil {
		return
	}
	u.Registers = atoi(m[1])
	if m := ptxasShared().FindStringSubmatch(line); m != nil {
		u.Shared = atoi(m[1]) + atoi(m[2])
	}
}

// atoi parses a number of a tool, or returns 0 for one that is implausibly large.
func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n > 1<<40 {
		return 0
	}
	return n
}

var (
	resourceArch  = lazy.Pattern(`^arch = (sm_[0-9a-z]+)\s*$`)
	resourceName  = lazy.Pattern(`^ ?Function (\S+):\s*$`)
	resourceValue = lazy.Pattern(`([A-Z]+)(?:\[\d+\])?:(\d+)`)
)

// Resources reads the output of `cuobjdump --dump-resource-usage`: the usage in a finished
// program, without spills, which only the compiler reports.
func Resources(output []byte) []Usage {
	var all []Usage
	arch, open := "", false
	for raw := range bytes.Lines(output) {
		line := string(raw[:min(len(raw), protocol.MaxLine)])
		if m := resourceArch().FindStringSubmatch(line); m != nil {
			arch = m[1]
		}
		if m := resourceName().FindStringSubmatch(line); m != nil && len(all) < maxKernels {
			all = append(all, Usage{Kernel: kernelName(m[1]), Arch: arch})
			open = true
			continue
		}
		if open && strings.Contains(line, "REG:") {
			all[len(all)-1].resources(line)
			open = false
		}
	}
	return all
}

// resources takes in the line of figures that follows the name of a kernel.
func (u *Usage) resources(line string) {
	for _, m := range resourceValue().FindAllStringSubmatch(line, -1) {
		n := atoi(m[2])
		switch m[1] {
		case "REG":
			u.Registers = n
		case "STACK":
			u.Stack = n
		case "SHARED":
			u.Shared = n
		}
	}
}

// pathNoise matches the hash of the source path that nvcc puts into the names of static
// functions and anonymous namespaces.
var pathNoise = lazy.Pattern(`(_GLOBAL__N__|_INTERNAL_|__nv_static_\d{1,4}__)[0-9a-f]{8}_`)

// kernelName removes from a mangled name what depends on the source path.
func kernelName(s string) string {
	return protocol.Plain(pathNoise().ReplaceAllString(s, "${1}00000000_"), protocol.MaxLine)
}

// StaticSeries returns the metrics of kernels that need no device, with the kernel as case:
// registers, spills, stack and shared from usage, and sass (bytes) and instructions from sass.
// If there are several architectures, the case is the kernel and its architecture.
func StaticSeries(usage []Usage, sass []Function) []bisect.Series {
	var out []bisect.Series
	archs := map[string]bool{}
	for _, u := range usage {
		archs[u.Arch] = true
	}
	for _, f := range sass {
		archs[f.Arch] = true
	}
	delete(archs, "") // cuobjdump does not name the architecture of a single cubin
	name := func(kernel, arch string) string {
		if len(archs) > 1 {
			return kernel + " " + arch
		}
		return kernel
	}
	for _, u := range usage {
		k := name(u.Kernel, u.Arch)
		out = protocol.AppendValue(out, "registers", k, "", float64(u.Registers))
		out = protocol.AppendValue(out, "spills", k, "B", float64(u.SpillStores+u.SpillLoads))
		out = protocol.AppendValue(out, "stack", k, "B", float64(u.Stack))
		out = protocol.AppendValue(out, "shared", k, "B", float64(u.Shared))
	}
	for _, f := range sass {
		k := name(f.Name, f.Arch)
		out = protocol.AppendValue(out, "sass", k, "B", float64(f.Bytes))
		out = protocol.AppendValue(out, "instructions", k, "", float64(f.Instructions))
	}
	return out
}

// sameKernel reports whether two usages are of one kernel and architecture; "" matches any.
func sameKernel(a, b Usage) bool {
	return a.Kernel == b.Kernel && (a.Arch == b.Arch || a.Arch == "" || b.Arch == "")
}

// Join adds spills, which only the compiler reports, to the usage in a finished program.
func Join(finished, compiled []Usage) []Usage {
	out := slices.Clone(finished)
	for i, u := range out {
		j := slices.IndexFunc(compiled, func(c Usage) bool { return sameKernel(c, u) })
		if j >= 0 {
			out[i].Arch = compiled[j].Arch
			out[i].SpillStores, out[i].SpillLoads = compiled[j].SpillStores, compiled[j].SpillLoads
		}
	}
	for _, c := range compiled {
		if !slices.ContainsFunc(out, func(u Usage) bool { return sameKernel(u, c) }) {
			out = append(out, c)
		}
	}
	return out
}

// StaticMetrics lists the metrics of StaticSeries.
func StaticMetrics() []string {
	return []string{"registers", "spills", "stack", "shared", "sass", "instructions"}
}
