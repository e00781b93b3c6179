package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/pipeline/proc"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// history makes n commits on a line; content gives the script test.sh of commit i, from 1.
func (r *repo) history(n int, content func(i int) string) (ids []string) {
	r.t.Helper()
	return r.commits(n, func(i int) map[string]string {
		return map[string]string{"test.sh": "#!/bin/sh\n" + content(i+1) + "\n"}
	})
}

// commits makes n commits on a line; files gives those that commit i, from 0, writes. Beside them the file n counts the
// commits from 1, so that each of them has inputs of its own.
func (r *repo) commits(n int, files func(i int) map[string]string) (ids []string) {
	r.t.Helper()
	for i := range n {
		r.put(files(i))
		r.put(map[string]string{"n": fmt.Sprintln(i + 1)})
		ids = append(ids, r.commit(fmt.Sprint("change ", i+1)))
	}
	return ids
}

func (r *repo) write(name, text string) {
	r.t.Helper()
	gittest.WriteFiles(r.t, r.dir, map[string]string{name: text}, 0o777)
}

func (r *repo) commit(subject string) string {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", subject)
	return r.git("rev-parse", "HEAD")
}

// finding runs kbisect with --json and decodes what it says.
func (r *repo) finding(wantCode int, args ...string) report.Search {
	r.t.Helper()
	args = append([]string{"run", "--json"}, args...)
	out, stderr, code := r.kbisect(args...)
	var d report.Search
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != wantCode {
		r.t.Fatalf("kbisect %v: exit %d, want %d, %v\n%s\n%s", args, code, wantCode, err, out, stderr)
	}
	left := marked("KBISECT_COOKIE=" + d.Session)
	if n := survivors(r.t, d.Session); n > 0 {
		r.t.Errorf("%d processes survived session %s: %q", n, d.Session, left)
	}
	if left, err := filepath.Glob(filepath.Join(r.home, "cache/kbisect/work/*/*")); err != nil || len(left) > 0 {
		r.t.Errorf("slots left behind: %v %v", left, err)
	}
	return d
}

// survivors kills and counts what still runs with the cookie of a session.
func survivors(t *testing.T, session string) int {
	t.Helper()
	n, err := proc.Sweep(session)
	if err != nil {
		t.Error(err)
	}
	return n
}

