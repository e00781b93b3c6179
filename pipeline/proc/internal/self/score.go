package self

import (
	"os"
	"strings"
)

// Score is how ready the kernel is to kill this process when memory runs out; what it starts has the same.
type Score struct{ file *os.File }

// OpenScore opens the score. It must come before [Close], after which only root may; a nil *Score does nothing.
func OpenScore() *Score {
	file, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return &Score{file}
}

// Raise makes this process the first to be killed, until undo is called.
func (s *Score) Raise() (undo func()) {
	var old [16]byte
	if s == nil {
		return func() {}
	}
	n, _ := s.file.ReadAt(old[:], 0)
	if n == 0 {
		return func() {}
	}
	_, _ = s.file.WriteAt([]byte("1000"), 0)
	return func() { _, _ = s.file.WriteAt([]byte(strings.TrimSpace(string(old[:n]))), 0) }
}
