package detect

import (
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/kernels"
)

// TestInitFindsSubmissions goes through the ways in which a file and its problem lie in a repository.
func TestInitFindsSubmissions(t *testing.T) {
	const fast = "#!POPCORN leaderboard %\ndef custom_kernel(data): pass\n"
	of := func(leaderboard string) string { return strings.Replace(fast, "%", leaderboard, 1) }
	problems := map[string]string{
		"problems/add_py/task.yml": taskYML, "problems/sum_py/task.yml": taskYML, "problems/template.py": of("add"),
		"problems/set.yaml": "name: set\nproblems:\n  - directory: add_py\n    name: plus_v2\n    gpus: [H100]\n",
	}
	renamed := strings.Replace(taskYML, `"submission.py"`, `"kernel.py"`, 1)
	for name, c := range map[string]struct {
		files               map[string]string
		problem, submission string
		fill                bool
		want                string
	}{
		"by the folder":           {map[string]string{"my/fast.py": of("add_py")}, "problems/add_py", "my/fast.py", false, ""},
		"by the list":             {map[string]string{"my/fast.py": of("plus_v2")}, "problems/add_py", "my/fast.py", false, ""},
		"but for the version":     {map[string]string{"my/fast.py": of("sum_v3")}, "problems/sum_py", "my/fast.py", false, ""},
		"unknown":                 {map[string]string{"my/fast.py": of("sort")}, "", "my/fast.py", true, "No problem folder here is called sort"},
		"two submissions":         {map[string]string{"problems/add_py/submission.py": of("add"), "problems/sum_py/submission.py": of("sum")}, "problems/add_py", "problems/add_py/submission.py", false, "Other submissions here: problems/sum_py/submission.py"},
		"an example alone":        {map[string]string{"problems/add_py/submission.py": of("add")}, "problems/add_py", "problems/add_py/submission.py", true, "this is one of 2 problem folders here"},
		"one name twice":          {map[string]string{"v2/sum_py/task.yml": taskYML, "my.py": of("sum")}, "problems/sum_py", "my.py", true, "2 problem folders here have this name: problems/sum_py, v2/sum_py"},
		"the folder it lies in":   {map[string]string{"v2/sum_py/task.yml": taskYML, "v2/sum_py/deep/my.py": of("sum")}, "v2/sum_py", "v2/sum_py/deep/my.py", false, ""},
		"another name":            {map[string]string{"problems/sum_py/submission.py": of("sum"), "problems/add_py/task.yml": renamed, "problems/add_py/submission.py": of("add")}, "problems/add_py", "problems/add_py/submission.py", false, ""},
		"the top before examples": {map[string]string{"submission.py": "def custom_kernel(data): pass", "problems/sum_py/submission.py": of("sum")}, "problems/sum_py", "submission.py", true, "2 problem folders"},
		"a kernel at the top":     {map[string]string{"kernel.py": "def custom_kernel(data): pass", "problems/sum_py/submission.py": of("sum")}, "problems/sum_py", "kernel.py", true, "2 problem folders"},
	} {
		for file, text := range problems {
			if _, ok := c.files[file]; !ok {
				c.files[file] = text
			}
		}
		dir := writeFiles(t, c.files)
		p, err := detectProject(dir)
		if err != nil {
			t.Fatal(name, err)
		}
		text, err := p.config()
		if err != nil {
			t.Fatal(name, err)
		}
		if p.Kind != kernels.KindKernelbot || p.Task.Problem != c.problem || p.Task.Submission != c.submission ||
			strings.Contains(string(text), "FILL IN") != c.fill || !strings.Contains(string(text), c.want) {
			t.Errorf("%s: %+v\n%s", name, p, text)
		}
	}
}

// TestInitOfOwnSubmissions: the problems lie elsewhere.
func TestInitOfOwnSubmissions(t *testing.T) {
	dir := writeFiles(t, map[string]string{"fast/mine.py": "#!POPCORN leaderboard sort\n", "README.md": ""})
	path, kind, err := writeProject(dir)
	if err != nil || kind != kernels.KindKernelbot {
		t.Fatal(kind, err)
	}
	if _, err := config.Load(path); err == nil || !strings.Contains(err.Error(), "task.problem: empty; name the folder") {
		t.Error(err)
	}
}
