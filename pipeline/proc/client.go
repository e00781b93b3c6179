package proc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// warden is the supervising process, seen from kbisect.
type warden struct {
	cmd     *exec.Cmd
	control *os.File
	reports <-chan report
	done    chan struct{} // closed when nobody reads reports any more
	stderr  *limited
	once    sync.Once // for close
}

// startWarden starts a warden that will obey o; ends are the descriptors of the
// leader, from standard output on.
func startWarden(o order, ends []*os.File) (*warden, error) {
	if os.Args[0] == wardenName {
		return nil, errors.New("start warden: this process is one itself\nhint: main must call proc.Warden first")
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
	w := &warden{control: control, done: make(chan struct{}), stderr: &limited{max: 8 << 10}}
	w.cmd = &exec.Cmd{
		Path:        "/proc/self/exe",
		Args:        []string{wardenName},
		Dir:         "/",
		Stderr:      w.stderr,
		ExtraFiles:  append([]*os.File{controlR, reportW}, ends...),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		WaitDelay:   drainBound,
	}
	if err := w.cmd.Start(); err != nil {
		control.Close()
		reports.Close()
		return nil, fmt.Errorf("start warden: %w", err)
	}
	w.reports = receive(reports, w.done)
	go w.send(o)
	return w, nil
}

// receive reads reports until their end, or until done is closed.
func receive(f *os.File, done <-chan struct{}) <-chan report {
	c := make(chan report, 8)
	go func() {
		defer f.Close()
		defer close(c)
		dec := json.NewDecoder(f)
		for {
			var r report
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

// send writes a message to the warden. A warden that does not read it is dead
// or hangs; the missing reports tell.
func (w *warden) send(message any) {
	if p, err := json.Marshal(message); err == nil {
		_, _ = w.control.Write(append(p, '\n'))
	}
}

// kill asks the warden to end the tree.
func (w *warden) kill(grace time.Duration) { w.send(command{Do: doEnd, Grace: grace}) }

// wake continues a warden that the program under test has stopped.
func (w *warden) wake() {
	if p, err := readProcess(w.cmd.Process.Pid); err == nil && p.state == 'T' {
		_ = w.cmd.Process.Signal(unix.SIGCONT)
	}
}

// lost ends a warden that does not do its work and says why.
func (w *warden) lost(why string) error {
	w.close()
	if said := bytes.TrimSpace(w.stderr.bytes()); len(said) > 0 {
		return fmt.Errorf("warden %s, it said: %s", why, said)
	}
	return fmt.Errorf("warden %s", why)
}

// close ends and reaps the warden, after its last report or for want of one.
func (w *warden) close() {
	_ = w.cmd.Process.Kill() // quicker than its exit
	w.control.Close()
	w.once.Do(func() { close(w.done) })
	_ = w.cmd.Wait() // its exit status says nothing that its reports do not
}

// refused turns the report of a failed start into an error.
func (t *trial) refused(r report) error {
	name := t.spec.Argv[0]
	switch r.Errno {
	case 0:
		return fmt.Errorf("start %q: %s", name, r.Error)
	case unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE:
		return fmt.Errorf("start %q: %w\nhint: too many processes or open files, or no memory left", name, r.Errno)
	case unix.ENOENT: // it was there a moment ago
		return &StartError{Path: name, Err: errInterpreter}
	}
	return &StartError{Path: name, Err: &fs.PathError{Op: "exec", Path: name, Err: r.Errno}}
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
