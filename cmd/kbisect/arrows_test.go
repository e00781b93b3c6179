package main

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kbisect/kbisect/"

// arrows says which rooms of the house a room may import.
var arrows = readArrows(`
bisect:
bisect/belief: bisect bisect/metric
bisect/belief/levels: bisect bisect/belief bisect/metric
bisect/compare: bisect bisect/metric bisect/report/words
bisect/effects: bisect
bisect/hint:
bisect/find: bisect bisect/belief bisect/belief/levels bisect/metric bisect/report/words bisect/search bisect/search/question bisect/sets
bisect/search: bisect bisect/belief bisect/metric
bisect/search/question: bisect bisect/belief bisect/belief/levels bisect/metric bisect/report/words bisect/search
bisect/metric: bisect
bisect/report: bisect bisect/compare bisect/report/figures bisect/report/words bisect/sets
bisect/report/figures: bisect bisect/report/words
bisect/report/ci: bisect bisect/report bisect/report/words
bisect/report/chart: bisect bisect/report bisect/report/words bisect/sets
bisect/report/internal/samples: bisect bisect/report bisect/sets
bisect/report/page: bisect bisect/report bisect/report/chart bisect/report/figures bisect/report/words bisect/sets
bisect/report/render: bisect/report/chart bisect/report/page bisect/report/words
bisect/report/words: bisect
bisect/sets: bisect bisect/sets/internal/odds bisect/sets/lattice
bisect/sets/flags: bisect/sets/lattice
bisect/sets/internal/odds:
bisect/sets/lattice:
fixtures: kernels
fixtures/faults:
fixtures/realpython:
fixtures/clusters:
fixtures/simulate: bisect bisect/compare bisect/effects bisect/metric bisect/sets bisect/sets/lattice
kernels: bisect bisect/hint kernels/harness kernels/kernelbot kernels/plainfile kernels/protocol
kernels/cuda: bisect bisect/metric kernels/lazy kernels/protocol
kernels/harness: bisect/hint
kernels/plainfile:
kernels/kernelbot: bisect/hint kernels/plainfile kernels/protocol
kernels/metrics: bisect bisect/metric kernels/protocol
kernels/lazy:
kernels/protocol: bisect bisect/metric kernels/lazy
pipeline/prestart: bisect kernels pipeline/proc pipeline/workspace
pipeline: bisect bisect/hint kernels kernels/cuda kernels/harness kernels/protocol pipeline/capacity pipeline/firsts pipeline/ahead pipeline/headstart pipeline/prestart pipeline/gpu pipeline/proc pipeline/stopwatch pipeline/trial pipeline/workspace
pipeline/ahead: bisect pipeline/capacity pipeline/trial pipeline/workspace
pipeline/cache: bisect/hint pipeline/folder
pipeline/capacity: pipeline/proc
pipeline/compilers: kernels pipeline/source
pipeline/folder:
pipeline/firsts: bisect bisect/metric
pipeline/memory: bisect
pipeline/headstart: bisect kernels pipeline/trial pipeline/workspace
pipeline/gpu:
pipeline/proc: pipeline/proc/internal/cgroup pipeline/proc/internal/perf pipeline/proc/internal/ps pipeline/proc/internal/self pipeline/proc/internal/warden
pipeline/proc/internal/cgroup: pipeline/proc/internal/ps
pipeline/proc/internal/perf: bisect/hint
pipeline/proc/internal/ps:
pipeline/proc/internal/self:
pipeline/proc/internal/warden: pipeline/proc/internal/cgroup pipeline/proc/internal/perf pipeline/proc/internal/ps pipeline/proc/internal/self
pipeline/fileaccess: bisect pipeline/folder pipeline/source
pipeline/remote: bisect bisect/hint kernels kernels/metrics pipeline pipeline/cache pipeline/folder pipeline/gpu pipeline/proc pipeline/remote/executor pipeline/source pipeline/trial pipeline/workspace
pipeline/remote/executor: bisect/hint kernels kernels/lazy
pipeline/slots: bisect
pipeline/source: bisect/hint pipeline/source/internal/commits pipeline/source/internal/inputkey pipeline/source/internal/synthetic pipeline/source/internal/objects pipeline/source/internal/trees
pipeline/source/export: pipeline/folder pipeline/source pipeline/source/gitdir pipeline/source/internal/attributes pipeline/source/internal/commits pipeline/source/internal/synthetic pipeline/source/internal/objects pipeline/source/internal/trees
pipeline/source/gitdir: pipeline/folder
pipeline/source/gittest:
pipeline/source/internal/attributes: pipeline/source/internal/wildmatch
pipeline/source/internal/commits:
pipeline/source/internal/inputkey: pipeline/source/internal/cachefile
pipeline/source/internal/cachefile:
pipeline/source/internal/synthetic: pipeline/source/internal/objects pipeline/source/internal/trees
pipeline/source/internal/objects: bisect/hint pipeline/source/internal/commits pipeline/source/internal/inputkey pipeline/source/internal/packs pipeline/source/owner
pipeline/source/internal/packs:
pipeline/source/internal/trees: pipeline/source/internal/objects
pipeline/source/internal/wildmatch:
pipeline/source/owner: bisect/hint
pipeline/source/hunks: pipeline/source pipeline/source/internal/attributes
pipeline/stopwatch:
pipeline/store:
pipeline/trial: bisect bisect/metric kernels kernels/cuda kernels/metrics kernels/plainfile kernels/protocol pipeline/cache pipeline/compilers pipeline/prestart pipeline/proc pipeline/source pipeline/workspace
pipeline/workspace: bisect bisect/hint pipeline/folder pipeline/proc pipeline/fileaccess pipeline/source pipeline/source/export
cmd/kbisect/internal/baseline: bisect bisect/compare bisect/metric bisect/report bisect/report/words cmd/kbisect/internal/exit cmd/kbisect/internal/machine cmd/kbisect/internal/policy cmd/kbisect/internal/session cmd/kbisect/internal/wording kernels pipeline/source pipeline/store
cmd/kbisect/internal/config: bisect/hint bisect/metric bisect/sets/flags cmd/kbisect/internal/wording kernels kernels/kernelbot kernels/metrics pipeline pipeline/remote/executor pipeline/source/owner pipeline/trial
cmd/kbisect/internal/detect: bisect/metric cmd/kbisect/internal/config cmd/kbisect/internal/exit kernels kernels/harness kernels/kernelbot kernels/lazy pipeline/source
cmd/kbisect/internal/doctor: bisect bisect/belief bisect/belief/levels bisect/compare bisect/hint bisect/metric bisect/report bisect/report/words cmd/kbisect/internal/config cmd/kbisect/internal/exit cmd/kbisect/internal/machine cmd/kbisect/internal/policy cmd/kbisect/internal/preview cmd/kbisect/internal/session cmd/kbisect/internal/wording fixtures/simulate kernels kernels/cuda kernels/harness kernels/metrics kernels/plainfile kernels/protocol pipeline/cache pipeline/gpu pipeline/proc pipeline/remote pipeline/remote/executor pipeline/source pipeline/store pipeline/workspace
cmd/kbisect/internal/exit:
cmd/kbisect/internal/explain: bisect bisect/compare bisect/metric bisect/report bisect/report/figures bisect/report/words cmd/kbisect/internal/exit cmd/kbisect/internal/policy cmd/kbisect/internal/session kernels kernels/cuda pipeline pipeline/proc pipeline/store
cmd/kbisect/internal/gate: bisect bisect/compare bisect/metric bisect/search bisect/report bisect/report/ci bisect/report/page bisect/report/render bisect/report/words cmd/kbisect/internal/config cmd/kbisect/internal/exit cmd/kbisect/internal/policy cmd/kbisect/internal/progress cmd/kbisect/internal/search cmd/kbisect/internal/session cmd/kbisect/internal/wording pipeline pipeline/source pipeline/source/hunks pipeline/memory
cmd/kbisect/internal/hook: bisect bisect/compare bisect/report bisect/report/words cmd/kbisect/internal/baseline cmd/kbisect/internal/exit cmd/kbisect/internal/gate cmd/kbisect/internal/machine cmd/kbisect/internal/policy cmd/kbisect/internal/session cmd/kbisect/internal/wording kernels pipeline pipeline/gpu pipeline/source pipeline/store
cmd/kbisect/internal/machine: bisect/report/words cmd/kbisect/internal/wording pipeline/cache pipeline/gpu pipeline/proc pipeline/workspace
cmd/kbisect/internal/past: bisect bisect/compare bisect/metric bisect/report bisect/report/words cmd/kbisect/internal/exit cmd/kbisect/internal/policy cmd/kbisect/internal/session cmd/kbisect/internal/wording pipeline/source pipeline/store
cmd/kbisect/internal/policy: bisect bisect/search bisect/metric bisect/report/words bisect/sets/flags cmd/kbisect/internal/config cmd/kbisect/internal/exit cmd/kbisect/internal/wording kernels kernels/cuda kernels/metrics pipeline pipeline/remote/executor pipeline/gpu pipeline/source pipeline/source/hunks pipeline/trial
cmd/kbisect/internal/preview: bisect bisect/compare bisect/find bisect/metric bisect/report bisect/report/words bisect/search bisect/search/question cmd/kbisect/internal/detect cmd/kbisect/internal/exit cmd/kbisect/internal/policy cmd/kbisect/internal/search cmd/kbisect/internal/session cmd/kbisect/internal/wording fixtures/simulate pipeline/source pipeline/store
cmd/kbisect/internal/progress: bisect bisect/search bisect/report/words bisect/sets cmd/kbisect/internal/wording pipeline
cmd/kbisect/internal/search: bisect bisect/compare bisect/effects bisect/find bisect/search bisect/metric bisect/report bisect/report/words bisect/sets bisect/sets/flags cmd/kbisect/internal/baseline cmd/kbisect/internal/config cmd/kbisect/internal/exit cmd/kbisect/internal/explain cmd/kbisect/internal/machine cmd/kbisect/internal/policy cmd/kbisect/internal/progress cmd/kbisect/internal/session cmd/kbisect/internal/wording kernels pipeline pipeline/capacity pipeline/fileaccess pipeline/source pipeline/source/export pipeline/source/hunks pipeline/store pipeline/trial cmd/kbisect/internal/past
cmd/kbisect/internal/session: bisect bisect/belief/levels bisect/compare bisect/metric bisect/report bisect/report/words cmd/kbisect/internal/exit cmd/kbisect/internal/machine cmd/kbisect/internal/policy cmd/kbisect/internal/progress cmd/kbisect/internal/wording kernels kernels/metrics kernels/protocol pipeline pipeline/remote pipeline/remote/executor pipeline/cache pipeline/gpu pipeline/proc pipeline/source pipeline/stopwatch pipeline/store pipeline/trial pipeline/workspace pipeline/source/hunks pipeline/slots pipeline/memory
cmd/kbisect/internal/wording:
`)

