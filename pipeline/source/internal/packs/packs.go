// Package packs reads the objects of a repository of SHA-1 ids, packed and loose. A [Store] is for several
// goroutines: all exports share one, with its descriptors and its cache, whose size is bounded.
//
// Opening one reads 1 KiB of each pack index and maps the rest; an object costs a positioned read or none. Packs
// are not mapped: one that is cut off while it is open is an error of a read, and its pages do not count as our
// memory.
//
// Nothing here checks that an object is what its id says; the reader of its content has to. go-git, whose storages
// serve one goroutine each and parse whole indexes, reads what is too large to be held in memory.
package packs

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing/format/objfile"
)

// Most is the size, in bytes, above which an object is not held in memory.
const Most = 16 << 20

// Errors of Open. Others are the system's, about files that cannot be read.
var (
	ErrNotFound = errors.New("object not found")
	ErrTooLarge = errors.New("a delta of a large object") // above Most; go-git can read it
	ErrDamaged  = errors.New("damaged")
)

// Object is what a Store has found. Its Content has to be closed.
type Object struct {
	Kind    string // "commit", "tree", "blob" or "tag"
	Size    int64  // bytes
	Content io.ReadCloser
	Whole   []byte // the same, if it is held in memory, else nil; must not be changed
}

// Store reads the objects in some folders: the folder objects of a repository, and its alternates. It may be used
// by several goroutines.
type Store struct {
	dirs  []string
	bases *bases

	mu    sync.RWMutex
	packs []*pack
}

// New opens the packs in these folders. A pack of an unknown kind is an error; the caller then uses go-git.
func New(dirs []string) (*Store, error) {
	s := &Store{dirs: dirs, bases: newBases()}
	if err := s.list(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes all packs. Objects that are still being read give errors.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, p := range s.packs {
		errs = append(errs, p.close())
	}
	s.packs = nil
	return errors.Join(errs...)
}

// list opens the packs that are new. Those whose files have been removed stay open: what they hold is still true,
// and may be being read. git gives the index its name last, after the pack, so that an index says that its pack is complete. The caller holds mu for writing.
func (s *Store) list() error {
	for _, dir := range s.dirs {
		files, err := os.ReadDir(filepath.Join(dir, "pack"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // all objects of a young repository are loose
			return err
		}
		for _, file := range files {
			name, ok := strings.CutSuffix(filepath.Join(dir, "pack", file.Name()), ".idx")
			if !ok || slices.ContainsFunc(s.packs, func(p *pack) bool { return p.name == name }) {
				continue
			}
			p, err := open(name, len(s.packs))
			if errors.Is(err, fs.ErrNotExist) { // it is being removed
				continue
			}
			if err != nil {
				return fmt.Errorf("open %s: %w", name, err)
			}
			s.packs = append(s.packs, p)
		}
	}
	return nil
}

// relist looks for packs that have come since the last listing.
func (s *Store) relist() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list()
}

// Open finds an object by its id in hex. The caller closes its content. Packs that a gc or a fetch has made
// meanwhile are found, too, by listing again before an object counts as missing.
func (s *Store) Open(id string) (Object, error) {
	o, err := s.find(id)
	if errors.Is(err, ErrNotFound) {
		if err := s.relist(); err != nil {
			return Object{}, err
		}
		return s.find(id)
	}
	return o, err
}

// find looks in the packs that are open, and then for a loose object.
func (s *Store) find(id string) (Object, error) {
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != idLen {
		return Object{}, ErrNotFound
	}
	s.mu.RLock()
	packs := s.packs
	s.mu.RUnlock()
	for _, p := range packs {
		at, found, err := p.find(raw)
		if err != nil {
			return Object{}, err
		}
		if found {
			return s.object(p, at)
		}
	}
	for _, dir := range s.dirs {
		f, err := os.Open(filepath.Join(dir, id[:2], id[2:]))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Object{}, err
		}
		return loose(f)
	}
	return Object{}, ErrNotFound
}

// loose reads an object from a file of its own, and takes over the file.
func loose(f *os.File) (Object, error) {
	r, err := objfile.NewReader(f)
	if err != nil {
		f.Close()
		return Object{}, damagedIn(f.Name(), err)
	}
	kind, size, err := r.Header()
	if err == nil && size <= Most {
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(r, size+1)); err == nil && int64(len(data)) != size {
			err = io.ErrUnexpectedEOF
		}
		if err == nil {
			r.Close()
			return Object{kind.String(), size, io.NopCloser(bytes.NewReader(data)), data}, f.Close()
		}
	}
	if err != nil {
		r.Close()
		f.Close()
		return Object{}, damagedIn(f.Name(), err)
	}
	return Object{kind.String(), size, content{r, f}, nil}, nil
}

// damagedIn is ErrDamaged for a file that cannot be understood; an error of the system stays what it is.
func damagedIn(file string, err error) error {
	var failed *os.PathError
	if errors.As(err, &failed) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrDamaged, file, err)
}

// content is that of a large loose object.
type content struct {
	*objfile.Reader
	file *os.File
}

// Read implements io.Reader.
func (c content) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if err != nil && err != io.EOF {
		err = damagedIn(c.file.Name(), err)
	}
	return n, err
}

// Close implements io.Closer.
func (c content) Close() error { return errors.Join(c.Reader.Close(), c.file.Close()) }
