package plainfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("plain"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("plain", at("link")); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int64{"largest": MaxSize, "too large": MaxSize + 1} {
		f, err := os.Create(at(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Truncate(size), f.Close()); err != nil { // sparse: takes no space
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		size int // of what is read; negative for an error
	}{
		{"plain", 4}, {"link", 4}, {"largest", MaxSize}, {"too large", -1}, {".", -1}, {"missing", -1},
	} {
		data, err := Read(at(c.name))
		if (err != nil) != (c.size < 0) || err == nil && len(data) != c.size {
			t.Errorf("%s: %d bytes, %v", c.name, len(data), err)
		}
		if errors.Is(err, fs.ErrNotExist) != (c.name == "missing") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if data, err := Read(os.DevNull); err == nil {
		t.Errorf("a device was read: %q", data)
	}
}
