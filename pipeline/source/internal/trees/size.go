package trees

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
)

// Size is how much a commit holds.
type Size struct {
	Entries int // files and folders
	Paths   int // bytes of their paths
	Rules   int // of its .gitattributes files, with the files
	Bytes   int64
}

// Within is an error where a commit holds more than it may.
func (s Size) Within(most Size) error {
	reason := ""
	switch {
	case s.Entries > most.Entries:
		reason = fmt.Sprintf("more than %d files and folders to read", most.Entries)
	case s.Paths > most.Paths:
		reason = fmt.Sprintf("paths of more than %d bytes in all", most.Paths)
	case s.Rules > most.Rules:
		reason = fmt.Sprintf("more than %d rules in .gitattributes", most.Rules)
	default:
		return nil
	}
	return &objects.UnsupportedError{Attribute: "size", Reason: reason, Hint: MoreThanOthers}
}

// A commit may hold spread times what is checked out or what another one held, and this much in any
// case.
const (
	Spread       = 4
	smallEntries = 100_000
	smallPaths   = 8 << 20
	smallRules   = 2500
	smallBytes   = 1 << 30
)

// NewWalk begins a walk of trees, of a repository whose exports have held so much.
func NewWalk(ctx context.Context, l objects.Layout, held Size) *Walk {
	small := Size{smallEntries, smallPaths, smallRules, smallBytes}
	known := atLeast(atLeast(small, held), checkedOut(l))
	most := Size{Spread * known.Entries, Spread * known.Paths, Spread * known.Rules, Spread * known.Bytes}
	return &Walk{Ctx: ctx, Most: most}
}

func atLeast(a, b Size) Size {
	return Size{max(a.Entries, b.Entries), max(a.Paths, b.Paths), max(a.Rules, b.Rules), max(a.Bytes, b.Bytes)}
}

// MoreThanOthers is the hint of an error about a size.
const MoreThanOthers = "a commit may hold four times what is checked out, or what a commit before it held"

// checkedOut is what the user has checked out, as far as the index tells by its head and its
// length.
func checkedOut(l objects.Layout) Size {
	if l.WorkDir == "" {
		return Size{Entries: 10 * smallEntries, Paths: 10 * smallPaths}
	}
	var head struct{ Magic, Version, Entries uint32 }
	f, err := os.Open(filepath.Join(l.GitDir, "index"))
	if err != nil {
		return Size{}
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || binary.Read(f, binary.BigEndian, &head) != nil {
		return Size{}
	}
	return Size{Entries: int(head.Entries), Paths: int(fi.Size())}
}

// Held is the most of everything that any commit has held. Exports of one repository share it.
type Held struct {
	mu   sync.Mutex
	most Size
}

// Add counts a commit in.
func (k *Held) Add(s Size) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.most = atLeast(k.most, s)
}

// Get is the most so far.
func (k *Held) Get() Size {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.most
}