// snapshot hashes everything in the work tree and in .git but kbisect's own folder.
func (r *repo) snapshot() string {
	r.t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(r.dir, path)
		if rel == filepath.Join(".git", "kbisect") {
			return filepath.SkipDir
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() {
			fmt.Fprintf(h, "%q %v\n", rel, fi.Mode())
			return nil
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(h, "%q %v %v %x\n", rel, fi.Mode(), fi.ModTime(), sha256.Sum256(data))
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Candidates that misbehave in every way: the right commit, nobody left alive, nothing touched.
func TestHostileCandidates(t *testing.T) {
	for _, c := range []struct{ name, bad, class string }{
		{"sigsegv", "kill -SEGV $$", "crash"},
		{"exit 255", "exit 255", "crash"},
		{"hang", "sleep 1000", "timeout"},
		{"hang ignoring SIGTERM", "trap '' TERM; while :; do sleep 100; done", "timeout"},
		{"setsid keeps stdout", "setsid sh -c 'sleep 1000' & exit 3", "wrong"},
		{"double fork", "(setsid sh -c '(sleep 1000 &) ; sleep 1000' &) ; exit 3", "wrong"},
		{"fills the pipe", "head -c 60000000 /dev/zero | tr '\\0' x; exit 3", "wrong"},
		{"check: fail with exit 0", "echo 'phase: check' >&$KBISECT_FD; echo 'check: fail off by one' >&$KBISECT_FD", "wrong"},
		{"kills its parent", "kill -KILL $PPID; sleep 1000", "crash"},
		{"stops its parent", "kill -STOP $PPID; exit 3", "wrong"},
		{"kills its group", "kill -KILL 0", "crash"},
		{"floods the protocol", "(yes 'simple: 3 us' | head -n 60000; yes 'sample: 3 us' | head -n 500) >&$KBISECT_FD; exit 3", "wrong"},
		{"dirty tree", "mkdir -p d; chmod 0 d; rm -f n; echo x >test.sh; ln -s / away; exit 3", "wrong"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			ids := r.history(5, func(i int) string {
				if i >= 4 {
					return c.bad
				}
				return "echo fine; test -f n && ! test -e dirt; touch dirt"
			})
			before := r.snapshot()
			limit := "2m" // of a busy machine
			if c.class == "timeout" {
				limit = "2s"
			}
			args := []string{"--good", ids[0], "--limit", limit, "--no-explain", "--", "./test.sh"}
			if c.name != "dirty tree" { // each is launched often enough without the search of hunks
				args = append([]string{"--no-hunks"}, args...)
			}
			d := r.finding(0, args...)
			if len(d.Culprits) != 1 || d.Culprits[0].Commit != ids[3] || !d.Culprits[0].Confirmed || string(d.Culprits[0].Class) != c.class {
				t.Errorf("culprits %+v, want %s %s", d.Culprits, ids[3], c.class)
			}
			if d.Totals.Candidates > 2+3 {
				t.Errorf("%d candidates", d.Totals.Candidates)
			}
			if r.snapshot() != before {
				t.Error("the user's repository was changed")
			}
		})
	}
}

// A candidate that crashes where the complaint is another one does not stop or mislead the search.
func TestCrashesOnTheWay(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	ids := r.history(40, func(i int) string {
		switch {
		case i >= 29:
			return "exit 1"
		case i >= 18 && i <= 22:
			return "kill -SEGV $$"
		}
		return "exit 0"
	})
	d := r.finding(0, "--good", ids[0], "--", "./test.sh")
	if d.Culprits[0].Commit != ids[28] || d.Complaint.Class != "wrong" {
		t.Errorf("%+v", d.Culprits)
	}
}

func TestNineUnbuildableCommitsAroundTheCulprit(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	ids := r.history(40, func(i int) string {
		switch {
		case i >= 16 && i < 25:
			return "exit 125"
		case i >= 20:
			return "exit 1"
		}
		return "exit 0"
	})
	d := r.finding(3, "--good", ids[0], "--", "./test.sh")
	if len(d.Culprits) > 0 || len(d.Suspects) != 10 {
		t.Fatalf("%+v %+v", d.Culprits, d.Suspects)
	}
	for i, s := range d.Suspects {
		if s.Commit != ids[15+i] || s.Probability < 0.099 || s.Probability > 0.101 {
			t.Errorf("suspect %d: %+v", i, s)
		}
	}
}

func TestBuildThatFailsOrHangsIsAPhase(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	ids := r.history(12, func(i int) string {
		if i >= 8 {
			return "sleep 1000"
		}
		return "touch built"
	})
	d := r.finding(0, "--good", ids[0], "--limit", "60s", "--build", "timeout 2 ./test.sh", "--", "test", "-f", "built")
	if d.Culprits[0].Commit != ids[7] || d.Complaint.Class != "build-failed" {
		t.Errorf("%+v %+v", d.Complaint, d.Culprits)
	}
	r.write("kbisect.toml", "version = 1\n[build]\ncommand = [\"./test.sh\"]\nlimit = \"2s\"\n[run]\ncommand = [\"test\", \"-f\", \"built\"]\n")
	d = r.finding(0, "--good", ids[0])
	if d.Culprits[0].Commit != ids[7] || d.Complaint.Class != "timeout" || d.Complaint.Phase == nil || *d.Complaint.Phase != "build" {
		t.Errorf("%+v %+v", d.Complaint, d.Culprits)
	}
}

// outlived runs kbisect and kills it again and again, at most so many times, kill n after patience(n); once there is a
// session, the next attempt resumes it. It returns what the attempt found that came to its end, and the number of kills.
func (r *repo) outlived(most int, patience func(n int) time.Duration, args ...string) (d report.Search, kills int) {
	r.t.Helper()
	resume := false
	for {
		cmd := r.command(args...)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Start(); err != nil {
			r.t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		var kill <-chan time.Time
		if kills < most {
			kill = time.After(patience(kills))
		}
		select {
		case <-kill:
			cmd.Process.Kill()
			<-done
			kills++
			// To ask for sessions where there is no store yet would make one.
			if _, err := os.Stat(filepath.Join(r.dir, ".git/kbisect/kbisect.db")); err == nil && !resume {
				list, _, code := r.kbisect("sessions")
				if resume = code == 0 && strings.Count(list, "\n") > 1; resume {
					args = []string{"run", "--json", "--resume"}
				}
			}
		case <-done:
			err := json.Unmarshal([]byte(out.String()), &d)
			if err == nil {
				return d, kills
			}
			if resume || strings.Contains(out.String(), "schema") { // else there was no session yet that could be resumed
				r.t.Fatalf("after %d kills: %v: %s%s", kills, err, out.String(), errs.String())
			}
		}
	}
}

// SIGKILL at any instant, again and again: the same answer, and at most one trial made twice.
func TestKilledAndResumed(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	log := filepath.Join(r.home, "log")
	ids := r.history(60, func(i int) string {
		return fmt.Sprintf("echo $KBISECT_PURPOSE $(cat n) >>%s; sleep 0.1; test %d -lt 37", log, i)
	})
	d, kills := r.outlived(20, func(n int) time.Duration { return time.Duration(200+(20+37*n)%300) * time.Millisecond }, "run", "--json", "--good", ids[0], "--", "./test.sh")
	if len(d.Culprits) != 1 || d.Culprits[0].Commit != ids[36] {
		t.Fatalf("after %d kills: %+v", kills, d.Culprits)
	}
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if made := strings.Count(string(data), "\n"); made > d.Totals.Trials+kills {
		t.Errorf("%d trials were made for %d in the report, with %d kills", made, d.Totals.Trials, kills)
	}
	if d.Totals.Wall < d.Totals.Device {
		t.Errorf("all attempts took %.2f s, their trials %.2f s", d.Totals.Wall, d.Totals.Device)
	}
	if n := survivors(t, d.Session); n > 0 {
		t.Errorf("%d processes left", n)
	}
	t.Logf("%d kills, %d trials", kills, d.Totals.Trials)
}
