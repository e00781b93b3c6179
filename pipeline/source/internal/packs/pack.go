package packs

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sort"
	"sync"

	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"golang.org/x/sys/unix"
)

// Sizes in an index of version 2, bytes. Repositories with SHA-256 are left to git.
const (
	idLen  = 20
	fanout = 8 + 256*4 // bytes of the head of an index
)

// pack is one pack with its index of version 2 (gitformat-pack(5)). The index is mapped; the pack is read by
// position, so that several goroutines may use it.
type pack struct {
	name  string // path of both files without their extensions
	at    int    // its place in the store's list, for keys of bases
	index []byte // mapped; see guard
	data  *os.File
	size  int64       // of data
	upTo  [256]uint32 // by first byte: how many ids have that or a smaller one
}

// open opens a pack and reads the head of its index.
func open(name string, at int) (*pack, error) {
	p := &pack{name: name, at: at}
	err := p.openFiles()
	if err != nil {
		p.close()
	}
	return p, err
}

// openFiles is open without the cleaning up. Sizes are checked here once, so that reads of the index stay inside
// it.
func (p *pack) openFiles() (err error) {
	index, err := os.Open(p.name + ".idx")
	if err != nil {
		return err
	}
	defer index.Close()
	if p.data, err = os.Open(p.name + ".pack"); err != nil {
		return err
	}
	fi, err := p.data.Stat()
	if err != nil {
		return err
	}
	p.size = fi.Size()
	var head [fanout]byte
	if _, err := index.ReadAt(head[:], 0); err != nil {
		return err
	}
	if !bytes.HasPrefix(head[:], []byte("\xfftOc\x00\x00\x00\x02")) {
		return fmt.Errorf("%w: no index of version 2", ErrDamaged)
	}
	for i := range p.upTo {
		p.upTo[i] = binary.BigEndian.Uint32(head[8+4*i:])
		if i > 0 && p.upTo[i] < p.upTo[i-1] {
			return fmt.Errorf("%w: the head of its index", ErrDamaged)
		}
	}
	if fi, err = index.Stat(); err != nil {
		return err
	}
	if fi.Size() < fanout+int64(p.upTo[255])*(idLen+8) { // ids, checksums, offsets
		return fmt.Errorf("%w: %s.idx is cut off", ErrDamaged, p.name)
	}
	p.index, err = unix.Mmap(int(index.Fd()), 0, int(fi.Size()), unix.PROT_READ, unix.MAP_SHARED)
	return err
}

// close unmaps the index and closes the pack. Nobody may read meanwhile, except within guard.
func (p *pack) close() error {
	var errs []error
	if p.index != nil {
		errs = append(errs, unix.Munmap(p.index))
		p.index = nil
	}
	if p.data != nil {
		errs = append(errs, p.data.Close())
	}
	return errors.Join(errs...)
}

// guard runs a function that reads the mapped index. If the file has been cut off or unmapped meanwhile, a read is
// a fault, which is turned into an error here and would otherwise end the process.
func (p *pack) guard(read func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case runtime.Error:
			err = fmt.Errorf("%w: %s.idx: %w", ErrDamaged, p.name, r)
		default:
			panic(r)
		}
	}()
	read()
	return nil
}

// bucket are the ids that begin with a byte, and the number of the first of them.
func (p *pack) bucket(first byte) (ids []byte, from int) {
	if first > 0 {
		from = int(p.upTo[first-1])
	}
	return p.index[fanout+from*idLen : fanout+int(p.upTo[first])*idLen], from
}

// find returns where an object begins in the pack, in bytes.
func (p *pack) find(id []byte) (offset int64, found bool, err error) {
	err = p.guard(func() {
		ids, from := p.bucket(id[0])
		n := len(ids) / idLen
		i := sort.Search(n, func(i int) bool { return bytes.Compare(ids[i*idLen:(i+1)*idLen], id) >= 0 })
		if found = i < n && bytes.Equal(ids[i*idLen:(i+1)*idLen], id); found {
			offset = p.offset(from + i)
		}
	})
	if err == nil && found && (offset < 12 || offset >= p.size) {
		err = fmt.Errorf("%w: %s.idx leads out of the pack", ErrDamaged, p.name)
	}
	return offset, found && err == nil, err
}

// offset is where the object of the nth id begins; -1 if the index does not say. Offsets from 2 GiB on are in a
// table of their own, to which the highest bit refers.
func (p *pack) offset(n int) int64 {
	all := int(p.upTo[255])
	small := fanout + all*(idLen+4) // after ids and checksums
	at := int64(binary.BigEndian.Uint32(p.index[small+4*n:]))
	if at>>31 != 0 {
		large := small + 4*all + 8*int(at&(1<<31-1))
		if large+8 > len(p.index) {
			return -1
		}
		at = int64(binary.BigEndian.Uint64(p.index[large:]))
	}
	return at
}

