package objects

import (
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"

	"github.com/kbisect/kbisect/pipeline/source/internal/packs"
)

// Unreadable is an error about an object that is not what a repository may hold. Its commits are
// set aside: a search can go around a damaged commit, but not around a machine that fails.
func Unreadable(format string, args ...any) error {
	return &UnsupportedError{Attribute: "object", Reason: fmt.Sprintf(format, args...),
		Hint: "git fsck lists what is damaged; git fetch --refetch may restore it"}
}

// checked is the content of an object, which must be what its id says. Not all that reads objects
// looks at that, and a culprit is named by ids, so what is built must be what they stand for.
type checked struct {
	io.ReadCloser
	id    string
	sum   hash.Hash
	whole []byte // all that is read; nil where it is not held in memory
}

// wrong is the error about an object that is not what its id says.
func (c checked) wrong() error {
	if hex.EncodeToString(c.sum.Sum(nil)) != c.id {
		return Unreadable("the content of object %s is not what its id says", c.id)
	}
	return nil
}

// Read implements io.Reader; the last call reports what was wrong with the whole.
func (c checked) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.sum.Write(p[:n])
	if errors.Is(err, packs.ErrDamaged) {
		return n, Unreadable("object %s cannot be read: %v", c.id, err)
	}
	if errors.Is(err, io.EOF) {
		err = cmp.Or(c.wrong(), err)
	}
	return n, err
}

// checkContent checks content while it is read. The length of an id tells its hash.
func checkContent(id, kind string, size int64, r io.ReadCloser, whole []byte) io.ReadCloser {
	c := checked{r, id, sha1.New(), whole}
	if len(id) == 2*sha256.Size {
		c.sum = sha256.New()
	}
	io.WriteString(c.sum, kind+" "+strconv.FormatInt(size, 10)+"\x00")
	return c
}

// MissingError says that an object is not in the repository.
type MissingError struct{ ID string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("object %s is missing\nhint: the repository is incomplete: git fsck lists what is missing, "+
		"git fetch --refetch may restore it", e.ID)
}

// IsMissing reports whether something failed for want of an object.
func IsMissing(err error) bool {
	var m *MissingError
	return errors.As(err, &m)
}

// UnsupportedError says that a file of a commit cannot be written as Git would write it.
type UnsupportedError struct {
	Commit    string // commit id
	Path      string // relative to the root of the repository
	Attribute string // such as "filter=crypt", "ident", "submodule", "path"
	Reason    string
	Hint      string
}

func (e *UnsupportedError) Error() string {
	msg := fmt.Sprintf("commit %s: %s (%s)", Short(e.Commit), e.Reason, e.Attribute)
	if e.Path != "" {
		msg = fmt.Sprintf("commit %s: %q: %s (%s)", Short(e.Commit), e.Path, e.Reason, e.Attribute)
	}
	if e.Hint != "" {
		msg += "\nhint: " + e.Hint
	}
	return msg
}
