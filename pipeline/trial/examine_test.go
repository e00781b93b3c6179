package trial

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/kernels/cuda"
	"golang.org/x/sys/unix"
)

// Spills that the compiler has not spoken of are not taken for none.
func TestUnspokenSpills(t *testing.T) {
	finished := []cuda.Usage{{Kernel: "a", Registers: 8}, {Kernel: "b", Registers: 9}}
	var got []string
	for _, x := range figures(finished, []cuda.Usage{{Kernel: "b", SpillStores: 4, SpillLoads: 8}}, nil) {
		if x.Metric == "spills" || x.Metric == "registers" {
			got = append(got, fmt.Sprint(x.Metric, " ", x.Case, " ", x.Values))
		}
	}
	if want := []string{"registers a [8]", "registers b [9]", "spills b [12]"}; !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("got %q", got)
	}
}

// What a candidate leaves in place of its results is not waited for.
func TestReadProgramReadsPlainFilesOnly(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "results.csv")
	if err := unix.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, "/dev/zero"} {
		if _, err := readProgram(name); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}
