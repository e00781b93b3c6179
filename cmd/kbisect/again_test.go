package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// again is a repository of 20 commits, bad from the 13th on, and a script outside of the commits that counts its
// launches in a file outside of the repository.
type again struct {
	*repo
	ids []string
}

func newAgain(t *testing.T) again {
	r := newRepo(t)
	var ids []string
	for i := range 20 {
		r.write("state", map[bool]string{true: "good\n", false: "bad\n"}[i < 13])
		r.write("n", fmt.Sprint(i))
		r.git("add", "state", "n")
		r.git("commit", "-qm", fmt.Sprint("change ", i))
		ids = append(ids, r.git("rev-parse", "HEAD"))
	}
	a := again{r, ids}
	a.script("grep -q good state")
	return a
}

// script writes the script.
func (a again) script(test string) {
	a.write("t.sh", fmt.Sprintf("echo >>%s/count\n%s\n", a.home, test))
}

// launches counts the launches since the last call.
func (a again) launches() int {
	data, _ := os.ReadFile(filepath.Join(a.home, "count"))
	os.Remove(filepath.Join(a.home, "count"))
	return len(data)
}

// search finds the culprit, and returns the document with what launches it made.
func (a again) search(args ...string) (doc report.Search, launches int) {
	a.t.Helper()
	args = append(append([]string{"run", "--json", "--no-explain", "--no-hunks"}, args...), "--", "sh", "t.sh")
	out, errs, code := a.kbisect(args...)
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != exit.OK || len(doc.Culprits) != 1 || doc.Culprits[0].Commit != a.ids[13] || !doc.Culprits[0].Confirmed {
		a.t.Fatalf("%q: exit %d, %v\n%s%s", args, code, err, out, errs)
	}
	launches = a.launches()
	if doc.Stored == nil && doc.Totals.Trials != launches {
		a.t.Errorf("%q: %d trials are reported, %d were made", args, doc.Totals.Trials, launches)
	}
	return doc, launches
}

// TestAgain: a finished search that is asked again is answered from the store, to the byte but for where it says so,
// without a launch, unless something that launches see has changed.
func TestAgain(t *testing.T) {
	t.Parallel()
	a := newAgain(t)
	good := []string{"--good", a.ids[0]}
	first, made := a.search(good...)
	if made < 5 || first.Stored != nil {
		t.Fatalf("%d launches, %+v", made, first.Stored)
	}
	second, n := a.search(good...)
	if n != 0 || second.Stored == nil || second.Stored.Session != first.Session || second.Stored.Version == "" || second.Stored.Made.IsZero() {
		t.Errorf("asked again: %d launches, %+v", n, second.Stored)
	}
	if x := second.Totals; x.Trials != 0 || x.Builds != 0 || x.Reused != first.Totals.Trials {
		t.Errorf("%+v where nothing was launched", x)
	}
	second.Stored, second.Totals = nil, first.Totals
	if want, got := asJSON(t, first), asJSON(t, second); want != got {
		t.Errorf("another answer:\n%s\n%s", want, got)
	}
	text, _, _ := a.kbisect("run", "--quiet", "--no-explain", "--no-hunks", good[0], good[1], "--", "sh", "t.sh")
	if !strings.Contains(text, "stored      session "+first.Session) || a.launches() != 0 {
		t.Errorf("the report does not say where it comes from:\n%s", text)
	}
	changes := map[string]func() []string{
		"fresh":    func() []string { return []string{"--fresh"} },
		"script":   func() []string { a.script("grep -q good state #"); return nil },
		"keep":     func() []string { a.write("data", "1"); return []string{"--keep", "data"} },
		"keep 2":   func() []string { a.write("data", "22"); return []string{"--keep", "data"} },
		"limit":    func() []string { return []string{"--limit", "5m"} },
		"question": func() []string { return []string{"--find", "wrong"} },
		"tag":      func() []string { a.git("tag", "new"); return nil },
	}
	for _, what := range []string{"fresh", "script", "keep", "keep 2", "limit", "tag"} {
		if doc, n := a.search(append(good, changes[what]()...)...); n < made || doc.Stored != nil || doc.Totals.Reused > 0 {
			t.Errorf("%s: %d launches, %d taken over, %+v", what, n, doc.Totals.Reused, doc.Stored)
		}
	}
	if doc, n := a.search(append(good, changes["question"]()...)...); doc.Stored != nil || doc.Totals.Reused == 0 {
		t.Errorf("another question: %d launches, %d taken over, %+v", n, doc.Totals.Reused, doc.Stored)
	}
}

