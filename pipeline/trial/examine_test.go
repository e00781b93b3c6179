package trial

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/kernels/cuda"
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
