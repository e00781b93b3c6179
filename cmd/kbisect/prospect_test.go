package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// newNoisy is a project whose times scatter by half, from launch to launch by a list of its own; a number that it sends
// besides grows by a tenth at v2 and hardly scatters.
func newNoisy(t *testing.T) *repo {
	t.Helper()
	r := newRepo(t)
	r.watched = true
	state := filepath.Join(t.TempDir(), "launches")
	for i := range 6 {
		r.write("noisy.sh", fmt.Sprintf(`#!/bin/sh
# version %d
echo >>%s
n=$(wc -l <%s)
set -- 100 171 64 143 82 190 71 118 155 60 133 97 180 75 160 88 125
shift $((n %% 17))
printf 'sample: %%s us\nmetric steady_us: %%s us\n' $1 $((1000 + n %% 3 + %d)) >&$KBISECT_FD
`, i, state, state, 100*(i/3)))
		r.commit(fmt.Sprint("version ", i))
		if i == 0 {
			r.git("tag", "v1")
		}
	}
	return r
}

// TestTooDearIsSaid: a noise that hides what is looked for is said after the first launches, with what can be found and
// what to look at instead. Without a terminal the search goes on; the document holds the same.
func TestTooDearIsSaid(t *testing.T) {
	t.Parallel()
	r := newNoisy(t)
	cmd := r.command("run", "--good", "v1", "--json", "--", "sh", "noisy.sh")
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdout = append(r.env(), "NO_COLOR=1"), &out
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd.Stderr = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	buffer := make([]byte, 4096)
	for stopped := false; ; {
		n, err := read.Read(buffer)
		errs.Write(buffer[:n])
		if !stopped && strings.Contains(errs.String(), "--metric steady_us") {
			stopped = true
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil {
			break
		}
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exit.Interrupted {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	for _, want := range []string{"kbisect: warning: `time` varies by ", " from launch to launch: finding ", "only changes of about ", "--metric steady_us: it varies by ", "differs by +"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("no %q in %s", want, errs.String())
		}
	}
	if strings.Contains(errs.String(), "Go on?") {
		t.Errorf("asked without a terminal: %s", errs.String())
	}
	var d report.Search
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	p := d.Prospect
	if d.Result != bisect.Interrupted || p == nil || p.Metric != "time" || p.Noise < 0.2 || p.Made < 8 || p.Made > 30 || p.Findable < 0.1 || len(p.Quieter) == 0 || !p.Quieter[0].Differs {
		t.Errorf("%v %+v", d.Result, p)
	}
}

// TestTooDearAsks: at a terminal the user decides. A no ends the search like an interruption, and who resumes it is not
// asked again. With a budget nobody is asked.
func TestTooDearAsks(t *testing.T) {
	t.Parallel()
	r := newNoisy(t)
	for _, c := range []struct {
		args           []string
		question, keys string
		more           string // that is said after the answer
		code           int
	}{
		{[]string{"run", "--good", "v1", "--", "sh", "noisy.sh"}, "Go on? [Y/n] ", "n\n", "Interrupted", exit.Interrupted},
		{[]string{"run", "--resume"}, "--metric steady_us", "\x03", "Interrupted", exit.Interrupted},
		{[]string{"run", "--good", "v1", "--budget", "1h", "--", "sh", "././noisy.sh"}, "--metric steady_us", "\x03", "Interrupted", exit.Interrupted},
		{[]string{"run", "--good", "v1", "--no-hunks", "--", "sh", "./noisy.sh"}, "Go on? [Y/n] ", "\n", "", exit.Interrupted},
	} {
		cmd := r.command(c.args...)
		cmd.Env = append(r.env(), "TERM=xterm", "NO_COLOR=1")
		x := startOnTerminal(t, cmd, 200, 24)
		x.expect(c.question)
		at := x.seen
		x.send(c.keys)
		if c.more == "" { // it goes on
			x.expect(" elapsed")
			x.send("\x03")
		}
		said, code := x.wait()
		if code != c.code || !strings.Contains(said[at:], c.more) || strings.Contains(said[at:], "Go on?") {
			t.Errorf("%v: exit %d: %s", c.args, code, said)
		}
	}
}
