package ps

import (
	"os"
	"strings"
	"testing"
)

func TestPythonName(t *testing.T) {
	for name, want := range map[string]bool{
		"python": true, "python3": true, "python3.11": true,
		"python3-config": false, "ipython": false, "pythonw": false, "": false,
	} {
		if PythonName(name) != want {
			t.Errorf("%q", name)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	own, _ := os.ReadFile("/proc/self/stat")
	f.Add(string(own))
	f.Add("12 (a) b) c) Z 1 12 12 0 -1 4 0 0 0 0 1 2 3 4 20 0 1 0 99 0")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parseStat(s)
		if err == nil && !strings.Contains(s, "("+p.Command+")") {
			t.Errorf("%q: %+v", s, p)
		}
	})
}
