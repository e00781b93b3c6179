package gitdir

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"os"
	"slices"
)

// Entry is one path of an index, as its file looks on disk.
type Entry struct {
	Path    string
	Mode    uint32 // 100644, 100755, 120000 or 160000, octal
	ID      string // of the blob or, in a submodule, of the commit
	Size    int64
	Mtime   int64 // ns since 1970; 0: not known, as of a submodule
	Changed int64 // the change time of the inode, ns
	Inode   uint64
}

// Index encodes an index of version 2 (gitformat-index). git takes files that still look as the entries say for
// unchanged, without reading them. It sorts the entries.
func Index(entries []Entry) []byte {
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	var b bytes.Buffer
	var sum hash.Hash = sha1.New()
	if len(entries) > 0 && len(entries[0].ID) == 2*sha256.Size {
		sum = sha256.New()
	}
	b.Grow(64 + 120*len(entries))
	u32 := func(v uint32) { b.Write(binary.BigEndian.AppendUint32(b.AvailableBuffer(), v)) }
	b.WriteString("DIRC")
	u32(2)
	u32(uint32(len(entries)))
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	for _, e := range entries {
		start := b.Len()
		for _, at := range []int64{e.Changed, e.Mtime} {
			u32(uint32(at / 1e9))
			u32(uint32(at % 1e9))
		}
		u32(0) // the device, which git does not compare
		u32(uint32(e.Inode))
		u32(e.Mode)
		u32(uid)
		u32(gid)
		u32(uint32(e.Size))
		id, _ := hex.DecodeString(e.ID) // it was read from a tree
		b.Write(id)
		b.Write(binary.BigEndian.AppendUint16(b.AvailableBuffer(), uint16(min(len(e.Path), 0xfff))))
		b.WriteString(e.Path)
		b.Write(make([]byte, 8-(b.Len()-start)%8))
	}
	sum.Write(b.Bytes())
	return sum.Sum(b.Bytes())
}
