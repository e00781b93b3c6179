package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// lesson is a history of 12 commits. Each changes a note that nothing reads, and some what the case says.
type lesson struct {
	name    string
	base    map[string]string         // files of the good end
	at      map[int]map[string]string // files that commits write, by number from 1
	script  map[int]string            // what commits do besides, by the shell
	args    []string                  // of kbisect run
	culprit int
	unread  bool // commits are left out
	misread bool // launches contradict what was learned
}

const (
	reads = "#!/bin/sh\nset -e\n"
	fails = "exit 1\n"
)

// What builds and launches open narrows a search, and never misleads it: whatever they read without being seen, the answer
// is the commit that brought the fault.
func TestLearnedInputsNeverMislead(t *testing.T) {
	t.Parallel()
	c := func(body string) string { return "#include <stdio.h>\n" + body }
	for _, x := range []lesson{
		{
			name:    "an input that only the bad commits read",
			base:    map[string]string{"t.sh": reads + ". lib/a\n", "lib/a": "true\n", "lib/b": "true\n"},
			at:      map[int]map[string]string{4: {"lib/b": fails}, 9: {"t.sh": reads + ". lib/a\n. lib/b\n"}},
			args:    []string{"--", "sh", "t.sh"},
			culprit: 9, unread: true,
		}, {
			name:    "an input that is read in the middle of the range alone",
			base:    map[string]string{"t.sh": reads + ". lib/a\n", "lib/a": "true\n", "lib/b": "true\n"},
			at:      map[int]map[string]string{3: {"t.sh": reads + ". lib/a\n. lib/b\n"}, 6: {"lib/b": fails}, 9: {"t.sh": reads + ". lib/a\n" + fails}},
			args:    []string{"--", "sh", "t.sh"},
			culprit: 6, unread: true,
		}, {
			name:    "a header that shadows another",
			base:    map[string]string{"m.c": c("#include \"a.h\"\nint main() { return A; }\n"), "inc/a.h": "#define A 0\n", "over/README": "nothing\n"},
			at:      map[int]map[string]string{5: {"over/a.h": "#define A 1\n"}},
			args:    []string{"--build", "cc -Iover -Iinc -o m m.c", "--", "./m"},
			culprit: 5, unread: true,
		}, {
			name:    "a header that shadows one of the system",
			base:    map[string]string{"m.c": "#include <limits.h>\nint main() { return CHAR_BIT != 8; }\n", "over/README": "nothing\n"},
			at:      map[int]map[string]string{8: {"over/limits.h": "#define CHAR_BIT 9\n"}},
			args:    []string{"--build", "cc -Iover -o m m.c", "--", "./m"},
			culprit: 8, unread: true,
		}, {
			name:    "a file found by a pattern",
			base:    map[string]string{"t.sh": reads + "for f in parts/*.sh; do . $f; done\n", "parts/a.sh": "true\n"},
			at:      map[int]map[string]string{6: {"parts/z.sh": fails}},
			args:    []string{"--", "sh", "./t.sh"},
			culprit: 6, unread: true,
		}, {
			name:    "data opened through a link",
			base:    map[string]string{"t.sh": reads + "grep -q fine data\n", "store/one": "fine\n", "store/two": "fine\n"},
			script:  map[int]string{0: "ln -s store/one data"},
			at:      map[int]map[string]string{7: {"store/one": "broken\n"}},
			args:    []string{"--", "sh", "t.sh"},
			culprit: 7, unread: true,
		}, {
			name:    "a link that leads elsewhere",
			base:    map[string]string{"t.sh": reads + "grep -q fine data\n", "store/one": "fine\n", "store/two": "broken\n"},
			script:  map[int]string{0: "ln -s store/one data", 7: "ln -sf store/two data"},
			args:    []string{"--", "sh", "t.sh"},
			culprit: 7, unread: true,
		}, {
			name:    "a generated source",
			base:    map[string]string{"gen.sh": "sed s/X/$(cat value)/ m.c.in > m.c", "value": "0\n", "m.c.in": "int main() { return X; }\n"},
			at:      map[int]map[string]string{4: {"value": "2\n"}},
			args:    []string{"--build", "sh gen.sh && cc -o m m.c", "--", "./m"},
			culprit: 4, unread: true,
		}, {
			name: "memory that a parent process has mapped",
			base: map[string]string{"value": "0\n", "other": "0\n", "m.c": `
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main() {
	char *p = mmap(0, 1, PROT_READ, MAP_SHARED, open("value", O_RDONLY), 0);
	int s;
	if (fork() == 0) _exit(*p != '0');
	wait(&s);
	return WEXITSTATUS(s);
}
`},
			at:      map[int]map[string]string{10: {"value": "1\n"}, 4: {"other": "1\n"}},
			args:    []string{"--build", "cc -o m m.c", "--", "./m"},
			culprit: 10, unread: true,
		}, {
			name:    "a script that asks git",
			base:    map[string]string{"t.sh": reads + "git show HEAD:lib/a | grep -q fine\n", "lib/a": "fine\n"},
			at:      map[int]map[string]string{6: {"lib/a": "broken\n"}},
			args:    []string{"--", "sh", "t.sh"},
			culprit: 6,
		}, {
			name:    "the size of a file that is not opened",
			base:    map[string]string{"t.sh": reads + "test $(stat -c %s lib/a) = 5\n", "lib/a": "fine\n", "lib/b": "fine\n"},
			at:      map[int]map[string]string{6: {"lib/a": "broken\n"}, 9: {"t.sh": reads + "test $(stat -c %s lib/a) = 5 # nothing else\n"}},
			args:    []string{"--", "sh", "t.sh"},
			culprit: 6, misread: true,
		}, {
			name:    "a file that is looked for, in a folder where nothing is opened",
			base:    map[string]string{"t.sh": reads + "test ! -e opt/flag\n", "opt/README": "nothing\n"},
			at:      map[int]map[string]string{6: {"opt/flag": "\n"}},
			args:    []string{"--", "sh", "t.sh"},
			culprit: 6, misread: true,
		}, {
			name:    "a program that becomes executable",
			base:    map[string]string{"t.sh": reads + "if test -x tool; then ./tool; fi\n", "tool": "#!/bin/sh\n" + fails},
			script:  map[int]string{6: "chmod +x tool"},
			args:    []string{"--", "sh", "t.sh"},
			culprit: 6, unread: true,
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			r, ids := x.make(t)
			d := r.finding(0, append([]string{"--no-hunks", "--good", ids[0]}, x.args...)...)
			if d.Result != bisect.Found || d.Culprits[0].Commit != ids[x.culprit] || !d.Culprits[0].Confirmed {
				t.Errorf("found %v, want commit %d of %v", d.Culprits, x.culprit, ids)
			}
			if (d.Unread > 0) != x.unread || d.Matter+d.Unread != d.Range {
				t.Errorf("%d of %d commits left out, %d may matter", d.Unread, d.Range, d.Matter)
			}
			if got := strings.Contains(strings.Join(d.Warnings, "\n"), "something is read that was not seen"); got != x.misread {
				t.Errorf("misread %v, want %v: %q", got, x.misread, d.Warnings)
			}
		})
	}
}

