package metrics

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kbisect/kbisect/bisect"
)

func testdata(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestBenchmark reads what the tools wrote.
func TestBenchmark(t *testing.T) {
	for file, want := range map[string]string{
		"google-benchmark.json":        `[{time BM_sum/64 s [3.782e-07 1.738e-07]} {time BM_sum/4096 s [5.949e-06 7.384e-06]}] ok `,
		"google-benchmark-failed.json": `[{time BM_sum/64 s [x]} {time BM_sum/4096 s [1.553e-05]}] wrong BM_bad: wrong result`,
		"pytest-benchmark.json":        `[{time test_sum[100] s [x x x x x]} {time test_sum[1000] s [x x x x x]}] ok `,
		"hyperfine.json":               `[{time sleep 0.01 s [0.01797 0.03236 0.03162 0.02603]} {time sleep 0.02 s [x x x x]}] ok `,
	} {
		r, err := Read("benchmark", Input{Metric: "time", Data: testdata(t, file), File: file})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		var got []string
		for _, s := range r.Series {
			got = append(got, fmt.Sprintf("{%s %s %s %.4g}", s.Metric, s.Case, s.Unit, s.Values))
		}
		if said := fmt.Sprintf("%s %s %s", got, r.Class, r.Why); !sameButX(want, said) {
			t.Errorf("%s: %s, want %s", file, said, want)
		}
	}
	one := []byte(`{"results": [{"command": "sleep 1", "median": 1.5}]}`)
	if r, err := Read("benchmark", Input{Metric: "time", Data: one}); err != nil || len(r.Series) != 1 || r.Series[0].Case != "" || r.Series[0].Values[0] != 1.5 {
		t.Errorf("one command is no case: %+v, %v", r, err)
	}
	for _, bad := range []string{"", "{}", "[1]", `{"benchmarks": [{"name": "x", "real_time": 1, "time_unit": "years"}]}`, `{"benchmarks": [{"name": "x", "real_time": -1, "time_unit": "s"}]}`} {
		if r, err := Read("benchmark", Input{Metric: "time", Data: []byte(bad)}); err == nil {
			t.Errorf("%s: %+v", bad, r)
		}
	}
	skipped := []byte(`{"benchmarks": [{"name": "x", "real_time": 1, "time_unit": "s"}, {"name": "y", "skipped": "error", "skip_message": "nan"}, {"name": "z", "skipped": "message", "skip_message": "no GPU"}]}`)
	if r, err := Read("benchmark", Input{Metric: "time", Data: skipped}); err != nil || len(r.Series) != 1 || r.Class != bisect.Wrong || r.Why != "y: nan" {
		t.Errorf("%+v, %v", r, err)
	}
}

// sameButX compares two texts word by word; a word of x stands for any other.
func sameButX(want, got string) bool {
	var a, b []string
	for _, x := range []struct {
		text  string
		words *[]string
	}{{want, &a}, {got, &b}} {
		word := ""
		for _, c := range x.text + " " {
			switch c {
			case ' ', '[', ']', '{', '}':
				*x.words = append(*x.words, word, string(c))
				word = ""
			default:
				word += string(c)
			}
		}
	}
	for i := range a {
		if i >= len(b) || a[i] != "x" && a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func FuzzBenchmark(f *testing.F) {
	for _, name := range []string{"google-benchmark.json", "google-benchmark-failed.json", "pytest-benchmark.json", "hyperfine.json"} {
		f.Add(testdata(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Read("benchmark", Input{Metric: "time", Data: data})
		if err == nil && len(r.Series) == 0 && r.Class == bisect.OK {
			t.Error("a report without results was taken")
		}
		for _, s := range r.Series {
			for _, v := range s.Values {
				if !(v > 0) {
					t.Errorf("%s: %v", s.Case, v)
				}
			}
		}
	})
}
