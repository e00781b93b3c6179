package pipeline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/fixtures"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/pipeline/trial"
)

const settingsC = `#include <stdio.h>
#include <stdlib.h>
#ifndef TILE
#define TILE none
#endif
#ifndef OPT
#define OPT 0
#endif
#define STR_(x) #x
#define STR(x) STR_(x)
int main(int argc, char **argv) {
	printf("tile %s opt %d mode %s warm %s args", STR(TILE), OPT, getenv("MODE") ? getenv("MODE") : "-", WARM);
	for (int i = 1; i < argc; i++) printf(" %s", argv[i]);
	printf("\n");
}
`

func settingFlags() []kernels.Flag {
	return []kernels.Flag{
		{Name: "tile", Define: "TILE"}, {Name: "opt", Option: "-DOPT={value}"}, {Name: "mode", Env: "MODE"},
		{Name: "warm", Env: "WARM"}, {Name: "graph", Arg: "--graph={value}"},
	}
}

// Every kind of flag reaches the program, through a make that calls cc, and only what the build reads
// is built anew.
func TestFlagsReachTheProgram(t *testing.T) {
	b := newBench(t, kernels.Plan{Build: []string{"make", "-s"}, Outputs: []string{"prog"}, Run: []string{"./prog"}}, trial.Limits{}, []fixtures.Change{
		fixtures.Write("prog.c", settingsC),
		fixtures.Write("Makefile", "prog: prog.c\n\techo build >>$(BENCH_LOG)\n\tcc -DWARM='\"$(WARM)\"' -o prog prog.c\n"),
	})
	b.recipe.Flags = settingFlags()
	builds := func() int {
		data, _ := os.ReadFile(filepath.Join(b.home, "log"))
		return strings.Count(string(data), "build")
	}
	for _, c := range []struct {
		assign, want string
		builds       int
	}{
		{"", "tile none opt 0 mode - warm  args", 1},
		{"tile=8,opt=1,mode=fast,warm=10,graph=on", "tile 8 opt 1 mode fast warm 10 args --graph=on", 2},
		{"tile=8,opt=1,mode=slow,warm=10,graph=off", "tile 8 opt 1 mode slow warm 10 args --graph=off", 2},
		{"tile=8,opt=1,mode=slow,warm=3", "tile 8 opt 1 mode slow warm 3 args", 3},
		{"tile=16,opt=1", "tile 16 opt 1 mode - warm  args", 4},
		{"tile=8,opt=1,mode=fast,warm=10,graph=on", "tile 8 opt 1 mode fast warm 10 args --graph=on", 4},
	} {
		o, err := b.Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[0], Assign: c.assign}, Purpose: bisect.Searching})
		if err != nil || o.Class != bisect.OK || strings.TrimSpace(o.Tail) != c.want {
			t.Errorf("%q: %v %s %q, want %q", c.assign, err, o.Describe(), o.Tail, c.want)
		}
		if n := builds(); n != c.builds {
			t.Errorf("%q: %d builds, want %d", c.assign, n, c.builds)
		}
	}
	if _, err := b.Sample(t.Context(), bisect.Request{Candidate: bisect.Candidate{Commit: b.ids[0], Assign: "nosuch=1"}, Purpose: bisect.Searching}); err == nil || !strings.Contains(err.Error(), "is not a flag") {
		t.Errorf("an unknown flag: %v", err)
	}
}
