package protocol

import (
	"bytes"
	"path"
	"strings"

	"github.com/kbisect/kbisect/kernels/lazy"
)

// PythonStack reads what faulthandler printed when a Python program was aborted and
// returns the innermost frame of the user's code, such as "submission.py:12 in
// custom_kernel". Within a process it prefers the current thread, then the main thread,
// which is printed last. Among processes it prefers one that waits for nothing, then one
// that waits for a program such as a compiler.
func PythonStack(output []byte) (where string, ok bool) {
	var best frames
	for _, d := range dumps(output) {
		s := d.stack()
		if w := s.waits(); len(s) > 0 && (len(best) == 0 || w <= best.waits()) {
			best = s
		}
	}
	if len(best) == 0 {
		return "", false
	}
	return best.user().String(), true
}

// frame is one entry of a stack.
type frame struct{ file, line, function string }

// frames is a stack, the innermost frame first.
type frames []frame

// dump is what faulthandler printed for one process.
type dump struct {
	stacks  []frames
	current int // index of the current thread's stack, or negative
}

var (
	pythonFrame  = lazy.Pattern(`^  File "(.*)", line (\d{1,9}|\?\?\?) in (.+)$`)
	pythonThread = lazy.Pattern(`^(Current thread|Thread) 0x[0-9a-f]+ .*\(most recent call first\):$`)
)

// Bounds on output that is read and quoted. faulthandler prints at most 100 frames of at
// most 100 threads.
const (
	maxDumps  = 64
	maxFrames = 128
	MaxLine   = 4096 // bytes of a line that is read
	MaxWhere  = 160  // bytes of a line that a report quotes
)

// dumps splits an output into faulthandler's dumps.
func dumps(output []byte) []dump {
	var all []dump
	begin := func() {
		if len(all) == maxDumps {
			all = all[1:]
		}
		all = append(all, dump{current: -1})
	}
	inside := false
	for raw := range bytes.Lines(output) {
		if len(raw) > MaxLine {
			continue
		}
		line := strings.TrimRight(string(raw), "\r\n")
		if strings.HasPrefix(line, "Fatal Python error: ") || strings.HasPrefix(line, "Timeout (") {
			begin()
			inside = false
			continue
		}
		// dump_traceback prints no title, so the dumps of two processes may follow each other directly.
		if len(all) == 0 || strings.HasPrefix(line, "Current thread 0x") && all[len(all)-1].current >= 0 {
			begin()
		}
		inside = all[len(all)-1].take(line, inside)
	}
	return all
}

// take reads one line; inside means that it may be a frame.
func (d *dump) take(line string, inside bool) bool {
	if m := pythonThread().FindStringSubmatch(line); m != nil || line == "Stack (most recent call first):" {
		if len(d.stacks) >= 2*maxFrames {
			d.stacks, d.current = d.stacks[1:], d.current-1
		}
		d.stacks = append(d.stacks, nil)
		if m != nil && m[1] == "Current thread" {
			d.current = len(d.stacks) - 1
		}
		return true
	}
	m := pythonFrame().FindStringSubmatch(line)
	if !inside || m == nil {
		return inside && strings.HasPrefix(line, "  ") // such as "  Garbage-collecting"
	}
	if last := &d.stacks[len(d.stacks)-1]; len(*last) < maxFrames {
		*last = append(*last, frame{m[1], m[2], m[3]})
	}
	return true
}

// stack is the stack that shows where the process was.
func (d *dump) stack() frames {
	if d.current >= 0 && len(d.stacks[d.current]) > 0 {
		return d.stacks[d.current]
	}
	for i := len(d.stacks) - 1; i >= 0; i-- {
		if len(d.stacks[i]) > 0 {
			return d.stacks[i]
		}
	}
	return nil
}

// user is the innermost frame of the user's code, else the innermost of all.
func (s frames) user() frame {
	for _, f := range s {
		if !f.library() {
			return f
		}
	}
	return s[0]
}

// What a process waits for, the most informative first: a pool's parent only waits for its
// workers.
const (
	forNothing = iota
	forProgram
	forWorker
)

// waits returns which of these the process waited for.
func (s frames) waits() (what int) {
	for _, f := range s {
		if !f.library() {
			break
		}
		switch {
		case strings.Contains(f.file, "/multiprocessing/") || strings.Contains(f.file, "/concurrent/futures/"):
			return forWorker
		case strings.Contains(f.file, "/subprocess.py") || strings.Contains(f.file, "/selectors.py"):
			what = forProgram
		}
	}
	return what
}

// library reports whether a frame is in an installed package or in our own probe.
func (f frame) library() bool {
	if strings.HasPrefix(f.file, "<frozen ") || path.Base(f.file) == "sitecustomize.py" {
		return true
	}
	for _, dir := range []string{"/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3", "/lib/pypy3"} {
		if strings.Contains(f.file, dir) {
			return true
		}
	}
	return false
}

// String names a file by its path in the repository, and one elsewhere by its name.
func (f frame) String() string {
	name := f.file
	if i := strings.LastIndexAny(name, `/\`); i >= 0 && !strings.HasPrefix(name, "<") && (path.IsAbs(name) || len(name) > MaxWhere/2) {
		name = name[i+1:]
	}
	return Plain(name, MaxWhere/2) + ":" + f.line + " in " + Plain(f.function, MaxWhere/2)
}

// Plain makes text fit for one line of a report: printable, without escape sequences, valid UTF-8 and at
// most `most` bytes, which must be more than 3.
func Plain(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(Unescape([]byte(s))), "?"))
	if s = strings.TrimSpace(s); len(s) > most {
		s = strings.ToValidUTF8(s[:most-3], "") + "..."
	}
	return s
}

// escapes matches the escape sequences of terminals (ECMA-48, ECMA-35), with 7 and with 8 bits: control sequences
// such as colours, strings such as titles and links, and the rest. One that is cut off ends with its line.
var escapes = lazy.Pattern(`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]?` +
	`|(?:\x1b[PX\]^_]|[\x{90}\x{98}\x{9d}-\x{9f}])[^\n\x07\x1b\x{9c}]*(?:\x07|\x1b\\|\x{9c})?` +
	`|\x1b[ -/]*[0-~]`)

// Unescape takes the escape sequences of terminals out of a text.
func Unescape(text []byte) []byte {
	if !bytes.ContainsAny(text, "\x1b\u0090\u0098\u009b\u009d\u009e\u009f") {
		return text
	}
	return escapes().ReplaceAll(text, nil)
}
