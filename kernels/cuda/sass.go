package cuda

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/kernels/lazy"
	"github.com/kbisect/kbisect/kernels/protocol"
)

// Function is the machine code of a kernel.
type Function struct {
	Name         string         `json:"name"` // as in Usage.Kernel
	Arch         string         `json:"arch"`
	Bytes        int            `json:"bytes"`        // including padding
	Instructions int            `json:"instructions"` // excluding padding
	Histogram    map[string]int `json:"histogram"`    // by opcode, without modifiers
	Digest       string         `json:"digest"`       // of the instructions and their encodings
}

// Tool is the path of a program of the CUDA toolkit, "" if it is not installed.
func Tool(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, home := range []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda"} {
		if path := filepath.Join(home, "bin", name); home != "" {
			if found, err := exec.LookPath(path); err == nil {
				return found
			}
		}
	}
	return ""
}

// DeviceTools returns the commands that print the machine code of a program or cubin, for
// SASS, and its resource usage, for Resources. They need no device.
func DeviceTools(file string) (sass, resources []string) {
	return []string{"cuobjdump", "-sass", file}, []string{"cuobjdump", "--dump-resource-usage", file}
}

var (
	sassArch  = lazy.Pattern(`^\s*(?:arch = |code for )(sm_[0-9a-z]+)\s*$`)
	sassName  = lazy.Pattern(`^\s*Function : (\S+)\s*$`)
	sassLine  = lazy.Pattern(`^\s*/\*([0-9a-f]{4,8})\*/\s+(.*?);?\s*(?:/\* (0x[0-9a-f]+) \*/)?\s*$`)
	sassExtra = lazy.Pattern(`^\s*/\* (0x[0-9a-f]+) \*/\s*$`)
	sassCode  = lazy.Pattern(`^(?:@!?U?P[0-9T]+\s+)?([A-Z][A-Z0-9_]*)`)
)

// SASS reads the output of `cuobjdump -sass` or `nvdisasm`. The digests do not depend on
// addresses, debug lines or paths in names. They do not cover initialised data either: to
// compare whole programs, use Artefact.
func SASS(output []byte) []Function {
	var all []Function
	var d *sassDigest
	arch := ""
	end := func() {
		if d != nil {
			all = append(all, d.function())
			d = nil
		}
	}
	for raw := range bytes.Lines(output) {
		line := strings.TrimRight(string(raw[:min(len(raw), protocol.MaxLine)]), "\r\n")
		if m := sassArch().FindStringSubmatch(line); m != nil {
			end()
			arch = m[1]
		} else if m := sassName().FindStringSubmatch(line); m != nil {
			end()
			if len(all) == maxKernels {
				return all
			}
			d = &sassDigest{Function: Function{Name: kernelName(m[1]), Arch: arch, Histogram: map[string]int{}}, sum: sha256.New()}
		} else if d != nil {
			d.line(line)
		}
	}
	end()
	return all
}

// sassDigest accumulates one function.
type sassDigest struct {
	Function
	sum     hash.Hash
	padding int // trailing NOPs so far
	width   int // bytes of the first instruction
}

// line takes in one line of code. Newer devices print the second half of an encoding on a line of its own. NOPs behind
// the last instruction only fill the cache line.
func (d *sassDigest) line(line string) {
	if m := sassExtra().FindStringSubmatch(line); m != nil {
		fmt.Fprintln(d.sum, m[1])
		if d.width == 8 {
			d.width = 16
		}
		return
	}
	m := sassLine().FindStringSubmatch(line)
	if m == nil {
		return
	}
	address, err := strconv.ParseInt(m[1], 16, 64)
	code := sassCode().FindStringSubmatch(m[2])
	if err != nil || code == nil {
		return
	}
	fmt.Fprintln(d.sum, kernelName(m[2]), m[3])
	if d.width == 0 {
		d.width = 8
	}
	d.Bytes = int(address) + d.width
	if code[1] == "NOP" {
		d.padding++
		return
	}
	if d.padding > 0 {
		d.count("NOP", d.padding)
		d.padding = 0
	}
	d.count(code[1], 1)
}

// count counts instructions of one opcode; opcodes beyond the bound are in the total only.
func (d *sassDigest) count(code string, n int) {
	d.Instructions += n
	if _, known := d.Histogram[code]; known || len(d.Histogram) < 1024 {
		d.Histogram[code] += n
	}
}

func (d *sassDigest) function() Function {
	f := d.Function
	f.Digest = hex.EncodeToString(d.sum.Sum(nil))
	return f
}

// Opcodes returns how the number of each opcode changed between two functions, the largest
// change first.
func Opcodes(before, after Function) []OpcodeChange {
	changes := map[string]int{}
	maps.Copy(changes, after.Histogram)
	for code, n := range before.Histogram {
		changes[code] -= n
	}
	var out []OpcodeChange
	for code, n := range changes {
		if n != 0 {
			out = append(out, OpcodeChange{code, n})
		}
	}
	slices.SortFunc(out, func(a, b OpcodeChange) int {
		return cmp.Or(max(b.Change, -b.Change)-max(a.Change, -a.Change), strings.Compare(a.Opcode, b.Opcode))
	})
	return out
}

// OpcodeChange is the change in the number of instructions with an opcode.
type OpcodeChange struct {
	Opcode string
	Change int
}