// make writes the history; its ids begin with the good end.
func (x lesson) make(t *testing.T) (r *repo, ids []string) {
	r = newRepo(t)
	for i := range 13 {
		files := x.at[i]
		if i == 0 {
			files = x.base
		}
		gittest.WriteFiles(t, r.dir, files, 0o666)
		gittest.WriteFiles(t, r.dir, map[string]string{"notes/n": fmt.Sprintln(i)}, 0o666)
		if script := x.script[i]; script != "" {
			cmd := exec.Command("sh", "-c", script)
			cmd.Dir = r.dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", script, err, out)
			}
		}
		ids = append(ids, r.commit(fmt.Sprint("change ", i)))
	}
	return r, ids
}

// A user's watches may be used up, and learning may be off: every commit can be the culprit then.
func TestNothingIsLearned(t *testing.T) {
	t.Parallel()
	x := lesson{
		base: map[string]string{"t.sh": reads + "grep -q fine value\n", "value": "fine\n"},
		at:   map[int]map[string]string{5: {"value": "broken\n"}},
	}
	r, ids := x.make(t)
	for _, args := range [][]string{{"--no-learn", "--", "sh", "t.sh"}, {}} {
		if len(args) == 0 {
			r.put(map[string]string{"kbisect.toml": "version = 1\n[run]\ncommand = [\"sh\", \"t.sh\"]\nlearn = false\n"})
		}
		d := r.finding(0, append([]string{"--fresh", "--no-hunks", "--good", ids[0], "--bad", ids[12]}, args...)...)
		if d.Culprits[0].Commit != ids[5] || d.Unread != 0 || d.Matter != 12 {
			t.Errorf("%v: found %v, %d of %d left out", args, d.Culprits, d.Unread, d.Range)
		}
	}
	t.Run("watches run out", func(t *testing.T) {
		if out, err := exec.Command("unshare", "-Ur", "sh", "-c", "echo 1 > /proc/sys/user/max_inotify_watches").CombinedOutput(); err != nil {
			t.Skipf("a limit of watches cannot be set here: %v %s", err, out)
		}
		cmd := r.command()
		cmd.Args = []string{"unshare", "-Ur", "sh", "-c", "echo 1 > /proc/sys/user/max_inotify_watches; exec " + cmd.Path + " run --json --fresh --no-hunks --good " + ids[0] + " --bad " + ids[12] + " -- sh t.sh"}
		path, err := exec.LookPath("unshare")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path = path
		out, err := cmd.Output()
		var d report.Search
		if json.Unmarshal(out, &d) != nil || len(d.Culprits) != 1 || d.Culprits[0].Commit != ids[5] || d.Unread != 0 {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// Of a library of headers a program includes some: commits that change others are not built, nor are hunks in others
// searched.
func TestCommitsAndHunksThatNothingReads(t *testing.T) {
	t.Parallel()
	const headers, lines = 24, 4
	r := newRepo(t)
	header := func(i, changed int) string {
		var b strings.Builder
		for k := range lines {
			value := 0
			if k < changed {
				value = 1
			}
			fmt.Fprintf(&b, "static const int h%d_%d = %d;\n\n\n", i, k, value)
		}
		return b.String()
	}
	files := map[string]string{"m.c": "#include \"h1.h\"\n#include \"h2.h\"\n#include \"h3.h\"\nint main(void) { return h2_1; }\n"}
	for i := range headers {
		files[fmt.Sprintf("include/h%d.h", i)] = header(i, 0)
	}
	gittest.WriteFiles(t, r.dir, files, 0o666)
	ids := []string{r.commit("the library")}
	write := func(changed map[int]int, subject string) {
		files := map[string]string{}
		for i, n := range changed {
			files[fmt.Sprintf("include/h%d.h", i)] = header(i, n)
		}
		gittest.WriteFiles(t, r.dir, files, 0o666)
		ids = append(ids, r.commit(subject))
	}
	read := map[string]bool{}
	for i := range 40 {
		switch i {
		case 11, 33: // it changes what the program reads, to no effect
			gittest.WriteFiles(t, r.dir, map[string]string{"m.c": files["m.c"] + fmt.Sprintf("// %d\n", i)}, 0o666)
			ids = append(ids, r.commit("a comment"))
		case 22: // 4 hunks of each of 24 files, but for those of 8 that are changed before
			all := map[int]int{}
			for k := range headers {
				all[k] = lines
			}
			write(all, "all of the library")
		default:
			write(map[int]int{4 + i%20: 1 + i/20}, "a header that the program does not include")
		}
		if i == 11 || i == 22 || i == 33 {
			read[ids[len(ids)-1]] = true
		}
	}
	builds := filepath.Join(r.home, "builds")
	// Hunks are divided by what passes and failures cost, so their number follows how long a build takes: mostly it waits,
	// which takes the same on a busy machine.
	build := "echo built >> " + builds + "; cc -Iinclude -o m m.c && sleep 0.5"
	d := r.finding(0, "--good", ids[0], "--jobs", "1", "--build", build, "--", "./m")
	if d.Culprits[0].Commit != ids[23] || len(d.Culprits[0].Hunks) != 1 || d.Culprits[0].Hunks[0].File != "include/h2.h" {
		t.Errorf("found %v", d.Culprits)
	}
	if d.Unread != 37 || d.Matter != 3 || d.UnreadHunks < 60 {
		t.Errorf("%d of %d commits and %d hunks left out", d.Unread, d.Range, d.UnreadHunks)
	}
	ends := []string{ids[0], ids[len(ids)-1], ids[22]} // the ends, and the parent of the culprit
	for _, s := range d.Steps {
		if !read[s.Commit] && !slices.Contains(ends, s.Commit) {
			t.Errorf("%s was built, which changes nothing that was read", s.Commit)
		}
	}
	made, err := os.ReadFile(builds)
	if n := strings.Count(string(made), "\n"); err != nil || n > 6+12 {
		t.Errorf("%d builds, %v", n, err)
	}
	t.Logf("%d builds in all, %d launches", strings.Count(string(made), "\n"), d.Totals.Trials)
}