// TestWhereTheTimeWent: the accounts of a search add up to its wall time, with one slot and with two.
func TestWhereTheTimeWent(t *testing.T) {
	t.Parallel()
	a := newAgain(t)
	a.write("kbisect.toml", "version = 1\n[build]\ncommand = [\"sleep\", \"0.02\"]\n[run]\ncommand = [\"sh\", \"t.sh\"]\n[device]\ngpus = \"none\"\n")
	for _, jobs := range []string{"1", "2"} {
		totals := a.finding(exit.OK, "--fresh", "--good", a.ids[0], "--jobs", jobs, "--limit", "1m").Totals
		sum, seen := 0.0, map[string]bool{}
		for _, s := range totals.Spent {
			sum += s.Seconds
			seen[s.Account] = true
		}
		if math.Abs(sum-totals.Wall) > 1e-6 || totals.Wall <= 0 {
			t.Errorf("--jobs %s: %v s of %v s: %+v", jobs, sum, totals.Wall, totals.Spent)
		}
		for _, account := range []string{"start", "reading the history", "deciding", "export", "build", "run", "store"} {
			if !seen[account] {
				t.Errorf("--jobs %s: nothing was charged to %s: %+v", jobs, account, totals.Spent)
			}
		}
	}
}

// TestAgainElsewhere: the environment and the programs on PATH are part of what was asked.
func TestAgainElsewhere(t *testing.T) {
	t.Parallel()
	a := newAgain(t)
	bin := t.TempDir()
	tool := filepath.Join(bin, "judge")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\ngrep -q good state\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	a.script("judge")
	search := func(variable string) (*report.Stored, int) {
		t.Helper()
		cmd := a.command("run", "--json", "--quiet", "--no-explain", "--no-hunks", "--good", a.ids[0], "--", "sh", "t.sh")
		cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), variable)
		out, err := cmd.Output()
		var doc report.Search
		if json.Unmarshal(out, &doc) != nil || len(doc.Culprits) != 1 {
			t.Fatalf("%v\n%s", err, out)
		}
		return doc.Stored, a.launches()
	}
	search("MODE=1")
	if stored, n := search("MODE=1"); stored == nil || n > 0 {
		t.Errorf("nothing has changed: %d launches", n)
	}
	if stored, n := search("MODE=2"); stored != nil || n == 0 {
		t.Errorf("another environment: %d launches, %+v", n, stored)
	}
	if err := os.WriteFile(tool, []byte("#!/bin/sh\ngrep -q goo state\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	if stored, n := search("MODE=1"); stored != nil || n == 0 {
		t.Errorf("another tool: %d launches, %+v", n, stored)
	}
}

// TestOverlap: a search of another range makes no launch again that an earlier one made, finished or interrupted; and
// each of those counts once.
func TestOverlap(t *testing.T) {
	t.Parallel()
	a := newAgain(t)
	first, made := a.search("--good", a.ids[0])
	a.write("n", "more")
	a.git("commit", "-qam", "one more")
	wider, n := a.search("--good", a.ids[0])
	if n >= made/2 || wider.Totals.Reused < made/2 || wider.Stored != nil {
		t.Errorf("one commit more: %d launches after %d, %d taken over", n, made, wider.Totals.Reused)
	}
	if got := wider.Culprits[0].Confidence; got < 0.99*first.Culprits[0].Confidence {
		t.Errorf("confidence %v after %v", got, first.Culprits[0].Confidence)
	}
	if _, n := a.search("--good", a.ids[0], "--bad", a.ids[18]); n >= made/2 {
		t.Errorf("two commits less: %d launches after %d", n, made)
	}
	// What compares times makes them anew.
	out, errs, code := a.kbisect("run", "--json", "--no-explain", "--no-hunks", "--find", "slow", "--budget", "5s", "--good", a.ids[0], "--bad", a.ids[12], "--", "sh", "t.sh")
	var slow report.Search
	if json.Unmarshal([]byte(out), &slow) != nil || slow.Totals.Reused > 0 || a.launches() == 0 {
		t.Errorf("a search of times: exit %d\n%s%s", code, out, errs)
	}
}

// TestOverlapInterrupted: what an interrupted search has launched is not launched again by another one.
func TestOverlapInterrupted(t *testing.T) {
	t.Parallel()
	a := newAgain(t)
	stopped := a.begin("search ", "run", "--no-learn", "--no-explain", "--no-hunks", "--good", a.ids[0], "--", "sh", "t.sh") // else three commits are left
	stopped.Process.Signal(syscall.SIGINT)
	stopped.Wait()
	made := a.launches()
	doc, _ := a.search("--no-learn", "--good", a.ids[0])
	if made < 3 || doc.Totals.Reused < made-1 || doc.Stored != nil { // the last may have been cut off
		t.Errorf("%d launches before the interruption, %d taken over, %+v", made, doc.Totals.Reused, doc.Stored)
	}
}

// asJSON is a value as its JSON.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
