package cache

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// headName is the name of the first item of a build, which says what the others are.
const headName = "kbisect-build/2"

// head is what that item holds.
type head struct {
	Key     string            `json:"key"`
	Outputs []string          `json:"outputs"`
	Meta    map[string]string `json:"meta,omitempty"`
}

// write begins an archive.
func (h head) write(w *tar.Writer) error {
	data, err := json.Marshal(h)
	if err == nil {
		err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: headName, Size: int64(len(data))})
	}
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// errDamaged marks a build that cannot be restored as it was stored.
var errDamaged = errors.New("damaged build")

// build is a build in the cache, which is open.
type build struct {
	head
	file *os.File
	size int64 // of the archive
}

// openBuild opens the build under key if it is whole, and safe to restore. Else the error is fs.ErrNotExist or errDamaged, or
// the file cannot be read.
func openBuild(path, key string) (*build, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b := &build{file: f}
	if err := b.check(key); err != nil {
		f.Close()
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return b, nil
}

// check compares a build with its digest, and refuses items that could write outside of the build directory: an archive
// with a correct digest may still come from another program.
func (b *build) check(key string) error {
	fi, err := b.file.Stat()
	if err != nil {
		return err
	}
	b.size = fi.Size() - sha256.Size
	sum, want := sha256.New(), make([]byte, sha256.Size)
	if _, err = io.CopyN(sum, b.file, b.size); err == nil {
		_, err = io.ReadFull(b.file, want)
	}
	if err != nil || !bytes.Equal(sum.Sum(nil), want) {
		return fmt.Errorf("it does not match its digest (%v)", err)
	}
	return b.each(func(it *tar.Header, _ io.Reader) error {
		ok := filepath.IsLocal(it.Name) && it.Mode&^0o777 == 0
		switch it.Typeflag {
		case tar.TypeReg, tar.TypeDir:
		case tar.TypeSymlink:
			ok = ok && staysInside(it.Name, it.Linkname)
		default:
			ok = false
		}
		if !ok || b.Key != key {
			return errors.New("no kbisect has written it")
		}
		return nil
	})
}

// each calls do for every item of a build, with its content, and reads its head before.
func (b *build) each(do func(it *tar.Header, content io.Reader) error) error {
	t := tar.NewReader(io.NewSectionReader(b.file, 0, b.size))
	for first := true; ; first = false {
		it, err := t.Next()
		switch {
		case err == io.EOF && !first:
			return nil
		case err != nil:
			return err
		case first:
			err = b.readHead(it, t)
		default:
			err = do(it, t)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", it.Name, err)
		}
	}
}

func (b *build) readHead(it *tar.Header, r io.Reader) error {
	if it.Name != headName {
		return errors.New("it is of another format")
	}
	b.head = head{}
	if err := json.NewDecoder(r).Decode(&b.head); err != nil {
		return err
	}
	for _, out := range b.Outputs {
		if !filepath.IsLocal(out) {
			return fmt.Errorf("output %q", out)
		}
	}
	return nil
}

// staysInside reports whether a link at path (local, its parents no links) to target leads to a place below the same
// root. Only leading ".." are let through: after a name, which may be a link itself, the kernel goes up elsewhere.
func staysInside(path, target string) bool {
	if target == "" || filepath.IsAbs(target) {
		return false
	}
	down := false
	for part := range strings.SplitSeq(target, "/") {
		if part == ".." && down {
			return false
		}
		down = down || (part != ".." && part != "." && part != "")
	}
	return filepath.IsLocal(filepath.Join(filepath.Dir(path), target))
}
