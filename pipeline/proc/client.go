package proc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
	"github.com/kbisect/kbisect/pipeline/proc/internal/warden"
)

// Warden makes this process a warden if [Run] has started it as one, and then
// does not return. Otherwise it returns false at once. It must be the first
// thing that main does.
func Warden() bool { return warden.Main() }

// client is kbisect's end of a warden.
type client struct {
	cmd     *exec.Cmd
	control *os.File
	reports <-chan warden.Report
	done    chan struct{} // closed when reports are no longer read
	stderr  *limited
	once    sync.Once // for close
}

// startWarden starts a warden that will obey o; ends are the descriptors of the
// leader, from standard output on.
func startWarden(o warden.Order, ends []*os.File) (*client, error) {
	if os.Args[0] == warden.Name {
		return nil, errors.New("start the supervising process: this process is one itself\nhint: main must call proc.Warden first")
	}
	controlR, control, err := pipe(false)
	if err != nil {
		return nil, err
	}
	defer controlR.Close()
	reports, reportW, err := pipe(true)
	if err != nil {
		control.Close()
		return nil, err
	}
	defer reportW.Close()
	w := &client{control: control, done: make(chan struct{}), stderr: &limited{max: 8 << 10}}
	w.cmd = &exec.Cmd{
		Path:        "/proc/self/exe",
		Args:        []string{warden.Name},
		Dir:         "/",
		Stderr:      w.stderr,
		ExtraFiles:  append([]*os.File{controlR, reportW}, ends...),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		WaitDelay:   drainBound,
	}
	if err := w.cmd.Start(); err != nil {
		control.Close()
		reports.Close()
		return nil, fmt.Errorf("start the supervising process: %w", err)
	}
	w.reports = receive(reports, w.done)
	go w.send(o)
	return w, nil
}

// receive reads reports until their end, or until done is closed.
func receive(f *os.File, done <-chan struct{}) <-chan warden.Report {
	c := make(chan warden.Report, 8)
	go func() {
		defer f.Close()
		defer close(c)
		dec := json.NewDecoder(f)
		for {
			var r warden.Report
			if dec.Decode(&r) != nil {
				return
			}
			select {
			case c <- r:
			case <-done:
				return
			}
		}
	}()
	return c
}

// send writes a message to the warden. One that does not read it is dead or
// hangs, which shows in its missing reports.
func (w *client) send(message any) {
	if p, err := json.Marshal(message); err == nil {
		_, _ = w.control.Write(append(p, '\n'))
	}
}

// kill asks the warden to end the tree.
func (w *client) kill(grace time.Duration) { w.send(warden.Command{Do: warden.DoEnd, Grace: grace}) }

// wake continues a warden that the program under test has stopped.
func (w *client) wake() {
	if p, err := ps.Read(w.cmd.Process.Pid); err == nil && p.State == 'T' {
		_ = w.cmd.Process.Signal(unix.SIGCONT)
	}
}

// lost ends a warden that has failed and returns why as an error.
func (w *client) lost(why string) error {
	w.close()
	if said := bytes.TrimSpace(w.stderr.bytes()); len(said) > 0 {
		return fmt.Errorf("the supervising process %s; it wrote: %s", why, said)
	}
	return fmt.Errorf("the supervising process %s", why)
}

// close ends and reaps the warden, after its last report or without one.
func (w *client) close() {
	_ = w.cmd.Process.Kill() // quicker than its exit
	w.control.Close()
	w.once.Do(func() { close(w.done) })
	_ = w.cmd.Wait() // its reports say more than its exit status
}

// limited keeps the first bytes written to it.
type limited struct {
	mu  sync.Mutex
	max int
	buf []byte
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, p[:min(len(p), l.max-len(l.buf))]...)
	return len(p), nil
}

func (l *limited) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf
}
