package cuda

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A tool is looked for on PATH, then in the toolkit that the environment names, and must be a program.
func TestTool(t *testing.T) {
	home := t.TempDir()
	for name, mode := range map[string]os.FileMode{"path/one": 0o777, "home/bin/one": 0o777, "home/bin/two": 0o777, "other/bin/three": 0o777, "home/bin/text": 0o666} {
		file := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", home+"/path")
	t.Setenv("CUDA_HOME", home+"/home")
	t.Setenv("CUDA_PATH", home+"/other")
	for name, want := range map[string]string{"one": home + "/path/one", "two": home + "/home/bin/two", "three": home + "/other/bin/three", "text": "", "nosuch": ""} {
		if got := Tool(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// The occupancy is that of putting blocks on a multiprocessor one by one until a resource runs out.
func TestOccupyAgainstFilling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capability := rapid.SampledFrom([]string{"7.0", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "12.0"}).Draw(t, "capability")
		registers, shared, threads := rapid.IntRange(0, 255).Draw(t, "registers"), rapid.IntRange(0, 120<<10).Draw(t, "shared"), rapid.IntRange(1, 1024).Draw(t, "threads")
		m, _ := multiprocessors(capability)
		warps := (threads + 31) / 32
		perWarp := (registers*32 + 255) / 256 * 256
		perBlock := (shared + m.reserved + m.unit - 1) / m.unit * m.unit
		blocks := 0
		for {
			next := blocks + 1
			// Registers are given out in four banks, a warp's in one of them.
			inBank := (next*warps + 3) / 4
			if next > m.blocks || next*warps > m.warps || inBank*perWarp > registersAll/4 || next*perBlock > m.shared {
				break
			}
			blocks = next
		}
		o, ok := Occupy(capability, registers, shared, threads)
		if ok != (blocks > 0) || o.Blocks != blocks {
			t.Fatalf("%d blocks (%s), want %d", o.Blocks, o.Limit, blocks)
		}
		if want := float64(blocks*warps) / float64(m.warps); ok && (o.Share != want || o.Share > 1) {
			t.Fatalf("share %v, want %v", o.Share, want)
		}
	})
	for _, c := range []struct {
		capability                 string
		registers, shared, threads int
	}{{"1.0", 8, 0, 32}, {"9.0", -1, 0, 32}, {"9.0", 256, 0, 32}, {"9.0", 8, -1, 32}, {"9.0", 8, 0, 0}, {"9.0", 8, 0, 1025}} {
		if o, ok := Occupy(c.capability, c.registers, c.shared, c.threads); ok {
			t.Errorf("%+v: %+v", c, o)
		}
	}
}

// The changes of opcodes add up to the difference of two functions, the largest first.
func TestOpcodesAddUp(t *testing.T) {
	histogram := rapid.MapOf(rapid.SampledFrom([]string{"FFMA", "LDG", "STS", "BRA", "MOV"}), rapid.IntRange(1, 9))
	rapid.Check(t, func(t *rapid.T) {
		before, after := histogram.Draw(t, "before"), histogram.Draw(t, "after")
		got := map[string]int{}
		for code, n := range before {
			got[code] = n
		}
		changes := Opcodes(Function{Histogram: before}, Function{Histogram: after})
		for i, c := range changes {
			if got[c.Opcode] += c.Change; got[c.Opcode] == 0 {
				delete(got, c.Opcode)
			}
			if c.Change == 0 || i > 0 && max(c.Change, -c.Change) > max(changes[i-1].Change, -changes[i-1].Change) {
				t.Fatalf("%+v", changes)
			}
		}
		if d := cmp.Diff(after, got); d != "" {
			t.Fatal(d)
		}
	})
}

// No instruction of a kernel is counted twice, or in no family; what is not known is counted as such.
func TestMixAddsUp(t *testing.T) {
	f := Function{Histogram: map[string]int{"FFMA": 3, "HGMMA": 2, "UTCQMMA": 1, "LDGSTS": 4, "LDG": 5, "BAR": 6, "NEWOP": 7, "HFMA2": 8, "IMAD": 9, "UMOV": 10, "F2FP": 11, "I2F": 12}}
	all, want := 0, 0
	by := map[string]int{}
	for _, x := range Mix(f) {
		all, by[x.Name] = all+x.N, x.N
	}
	for _, n := range f.Histogram {
		want += n
	}
	if all != want || by["other"] != 7 || by["tensor"] != 3 || by["asynchronous copies"] != 4 || by["fp16 and bf16"] != 19 || by["conversion"] != 12 {
		t.Errorf("%d of %d: %v", all, want, by)
	}
}

// NOPs at the end are padding; those before another instruction are run.
func TestPadding(t *testing.T) {
	var text strings.Builder
	text.WriteString("\tcode for sm_90\n\t\tFunction : k\n")
	for i, code := range []string{"MOV R1, c[0x0][0x28]", "NOP", "@!P0 EXIT", "BRA 0x30", "NOP", "NOP"} {
		fmt.Fprintf(&text, "        /*%04x*/                   %s ;    /* 0x00000a0000017a02 */\n                                     /* 0x000fe40000000f00 */\n", 16*i, code)
	}
	fs := SASS([]byte(text.String()))
	if len(fs) != 1 || fs[0].Instructions != 4 || fs[0].Bytes != 96 || fs[0].Histogram["NOP"] != 1 || fs[0].Histogram["EXIT"] != 1 || fs[0].Arch != "sm_90" {
		t.Errorf("%+v", fs)
	}
}

// The architecture of a cubin stands in another byte from version 8 of its ABI on.
func TestCubinArch(t *testing.T) {
	for _, c := range []struct {
		abi   byte
		flags uint32
		want  int
	}{{7, 0x005a055a, 90}, {7, 0x50, 80}, {8, 0x06006402, 100}, {9, 0x00007802, 120}} {
		data := make([]byte, 64)
		copy(data, "\x7fELF\x02\x01\x01\x33")
		data[8] = c.abi
		binary.LittleEndian.PutUint16(data[18:], emCUDA)
		binary.LittleEndian.PutUint32(data[48:], c.flags)
		if codes := DeviceCodes(data); len(codes) != 1 || codes[0].Arch != c.want || codes[0].Kind != "elf" {
			t.Errorf("version %d, flags %x: %+v, want %d", c.abi, c.flags, codes, c.want)
		}
		if codes := DeviceCodes(data[:40]); len(codes) != 1 || codes[0].Arch != 0 {
			t.Errorf("a cubin cut short: %+v", codes)
		}
	}
}

// The traces of several processes are one; what could be read before an error is kept with it.
func TestOpenTraces(t *testing.T) {
	dir := t.TempDir()
	kernel := func(name string, us int) string {
		return fmt.Sprintf(`{"cat":"kernel","name":%q,"dur":%d,"args":{"device":0,"registers per thread":32,"shared memory":1024,"grid":[2,1,1],"block":[64,1,1]}}`, name, us)
	}
	files := map[string]string{
		"one":     `{"deviceProperties":[{"id":0,"computeMajor":9,"computeMinor":0}],"other":{"x":[1]},"traceEvents":[` + kernel("k", 10) + `,{"cat":"cuda_runtime","name":"cudaGraphLaunch"},{"cat":"gpu_memcpy"}]}`,
		"two":     `{"deviceProperties":[{"id":0,"computeMajor":9,"computeMinor":0}],"traceEvents":[` + kernel("k", 30) + `,{"cat":"cuda_driver","name":"cuStreamSynchronize"},{"cat":"cuda_runtime","name":"cudaMallocAsync"},7,{"cat":"kernel","name":3}]}`,
		"cut":     `{"traceEvents":[` + kernel("k", 20) + `,{"cat":`,
		"a list":  `[1]`,
		"no list": `{"traceEvents":{}}`,
		"empty":   ``,
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range files {
		if err := os.WriteFile(path(name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := OpenTraces([]string{path("one"), path("two")})
	if err != nil || len(got.Kernels) == 0 || got.Replays != 1 || got.Syncs != 1 || got.Allocated != 1 || got.Copies != 1 {
		t.Fatalf("%+v %v", got, err)
	}
	if k := got.Kernels[0]; k.Launches != 2 || k.Metrics[MetricTime].Value != 20e-6 || k.Arch != "9.0" || k.Threads() != 64 || k.Metrics[MetricShared] != (Measured{1024, "B"}) {
		t.Errorf("%+v", k)
	}
	for name, want := range map[string]string{"cut": "unexpected EOF", "a list": "expected {, got [", "no list": "expected [, got {", "empty": "EOF"} {
		got, err := OpenTraces([]string{path(name), path("one")})
		if err == nil || !strings.Contains(err.Error(), "trace of torch.profiler: ") || !strings.Contains(err.Error(), want) || len(got.Kernels) == 0 {
			t.Errorf("%s: %v, with %+v", name, err, got.Kernels)
		}
	}
	if _, err := OpenTraces([]string{path("one"), path("missing")}); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
}

// Units as ncu writes them, and numbers with separators; a value that is none is left out.
func TestNcuValues(t *testing.T) {
	text := "\"ID\",\"Kernel Name\",\"Grid Size\",\"Block Size\",\"CC\",\"gpu__time_duration.sum\",\"dram__bytes.sum\",\"x__a\",\"x__b\",\"plain\"\n" +
		"\"\",\"\",\"\",\"\",\"\",\"usecond\",\"Mbyte\",\"%\",\"\",\"\"\n" +
		"\"0\",\"k\",\"(2, 1, 1)\",\"(64,1,1)\",\"9.0\",\"1,234.5\",\"2\",\"n/a\",\"nan\",\"7\"\n" +
		"\"1\",\"k\",\"(2, x, 1)\",\"(64,1,1)\",\"9.0\",\"1\",\"2\",\"3\",\"4\"\n"
	got, err := NcuCSV([]byte(text))
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v %v", got, err)
	}
	want := map[string]Measured{MetricTime: {1234.5e-6, "s"}, "dram__bytes.sum": {2e6, "B"}}
	if d := cmp.Diff(want, got[0].Metrics, cmp.Comparer(func(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 })); d != "" {
		t.Error(d)
	}
	if got[1].Grid != [3]int{} || got[1].Threads() != 64 {
		t.Errorf("dimensions that are no numbers: %+v", got[1])
	}
}

func TestNoNcuVersion(t *testing.T) {
	for _, none := range []string{"", "ncu: command not found", "Version x"} {
		if got := NcuVersion([]byte(none)); got != "" {
			t.Errorf("%q: %q", none, got)
		}
	}
}