// Types of packed objects that are differences (deltas): to an object at an offset, or to one by id.
const (
	offsetDelta = 6
	idDelta     = 7
)

// kinds are the names of the types of whole objects, as objects begin with them when they are loose.
var kinds = [...]string{1: "commit", 2: "tree", 3: "blob", 4: "tag"}

// entry is the head of a packed object: of a whole one, or of a difference to another.
type entry struct {
	kind byte
	size int64 // bytes of what is packed, inflated: the object, or the difference
	base int64 // where the other one begins
	data int64 // where the packed data begins
}

// entry reads the head of the object at an offset: kind and size in a number of seven bits a byte and, for a
// difference, what it differs from.
func (p *pack) entry(at int64) (e entry, err error) {
	const longest = 32 // 10 bytes of size, 20 of a base
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	head, err := buf.read(p, at)
	// The buffer holds one page, which serves most heads and the data behind them.
	if err == nil && len(head) < longest { // it may go on in the next page
		var both [longest]byte
		var n int
		if n, err = p.data.ReadAt(both[:], at); errors.Is(err, io.EOF) {
			err = nil
		}
		head = both[:n]
	}
	if err != nil {
		return e, err
	}
	damaged := func() error { return fmt.Errorf("%w: %s.pack at %d", ErrDamaged, p.name, at) }
	n := len(head)
	next := func() byte {
		if len(head) == 0 {
			err = damaged()
			return 0
		}
		b := head[0]
		head = head[1:]
		return b
	}
	// The lowest bits come first; the top bit of a byte says that another one follows.
	b := next()
	e.kind, e.size = b>>4&7, int64(b&15)
	for shift := 4; b&0x80 != 0 && err == nil; shift += 7 {
		if shift > 56 {
			return e, damaged()
		}
		b = next()
		e.size |= int64(b&0x7f) << shift
	}
	switch {
	case err != nil:
		return e, err
	case e.kind == offsetDelta:
		// Here the highest bits come first, and each further byte adds one, so that no number has two forms.
		b = next()
		back := int64(b & 0x7f)
		for b&0x80 != 0 && err == nil && back < 1<<48 {
			b = next()
			back = (back+1)<<7 | int64(b&0x7f)
		}
		if e.base = at - back; err != nil || back <= 0 || e.base < 12 {
			return e, damaged()
		}
	case e.kind == idDelta:
		if len(head) < idLen {
			return e, damaged()
		}
		base, found, err := p.find(head[:idLen])
		if err != nil || !found {
			return e, errors.Join(damaged(), err)
		}
		e.base, head = base, head[idLen:]
	case int(e.kind) >= len(kinds) || kinds[e.kind] == "":
		return e, damaged()
	}
	e.data = at + int64(n-len(head))
	return e, nil
}

// inflate returns what is packed behind a head. It must be exactly as long as the head says.
func (p *pack) inflate(e entry) ([]byte, error) {
	r, err := p.stream(e)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data := make([]byte, e.size)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, p.damaged(e, err)
	}
	// What follows is the checksum, which is read with the end.
	var more [1]byte
	if n, err := r.Read(more[:]); n != 0 || !errors.Is(err, io.EOF) {
		return nil, p.damaged(e, err)
	}
	return data, nil
}

// damaged is the error of a reader of packed data.
func (p *pack) damaged(e entry, err error) error {
	return damagedIn(fmt.Sprintf("%s.pack at %d", p.name, e.data), cmp.Or(err, io.ErrUnexpectedEOF))
}

// buffer is what one reader needs. It keeps the page of a pack that was read last, because objects of one kind lie
// side by side.
type buffer struct {
	page    [16 << 10]byte
	pack    *pack // whose page it is; nil before the first
	from    int64
	n       int
	inflate io.ReadCloser // a zlib reader; nil until the first use
}

// small is how much is read at first: most objects are smaller, and copying a whole page takes longer than all else of
// reading one.
const small = 4 << 10

