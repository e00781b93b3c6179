package source

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/kbisect/kbisect/pipeline/source/internal/commits"
	"github.com/kbisect/kbisect/pipeline/source/internal/inputs"
	"github.com/kbisect/kbisect/pipeline/source/internal/packs"
)

// objects is what a back end must offer. One value serves one goroutine, but for the opening of objects where it says so.
type objects interface {
	// open returns the object's kind ("commit", "tree", "blob", "tag"), its
	// size in bytes and its content, which the caller must close before the
	// next call. A missing object gives a *MissingError.
	open(id string) (kind string, size int64, r io.ReadCloser, err error)
	// resolve returns the id of the object that a revision names, unpeeled,
	// or "" when there is none.
	resolve(ctx context.Context, rev string) (string, error)
	// refs lists the short names of branches and tags.
	refs() ([]string, error)
	name() string
	// another returns what serves another goroutine.
	another() (objects, error)
	// parallel reports that several goroutines may open objects at once, and before others are closed.
	parallel() bool
	close() error
}

// prefetcher is implemented by back ends that can fetch many missing objects
// at once.
type prefetcher interface {
	prefetch(ctx context.Context, commit string) error
}

const (
	ModeFile    = 0o100644
	ModeExec    = 0o100755
	ModeLink    = 0o120000
	modeTree    = 0o040000
	ModeGitlink = 0o160000
)

// Entry is what stands under one name in a tree.
type Entry struct {
	Mode uint32 // canonical: one of the modes below
	ID   string // of the object, or of the commit of a submodule
	name string
}

func (e Entry) isTree() bool { return e.Mode == modeTree }

const mostInMemory = 1 << 26 // bytes of one object

// readObject returns the whole object and insists on its kind. Nobody may change what it returns.
func readObject(o objects, id, kind string) ([]byte, error) {
	got, size, r, err := o.open(id)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if got != kind {
		return nil, unreadable("object %s is a %s, not a %s", id, got, kind)
	}
	if size > mostInMemory {
		return nil, &UnsupportedError{Attribute: "size", Reason: fmt.Sprintf("%s %s has %d bytes; at most %d are read at once", kind, short(id), size, mostInMemory)}
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

// kindOf returns the kind of an object without reading all of it.
func kindOf(o objects, id string) (string, error) {
	kind, _, r, err := o.open(id)
	if err != nil {
		return "", err
	}
	return kind, r.Close()
}

// peel follows tags to a commit.
func peel(o objects, id string) (string, error) {
	for range 32 {
		kind, err := kindOf(o, id)
		if err != nil {
			return "", err
		}
		if kind == "commit" {
			return id, nil
		}
		if kind != "tag" {
			return "", fmt.Errorf("object %s is a %s, not a commit", id, kind)
		}
		data, err := readObject(o, id, "tag")
		if err != nil {
			return "", err
		}
		next, ok := bytes.CutPrefix(data, []byte("object "))
		line, _, _ := bytes.Cut(next, []byte("\n"))
		if !ok || !isFullID(string(line)) {
			return "", fmt.Errorf("tag %s is malformed", id)
		}
		id = string(line)
	}
	return "", fmt.Errorf("tag %s is nested too deeply", id)
}

func readCommit(o objects, id string) (Commit, error) {
	data, err := readObject(o, id, "commit")
	if err != nil {
		return Commit{}, err
	}
	n, err := parseNode(id, data)
	if err != nil {
		return Commit{}, err
	}
	return describe(n, data), nil
}

// parseNode reads of a commit object what walks need.
func parseNode(id string, data []byte) (*commits.Node, error) {
	n := &commits.Node{ID: id}
	for line, rest, _ := bytes.Cut(data, []byte("\n")); len(line) > 0; line, rest, _ = bytes.Cut(rest, []byte("\n")) {
		key, value, _ := bytes.Cut(line, []byte(" "))
		switch string(key) {
		case "tree":
			n.Tree = string(value)
		case "parent":
			n.Parents = append(n.Parents, string(value))
			if !isFullID(n.Parents[len(n.Parents)-1]) {
				return nil, fmt.Errorf("commit %s is malformed: parent %q", id, value)
			}
		case "committer":
			if i := bytes.LastIndexByte(value, '>'); i >= 0 {
				stamp, _, _ := strings.Cut(strings.TrimSpace(string(value[i+1:])), " ")
				n.Date, _ = strconv.ParseInt(stamp, 10, 64) // whatever it says, see slop
			}
		}
	}
	if !isFullID(n.Tree) {
		return nil, fmt.Errorf("commit %s is malformed: tree %q", id, n.Tree)
	}
	return n, nil
}

// describe completes a commit by its object. Odd authors and dates are taken as they come: old histories hold many.
func describe(n *commits.Node, data []byte) Commit {
	c := Commit{ID: n.ID, Tree: n.Tree, Parents: n.Parents}
	head, message, _ := strings.Cut(string(data), "\n\n")
	for line := range strings.SplitSeq(head, "\n") {
		if author, ok := strings.CutPrefix(line, "author "); ok {
			c.Author, c.Email, c.When = parseIdent(author)
		}
	}
	c.Subject = subject(message)
	return c
}

// parseIdent splits "A U Thor <author@example.com> 1700000000 +0100".
func parseIdent(s string) (name, email string, when time.Time) {
	rest := ""
	if i := strings.LastIndexByte(s, '>'); i >= 0 {
		s, rest = s[:i], strings.TrimSpace(s[i+1:])
	}
	name, email, _ = strings.Cut(s, "<")
	stamp, zone, _ := strings.Cut(rest, " ")
	if sec, err := strconv.ParseInt(stamp, 10, 64); err == nil {
		when = time.Unix(sec, 0).In(parseZone(zone))
	}
	return clean(strings.TrimSpace(name)), clean(strings.TrimSpace(email)), when
}

// parseZone reads a zone such as "+0100"; what is not one is UTC.
func parseZone(s string) *time.Location {
	n, err := strconv.Atoi(s)
	if err != nil || len(s) != 5 || n < -2400 || n > 2400 {
		return time.UTC
	}
	return time.FixedZone(s, (n/100)*3600+(n%100)*60)
}

// subject is the first paragraph on one line, as git's %s.
func subject(message string) string {
	message = strings.TrimLeft(message, "\n")
	var lines []string
	for line := range strings.SplitSeq(message, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			break
		}
		lines = append(lines, line)
	}
	return clean(strings.Join(lines, " "))
}

// clean keeps a text of a commit, without the rest of the commit and without more of it than anybody reads.
func clean(s string) string {
	return strings.Clone(strings.ToValidUTF8(s[:min(len(s), 4096)], "\uFFFD"))
}

// readTree reads a tree. One that cannot be parsed is unreadable, which is the commit's fault and not the machine's.
func readTree(o objects, id string) ([]Entry, error) {
	data, err := readObject(o, id, "tree")
	if err != nil {
		return nil, err
	}
	entries, err := parseTree(data, len(id)/2)
	if err != nil {
		return nil, unreadable("tree %s: %v", id, err)
	}
	return entries, nil
}

// parseTree reads a tree object with ids of idLen bytes. Names are not checked
// here: only what is written can do harm.
func parseTree(data []byte, idLen int) ([]Entry, error) {
	var entries []Entry
	err := inputs.Entries(data, idLen, func(mode uint32, name, id []byte) {
		entries = append(entries, Entry{name: string(name), Mode: mode, ID: hex.EncodeToString(id)})
	})
	return entries, err
}

func isFullID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && isHex(s)
}

