package kernelbot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// pythonCases writes the cases of task files as KernelBot's server does: with PyYAML and str.
const pythonCases = `
import json, sys, yaml
out = []
for text in json.load(sys.stdin):
    try:
        cases = yaml.safe_load(text)["tests"]
        out.append(["; ".join(f"{k}: {v}" for k, v in c.items()) for c in cases])
    except Exception as e:
        out.append(None)
json.dump(out, sys.stdout)
`

// asPython is what the server makes of the tests of each text, nil where it refuses one.
func asPython(t *testing.T, texts []string) (out [][]string) {
	t.Helper()
	if exec.Command("python3", "-c", "import yaml").Run() != nil {
		t.Skip("SKIPPED: there is no PyYAML; cases were not compared with those of the server")
	}
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-c", pythonCases)
	cmd.Stdin = bytes.NewReader(in)
	data, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil || len(out) != len(texts) {
		t.Fatalf("python: %v %s", err, data)
	}
	return out
}

// taskWith is a task with one test of these pairs.
func taskWith(pairs string) string {
	return "lang: py\nfiles: [{name: s.py, source: \"@SUBMISSION@\"}, {name: e.py, source: e.py}]\nconfig: {main: e.py}\ntests:\n  - {" + pairs + "}\n"
}

// TestScalarsEqualPyYAML: a trial runs with the bytes that the server would send, whatever YAML 1.1 takes a word for.
func TestScalarsEqualPyYAML(t *testing.T) {
	scalars := []string{"yes", "no", "on", "Off", "true", "False", "TRUE", "tRue", "y", "n", "~", "null", "Null", "nULL", "",
		"0", "-0", "+7", "007", "010", "-010", "0x1F", "0b101", "1_000", "1__0", "_1", "08", "18446744073709551615", "-9223372036854775808",
		"1.", ".5", "1.5", "-.5", "1e5", "1e-5", "1.0e5", "1.0e+5", "1.5e-07", "1_0.5", "6.02E+23", "1e+5", ".inf", "-.Inf", ".nan", ".NaN", "inf", "nan", "1.0.0", "1e400", "1.0e-400",
		"bf16", "torch.bfloat16", "f8_e4m3", "a-b", "=", "<", "!x", "'it''s'", `"a\tb"`, `"\u00e9"`, `""`, "''", `"1"`, "'yes'", "3.0", "1.0", "100.0", "123456789012345678", "1234567890123456.0", "1.0e+15", "1.0e+16", "0.0001", "0.00001", "0.1"}
	var texts []string
	for _, s := range scalars {
		texts = append(texts, taskWith("n: "+s), taskWith("n: ["+s+"]"))
	}
	// Not in a list, where this parser takes them for mappings, and not larger than 64 bits.
	for _, s := range []string{"1:99", "2024-01-31", "12345678901234567890123"} {
		scalars, texts = append(scalars, s), append(texts, taskWith("n: "+s), taskWith("n: "+s))
	}
	for i, want := range asPython(t, texts) {
		if want == nil {
			continue // the server refuses it
		}
		task, err := ParseTask([]byte(texts[i]))
		if err != nil {
			t.Errorf("%q: %v, want %q", scalars[i/2], err, want)
		} else if fmt.Sprint(task.Tests) != fmt.Sprint(want) {
			t.Errorf("%q: %q, want %q", scalars[i/2], task.Tests, want)
		}
	}
}

// TestCasesEqualPython compares random values in lists and mappings, with texts that Python quotes and escapes.
func TestCasesEqualPython(t *testing.T) {
	var texts []string
	text := rapid.StringOfN(rapid.RuneFrom([]rune("ab1 .,:'\"\\\tä中\u00a0\u200b\U0001f600-_#[]{}")), 0, 8, -1)
	scalar := rapid.OneOf(
		rapid.Map(text, func(s string) any { return s }), rapid.Map(rapid.Int64(), func(n int64) any { return n }),
		rapid.Map(rapid.Float64Range(-1e15, 1e15), func(f float64) any { return f }), rapid.Map(rapid.Float64Range(-1e-3, 1e-3), func(f float64) any { return f }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }), rapid.Just[any](nil))
	value := rapid.OneOf(scalar, rapid.Map(rapid.SliceOfN(scalar, 0, 4), func(l []any) any { return l }))
	for i := range 300 {
		v := value.Example(i)
		data, err := json.Marshal(v) // flow YAML
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := v.(float64); ok && f != 0 {
			data = fmt.Appendf(nil, "%.6e", f) // which has a point and a sign, as YAML 1.1 wants
		}
		texts = append(texts, taskWith("k: "+string(data)))
	}
	for i, want := range asPython(t, texts) {
		if want == nil {
			continue
		}
		task, err := ParseTask([]byte(texts[i]))
		if err != nil {
			t.Errorf("%s: %v", texts[i], err)
		} else if fmt.Sprint(task.Tests) != fmt.Sprint(want) {
			t.Errorf("%s: %q, want %q", strings.Split(texts[i], "\n")[4], task.Tests, want)
		}
	}
}
