package packs

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
)

// history makes commits over files that change a little, some of them often.
func history(t testing.TB) *gittest.Repo {
	t.Helper()
	r := gittest.New(t)
	rng := rand.New(rand.NewPCG(1, 2))
	var s strings.Builder
	texts := map[string][]string{}
	for i := range 60 {
		fmt.Fprintf(&s, "commit refs/heads/main\ncommitter C <c@example.com> %d +0000\ndata 1\nx\n", 1600000000+i)
		for range 8 {
			name := fmt.Sprintf("d%d/f%d", rng.IntN(5), rng.IntN(20))
			if texts[name] == nil {
				for range 50 {
					texts[name] = append(texts[name], fmt.Sprintf("line %d\n", rng.IntN(1e6)))
				}
			}
			texts[name][rng.IntN(50)] = fmt.Sprintf("changed in %d\n", i)
			all := strings.Join(texts[name], "")
			fmt.Fprintf(&s, "M 100644 inline %s\ndata %d\n%s\n", name, len(all), all)
		}
	}
	r.Pipe(t, s.String(), "fast-import", "--quiet")
	r.Git(t, "tag", "-a", "-m", "tagged", "v1", "main")
	return r
}

// objectsOf are all objects of a repository as git says: id to kind and size.
func objectsOf(t testing.TB, r *gittest.Repo) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(r.Git(t, "cat-file", "--batch-all-objects", "--unordered", "--batch-check")) {
		id, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[id] = what
	}
	return all
}

func store(t testing.TB, dirs ...string) *Store {
	t.Helper()
	s, err := New(dirs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// read returns an object's kind and size if its content is what its id says.
func read(s *Store, id string) (string, error) {
	o, err := s.Open(id)
	if err != nil {
		return "", err
	}
	defer o.Content.Close()
	sum := sha1.New()
	fmt.Fprintf(sum, "%s %d\x00", o.Kind, o.Size)
	if _, err := io.Copy(sum, o.Content); err != nil {
		return "", err
	}
	if hex.EncodeToString(sum.Sum(nil)) != id {
		return "", fmt.Errorf("%s: other content", id)
	}
	return fmt.Sprint(o.Kind, " ", o.Size), nil
}

// Every object of every kind of pack, loose or in an alternate, is what git says, whoever else reads at the same time.
func TestObjectsEqualGit(t *testing.T) {
	for name, prepare := range map[string]func(r *gittest.Repo) []string{
		"as imported":   func(*gittest.Repo) []string { return nil },
		"deep":          func(r *gittest.Repo) []string { return []string{"repack", "-adfq", "--depth=60", "--window=60"} },
		"several packs": func(r *gittest.Repo) []string { return []string{"repack", "-adfq", "--max-pack-size=1m"} },
		"bases by id": func(r *gittest.Repo) []string {
			return []string{"-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq"}
		},
		"large offsets": func(r *gittest.Repo) []string {
			r.Git(t, "repack", "-adfq")
			packs, _ := filepath.Glob(filepath.Join(r.Dir, ".git/objects/pack/*.pack"))
			index := strings.TrimSuffix(packs[0], "pack") + "idx"
			os.Remove(index)
			return []string{"index-pack", "--index-version=2,0x40", "-o", index, packs[0]}
		},
		"loose": func(r *gittest.Repo) []string {
			r.Git(t, "repack", "-adq")
			packs, _ := filepath.Glob(filepath.Join(r.Dir, ".git/objects/pack/*.pack"))
			text, err := os.ReadFile(packs[0])
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range packs {
				os.Remove(file)
				os.Remove(strings.TrimSuffix(file, ".pack") + ".idx")
			}
			r.Pipe(t, string(text), "unpack-objects", "-q")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := history(t)
			if args := prepare(r); args != nil {
				r.Git(t, args...)
			}
			want := objectsOf(t, r)
			empty := t.TempDir()
			s := store(t, empty, filepath.Join(r.Dir, ".git/objects"))
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for id, what := range want { // in no order
						if got, err := read(s, id); got != what || err != nil {
							t.Errorf("%s: got %q, %v, want %q", id, got, err, what)
						}
					}
				})
			}
			wg.Wait()
			for _, none := range []string{strings.Repeat("0", 40), strings.Repeat("f", 40), "8" + strings.Repeat("1", 39), "", "12", strings.Repeat("ab", 32)} {
				if _, err := s.Open(none); !errors.Is(err, ErrNotFound) {
					t.Errorf("%q: %v", none, err)
				}
			}
		})
	}
}

