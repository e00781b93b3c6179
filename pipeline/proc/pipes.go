package proc

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// readers reads the pipes of a leader, each in a goroutine. The callbacks of
// all of them never overlap.
type readers struct {
	files     []*os.File
	group     sync.WaitGroup
	draining  atomic.Bool
	callbacks sync.Mutex
}

// open makes a pipe and returns its writing end. After begun, take gets what
// arrives and when it did, and end is called once at the end of the pipe.
func (r *readers) open(begun <-chan struct{}, take func([]byte, time.Time), end func()) (*os.File, error) {
	in, out, err := pipe(true)
	if err != nil {
		return nil, err
	}
	r.files = append(r.files, in)
	r.group.Go(func() {
		buf := make([]byte, 64<<10)
		for more := true; more; {
			if r.draining.Load() {
				_ = in.SetReadDeadline(time.Now().Add(drainBound))
			}
			n, err := in.Read(buf)
			at := time.Now()
			<-begun
			more = err == nil
			r.callbacks.Lock()
			if n > 0 {
				take(buf[:n], at)
			}
			if !more {
				end()
			}
			r.callbacks.Unlock()
		}
	})
	return out, nil
}

// drain waits for the end of all pipes. No process should hold them any more; if
// one does, drain closes them.
func (r *readers) drain() {
	r.draining.Store(true)
	for _, f := range r.files {
		_ = f.SetReadDeadline(time.Now().Add(drainBound))
	}
	late := time.AfterFunc(drainTotal, func() { closeAll(r.files) })
	r.group.Wait()
	late.Stop()
	closeAll(r.files)
}

// over is closed when all pipes have come to their end.
func (r *readers) over() <-chan struct{} {
	c := make(chan struct{})
	go func() {
		r.group.Wait()
		close(c)
	}()
	return c
}

// close closes the pipes at once.
func (r *readers) close() {
	closeAll(r.files)
	r.group.Wait()
}

// pipe returns a pipe of which our end can be closed while it is in use, and
// of which the other end blocks, as programs expect of their descriptors.
func pipe(weRead bool) (r, w *os.File, err error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe: %w\nhint: raise the limit of open files (ulimit -n)", err)
	}
	ours := fds[1]
	if weRead {
		ours = fds[0]
	}
	if err := syscall.SetNonblock(ours, true); err != nil {
		syscall.Close(fds[0])
		syscall.Close(fds[1])
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// closeAll closes files; closing one twice does no harm.
func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
