package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"golang.org/x/sys/unix"
)

// A benchmark that was committed late is put into every commit; without that the first message says what
// to do.
func TestFilesOfTheWorkTree(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	ids := r.history(10, func(i int) string { return fmt.Sprintf("fast=%v", i < 7) })
	r.write("bench.sh", "#!/bin/sh\n. ./lib.sh\ncheck test.sh\n")
	r.write("lib.sh", "check() { ! grep -q fast=false \"$1\"; }\n")
	r.commit("a benchmark")
	config := "version = 1\npaths = [\"test.sh\"]\n[run]\ncommand = [\"./bench.sh\"]\n"
	r.write("kbisect.toml", config)
	_, errs, code := r.kbisect("run", "--good", ids[0], "--no-hunks")
	if code != exit.UsageError || !strings.Contains(errs, ids[0][:10]+" does not hold bench.sh") || !strings.Contains(errs, `[run] files = ["bench.sh"]`) {
		t.Fatalf("exit %d: %s", code, errs)
	}
	r.write("kbisect.toml", config+"files = [\"bench.sh\", \"lib.sh\", \"gone.sh\"]\n")
	if _, errs, code := r.kbisect("run", "--good", ids[0]); code != exit.UsageError || !strings.Contains(errs, "run.files: ") || !strings.Contains(errs, "gone.sh") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	r.write("kbisect.toml", config+"files = [\"bench.sh\", \"lib.sh\"]\n")
	doc := r.finding(exit.OK, "--good", ids[0], "--no-hunks")
	if len(doc.Culprits) != 1 || doc.Culprits[0].Commit != ids[6] {
		t.Errorf("%+v", doc.Culprits)
	}
	r.write("kbisect.toml", "version = 1\nkind = \"kernelbot\"\n[run]\nfiles = [\"bench.sh\"]\n")
	if _, errs, code := r.kbisect("run", "--good", ids[0]); code != exit.UsageError || !strings.Contains(errs, "takes its files from task.yml") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// A kbisect that is killed leaves nothing in TMPDIR, and what it leaves in its own folder goes with its next start.
func TestKilledLeavesNoTemporaryFiles(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	r.history(1, func(int) string { return "exit 0" })
	bin, once, ready := t.TempDir(), filepath.Join(t.TempDir(), "once"), filepath.Join(t.TempDir(), "ready")
	cc := "#!/bin/sh\ncase \"$*\" in *--version*) echo cc 1; exit;; esac\n" +
		"mkdir " + once + " || exit 1\ntouch half-built $TMPDIR/cc-half.o\necho >" + ready + "\nsleep 600\n"
	if err := errors.Join(os.WriteFile(filepath.Join(bin, "cc"), []byte(cc), 0o777), unix.Mkfifo(ready, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"doctor"}, {"demo"}} {
		os.Remove(once)
		tmp := t.TempDir()
		command := func() *exec.Cmd {
			cmd := r.command(args...)
			cmd.Env = append(cmd.Env, "TMPDIR="+tmp, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			return cmd
		}
		cmd := command()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadFile(ready); err != nil { // once the compiler is at work
			t.Fatal(err)
		}
		cmd.Process.Kill()
		cmd.Wait()
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("%v leaves %v, %v", args, left, err)
		}
		command().Run()
		if left, _ := filepath.Glob(filepath.Join(r.home, "cache", "kbisect", "work", "*")); len(left) > 0 {
			t.Errorf("%v leaves %v to its next start", args, left)
		}
	}
}
