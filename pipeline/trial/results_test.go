package trial

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/metrics"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// Whatever a build or an earlier launch has left where results belong is removed and accuses no machine; what lies
// behind links is not touched.
func TestClearResults(t *testing.T) {
	outside := t.TempDir()
	sources := []Source{{Metric: "time", From: "nvbench", File: "out/r.json"}, {Metric: "registers", From: FromStatic}}
	for name, c := range map[string]struct {
		files map[string]string
		links map[string]string
		fails bool
	}{
		"nothing":                          {},
		"results":                          {files: map[string]string{"out/r.json": "{}"}},
		"a folder":                         {files: map[string]string{"out/r.json/deep/x": ""}},
		"a file in place of their folder":  {files: map[string]string{"out": ""}},
		"a link to another file":           {files: map[string]string{"out/x": ""}, links: map[string]string{"out/r.json": outside + "/precious"}},
		"a link in place of their folder":  {links: map[string]string{"out": "elsewhere"}, files: map[string]string{"elsewhere/x": ""}},
		"a link that leads out of the top": {links: map[string]string{"out": outside}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			gittest.WriteFiles(t, outside, map[string]string{"precious": "", "r.json": ""}, 0o666)
			gittest.WriteFiles(t, dir, c.files, 0o666)
			for link, target := range c.links {
				if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
					t.Fatal(err)
				}
			}
			if err := clearResults(dir, sources); (err != nil) != c.fails {
				t.Errorf("%v", err)
			}
			if _, err := os.Lstat(dir + "/out/r.json"); err == nil && !c.fails {
				t.Error("it is still there")
			}
			for _, file := range []string{"precious", "r.json"} {
				if _, err := os.Stat(filepath.Join(outside, file)); err != nil {
					t.Errorf("removed outside: %v", err)
				}
			}
		})
	}
}

// A launch without the results of a source cannot be judged, and says which file and why; what failed is not read.
func TestReadResults(t *testing.T) {
	dir := t.TempDir()
	gittest.WriteFiles(t, dir, map[string]string{
		"good.json":  `{"benchmarks":[{"name":"k","real_time":0.5,"time_unit":"ms"}]}`,
		"wrong.json": `{"benchmarks":[{"name":"k","error_occurred":true,"error_message":"incorrect"}]}`,
		"empty.json": `{"meta":{"version":{"json":{"major":1}}}}`,
		"junk.json":  "not json", "sub/x": "", "log": "no times here\n",
	}, 0o666)
	for name, c := range map[string]struct {
		source Source
		class  bisect.Class
		why    string // a part of it
		series int
	}{
		"good":            {Source{"time", "benchmark", "good.json"}, bisect.OK, "", 1},
		"wrong":           {Source{"time", "benchmark", "wrong.json"}, bisect.Wrong, "incorrect", 0},
		"empty":           {Source{"time", "nvbench", "empty.json"}, bisect.Skip, "it contains no times", 0},
		"not written":     {Source{"time", "nvbench", "sub/none.json"}, bisect.Skip, "results of nvbench (sub/none.json): the run has not written it", 0},
		"junk":            {Source{"time", "nvbench", "junk.json"}, bisect.Skip, "results of nvbench (junk.json): ", 0},
		"not counted":     {Source{"work", metrics.Instructions, ""}, bisect.OK, "", 0},
		"of the build":    {Source{"registers", FromStatic, ""}, bisect.OK, "", 0},
		"a folder":        {Source{"time", "nvbench", "sub"}, bisect.Skip, "sub is not a regular file", 0},
		"no such program": {Source{"time", "nosuch", "good.json"}, bisect.Skip, "results of nosuch (good.json): ", 0},
	} {
		o := bisect.Outcome{Class: bisect.OK, Log: filepath.Join(dir, "log")}
		readResults(dir, []Source{c.source}, metrics.Used{}, &o)
		if o.Class != c.class || !strings.Contains(o.Why, c.why) || len(o.Series) < c.series || strings.Contains(o.Why, dir) {
			t.Errorf("%s: %s %q with %d series, want %s %q", name, o.Class, o.Why, len(o.Series), c.class, c.why)
		}
		failed := bisect.Outcome{Class: bisect.Crash, Why: "ended by SIGSEGV"}
		if readResults(dir, []Source{c.source}, metrics.Used{}, &failed); failed.Class != bisect.Crash || failed.Why != "ended by SIGSEGV" || failed.Series != nil {
			t.Errorf("%s: a launch that failed became %+v", name, failed)
		}
	}
}
