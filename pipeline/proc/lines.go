package proc

import "bytes"

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
