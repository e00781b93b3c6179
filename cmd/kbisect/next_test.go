package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// The next commands that a result prints can be pasted into a shell as they are: they mean the same repository,
// configuration and command.
func TestNextCommandsCanBePasted(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	for _, state := range []string{"fine", "broken", "broken"} {
		r.put(map[string]string{"state": state + "\n", "t.sh": "#!/bin/sh\ngrep -q \"$1\" state\n"})
		r.git("add", ".")
		r.git("commit", "--allow-empty", "-qm", state+" one")
	}
	r.git("tag", "v1", "HEAD~2")
	outside := t.TempDir()
	config := filepath.Join(outside, "my config.toml")
	text := "version = 1\n[run]\ncommand = [\"sh\", \"-c\", \"grep -q fine state\"]\n"
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	noisy := filepath.Join(outside, "noisy.toml") // no number of pairs would tell
	text = "version = 1\n[run]\ncommand = [\"sh\", \"-c\", \"echo time $(($(od -An -N2 -tu2 /dev/urandom) % 900 + 100)) ms\"]\n" +
		"[metric]\nname = \"time\"\nfrom = \"regex\"\npattern = \"time (?P<value>[0-9]+) (?P<unit>ms)\"\n"
	if err := os.WriteFile(noisy, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	shell := func(dir, line string) (string, int) {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir, cmd.Env = dir, r.env()
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	printed := 0
	for _, line := range []string{
		"compare v1 'HEAD^{/broken one}' -- sh t.sh fine",
		"compare --limit 30s --build 'true && true' v1 HEAD -- sh -c 'grep -q fine state && echo it'\\''s'",
		"--config '" + config + "' compare v1 HEAD",
		"--config '" + config + "' gate --base v1",
		"--config '" + noisy + "' compare v1 HEAD",
		"gate --base v1 -- sh t.sh fine",
		"measure -- sh t.sh fine",
		"run --good v1 -- sh t.sh fine",
		"--config '" + config + "' run --good v1",
		"run --fresh --good v1 --budget 1ms -- sh t.sh fine",
		"show",
		"history -- ",
	} {
		out, code := shell(outside, "kbisect -C '"+r.dir+"' "+line)
		if code == exit.UsageError && !strings.HasPrefix(line, "history") {
			t.Fatalf("%s: exit %d\n%s", line, code, out)
		}
		for _, step := range nextCommands(out) {
			if !strings.HasPrefix(step, "kbisect ") {
				continue
			}
			printed++
			if said, code := shell(outside, step); code == exit.UsageError && !strings.Contains(step, "REASON") {
				t.Errorf("after %s: %s: exit %d\n%s", line, step, code, said)
			}
		}
	}
	if printed < 12 {
		t.Errorf("%d next commands were printed", printed)
	}
}
