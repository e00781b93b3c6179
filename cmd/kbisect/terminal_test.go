package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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
