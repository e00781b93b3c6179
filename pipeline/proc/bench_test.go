package proc

import "testing"

// BenchmarkRun is the price of a warden.
func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		if _, err := Run(b.Context(), Spec{Argv: []string{"/bin/true"}}); err != nil {
			b.Fatal(err)
		}
	}
}
