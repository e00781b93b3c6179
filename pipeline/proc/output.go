package proc

import (
	"bytes"
	"fmt"
	"os"
	"sync"
)

// output keeps the bounded part of a program's output. Writes never fail, so
// that a full disk does not block the program; the error is kept for the end.
type output struct {
	mu    sync.Mutex
	total int64
	last  ring // for Result.Tail

	file  *os.File // nil without a file
	room  int64    // bytes that the head may still take
	ended bool     // the head ends with a newline, or is empty
	after int64    // bytes that came after the head
	tail  ring     // the last of them
	err   error    // first error of the file
}

// newOutput creates the output of s.
func newOutput(s Spec) (*output, error) {
	o := &output{last: ring{max: s.Tail}, ended: true}
	if s.Output == "" {
		return o, nil
	}
	f, err := os.OpenFile(s.Output, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create output file: %w\nhint: make its directory writable", err)
	}
	o.file = f
	o.room = s.OutputMax / 2
	o.tail.max = int(s.OutputMax - o.room)
	return o, nil
}

// write takes the next bytes of either stream.
func (o *output) write(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.total += int64(len(p))
	o.last.write(p)
	if o.file == nil {
		return
	}
	head := p[:min(int64(len(p)), o.room)]
	o.save(head)
	o.room -= int64(len(head))
	rest := p[len(head):]
	o.after += int64(len(rest))
	o.tail.write(rest)
}

func (o *output) save(p []byte) {
	if len(p) == 0 || o.err != nil {
		return
	}
	_, o.err = o.file.Write(p)
	o.ended = p[len(p)-1] == '\n'
}

// finish completes the file and returns the first error.
func (o *output) finish() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return nil
	}
	tail := o.tail.bytes()
	if left := o.after - int64(len(tail)); left > 0 {
		if !o.ended {
			o.save([]byte("\n"))
		}
		o.save(fmt.Appendf(nil, "[... %d bytes left out ...]\n", left))
	}
	o.save(tail)
	if err := o.file.Close(); o.err == nil {
		o.err = err
	}
	o.file = nil
	if o.err != nil {
		return fmt.Errorf("save output: %w\nhint: is the disk full?", o.err)
	}
	return nil
}

// ring keeps the last max bytes written to it.
type ring struct {
	max  int
	buf  []byte
	next int // where the oldest byte is, once buf is full
}

func (r *ring) write(p []byte) {
	if len(p) >= r.max {
		r.buf, r.next = append(r.buf[:0], p[len(p)-r.max:]...), 0
		return
	}
	n := min(len(p), r.max-len(r.buf))
	r.buf = append(r.buf, p[:n]...)
	for p = p[n:]; len(p) > 0; p = p[n:] {
		n = copy(r.buf[r.next:], p)
		r.next = (r.next + n) % r.max
	}
}

// bytes returns a copy of what is kept, oldest first.
func (r *ring) bytes() []byte {
	return append(append([]byte(nil), r.buf[r.next:]...), r.buf[:r.next]...)
}

// lines cuts a stream into lines of at most max bytes; what is longer is
// dropped up to the next newline.
type lines struct {
	max     int
	deliver func(line string)

	partial []byte
	open    bool // a line has begun
}

// write takes the next bytes of the stream and delivers the lines that they
// complete.
func (l *lines) write(p []byte) {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			l.add(p)
			return
		}
		l.add(p[:i])
		l.flush()
		p = p[i+1:]
	}
}

func (l *lines) add(p []byte) {
	l.open = true
	l.partial = append(l.partial, p[:min(len(p), l.max-len(l.partial))]...)
}

// end delivers a last line that has no newline.
func (l *lines) end() {
	if l.open {
		l.flush()
	}
}

func (l *lines) flush() {
	l.deliver(string(l.partial))
	l.partial, l.open = l.partial[:0], false
}
