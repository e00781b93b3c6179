package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect/report"
)

// noting is a script that writes down when it begins, for what, and when it ends.
const noting = `echo "start $$ $KBISECT_PURPOSE" >>%[1]s/log
sleep 0.1
echo "end $$ $KBISECT_PURPOSE" >>%[1]s/log
`

// needTwo skips a test where one trial is made at a time whatever is asked for.
func needTwo(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("SKIPPED: two processors are needed to make two trials at a time")
	}
}

// sixteen is a project of 16 flags, of which 3 and 11 together, or 7, bring the complaint.
func sixteen(t *testing.T) *repo {
	t.Parallel()
	needTwo(t)
	r := newRepo(t)
	r.watched = true
	r.write("run.sh", "#!/bin/sh\n"+fmt.Sprintf(noting, r.home)+`[ $F7 = 1 ] || [ $F3$F11 = 11 ] && exit 1; exit 0`+"\n")
	config := "version = 1\n[run]\ncommand = [\"./run.sh\"]\n[device]\ngpus = \"none\"\n"
	for i := range 16 {
		config += fmt.Sprintf("[[flag]]\nname = \"f%d\"\nvalues = [\"0\", \"1\"]\nenv = \"F%d\"\n", i, i)
	}
	r.write("kbisect.toml", config)
	r.commit("flags")
	return r
}

// Two trials are made at a time where that is asked for, but none beside the ends and beside what is
// timed; without being asked nothing runs side by side. The answer is the same.
func TestTwoTrialsAtATime(t *testing.T) {
	r := sixteen(t)
	one := r.finding(0, "--axis", "flags")
	most, made := r.beside()
	for purpose, n := range most {
		if n > 1 {
			t.Errorf("without --jobs %d trials were made at a time for %s", n, purpose)
		}
	}
	if len(one.MinimalSets) != 2 || !one.Complete {
		t.Fatalf("%+v", one.MinimalSets)
	}
	two := r.finding(0, "--axis", "flags", "--jobs", "2", "--fresh")
	side, more := r.beside()
	for _, purpose := range []string{"end-good", "end-bad"} { // so is what is timed called
		if side[purpose] != 1 {
			t.Errorf("%d trials were made at a time for %s", side[purpose], purpose)
		}
	}
	if max(side["search"], side["certify"], side["seed"]) != 2 {
		t.Errorf("no two trials at a time: %v", side)
	}
	if !reflect.DeepEqual(two.MinimalSets, one.MinimalSets) || !reflect.DeepEqual(assigned(two), assigned(one)) || two.Complete != one.Complete {
		t.Errorf("with two slots %+v %v, with one %+v %v", two.MinimalSets, assigned(two), one.MinimalSets, assigned(one))
	}
	t.Logf("%d trials, and %d with two slots: %v", made, more, side)
}

// assigned are the safe sets.
func assigned(d report.Search) (out []map[string]string) {
	for _, s := range d.SafeSets {
		out = append(out, s.Assign)
	}
	return out
}

// A candidate that hangs in one slot does not hold up those of the other, and is stopped when nobody
// would ask for it any more.
func TestHangInOneSlot(t *testing.T) {
	t.Parallel()
	needTwo(t)
	r := newRepo(t)
	r.watched = true
	alive := filepath.Join(r.home, "alive")
	ids := r.history(96, func(i int) string { // several hang beside one that is good and asked for next
		if i >= 65 {
			return fmt.Sprintf("mkdir -p %[1]s; : >%[1]s/$$; sleep 1000", alive)
		}
		return fmt.Sprintf("for f in %s/*; do kill -0 ${f##*/} 2>/dev/null && echo $KBISECT_PURPOSE >>%s/log; done; exit 0", alive, r.home)
	})
	r.write("kbisect.toml", "version = 1\n[run]\ncommand = [\"./test.sh\"]\nlimit = \"3s\"\n[device]\ngpus = \"none\"\n")
	before := r.snapshot()
	met := ""
	for range 3 { // which trials meet depends on how fast they are
		d := r.finding(0, "--fresh", "--good", ids[0], "--jobs", "2", "--no-explain", "--no-hunks", "--no-learn") // one commit alone changes what is read
		if len(d.Culprits) != 1 || d.Culprits[0].Commit != ids[64] || !d.Culprits[0].Confirmed || d.Culprits[0].Class != "timeout" {
			t.Errorf("%+v", d.Culprits)
		}
		log, _ := os.ReadFile(filepath.Join(r.home, "log"))
		if met += string(log); strings.Contains(met, "search") {
			break
		}
	}
	if !strings.Contains(met, "search") || strings.Contains(met, "end-") {
		t.Errorf("trials beside one that hangs: %q", met)
	}
	if r.snapshot() != before {
		t.Error("the user's repository was changed")
	}
}

