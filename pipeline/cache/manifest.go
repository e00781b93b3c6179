package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// A manifest is what an entry's file holds, after a line with its digest.
type manifest struct {
	Key     string            `json:"key"`
	Created time.Time         `json:"created"`
	Outputs []string          `json:"outputs"`
	Meta    map[string]string `json:"meta,omitempty"`
	Items   []item            `json:"items"`
}

// An item is one thing below the build directory.
type item struct {
	Path   string      `json:"path"` // slash-separated, local
	Type   string      `json:"type"` // file, dir, link
	Mode   fs.FileMode `json:"mode,omitempty"`
	Size   int64       `json:"size,omitempty"`
	SHA256 string      `json:"sha256,omitempty"`
	Target string      `json:"target,omitempty"` // of a link
}

const (
	typeFile = "file"
	typeDir  = "dir"
	typeLink = "link"
)

const manifestMagic = "kbisect-build/1 "

// encode returns the file for m.
func (m *manifest) encode() ([]byte, error) {
	body, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	return append([]byte(manifestMagic+hex.EncodeToString(sum[:])+"\n"), body...), nil
}

var errManifest = errors.New("damaged manifest")

// decode returns the manifest in data if it is whole, for this key, and safe to restore.
func decode(data []byte, key string) (*manifest, error) {
	head, body, ok := bytes.Cut(data, []byte("\n"))
	sum := sha256.Sum256(body)
	if !ok || string(head) != manifestMagic+hex.EncodeToString(sum[:]) {
		return nil, errManifest
	}
	var m manifest
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("%w: %v", errManifest, err)
	}
	if m.Key != key {
		return nil, fmt.Errorf("%w: it is for %q", errManifest, m.Key)
	}
	for _, out := range m.Outputs {
		if !filepath.IsLocal(out) {
			return nil, fmt.Errorf("%w: output %q", errManifest, out)
		}
	}
	for i := range m.Items {
		if err := m.Items[i].valid(); err != nil {
			return nil, err
		}
	}
	return &m, nil
}

// valid refuses items that could write outside of the build directory: a manifest
// with a correct digest may still come from another program.
func (it *item) valid() error {
	ok := filepath.IsLocal(it.Path) && it.Mode == it.Mode.Perm()
	switch it.Type {
	case typeFile:
		ok = ok && len(it.SHA256) == 64 && isDigest(it.SHA256) && it.Size >= 0
	case typeLink:
		ok = ok && staysInside(it.Path, it.Target)
	case typeDir:
	default:
		ok = false
	}
	if !ok {
		return fmt.Errorf("%w: item %q", errManifest, it.Path)
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
