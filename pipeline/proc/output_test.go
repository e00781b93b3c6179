package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestFillsPipe(t *testing.T) {
	s := posing(t, "fill")
	s.Output = filepath.Join(s.Dir, "out")
	s.OutputMax = 4096
	r := run(t, s)
	const all = 200 << 20
	if r.Exit != 0 || r.OutputBytes != all {
		t.Errorf("exit %d after %d bytes", r.Exit, r.OutputBytes)
	}
	if len(r.Tail) != defaultTail || !bytes.HasSuffix(r.Tail, []byte("abcde\n")) {
		t.Errorf("tail of %d bytes", len(r.Tail))
	}
	got, err := os.ReadFile(s.Output)
	if err != nil {
		t.Fatal(err)
	}
	mark := fmt.Sprintf("\n[... %d bytes left out ...]\n", all-4096)
	if len(got) != 4096+len(mark)-1 || strings.Count(string(got), mark) != 1 {
		t.Errorf("%d bytes: %.100q", len(got), got[2000:])
	}
}

func TestOutputInterleaved(t *testing.T) {
	s := shell(t, "for i in 1 2 3; do echo out $i; echo err $i >&2; done")
	s.Output = filepath.Join(s.Dir, "out")
	run(t, s)
	got, _ := os.ReadFile(s.Output)
	if string(got) != "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n" {
		t.Errorf("%q", got)
	}
}

func TestOnOutput(t *testing.T) {
	s := shell(t, "echo one; sleep 0.3; echo two >&2; printf three; head -c 100000 /dev/zero | tr '\\0' x >&2")
	s.Tail = -1
	got := map[int][]string{}
	var last time.Duration
	s.OnOutput = func(stream int, line string, at time.Duration) {
		got[stream] = append(got[stream], line)
		last = max(last, at)
	}
	r := run(t, s)
	want := map[int][]string{1: {"one", "three"}, 2: {"two", strings.Repeat("x", maxLine)}}
	for n := range want {
		if !slices.Equal(got[n], want[n]) {
			t.Errorf("stream %d: %.100q", n, got[n])
		}
	}
	if last < 300*time.Millisecond || len(r.Tail) != 0 || r.OutputBytes != 100013 {
		t.Errorf("last at %v, %+v", last, r)
	}
}

func TestClosedOutput(t *testing.T) {
	s := shell(t, "exec >&- 2>&-; echo hidden; sleep 0.3; echo alive >&$FD; exit 6")
	var seen []string
	s.Watch = func(line string, _ time.Duration) Transition { seen = append(seen, line); return Transition{} }
	if r := run(t, s); r.Exit != 6 || len(seen) != 1 || r.Wall < 300*time.Millisecond {
		t.Errorf("%q %+v", seen, r)
	}
}

func TestProtocolLines(t *testing.T) {
	s := shell(t, `exec >&$FD; printf 'phase: '; sleep 0.3; printf 'load\n\nsample: 1 us\nlong '
		head -c 100000 /dev/zero | tr '\0' y; printf '\nlast without newline'; kill -KILL $$`)
	var seen []string
	var times []time.Duration
	s.Watch = func(line string, at time.Duration) Transition {
		seen, times = append(seen, line), append(times, at)
		return Transition{}
	}
	r := run(t, s)
	want := []string{"phase: load", "", "sample: 1 us", "long " + strings.Repeat("y", maxLine-5), "last without newline"}
	if !slices.Equal(seen, want) || r.ProtocolLines != len(want) {
		t.Errorf("%.200q", seen)
	}
	if !slices.IsSorted(times) || times[0] < 300*time.Millisecond || times[len(times)-1] > r.Wall+5*time.Second {
		t.Errorf("times %v of %v", times, r.Wall)
	}
}

// TestAllLinesBeforeDeath: what is in the pipe when the program dies counts.
func TestAllLinesBeforeDeath(t *testing.T) {
	s := shell(t, "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo sample: $i us >&$FD; done; kill -SEGV $$")
	n := 0
	s.Watch = func(string, time.Duration) Transition { n++; return Transition{} }
	if r := run(t, s); n != 2000 || r.ProtocolLines != n {
		t.Errorf("%d lines, %+v", n, r)
	}
}

func TestOutputErrors(t *testing.T) {
	s := shell(t, "echo text; exit 3")
	s.Output = filepath.Join(s.Dir, "nothing", "out")
	if _, err := Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), s.Output) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full")
	}
	s.Output = "/dev/full"
	r, err := Run(t.Context(), s)
	if err == nil || !strings.Contains(err.Error(), "/dev/full") || r.Exit != 3 {
		t.Errorf("error %v, %+v", err, r)
	}
}

func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := ring{max: rapid.IntRange(0, 20).Draw(t, "max")}
		var all []byte
		for _, p := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 30)).Draw(t, "writes") {
			r.write(p)
			all = append(all, p...)
			if want := all[max(0, len(all)-r.max):]; !bytes.Equal(r.bytes(), want) {
				t.Fatalf("kept %q, want %q", r.bytes(), want)
			}
		}
	})
}

func TestLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got, want []string
		cut := lines{max: 5, deliver: func(line string) { got = append(got, line) }}
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab\n"))).Draw(t, "text")
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			cut.write([]byte(rest[:n]))
			rest = rest[n:]
		}
		cut.end()
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			want = append(want, line[:min(5, len(line))])
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q: got %q, want %q", text, got, want)
		}
	})
}