// read returns what a page of a pack has from an offset on; nothing only after the end of the pack. It is valid
// until the next read.
func (b *buffer) read(p *pack, at int64) ([]byte, error) {
	if b.pack != p || at < b.from || at >= b.from+int64(b.n) {
		from, page := at-at%small, b.page[:small]
		if b.pack == p && at == b.from+int64(b.n) { // it goes on
			from, page = at, b.page[:]
		}
		n, err := p.data.ReadAt(page, from)
		b.pack, b.from, b.n = p, from, n
		if err != nil && !errors.Is(err, io.EOF) {
			b.pack = nil
			return nil, err
		}
	}
	return b.page[min(at-b.from, int64(b.n)):b.n], nil
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// packed reads a pack from an offset on, a page at a time.
type packed struct {
	pack *pack
	at   int64
	buf  *buffer
	rest []byte
}

// fill reads on to the end of a page.
func (r *packed) fill() (err error) {
	if r.rest, err = r.buf.read(r.pack, r.at); err == nil && len(r.rest) == 0 {
		err = io.EOF
	}
	r.at += int64(len(r.rest))
	return err
}

// Read implements io.Reader.
func (r *packed) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// ReadByte implements io.ByteReader. Without it flate would read ahead into a buffer of its own.
func (r *packed) ReadByte() (byte, error) {
	if len(r.rest) == 0 {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b, nil
}

// inflated is the content of an object while it is read.
type inflated struct {
	pack *pack
	head entry
	buf  *buffer // nil once it is closed
}

// Read implements io.Reader.
func (r *inflated) Read(b []byte) (int, error) {
	if r.buf == nil {
		return 0, os.ErrClosed
	}
	n, err := r.buf.inflate.Read(b)
	if err != nil && err != io.EOF {
		err = r.pack.damaged(r.head, err)
	}
	return n, err
}

// Close gives the buffer back. It may be called twice.
func (r *inflated) Close() error {
	if r.buf != nil {
		buffers.Put(r.buf)
		r.buf = nil
	}
	return nil
}

// stream inflates what is packed behind a head. The reader has to be closed, as it holds a buffer.
func (p *pack) stream(e entry) (io.ReadCloser, error) {
	buf := buffers.Get().(*buffer)
	from := &packed{pack: p, at: e.data, buf: buf}
	var err error
	if buf.inflate == nil {
		buf.inflate, err = zlib.NewReader(from)
	} else {
		err = buf.inflate.(zlib.Resetter).Reset(from, nil)
	}
	if err != nil {
		buffers.Put(buf)
		return nil, p.damaged(e, err)
	}
	return &inflated{p, e, buf}, nil
}

// object reads the object at an offset of a pack: small ones into memory, whole large ones as a stream.
func (s *Store) object(p *pack, at int64) (Object, error) {
	e, err := p.entry(at)
	if err != nil {
		return Object{}, err
	}
	if e.kind != offsetDelta && e.kind != idDelta && e.size > Most {
		r, err := p.stream(e)
		return Object{kinds[e.kind], e.size, r, nil}, err
	}
	kind, data, err := s.resolve(p, at, e)
	if kind == "tree" { // the next tree that is read is likely to be a difference to it
		s.bases.add(baseKey{p.at, at}, base{kind, data})
	}
	return Object{kind, int64(len(data)), io.NopCloser(bytes.NewReader(data)), data}, err
}

// longest is how many differences in a row are followed; git makes at most 4095. It also ends loops of a damaged pack.
const longest = 1 << 12

// resolve returns the kind and the content of the object at an offset, whose head is e. It goes down to a whole
// object, or to one that is known, and applies the differences on the way back.
func (s *Store) resolve(p *pack, at int64, e entry) (kind string, data []byte, err error) {
	var deltas []entry
	var ats []int64
	for {
		if e.size > Most {
			return "", nil, ErrTooLarge
		}
		if known, ok := s.bases.get(baseKey{p.at, at}); ok {
			kind, data = known.kind, known.data
			break
		}
		if e.kind != offsetDelta && e.kind != idDelta {
			if data, err = p.inflate(e); err != nil {
				return "", nil, err
			}
			kind = kinds[e.kind]
			break
		}
		if deltas, ats = append(deltas, e), append(ats, at); len(deltas) > longest {
			return "", nil, fmt.Errorf("%w: %s.pack has more than %d differences in a row at %d", ErrDamaged, p.name, longest, at)
		}
		at = e.base
		if e, err = p.entry(at); err != nil {
			return "", nil, err
		}
	}
	for i := len(deltas) - 1; i >= 0; i-- {
		s.bases.add(baseKey{p.at, at}, base{kind, data})
		delta, err := p.inflate(deltas[i])
		if err != nil {
			return "", nil, err
		}
		if size, ok := resultSize(delta); ok && size > Most {
			return "", nil, ErrTooLarge
		}
		if data, err = packfile.PatchDelta(data, delta); err != nil {
			return "", nil, p.damaged(deltas[i], err)
		}
		at = ats[i]
	}
	return kind, data, nil
}

// resultSize is the size that a difference says its result has, in bytes. It is checked before the result is made.
func resultSize(delta []byte) (uint64, bool) {
	_, n := binary.Uvarint(delta) // the size of what it applies to
	if n <= 0 {
		return 0, false
	}
	size, n := binary.Uvarint(delta[n:])
	return size, n > 0
}
