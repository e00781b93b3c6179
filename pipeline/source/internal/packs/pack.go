package packs

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

const (
	idLen  = 20
	fanout = 8 + 256*4 // bytes of the head of an index
	window = 256       // ids of an index that are read at once
)

// pack is one pack with its index of version 2 (gitformat-pack).
type pack struct {
	name  string // of both files, without their endings
	at    int    // in the store
	index *os.File
	data  *os.File
	size  int64       // of data
	upTo  [256]uint32 // number of ids whose first byte is at most this
}

// open opens a pack, and reads the head of its index.
func open(name string, at int) (*pack, error) {
	p := &pack{name: name, at: at}
	err := p.openFiles()
	if err != nil {
		p.close()
	}
	return p, err
}

func (p *pack) openFiles() (err error) {
	if p.index, err = os.Open(p.name + ".idx"); err != nil {
		return err
	}
	if p.data, err = os.Open(p.name + ".pack"); err != nil {
		return err
	}
	fi, err := p.data.Stat()
	if err != nil {
		return err
	}
	p.size = fi.Size()
	var head [fanout]byte
	if _, err := p.index.ReadAt(head[:], 0); err != nil {
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
	return nil
}

func (p *pack) close() error {
	var errs []error
	for _, f := range []*os.File{p.index, p.data} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// bucket is where the ids with a first byte lie in the index.
func (p *pack) bucket(first byte) (from, to int64) {
	if first > 0 {
		from = int64(p.upTo[first-1])
	}
	return from, int64(p.upTo[first])
}

// names reads n ids of the index.
func (p *pack) names(buf []byte, from, n int64) ([]byte, error) {
	buf = buf[:n*idLen]
	_, err := p.index.ReadAt(buf, fanout+from*idLen)
	return buf, p.indexError(err)
}

// indexError tells an index that is cut off from one that cannot be read.
func (p *pack) indexError(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s.idx is cut off", ErrDamaged, p.name)
	}
	return err
}

// find returns where an object begins. Ids are spread evenly, so that the first guess at where one stands among its like is
// right as a rule, to within the ids read at once.
func (p *pack) find(id []byte) (offset int64, found bool, err error) {
	low, high := p.bucket(id[0])
	guess := low + int64(float64(high-low)*(float64(binary.BigEndian.Uint32(id[1:]))/(1<<32)))
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	for low < high {
		n := min(high-low, window)
		from := min(max(guess-n/2, low), high-n)
		names, err := p.names(buf.names[:], from, n)
		if err != nil {
			return 0, false, err
		}
		i := int64(sort.Search(int(n), func(i int) bool { return bytes.Compare(names[i*idLen:(i+1)*idLen], id) >= 0 }))
		switch {
		case i < n && bytes.Equal(names[i*idLen:(i+1)*idLen], id):
			offset, err = p.offset(from + i)
			return offset, err == nil, err
		case i == 0:
			high = from
		case i == n:
			low = from + n
		default:
			return 0, false, nil
		}
		guess = low + (high-low)/2
	}
	return 0, false, nil
}

// offset is where the object of the nth id begins.
func (p *pack) offset(n int64) (int64, error) {
	var b [8]byte
	all := int64(p.upTo[255])
	small := fanout + all*(idLen+4) // after ids and checksums
	if _, err := p.index.ReadAt(b[:4], small+4*n); err != nil {
		return 0, p.indexError(err)
	}
	at := int64(binary.BigEndian.Uint32(b[:4]))
	if at>>31 != 0 {
		if _, err := p.index.ReadAt(b[:], small+4*all+8*(at&(1<<31-1))); err != nil {
			return 0, p.indexError(err)
		}
		at = int64(binary.BigEndian.Uint64(b[:]))
	}
	if at < 12 || at >= p.size {
		return 0, fmt.Errorf("%w: %s.idx leads out of the pack", ErrDamaged, p.name)
	}
	return at, nil
}

// prefixed adds the ids that begin with a prefix in hex.
func (p *pack) prefixed(prefix string, found map[string]bool) error {
	first, err := hex.DecodeString(prefix[:2])
	if err != nil {
		return nil
	}
	var buf [window * idLen]byte
	low, high := p.bucket(first[0])
	for ; low < high; low += window {
		names, err := p.names(buf[:], low, min(high-low, window))
		if err != nil {
			return err
		}
		for ; len(names) > 0; names = names[idLen:] {
			if id := hex.EncodeToString(names[:idLen]); strings.HasPrefix(id, prefix) {
				found[id] = true
			}
		}
	}
	return nil
}

// Types of packed objects.
const (
	offsetDelta = 6
	idDelta     = 7
)

var kinds = [...]string{1: "commit", 2: "tree", 3: "blob", 4: "tag"}

// entry is the head of a packed object: of a whole one, or of the difference to another.
type entry struct {
	kind byte
	size int64 // of what is packed: the object, or the difference
	base int64 // where the other one begins
	data int64 // where the packed data begins
}

// entry reads the head of the object at an offset.
func (p *pack) entry(at int64) (e entry, err error) {
	var buf [32]byte // 10 bytes of size, 20 of a base
	n, err := p.data.ReadAt(buf[:], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return e, err
	}
	damaged := fmt.Errorf("%w: %s.pack at %d", ErrDamaged, p.name, at)
	head := buf[:n]
	next := func() byte {
		if len(head) == 0 {
			err = damaged
			return 0
		}
		b := head[0]
		head, err = head[1:], nil
		return b
	}
	err = nil
	b := next()
	e.kind, e.size = b>>4&7, int64(b&15)
	for shift := 4; b&0x80 != 0 && err == nil; shift += 7 {
		if shift > 56 {
			return e, damaged
		}
		b = next()
		e.size |= int64(b&0x7f) << shift
	}
	switch {
	case err != nil:
		return e, err
	case e.kind == offsetDelta:
		b = next()
		back := int64(b & 0x7f)
		for b&0x80 != 0 && err == nil && back < 1<<48 {
			b = next()
			back = (back+1)<<7 | int64(b&0x7f)
		}
		if e.base = at - back; err != nil || back <= 0 || e.base < 12 {
			return e, damaged
		}
	case e.kind == idDelta:
		if len(head) < idLen {
			return e, damaged
		}
		base, found, err := p.find(head[:idLen])
		if err != nil || !found {
			return e, errors.Join(damaged, err)
		}
		e.base, head = base, head[idLen:]
	case int(e.kind) >= len(kinds) || kinds[e.kind] == "":
		return e, damaged
	}
	e.data = at + int64(n-len(head))
	return e, nil
}

// inflate returns what is packed behind a head, which is as long as the head says.
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

// damaged is what a reader of packed data says.
func (p *pack) damaged(e entry, err error) error {
	return damagedIn(fmt.Sprintf("%s.pack at %d", p.name, e.data), cmp.Or(err, io.ErrUnexpectedEOF))
}

// buffer is what one reader needs.
type buffer struct {
	names   [window * idLen]byte
	packed  [4 << 10]byte
	inflate io.ReadCloser // a zlib reader; nil until the first use
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// packed reads a pack from an offset on, a buffer at a time.
type packed struct {
	file *os.File
	at   int64
	buf  *buffer
	rest []byte
}

// fill reads the next bytes.
func (r *packed) fill() error {
	n, err := r.file.ReadAt(r.buf.packed[:], r.at)
	r.rest, r.at = r.buf.packed[:n], r.at+int64(n)
	if n > 0 {
		return nil
	}
	return cmp.Or(err, io.EOF)
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

// ReadByte implements io.ByteReader, without which flate would read ahead into a buffer of its own.
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

// inflated is the content of an object as it is read.
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

// Close gives the buffer back.
func (r *inflated) Close() error {
	if r.buf != nil {
		buffers.Put(r.buf)
		r.buf = nil
	}
	return nil
}

// stream inflates what is packed behind a head.
func (p *pack) stream(e entry) (io.ReadCloser, error) {
	buf := buffers.Get().(*buffer)
	from := &packed{file: p.data, at: e.data, buf: buf}
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

// object reads the object at an offset of a pack: small ones in memory, whole larger ones as a stream.
func (s *Store) object(p *pack, at int64) (Object, error) {
	e, err := p.entry(at)
	if err != nil {
		return Object{}, err
	}
	if e.kind != offsetDelta && e.kind != idDelta && e.size > Most {
		r, err := p.stream(e)
		return Object{kinds[e.kind], e.size, r}, err
	}
	kind, data, err := s.resolve(p, at, e)
	return Object{kind, int64(len(data)), io.NopCloser(bytes.NewReader(data))}, err
}

// longest is the most differences in a row; git makes at most 4095.
const longest = 1 << 12

// resolve returns the kind and the content of the object at an offset, whose head is e. It goes down to a whole object, or
// to one that is known, and applies the differences on the way back.
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

// resultSize is the size of what a difference makes.
func resultSize(delta []byte) (uint64, bool) {
	_, n := binary.Uvarint(delta) // of what it is to be applied to
	if n <= 0 {
		return 0, false
	}
	size, n := binary.Uvarint(delta[n:])
	return size, n > 0
}
