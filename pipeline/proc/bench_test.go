package proc

import "testing"

// BenchmarkRun is the price of a warden, and of a sandbox.
func BenchmarkRun(b *testing.B) {
	dir := b.TempDir()
	for name, box := range map[string]*Sandbox{"plain": nil, "sandbox": {Write: []string{dir}, Tmp: dir}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Run(b.Context(), Spec{Argv: []string{"/bin/true"}, Sandbox: box}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
