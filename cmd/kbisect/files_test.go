package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
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
