package inputkey_test

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/pipeline/source/internal/inputkey"
)

// forest keeps trees by their ids, as git does, and counts how often one is read.
type forest struct {
	trees map[string][]byte
	reads int
}

func (f *forest) read(id string) ([]byte, error) {
	f.reads++
	data, ok := f.trees[id]
	if !ok {
		return nil, fmt.Errorf("no tree %s", id)
	}
	return data, nil
}

func (f *forest) add(data []byte) (id string) {
	sum := sha1.Sum(fmt.Appendf(nil, "tree %d\x00%s", len(data), data))
	id = hex.EncodeToString(sum[:])
	f.trees[id] = data
	return id
}

// plant makes the tree of files, by path, with their contents. A content that begins with "pin " is a submodule's commit,
// one that begins with "link " a symbolic link.
func (f *forest) plant(files map[string]string) (id string) {
	type entry struct {
		mode, name string
		id         []byte
	}
	var all []entry
	below := map[string]map[string]string{}
	for name, content := range files {
		dir, rest, deeper := strings.Cut(name, "/")
		if !deeper {
			mode := "100644"
			if strings.HasPrefix(content, "pin ") {
				mode = "160000"
			} else if strings.HasPrefix(content, "link ") {
				mode = "120000"
			}
			sum := sha1.Sum([]byte(content))
			all = append(all, entry{mode, name, sum[:]})
			continue
		}
		if below[dir] == nil {
			below[dir] = map[string]string{}
		}
		below[dir][rest] = content
	}
	for dir, files := range below {
		id, _ := hex.DecodeString(f.plant(files))
		all = append(all, entry{"40000", dir, id})
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	var data []byte
	for _, e := range all {
		data = fmt.Appendf(data, "%s %s\x00%s", e.mode, e.name, e.id)
	}
	return f.add(data)
}

// inputsOf are the files that the paths choose, with their contents.
func inputsOf(files map[string]string, paths []string) string {
	var out []string
	for name, content := range files {
		for _, p := range paths {
			if name == p || strings.HasPrefix(name, p+"/") || strings.HasPrefix(content, "pin ") && strings.HasPrefix(p, name+"/") {
				out = append(out, fmt.Sprintf("%q is %q", name, content))
				break
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// Two trees have one key if, and only if, the files at the chosen paths are the same in both.
func TestEqualKeysAreEqualInputs(t *testing.T) {
	files := []string{"Makefile", "src/a.cu", "src/b.cu", "src/deep/c.cu", "src2/a.cu", "docs/a.md", "third/party"}
	rapid.Check(t, func(t *rapid.T) {
		f := &forest{trees: map[string][]byte{}}
		paths := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"Makefile", "src", "src/a.cu", "src/deep", "src/deep/c.cu", "third/party/x.h", "missing/x"}), 1, 3, rapid.ID).Draw(t, "paths")
		keys := inputkey.New(paths, f.read)
		draw := func(label string) map[string]string {
			out := map[string]string{}
			for _, name := range files {
				content := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, label+" "+name)
				if name == "third/party" && content != "" {
					content = "pin " + content
				}
				if content != "" {
					out[name] = content
				}
			}
			return out
		}
		a, b := draw("a"), draw("b")
		keyA, errA := keys.Of(f.plant(a))
		keyB, errB := keys.Of(f.plant(b))
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if same := inputsOf(a, paths) == inputsOf(b, paths); same != (keyA == keyB) {
			t.Errorf("paths %q: the keys of\n%s\nand\n%s\nare %s and %s", paths, inputsOf(a, paths), inputsOf(b, paths), keyA, keyB)
		}
		if inputsOf(a, paths) == "" && keyA != keys.Empty(40) {
			t.Error("a tree without inputs is not like the empty one")
		}
	})
}

// A path that is a link, or leads through one, chooses the whole tree: what the link leads to may be anywhere.
func TestKeysThroughLinks(t *testing.T) {
	f := &forest{trees: map[string][]byte{}}
	tree := func(content string) string {
		return f.plant(map[string]string{"include": "link src/include", "main.c": "1", "src/include/x.h": content})
	}
	a, b := tree("1"), tree("2")
	for path, differ := range map[string]bool{"include/x.h": true, "include": true, "main.c": false, "src/include/x.h": true, "include2/x.h": false} {
		keys := inputkey.New([]string{path}, f.read)
		keyA, errA := keys.Of(a)
		keyB, errB := keys.Of(b)
		if errA != nil || errB != nil || (keyA != keyB) != differ {
			t.Errorf("%s: %s and %s, %v %v", path, keyA, keyB, errA, errB)
		}
	}
}

// Without paths a tree is its own key, and is not read.
func TestKeysOfWholeTrees(t *testing.T) {
	f := &forest{trees: map[string][]byte{}}
	keys := inputkey.New(nil, f.read)
	if id := f.plant(nil); keys.Empty(40) != id {
		t.Errorf("the empty tree is %s, not %s", keys.Empty(40), id)
	}
	if key, err := keys.Of("abc"); key != "abc" || err != nil || f.reads > 0 {
		t.Errorf("%s, %v after %d reads", key, err, f.reads)
	}
}

// What neighbouring commits share is read once, and what another process has kept is not read at all.
func TestKeysAreKept(t *testing.T) {
	f := &forest{trees: map[string][]byte{}}
	dir, paths := t.TempDir(), []string{"src/deep"}
	keys := inputkey.New(paths, f.read)
	var trees, want []string
	for i := range 600 {
		trees = append(trees, f.plant(map[string]string{"src/deep/c.cu": fmt.Sprint(i / 200), "docs/a.md": fmt.Sprint(i)}))
		key, err := keys.Of(trees[i])
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, key)
	}
	if most := len(trees) + 3; f.reads > most {
		t.Errorf("%d reads, want at most %d", f.reads, most)
	}
	keys.Keep(dir)
	for _, x := range []struct {
		name  string
		paths []string
		reads int
	}{{"kept", paths, 0}, {"for other paths", []string{"docs"}, 600}} {
		f.reads = 0
		again := inputkey.New(x.paths, f.read)
		again.Load(dir)
		for i, tree := range trees {
			if key, err := again.Of(tree); err != nil || (key == want[i]) != (x.reads == 0) {
				t.Fatalf("%s: %s, %v", x.name, key, err)
			}
		}
		if f.reads != x.reads {
			t.Errorf("%s: %d reads, want %d", x.name, f.reads, x.reads)
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range files { // half of what was written
		data, err := os.ReadFile(name)
		if err != nil || os.WriteFile(name, data[:len(data)/2], 0o666) != nil {
			t.Fatal(err)
		}
	}
	f.reads = 0
	damaged := inputkey.New(paths, f.read)
	damaged.Load(dir)
	for i, tree := range trees {
		if key, err := damaged.Of(tree); err != nil || key != want[i] {
			t.Fatalf("after damage: %s, %v", key, err)
		}
	}
	if f.reads < len(trees) {
		t.Errorf("a damaged file was believed: %d reads", f.reads)
	}
}

// A tree that is cut off or missing is an error, and never a key.
func TestMalformedTrees(t *testing.T) {
	f := &forest{trees: map[string][]byte{}}
	whole := f.trees[f.plant(map[string]string{"src/a.cu": "1"})]
	for _, data := range [][]byte{whole[:len(whole)-1], whole[:8], whole[:3], []byte("9" + string(whole[1:])), []byte(" src\x00"), []byte(strings.Repeat("7", 20) + " a\x00")} {
		if key, err := inputkey.New([]string{"src"}, f.read).Of(f.add(data)); !errors.Is(err, inputkey.ErrMalformed) || key != "" {
			t.Errorf("%q has the key %q, %v", data, key, err)
		}
	}
	if _, err := inputkey.New([]string{"src"}, f.read).Of("00"); err == nil {
		t.Error("a tree that is missing has a key")
	}
}
