package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal with a program on it.
type terminal struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd

	mu   sync.Mutex
	all  strings.Builder // everything that was written
	seen int             // up to where expect has looked
	done chan struct{}
}

// startOnTerminal starts a program whose three descriptors, unless set, are a terminal of some size.
func startOnTerminal(t *testing.T, cmd *exec.Cmd, columns, rows uint16) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("a pseudo terminal: %v", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatalf("a pseudo terminal: %v", err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("a pseudo terminal: %v", err)
	}
	x := &terminal{t: t, master: master, cmd: cmd, done: make(chan struct{})}
	x.resize(columns, rows)
	if cmd.Stdin == nil {
		cmd.Stdin = slave
	}
	if cmd.Stdout == nil {
		cmd.Stdout = slave
	}
	if cmd.Stderr == nil {
		cmd.Stderr = slave
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	go x.read()
	t.Cleanup(func() { cmd.Process.Kill(); master.Close() })
	return x
}

// read keeps what is written until the last descriptor is closed.
func (x *terminal) read() {
	defer close(x.done)
	buffer := make([]byte, 4096)
	for {
		n, err := x.master.Read(buffer)
		x.mu.Lock()
		x.all.Write(buffer[:n])
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (x *terminal) resize(columns, rows uint16) {
	x.t.Helper()
	if err := unix.IoctlSetWinsize(int(x.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) send(keys string) {
	x.t.Helper()
	if _, err := x.master.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// expect waits until a text has been written behind the last one that was expected.
func (x *terminal) expect(text string) {
	x.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		x.mu.Lock()
		all := x.all.String()
		x.mu.Unlock()
		if i := strings.Index(all[x.seen:], text); i >= 0 {
			x.seen += i + len(text)
			return
		}
		if time.Now().After(deadline) {
			x.t.Fatalf("no %q in %q", text, all[x.seen:])
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// wait waits for the end of the program, and returns all that was written and its exit code.
func (x *terminal) wait() (string, int) {
	x.t.Helper()
	err := x.cmd.Wait()
	<-x.done
	if x.cmd.ProcessState == nil {
		x.t.Fatal(err)
	}
	return x.all.String(), x.cmd.ProcessState.ExitCode()
}

// screen is every line that a terminal of some size shows of what was written, those that have scrolled away first.
func screen(t *testing.T, said string, columns, rows int) []string {
	t.Helper()
	lines, x, y := [][]rune{nil}, 0, 0
	for len(said) > 0 {
		if m := controls.FindStringSubmatch(said); m != nil {
			n, _ := strconv.Atoi(m[1])
			switch m[2] {
			case "A":
				y = max(y-max(n, 1), len(lines)-rows, 0)
			case "J":
				lines, lines[y] = lines[:y+1], lines[y][:min(x, len(lines[y]))]
			case "m", "": // a colour, or a link
			default:
				t.Fatalf("what the terminal of the test does not know: %q", m[0])
			}
			said = said[len(m[0]):]
			continue
		}
		c, size := utf8.DecodeRuneInString(said)
		said = said[size:]
		switch {
		case c == '\r':
			x = 0
			continue
		case c == '\n' || x == columns:
			if y++; y == len(lines) {
				lines = append(lines, nil)
			}
		}
		if c == '\n' {
			continue // the terminal sends \r before it
		}
		if x == columns {
			x = 0
		}
		for len(lines[y]) <= x {
			lines[y] = append(lines[y], ' ')
		}
		lines[y][x] = c
		x++
	}
	var out []string
	for _, l := range lines {
		out = append(out, strings.TrimRight(string(l), " "))
	}
	return out
}

// controls are the sequences of ECMA-48 that the program sends, and its links.
var (
	controls         = regexp.MustCompile("^(?:" + sequence + ")")
	controlsAnywhere = regexp.MustCompile(sequence)
)

const sequence = `\x1b\[([0-9;]*)([A-Za-z])|\x1b\]8;[^\x1b]*\x1b\\`