func isHex(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s != ""
}

// unreadable is an error about an object that is not what a repository may hold. Its commits are set aside.
func unreadable(format string, args ...any) error {
	return &UnsupportedError{Attribute: "object", Reason: fmt.Sprintf(format, args...), Hint: "git fsck lists what is damaged; git fetch --refetch may restore it"}
}

// checked is the content of an object, which must be what its id says.
type checked struct {
	io.ReadCloser
	id    string
	sum   hash.Hash
	whole []byte // all that is read; nil where it is not held in memory
}

func checkContent(id, kind string, size int64, r io.ReadCloser, whole []byte) io.ReadCloser {
	c := checked{r, id, sha1.New(), whole}
	if len(id) == 2*sha256.Size {
		c.sum = sha256.New()
	}
	io.WriteString(c.sum, kind+" "+strconv.FormatInt(size, 10)+"\x00")
	return c
}

// wrong is the error about an object that is not what its id says.
func (c checked) wrong() error {
	if hex.EncodeToString(c.sum.Sum(nil)) != c.id {
		return unreadable("the content of object %s is not what its id says", c.id)
	}
	return nil
}

// Read implements io.Reader; the last call reports what was wrong with the whole.
func (c checked) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.sum.Write(p[:n])
	if errors.Is(err, packs.ErrDamaged) {
		return n, unreadable("object %s cannot be read: %v", c.id, err)
	}
	if errors.Is(err, io.EOF) {
		err = cmp.Or(c.wrong(), err)
	}
	return n, err
}

// MissingError says that an object is not in the repository.
type MissingError struct{ id string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("object %s is missing\nhint: the repository is incomplete: git fsck lists what is missing, git fetch --refetch may restore it", e.id)
}

func isMissing(err error) bool {
	var m *MissingError
	return errors.As(err, &m)
}

func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return id
}
