package objects

import (
	"encoding/hex"

	"github.com/kbisect/kbisect/pipeline/source/internal/inputkey"
)

// The modes of what stands in a tree.
const (
	ModeFile    = 0o100644
	ModeExec    = 0o100755
	ModeLink    = 0o120000
	ModeTree    = 0o040000
	ModeGitlink = 0o160000
)

// Entry is what stands under one name in a tree.
type Entry struct {
	Mode uint32 // canonical: one of the modes above
	ID   string // of the object, or of the commit of a submodule
	Name string
}

// IsTree reports whether a folder stands there.
func (e Entry) IsTree() bool { return e.Mode == ModeTree }

// ReadTree reads a tree. One that cannot be parsed is unreadable, which is the commit's fault and
// not the machine's.
func ReadTree(o Reader, id string) ([]Entry, error) {
	data, err := Read(o, id, "tree")
	if err != nil {
		return nil, err
	}
	entries, err := parseTree(data, len(id)/2)
	if err != nil {
		return nil, Unreadable("tree %s: %v", id, err)
	}
	return entries, nil
}

// parseTree reads a tree object with ids of idLen bytes. Names are not checked here: only what is
// written can do harm.
func parseTree(data []byte, idLen int) ([]Entry, error) {
	var entries []Entry
	err := inputkey.Entries(data, idLen, func(mode uint32, name, id []byte) {
		entries = append(entries, Entry{Name: string(name), Mode: mode, ID: hex.EncodeToString(id)})
	})
	return entries, err
}
