package plainfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
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
	for name, size := range map[string]int64{"largest": Most, "too large": Most + 1} {
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
		{"plain", 4}, {"link", 4}, {"largest", Most}, {"too large", -1}, {".", -1}, {"missing", -1},
	} {
		data, err := Read(at(c.name), Most)
		if (err != nil) != (c.size < 0) || err == nil && len(data) != c.size {
			t.Errorf("%s: %d bytes, %v", c.name, len(data), err)
		}
		if errors.Is(err, fs.ErrNotExist) != (c.name == "missing") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := unix.Mkfifo(at("pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{at("pipe"), "/dev/zero", os.DevNull} {
		if _, err := Read(name, Most); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}
