package machine

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Whatever launches find on the machine counts, so that a search is answered from the store only where nothing of it has
// changed; what says only where a command was typed does not count.
func TestFingerprint(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(t *testing.T, m *found)
		same   bool
	}{
		{"nothing", func(*testing.T, *found) {}, true},
		{"a variable", func(_ *testing.T, m *found) { m.env = append(m.env, "OMP_NUM_THREADS=4") }, false},
		{"the order of variables", func(_ *testing.T, m *found) { m.env[0], m.env[1] = m.env[1], m.env[0] }, true},
		{"the terminal", func(_ *testing.T, m *found) {
			m.env = append(m.env, "COLUMNS=80", "SSH_TTY=/dev/pts/3", "PWD=/tmp", "TMUX_PANE=%1", "KBISECT_DEBUG=1")
		}, true},
		{"a program on PATH", func(t *testing.T, m *found) { m.write(t, "bin/nvcc", "a newer one") }, false},
		{"another program on PATH", func(t *testing.T, m *found) { m.write(t, "bin/cmake", "") }, false},
		{"a program that is gone", func(t *testing.T, m *found) { m.remove(t, "bin/nvcc") }, false},
		{"a file below a folder on PATH", func(t *testing.T, m *found) { m.write(t, "bin/__pycache__/x.pyc", "") }, true},
		{"a package of Python", func(t *testing.T, m *found) {
			m.write(t, "lib/python3.12/site-packages/torch-2.9.dist-info/METADATA", "")
		}, false},
		{"bytecode of a package", func(t *testing.T, m *found) {
			m.write(t, "lib/python3.12/site-packages/torch/x.pyc", "")
		}, true},
		{"the user's git", func(t *testing.T, m *found) { m.write(t, ".gitconfig", "[core]\n") }, false},
		{"an input that the command names", func(t *testing.T, m *found) { m.write(t, "data/weights", "others") }, false},
		{"an input that an option names", func(t *testing.T, m *found) { m.write(t, "table", "others") }, false},
		{"an input that a variable names", func(t *testing.T, m *found) { m.write(t, "vocabulary", "others") }, false},
		{"an input touched", func(t *testing.T, m *found) {
			then := time.Unix(1_600_000_000, 0)
			if err := os.Chtimes(m.at("data/weights"), then, then); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"an input below a link that the command names", func(t *testing.T, m *found) { m.write(t, "v1/shapes", "others") }, false},
		{"where a link leads that the command names", func(t *testing.T, m *found) {
			m.remove(t, "current")
			m.link(t, "v2", "current")
		}, false},
		{"what the command writes", func(t *testing.T, m *found) { m.write(t, "out/log", "more") }, true},
		{"a file that nothing names", func(t *testing.T, m *found) { m.write(t, "notes", "more") }, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			m := &found{dir: t.TempDir()}
			for _, file := range []string{"bin/nvcc", "bin/__pycache__/y.pyc", "lib/python3.12/site-packages/torch/y.pyc", "data/weights", "v1/shapes", "v2/shapes", "out/log", "notes", "table", "vocabulary"} {
				m.write(t, file, "")
			}
			m.link(t, "v1", "current")
			m.env = []string{"PATH=" + m.at("bin"), "HOME=" + m.dir}
			m.words = []string{"sh", "-c", "bench '" + m.at("data") + "' " + m.at("current") + " > " + m.at("out/log"), "--table=" + m.at("table"), "VOCABULARY='" + m.at("vocabulary") + "' bench"}
			before := Fingerprint(t.Context(), m.env, m.words)
			x.change(t, m)
			if same := Fingerprint(t.Context(), m.env, m.words) == before; same != x.same {
				t.Errorf("it is the same: %v", same)
			}
		})
	}
}

// found is what a launch finds on a machine, all of it below one folder.
type found struct {
	dir        string
	env, words []string
}

func (m *found) at(name string) string { return filepath.Join(m.dir, name) }

func (m *found) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.at(name)), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.at(name), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func (m *found) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(m.at(name)); err != nil {
		t.Fatal(err)
	}
}

func (m *found) link(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, m.at(name)); err != nil {
		t.Fatal(err)
	}
}
