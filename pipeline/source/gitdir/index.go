package gitdir

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"os"
	"slices"
	"strings"
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
	if !slices.IsSortedFunc(entries, byPath) {
		slices.SortFunc(entries, byPath)
	}
	var sum hash.Hash = sha1.New()
	if len(entries) > 0 && len(entries[0].ID) == 2*sha256.Size {
		sum = sha256.New()
	}
	most := 12 + sum.Size()
	for _, e := range entries {
		most += 40 + sum.Size() + 2 + len(e.Path) + 8
	}
	b := append(make([]byte, 0, most), "DIRC"...) // once for all: it is megabytes
	u32 := binary.BigEndian.AppendUint32
	b = u32(u32(b, 2), uint32(len(entries)))
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	for _, e := range entries {
		start := len(b)
		b = u32(u32(b, uint32(e.Changed/1e9)), uint32(e.Changed%1e9))
		b = u32(u32(b, uint32(e.Mtime/1e9)), uint32(e.Mtime%1e9))
		b = u32(b, 0) // the device, which git does not compare
		b = u32(u32(b, uint32(e.Inode)), e.Mode)
		b = u32(u32(b, uid), gid)
		b = u32(b, uint32(e.Size))
		b, _ = hex.AppendDecode(b, []byte(e.ID)) // it was read from a tree
		b = binary.BigEndian.AppendUint16(b, uint16(min(len(e.Path), 0xfff)))
		b = append(b, e.Path...)
		b = append(b, make([]byte, 8-(len(b)-start)%8)...)
	}
	sum.Write(b)
	return sum.Sum(b)
}

func byPath(a, b Entry) int { return strings.Compare(a.Path, b.Path) }
