package source

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const lfsPointerMax = 1024 // bytes; larger blobs are never pointers

// lfsPointer stands in the repository for a file kept by Git LFS.
type lfsPointer struct {
	oid  string // SHA-256 in hex
	size int64  // bytes
}

// parseLFSPointer reports whether a blob is a pointer.
func parseLFSPointer(blob []byte) (lfsPointer, bool) {
	if len(blob) >= lfsPointerMax {
		return lfsPointer{}, false
	}
	first, rest, _ := strings.Cut(string(blob), "\n")
	if first != "version https://git-lfs.github.com/spec/v1" && first != "version https://hawser.github.com/spec/v1" {
		return lfsPointer{}, false
	}
	var p lfsPointer
	for line := range strings.SplitSeq(rest, "\n") {
		if oid, ok := strings.CutPrefix(line, "oid sha256:"); ok && len(oid) == 64 && isHex(oid) {
			p.oid = oid
		}
		if size, ok := strings.CutPrefix(line, "size "); ok {
			p.size, _ = strconv.ParseInt(size, 10, 64)
		}
	}
	return p, p.oid != ""
}

// lfsFile returns where the content of a pointer lies, "" when it is absent
// or cut off.
func (l layout) lfsFile(p lfsPointer) string {
	file := filepath.Join(l.commonDir, "lfs", "objects", p.oid[:2], p.oid[2:4], p.oid)
	if fi, err := os.Stat(file); err != nil || !fi.Mode().IsRegular() || fi.Size() != p.size {
		return ""
	}
	return file
}
