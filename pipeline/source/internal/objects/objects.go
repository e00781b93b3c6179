// Package objects finds a git repository on disk and reads its objects by their ids.
//
// A [Layout] says where the parts of a repository lie ([Locate]), [Features] what is special about
// it, and [Open] chooses a [Reader] that can read it: package packs with the go-git library, or a
// running "git cat-file --batch" for what these cannot read (SHA-256, reftable, partial clones).
// Everything above a Reader is written once.
//
// An object that is not what its id says is an [UnsupportedError], so that its commit can be set
// aside, and one that is not there a [MissingError]. The package only reads, and must not know
// ranges, comparisons, or what becomes of a file.
package objects

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/pipeline/source/internal/commits"
)

// Reader is what a back end must offer. One value serves one goroutine, except for the opening of
// objects where it says so.
type Reader interface {
	// Open returns the object's kind ("commit", "tree", "blob", "tag"), its size in bytes and its
	// content, which the caller must close before the next call. A missing object gives a
	// *MissingError.
	Open(id string) (kind string, size int64, r io.ReadCloser, err error)
	// Resolve returns the id of the object that a revision names, unpeeled, or "" when there is
	// none.
	Resolve(ctx context.Context, rev string) (string, error)
	// Refs lists the short names of branches and tags.
	Refs() ([]string, error)
	// Prefetch fetches what a partial clone lacks of a commit in one request.
	Prefetch(ctx context.Context, commit string) error
	Name() string
	// Another returns what serves another goroutine.
	Another() (Reader, error)
	// Parallel reports that several goroutines may open objects at once, and before others are
	// closed.
	Parallel() bool
	Close() error
}

// mostInMemory is in bytes of one object: a few bytes in a pack can unpack to more memory than
// there is.
const mostInMemory = 1 << 26

// Read returns the whole object and insists on its kind. Nobody may change what it returns.
func Read(o Reader, id, kind string) ([]byte, error) {
	got, size, r, err := o.Open(id)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if got != kind {
		return nil, Unreadable("object %s is a %s, not a %s", id, got, kind)
	}
	if size > mostInMemory {
		return nil, &UnsupportedError{Attribute: "size",
			Reason: fmt.Sprintf("%s %s has %d bytes; at most %d are read at once", kind, Short(id), size, mostInMemory)}
	}
	if c, ok := r.(checked); ok && c.whole != nil {
		c.sum.Write(c.whole)
		return c.whole, c.wrong()
	}
	var buf bytes.Buffer
	if size < 1<<20 {
		buf.Grow(int(size) + bytes.MinRead)
	}
	if _, err := io.Copy(&buf, r); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", kind, id, err)
	}
	return buf.Bytes(), nil
}

// Kind returns the kind of an object without reading all of it.
func Kind(o Reader, id string) (string, error) {
	kind, _, r, err := o.Open(id)
	if err != nil {
		return "", err
	}
	return kind, r.Close()
}

// Peel follows tags to a commit. No tag leads to itself, but a chain can have any length.
func Peel(o Reader, id string) (string, error) {
	for range 32 {
		kind, err := Kind(o, id)
		if err != nil {
			return "", err
		}
		if kind == "commit" {
			return id, nil
		}
		if kind != "tag" {
			return "", fmt.Errorf("object %s is a %s, not a commit", id, kind)
		}
		data, err := Read(o, id, "tag")
		if err != nil {
			return "", err
		}
		next, ok := bytes.CutPrefix(data, []byte("object "))
		line, _, _ := bytes.Cut(next, []byte("\n"))
		if !ok || !IsID(string(line)) {
			return "", fmt.Errorf("tag %s is malformed", id)
		}
		id = string(line)
	}
	return "", fmt.Errorf("tag %s is nested too deeply", id)
}

// ReadCommit reads the object of a commit and what walks need of it.
func ReadCommit(o Reader, id string) (*commits.Node, []byte, error) {
	data, err := Read(o, id, "commit")
	if err != nil {
		return nil, nil, err
	}
	n, err := parseNode(id, data)
	return n, data, err
}

// parseNode reads of a commit object what walks need. Its head ends at the first empty line.
func parseNode(id string, data []byte) (*commits.Node, error) {
	n := &commits.Node{ID: id}
	for line, rest, _ := bytes.Cut(data, []byte("\n")); len(line) > 0; line, rest, _ = bytes.Cut(rest, []byte("\n")) {
		key, value, _ := bytes.Cut(line, []byte(" "))
		switch string(key) {
		case "tree":
			n.Tree = string(value)
		case "parent":
			n.Parents = append(n.Parents, string(value))
			if !IsID(n.Parents[len(n.Parents)-1]) {
				return nil, fmt.Errorf("commit %s is malformed: parent %q", id, value)
			}
		case "committer":
			if i := bytes.LastIndexByte(value, '>'); i >= 0 {
				stamp, _, _ := strings.Cut(strings.TrimSpace(string(value[i+1:])), " ")
				n.Date, _ = strconv.ParseInt(stamp, 10, 64) // whatever it says, see slop
			}
		}
	}
	if !IsID(n.Tree) {
		return nil, fmt.Errorf("commit %s is malformed: tree %q", id, n.Tree)
	}
	return n, nil
}

// IsID reports whether a text is a full id, in hex.
func IsID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// Short is as much of an id as people are shown: 10 digits, as everywhere.
func Short(id string) string { return id[:min(10, len(id))] }