// readArrows reads lines of "room: rooms that it may import".
func readArrows(text string) map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		room, may, _ := strings.Cut(line, ":")
		all[room] = strings.Fields(may)
	}
	return all
}

// only names the one room that may import a module.
var only = map[string]string{
	"github.com/NVIDIA/go-nvml": "pipeline/gpu",
	"modernc.org/sqlite":        "pipeline/store",
	"github.com/urfave/cli":     "cmd/kbisect",
	"github.com/goccy/go-yaml":  "kernels/kernelbot",
	"k8s.io":                    "pipeline/remote/executor",
}

// TestArrows keeps the imports between the rooms one way.
func TestArrows(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "../../...").Output()
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		room := strings.TrimPrefix(p.ImportPath, module)
		may, known := arrows[room]
		if !known && room != "cmd/kbisect" {
			t.Errorf("package %s has no place in the house", room)
		}
		for _, i := range p.Imports {
			if to, ours := strings.CutPrefix(i, module); ours && room != "cmd/kbisect" && !slices.Contains(may, to) {
				t.Errorf("%s imports %s", room, to)
			}
			for mod, owner := range only {
				if strings.HasPrefix(i, mod) && room != owner {
					t.Errorf("%s imports %s, which is for %s alone", room, i, owner)
				}
			}
			if strings.HasPrefix(i, "github.com/go-git/") && room != "pipeline/source/internal/objects" && room != "pipeline/source/internal/packs" {
				t.Errorf("%s imports %s", room, i)
			}
			if room == "bisect" && strings.Contains(i, ".") {
				t.Errorf("the pure core imports %s", i)
			}
		}
	}
}
