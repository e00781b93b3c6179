package cuda

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kbisect/kbisect/bisect"
)

// testdata/static was made by CUDA 11.8 (ptxas.txt and resources.txt of a kernel that spills); a and b are
// testdata/static/gate.cu from two folders, b with a comment more, c with another initial value.
func static(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/static", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

const gateName = "_ZN36_GLOBAL__N__00000000_7_gate_cu_table4gateEPKfPfi"

// TestJoinOfACubin: of a cubin by itself cuobjdump names no architecture.
func TestJoinOfACubin(t *testing.T) {
	compiled := []Usage{{Kernel: "_Z1fPf", Arch: "sm_80", Registers: 30, SpillStores: 8}, {Kernel: "_Z1gPf", Arch: "sm_80", Registers: 9}}
	finished := []Usage{{Kernel: "_Z1fPf", Registers: 32}}
	want := []Usage{{Kernel: "_Z1fPf", Arch: "sm_80", Registers: 32, SpillStores: 8}, compiled[1]}
	if d := cmp.Diff(want, Join(finished, compiled)); d != "" {
		t.Error(d)
	}
	for _, x := range StaticSeries(finished, []Function{{Name: "_Z1fPf", Arch: "sm_80", Bytes: 128}}) {
		if x.Case != "_Z1fPf" {
			t.Errorf("%s of %q", x.Metric, x.Case)
		}
	}
}

func TestPtxas(t *testing.T) {
	want := []Usage{
		{Kernel: gateName, Arch: "sm_80", Registers: 15},
		{Kernel: "_Z5spillILi48EEvPKfPfi", Arch: "sm_80", Registers: 32, Stack: 448, SpillStores: 728, SpillLoads: 752, Shared: 1024},
	}
	compiled := Ptxas(static(t, "ptxas.txt"))
	if d := cmp.Diff(want, compiled); d != "" {
		t.Error(d)
	}
	finished := Resources(static(t, "resources.txt"))
	want[1].SpillStores, want[1].SpillLoads = 0, 0
	if d := cmp.Diff(want, finished); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(compiled, Join(finished, compiled)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(compiled, Join(nil, compiled)); d != "" {
		t.Error(d)
	}
}

func TestPtxasOfNewerToolkits(t *testing.T) {
	const text = `ptxas info    : 16 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function '_Z1kv' for 'sm_90a'
ptxas info    : Function properties for _Z1kv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 9 barriers, 16+1024 bytes smem, 8 bytes lmem, 528 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compile time = 12.345 ms
ptxas info    : Function properties for _Z6helperv
    64 bytes stack frame, 32 bytes spill stores, 32 bytes spill loads
`
	want := []Usage{{Kernel: "_Z1kv", Arch: "sm_90a", Registers: 168, Shared: 1040}}
	if d := cmp.Diff(want, Ptxas([]byte(text))); d != "" {
		t.Error(d)
	}
}

func TestSASS(t *testing.T) {
	fs := SASS(static(t, "sass.txt"))
	if len(fs) != 2 || fs[0].Arch != "sm_80" {
		t.Fatalf("%+v", fs)
	}
	var reverse Function
	for _, f := range fs {
		if strings.Contains(f.Name, "reverse") {
			reverse = f
		}
		if f.Bytes%16 != 0 || f.Histogram["EXIT"] != map[bool]int{true: 1, false: 2}[f.Name == "_Z7reversePf"] {
			t.Errorf("%+v", f)
		}
	}
	for code, n := range map[string]int{"STS": 1, "LDS": 1, "BAR": 1, "LDG": 1, "STG": 1, "BRA": 1, "NOP": 0} {
		if reverse.Histogram[code] != n {
			t.Errorf("%d %s, want %d", reverse.Histogram[code], code, n)
		}
	}
	noise := pathNoise().FindSubmatch(static(t, "sass.txt"))
	moved := SASS(pathNoise().ReplaceAll(static(t, "sass.txt"), []byte("${1}12345678_")))
	if noise == nil || moved[0].Digest != fs[0].Digest || moved[0].Name != fs[0].Name {
		t.Errorf("the folder of the source shows: %+v", moved[0])
	}
	// Another instruction, or one that is encoded otherwise, is another code.
	for _, change := range [][2]string{{"STS ", "ST "}, {"/* 0x000fea0003800000 */", "/* 0x000fea0003800001 */"}} {
		changed := SASS(bytes.Replace(static(t, "sass.txt"), []byte(change[0]), []byte(change[1]), 1))
		if changed[0].Digest == fs[0].Digest && changed[1].Digest == fs[1].Digest {
			t.Errorf("%q instead of %q does not show", change[1], change[0])
		}
	}
}

func TestOpcodes(t *testing.T) {
	got := Opcodes(Function{Histogram: map[string]int{"STS": 1, "LDS": 4, "BAR": 1}}, Function{Histogram: map[string]int{"STS": 3, "LDS": 1, "BAR": 1, "FFMA": 2}})
	if d := cmp.Diff([]OpcodeChange{{"LDS", -3}, {"FFMA", 2}, {"STS", 2}}, got); d != "" {
		t.Error(d)
	}
}

func TestStaticSeries(t *testing.T) {
	got := StaticSeries(Ptxas(static(t, "ptxas.txt"))[1:], SASS(static(t, "sass.txt"))[:1])
	names := map[string]string{}
	for _, s := range got {
		names[s.Metric] = s.Unit
		if len(s.Values) != 1 || s.Case == "" {
			t.Errorf("%+v", s)
		}
	}
	want := map[string]string{"registers": "", "spills": "B", "stack": "B", "shared": "B", "sass": "B", "instructions": ""}
	if d := cmp.Diff(want, names); d != "" {
		t.Error(d)
	}
	two := StaticSeries([]Usage{{Kernel: "k", Arch: "sm_80"}, {Kernel: "k", Arch: "sm_90"}}, nil)
	if two[0].Case != "k sm_80" {
		t.Errorf("architectures are mixed: %+v", two)
	}
}

func TestTinyFatbin(t *testing.T) {
	got := DeviceCodes(append(make([]byte, 24), tinyFatbin(1, []byte("ptx!"))...))
	if d := cmp.Diff([]DeviceCode{{Kind: "ptx", Arch: 90, Data: []byte("ptx!")}}, got); d != "" {
		t.Error(d)
	}
}

func TestArtefact(t *testing.T) {
	digest := func(name string) string {
		t.Helper()
		device, host, err := Artefact(static(t, name))
		if err != nil || device == "" || (host == "") != strings.HasSuffix(name, ".cubin") {
			t.Fatalf("%s: %q %q %v", name, device, host, err)
		}
		return device
	}
	if digest("a.cubin") != digest("b.cubin") || digest("a.o") != digest("b.o") {
		t.Error("a comment and another folder show in the device code")
	}
	if digest("a.cubin") == digest("c.cubin") {
		t.Error("another initial value does not show")
	}
	if digest("a.cubin") == digest("a.o") {
		t.Error("two architectures have one digest")
	}
	codes := DeviceCodes(static(t, "a.o"))
	if len(codes) != 2 || codes[0].Kind != "elf" || codes[0].Arch != 80 || codes[0].Compressed || codes[1].Kind != "ptx" || !codes[1].Compressed {
		t.Errorf("codes %+v", codes)
	}
	sum, err := cubinDigest(codes[0].Data)
	if err != nil || sum == "" {
		t.Errorf("%q, %v", sum, err)
	}
}

// TestArtefactOfAHostProgram takes the test program itself, which holds no device code.
func TestArtefactOfAHostProgram(t *testing.T) {
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	device, host, err := Artefact(data)
	if err != nil || device != "" || host == "" {
		t.Errorf("%q %q %v", device, host, err)
	}
	changed := bytes.Replace(data, []byte("case size: 1000; seed: 3: mismatch"), []byte("case size: 1000; seed: 3: mismatcH"), 1)
	if _, other, err := Artefact(changed); err != nil || other == host {
		t.Errorf("another string does not show: %v", err)
	}
	if _, _, err := Artefact([]byte("#!/bin/sh\n")); err == nil {
		t.Error("a script was read")
	}
}

// TestArtefactOfDamagedFiles damages a cubin and a fat binary in every way that a byte allows.
func TestArtefactOfDamagedFiles(t *testing.T) {
	for _, name := range []string{"a.cubin", "a.o"} {
		data := static(t, name)
		for i := 0; i < len(data); i += 31 {
			for _, b := range []byte{0xff, data[i] ^ 0x80} {
				damaged := bytes.Clone(data)
				damaged[i] = b
				_, _, _ = Artefact(damaged)
			}
		}
		for n := 0; n < len(data); n += 97 {
			_, _, _ = Artefact(data[:n])
		}
	}
}

// tinyFatbin is a fat binary with one entry.
func tinyFatbin(kind byte, code []byte) []byte {
	le := binary.LittleEndian
	head := append([]byte{0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0}, make([]byte, 8+64)...)
	le.PutUint64(head[8:], uint64(64+len(code)))
	entry := head[16:]
	entry[0], entry[4], entry[28] = kind, 64, 90
	le.PutUint64(entry[8:], uint64(len(code)))
	return append(head, code...)
}

func FuzzArtefact(f *testing.F) {
	cubin := make([]byte, 64) // an ELF header without sections
	copy(cubin, "\x7fELF\x02\x01\x01\x33\x07")
	cubin[16], cubin[18], cubin[20], cubin[52], cubin[54], cubin[58] = 2, emCUDA, 0x76, 64, 56, 64
	f.Add(cubin)
	f.Add(tinyFatbin(2, cubin))
	f.Add(tinyFatbin(1, []byte(".version 8.0")))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _, _ = Artefact(data)
		total := 0
		for _, c := range DeviceCodes(data) {
			total += len(c.Data)
		}
		if total > len(data)*len(data) {
			t.Error("more device code than bytes")
		}
	})
}

