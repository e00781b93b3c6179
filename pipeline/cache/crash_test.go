package cache

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestDamage changes or cuts every kind of file in the cache: Get must give the build as it was, or a miss.
func TestDamage(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	from := tree(t, map[string]string{"bench": "!program text", "d/x": strings.Repeat("data ", 100), "l": "->d/x"})
	must(t, os.Mkdir(filepath.Join(from, "d/e"), 0o755))
	want := list(t, from)
	dir := t.TempDir()
	c := open(t, dir)
	hits, misses := 0, 0
	for round := range 300 {
		err := c.Put(keyOf("k"), from, []string{"bench", "d", "l"}, nil)
		must(t, err)
		var paths []string
		must(t, files(dir, func(path string, _ fs.FileInfo) { paths = append(paths, path) }))
		hurt(t, rnd, paths[rnd.IntN(len(paths))])
		into := tree(t, map[string]string{"d/mine": "keep"})
		before := list(t, into)
		_, ok, err := c.Get(t.Context(), keyOf("k"), into)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		after := list(t, into)
		if ok && after != want || !ok && after != before {
			t.Fatalf("round %d: hit %v left\n%s", round, ok, after)
		}
		if ok {
			hits++
			continue
		}
		misses++
		if _, err := os.Stat(c.entryPath(keyOf("k"))); err == nil {
			t.Fatalf("round %d: the damaged entry is still there", round)
		}
	}
	if n := c.damaged.Load(); misses == 0 || n != int64(misses) {
		t.Errorf("%d hits, %d misses, %d counted as damaged", hits, misses, n)
	}
}

// hurt damages the file at path: a byte, the tail or all of it. A file that is gone was trimmed.
func hurt(t *testing.T, rnd *rand.Rand, path string) {
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.Remove(path))
	switch how := rnd.IntN(3); {
	case how == 1 && len(data) > 0:
		data[rnd.IntN(len(data))] ^= byte(1 + rnd.IntN(255))
	case how == 2 && len(data) > 0:
		data = data[:rnd.IntN(len(data))]
	case how == 0:
		data = nil
	}
	must(t, os.WriteFile(path, data, 0o644))
}

// TestConcurrent has several handles put, get and trim the same few keys.
func TestConcurrent(t *testing.T) {
	dir := t.TempDir()
	var contents []string
	var froms []string
	for i := range 4 {
		contents = append(contents, strings.Repeat(fmt.Sprint(i), 10000))
		froms = append(froms, tree(t, map[string]string{"bench": contents[i], "d/shared": "shared"}))
	}
	var wg sync.WaitGroup
	for w := range 8 {
		c := open(t, dir)
		into := t.TempDir()
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 0))
			for range 40 {
				i := rnd.IntN(len(froms))
				if err := c.Put(keyOf(fmt.Sprint(i)), froms[i], []string{"bench", "d"}, nil); err != nil {
					t.Error(err)
				}
				if rnd.IntN(10) == 0 {
					if _, err := c.Trim(15000, 0); err != nil {
						t.Error(err)
					}
				}
				_, ok, err := c.Get(t.Context(), keyOf(fmt.Sprint(i)), into)
				if err != nil {
					t.Error(err)
				}
				if data, _ := os.ReadFile(filepath.Join(into, "bench")); ok && string(data) != contents[i] {
					t.Errorf("entry %d restored %.10q", i, data)
				}
			}
			if n := c.damaged.Load(); n != 0 {
				t.Errorf("%d entries were found damaged", n)
			}
		})
	}
	wg.Wait()
}

// putForever is the process that TestKillInPut kills: it puts ever new contents under ever new keys.
func putForever(dir, from string) {
	c, err := Open(dir)
	if err != nil {
		panic(err)
	}
	fmt.Println("begins")
	for i := 0; ; i++ {
		data := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 20000)
		for _, name := range []string{"a", "b"} {
			if err := os.WriteFile(filepath.Join(from, name), append(data, name...), 0o644); err != nil {
				panic(err)
			}
		}
		if err := c.Put(keyOf(fmt.Sprint(i)), from, []string{"a", "b"}, nil); err != nil {
			panic(err)
		}
	}
}

func TestKillInPut(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	hits := 0
	for round := 0; round < 10 || hits == 0 && round < 100; round++ {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "KBISECT_TEST_PUT="+dir, "KBISECT_TEST_FROM="+t.TempDir())
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		_, err = bufio.NewReader(out).ReadString('\n') // the time runs from its first put: on a busy machine it takes long to begin
		must(t, err)
		time.Sleep(time.Duration(rand.IntN(150+50*round)) * time.Millisecond)
		must(t, cmd.Process.Kill())
		cmd.Wait()
		c := open(t, dir)
		into := t.TempDir()
		for i := range 40 {
			_, ok, err := c.Get(t.Context(), keyOf(fmt.Sprint(i)), into)
			must(t, err)
			if !ok {
				continue
			}
			hits++
			a, _ := os.ReadFile(filepath.Join(into, "a"))
			b, _ := os.ReadFile(filepath.Join(into, "b"))
			data := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 20000)
			if !bytes.Equal(a, append(bytes.Clone(data), 'a')) || !bytes.Equal(b, append(bytes.Clone(data), 'b')) {
				t.Fatalf("round %d: entry %d is not what was put", round, i)
			}
		}
		if n := c.damaged.Load(); n != 0 {
			t.Errorf("round %d: %d damaged entries after a kill", round, n)
		}
		if round%3 == 2 {
			_, err := c.Trim(0, time.Nanosecond)
			must(t, err)
			if st, err := c.Stats(); err != nil || st.Bytes != 0 {
				t.Errorf("round %d: after trimming all: %+v, %v", round, st, err)
			}
		}
	}
	if hits == 0 {
		t.Error("no put ever succeeded: nothing was tested")
	}
}