// Without --jobs trials of a command that computes are made at a time, and none beside the ends and the first launches of the
// proof. What they share does not change the answer.
func TestTrialsAheadOfACommandThatSharesALock(t *testing.T) {
	t.Parallel()
	needTwo(t)
	r := newRepo(t)
	const computes = "t=0; s=0; while [ $((t + s)) -lt 55 ]; do read -r a b c d e f g h i j k l m t s rest </proc/$$/stat; done\n"
	ids := r.history(6, func(i int) string {
		end := "exit 0"
		if i >= 2 {
			end = "exit 1"
		}
		return computes + fmt.Sprintf(noting, r.home) + fmt.Sprintf("mkdir %[1]s/lock || exit 1\nsleep 0.3\nrmdir %[1]s/lock\n", r.home) + end
	})
	r.write("kbisect.toml", "version = 1\n[run]\ncommand = [\"./test.sh\"]\n[device]\ngpus = \"none\"\n")
	d := r.finding(0, "--good", ids[0], "--no-explain", "--no-hunks", "--no-learn")
	if len(d.Culprits) != 1 || d.Culprits[0].Commit != ids[1] || !d.Culprits[0].Confirmed {
		t.Errorf("%+v", d.Culprits)
	}
	most, made := r.beside()
	if most["end-good"] != 1 || most["end-bad"] != 1 || most["confirm-culprit"] != 1 {
		t.Errorf("%v at a time", most)
	}
	t.Logf("%d launches, %v at a time: %q", made, most, d.Warnings)
}

// Hunks, and the lines of a guilty one, are searched in two slots as well, each with builds of its own.
func TestHunksInTwoSlots(t *testing.T) {
	t.Parallel()
	needTwo(t)
	r := newRepo(t)
	r.watched = true
	lines := func(bad string) string {
		text := ""
		for i := range 12 {
			text += fmt.Sprintf("same %d\nvalue %d %s\nlast %d %s\n", i, i, bad, i, bad)
		}
		return text
	}
	r.write("values", lines("old"))
	r.write("build.sh", "#!/bin/sh\ncp values built\n")
	r.write("run.sh", "#!/bin/sh\n"+fmt.Sprintf(noting, r.home)+"grep -q 'value 4 new' built && grep -q 'last 9 new' built && exit 1\nexit 0\n")
	r.write("kbisect.toml", "version = 1\n[build]\ncommand = [\"./build.sh\"]\noutputs = [\"built\"]\n[run]\ncommand = [\"./run.sh\"]\n[device]\ngpus = \"none\"\n")
	r.commit("base")
	r.write("values", lines("new"))
	id := r.commit("all new")
	var found [2]report.Search
	for i := range found {
		found[i] = r.finding(0, "--axis", "hunks", "--commit", id, "--fresh", "--jobs", fmt.Sprint(i+1))
		if most, _ := r.beside(); max(most["search"], most["certify"], most["seed"]) != i+1 || most["end-bad"] != 1 {
			t.Errorf("--jobs %d: %v", i+1, most)
		}
	}
	var blamed []int
	for _, h := range found[0].Culprits[0].Hunks {
		blamed = append(blamed, h.Start)
	}
	if !slices.Equal(blamed, []int{14, 30}) || !reflect.DeepEqual(found[0].Culprits, found[1].Culprits) {
		t.Errorf("%v: %+v, and with two slots %+v", blamed, found[0].Culprits, found[1].Culprits)
	}
}

// SIGKILL while two trials are made, again and again: the same answer, and what was kept is not made again.
func TestKilledInTwoSlots(t *testing.T) {
	r := sixteen(t)
	d, kills := r.outlived(6, func(n int) time.Duration { return time.Duration(700+170*n) * time.Millisecond }, "run", "--json", "--axis", "flags", "--jobs", "2")
	if len(d.MinimalSets) != 2 || !d.Complete || !d.MinimalSets[0].Certified || !d.MinimalSets[1].Certified {
		t.Errorf("after %d kills: %+v", kills, d.MinimalSets)
	}
	if _, ended := r.beside(); ended > d.Totals.Trials+2*kills {
		t.Errorf("%d trials came to their end for %d in the report, with %d kills", ended, d.Totals.Trials, kills)
	}
	if n := survivors(t, d.Session); n > 0 {
		t.Errorf("%d processes left", n)
	}
	t.Logf("%d kills, %d trials", kills, d.Totals.Trials)
}