func FuzzDeviceTools(f *testing.F) {
	f.Add([]byte("ptxas info    : Compiling entry function '_Z1kv' for 'sm_80'\nptxas info    : Used 35 registers, 512 bytes smem, 364 bytes cmem[0]\n"))
	f.Add([]byte("arch = sm_80\n Function _Z1kv:\n  REG:8 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:360\n"))
	f.Add([]byte("\tcode for sm_80\n\t\tFunction : _Z1kv\n        /*0000*/ @!P0 EXIT ; /* 0x01 */\n /* 0x02 */\n        /*0010*/ NOP; /* 0x03 */\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		usage, sass := Join(Resources(data), Ptxas(data)), SASS(data)
		for _, x := range sass {
			n := 0
			for _, c := range x.Histogram {
				n += c
			}
			if n > x.Instructions {
				t.Errorf("%+v", x)
			}
		}
		StaticSeries(usage, sass)
	})
}

// A kernel is the same with another signature; two instances of a template are not, and are named alike
// whether there is one of them in the build or both.
func TestShortCases(t *testing.T) {
	of := func(names ...string) (out []bisect.Series) {
		for _, n := range names {
			out = append(out, bisect.Series{Metric: "registers", Case: n}, bisect.Series{Metric: "spills", Case: n})
		}
		return out
	}
	before, after := of("_Z4gemmPf", "_Z3addILi4EEvPf", "_Z3addILi8EEvPf"), of("_Z4gemmPKfPf", "_Z3addILi4EEvPf", "_Z3addILi8EEvPf")
	want := of("gemm", "add<4>", "add<8>")
	for _, all := range [][]bisect.Series{before, after} {
		if d := cmp.Diff(want, ShortCases(all)); d != "" {
			t.Error(d)
		}
	}
	overloads := of("_Z4gemmPf", "_Z4gemmPd", "_Z4gemmPf sm_80", "triton_poi_0")
	if d := cmp.Diff(of("gemm(float*)", "gemm(double*)", "gemm sm_80", "triton_poi_0"), ShortCases(overloads)); d != "" {
		t.Error(d)
	}
	if got := ShortCases(of("_Z3addILi8EEvPf"))[0].Case; got != "add<8>" {
		t.Errorf("alone an instance is %s, and add<8> beside another one", got)
	}
	long := "_Z3addI" + strings.Repeat("6letter", 12) + "EvPf"
	if got := ShortCases(of(long))[0].Case; got != "add" {
		t.Errorf("long arguments make it %s", got)
	}
}