// What is too large for memory is streamed, or left to another reader.
func TestLargeObjects(t *testing.T) {
	r := gittest.New(t)
	text := bytes.Repeat([]byte("all alike "), Most/10+1)
	for i := range 2 {
		text[i]++
		if err := os.WriteFile(filepath.Join(r.Dir, "large"), text, 0o666); err != nil {
			t.Fatal(err)
		}
		r.Commit(t, fmt.Sprint(i))
	}
	for i, args := range [][]string{{"repack", "-adfq", "--depth=0"}, {"repack", "-adfq"}} {
		r.Git(t, args...)
		s := store(t, filepath.Join(r.Dir, ".git/objects"))
		var tooLarge int
		for id, what := range objectsOf(t, r) {
			got, err := read(s, id)
			if errors.Is(err, ErrTooLarge) {
				tooLarge++
			} else if err != nil || got != what {
				t.Errorf("%s: %q, %v", id, got, err)
			}
		}
		if tooLarge != i {
			t.Errorf("%v: %d objects left to others", args, tooLarge)
		}
	}
}

// Packs that come are found, and those that a gc removes stay readable.
func TestPacksComeAndGo(t *testing.T) {
	r := history(t)
	s := store(t, filepath.Join(r.Dir, ".git/objects"))
	before := objectsOf(t, r)
	r.Write(t, "new", "1")
	r.Commit(t, "new")
	r.Git(t, "repack", "-adfq")
	for id, what := range objectsOf(t, r) {
		if got, err := read(s, id); got != what || err != nil {
			t.Fatalf("%s: got %q, %v, want %q", id, got, err, what)
		}
	}
	packs, _ := filepath.Glob(filepath.Join(r.Dir, ".git/objects/pack/*"))
	for _, file := range packs {
		os.Remove(file)
	}
	for id := range before {
		if _, err := read(s, id); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever a pack and its index hold, what is read of it is an error or an object no larger than it may be, and ends.
func FuzzPack(f *testing.F) {
	r := history(f)
	r.Git(f, "-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq", "--depth=60")
	packs, _ := filepath.Glob(filepath.Join(r.Dir, ".git/objects/pack/*.pack"))
	pack, err := os.ReadFile(packs[0])
	if err != nil {
		f.Fatal(err)
	}
	index, err := os.ReadFile(strings.TrimSuffix(packs[0], "pack") + "idx")
	if err != nil {
		f.Fatal(err)
	}
	ids := objectsOf(f, r)
	f.Add(uint32(0), uint32(0), []byte(nil), false)
	f.Add(uint32(12), uint32(900), []byte{0xff, 0xff}, true)
	f.Add(uint32(1200), uint32(12000), []byte{0x7f, 1, 2, 3, 4, 5, 6}, false)
	f.Fuzz(func(t *testing.T, atPack, atIndex uint32, patch []byte, cut bool) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "pack"), 0o777); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			text []byte
			at   int
		}{"pack": {pack, int(atPack) % len(pack)}, "idx": {index, int(atIndex) % len(index)}} {
			text := slices.Clone(c.text)
			copy(text[c.at:], patch)
			if cut && len(patch) > 0 && patch[0]&1 == 0 {
				text = text[:c.at]
			}
			if err := os.WriteFile(filepath.Join(dir, "pack", "p."+name), text, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		s, err := New([]string{dir})
		if err != nil {
			return
		}
		defer s.Close()
		n := 0
		for id := range ids {
			if n++; n > 40 {
				break
			}
			o, err := s.Open(id)
			if err != nil {
				continue
			}
			if got, _ := io.Copy(io.Discard, o.Content); got > o.Size {
				t.Errorf("%s has %d bytes, not %d", id, got, o.Size)
			}
			o.Content.Close()
		}
	})
}
