package store

import (
	"bufio"
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// writeForever is the process that TestKill kills. It goes on with the session where it
// stands and says on standard output which launches it was told are durable.
func writeForever(dir string) {
	s, err := Open(dir, ReadWrite)
	if err != nil {
		panic(err)
	}
	if err := s.CreateSession(Session{ID: "one", Created: day, Status: Running}); err != nil {
		if _, err := s.Session("one"); err != nil {
			panic(err)
		}
	}
	n, err := verify(s, "one")
	if err != nil {
		panic(err)
	}
	for ; ; n++ {
		if err := s.AddLaunch(launch("one", n)); err != nil {
			panic(err)
		}
		fmt.Println("ack", n)
	}
}

// lockForever is the process that holds the lock in TestLock.
func lockForever(dir string) {
	s, err := Open(dir, ReadWrite)
	if err != nil {
		panic(err)
	}
	if _, err := s.Lock("20261121-074512-3f9a"); err != nil {
		panic(err)
	}
	fmt.Println("locked")
	time.Sleep(time.Minute)
	os.Exit(1)
}

// pose starts the test binary in a role.
func pose(t *testing.T, role, dir string) (*exec.Cmd, *bytes.Buffer, *bufio.Reader) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), role+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	return cmd, &stderr, bufio.NewReader(out)
}

// TestKill kills a writer at random instants: every launch that it was told is recorded must be there, in a sound file.
func TestKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kbisect")
	total := 0
	for round := range 20 {
		cmd, stderr, out := pose(t, "KBISECT_TEST_WRITE", dir)
		kill := sync.OnceFunc(func() {
			time.AfterFunc(time.Duration(20+rand.IntN(250))*time.Millisecond, func() { cmd.Process.Kill() })
		})
		if round%2 == 0 { // it may not have come to record anything; else it has
			kill()
		}
		acked := total
		for {
			line, err := out.ReadString('\n')
			if err != nil {
				break
			}
			var n int
			if _, err := fmt.Sscanf(line, "ack %d\n", &n); err == nil {
				acked = n + 1
				kill()
			}
		}
		cmd.Wait()
		if stderr.Len() > 0 {
			t.Fatalf("round %d: the writer failed: %s", round, stderr)
		}
		s, err := Open(dir, ReadWrite) // runs the integrity check
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		total, err = verify(s, "one")
		if errors.Is(err, errNone) && acked == 0 {
			err = nil // killed before it made the session
		}
		if err != nil || total < acked || total > acked+1 {
			t.Fatalf("round %d: %d launches recorded, %d in the store, %v", round, acked, total, err)
		}
		must(t, s.Close())
	}
	if total == 0 {
		t.Error("no launch was ever recorded: nothing was tested")
	}
	t.Logf("%d launches over 20 kills", total)
}

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kbisect")
	s := open(t, dir, ReadWrite)
	cmd, stderr, out := pose(t, "KBISECT_TEST_LOCK", dir)
	defer cmd.Process.Kill()
	if line, err := out.ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("the holder said %q, %v, %s", line, err, stderr)
	}
	_, err := s.Lock("mine")
	var busy *BusyError
	if !errors.As(err, &busy) || busy.PID != cmd.Process.Pid || busy.Session != "20261121-074512-3f9a" || !strings.Contains(err.Error(), "hint: ") {
		t.Errorf("Lock = %v, want busy with process %d", err, cmd.Process.Pid)
	}
	must(t, s.RecordGood(Good{Commit: "short", When: day, Detail: "writes need no lock"}))
	must(t, cmd.Process.Kill())
	cmd.Wait()
	l, err := s.Lock("mine")
	must(t, err)
	other := open(t, dir, ReadWrite)
	if _, err := other.Lock("other"); !errors.As(err, &busy) || busy.PID != os.Getpid() || busy.Session != "mine" {
		t.Errorf("second Lock in one process: %v", err)
	}
	copied, err := syscall.Dup(int(l.f.Fd())) // as a process has it that is being started
	must(t, err)
	defer syscall.Close(copied)
	must(t, l.Unlock())
	l, err = other.Lock("other")
	must(t, err)
	must(t, l.Unlock())
}

// A lock whose process was killed while it started a child is free as soon as the child's program begins.
func TestLockOfAChildThatIsBeingStarted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kbisect")
	s := open(t, dir, ReadWrite)
	gone := exec.Command("true")
	must(t, gone.Run())
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o666)
	must(t, err)
	must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	_, err = fmt.Fprintf(f, "pid %d\nsession killed\n", gone.Process.Pid)
	must(t, err)
	child := exec.Command("sh", "-c", "read line") // it has the lock until it is told to end
	child.ExtraFiles = []*os.File{f}
	in, err := child.StdinPipe()
	must(t, err)
	must(t, child.Start())
	defer child.Wait()
	must(t, f.Close())
	var busy *BusyError
	time.AfterFunc(200*time.Millisecond, func() { in.Close() })
	l, err := s.Lock("mine")
	if errors.As(err, &busy) {
		t.Fatalf("the lock of process %d, which has ended: %v", gone.Process.Pid, err)
	}
	must(t, err)
	must(t, l.Unlock())
}

// TestDamage changes or cuts the file at random places: either all is there, or there is
// an error that names the file, and the file stays as it is.
func TestDamage(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	whole := t.TempDir()
	fill(t, whole, 40)
	data, err := os.ReadFile(filepath.Join(whole, fileName))
	must(t, err)
	intact := 0
	for round := range 150 {
		hurt := bytes.Clone(data)
		what := ""
		switch rnd.IntN(5) {
		case 0:
			n := rnd.IntN(len(hurt))
			hurt, what = hurt[:n], fmt.Sprintf("cut to %d", n)
		case 1:
			at := rnd.IntN(len(hurt))
			n := min(len(hurt)-at, 1+rnd.IntN(4096))
			clear(hurt[at : at+n])
			what = fmt.Sprintf("%d zeros at %d", n, at)
		case 2: // the header and the page headers matter most
			at := rnd.IntN(len(hurt)/4096)*4096 + rnd.IntN(110)
			hurt[at] ^= byte(1 + rnd.IntN(255))
			what = fmt.Sprintf("byte near the start of a page at %d", at)
		default:
			at := rnd.IntN(len(hurt))
			hurt[at] ^= byte(1 + rnd.IntN(255))
			what = fmt.Sprintf("byte at %d", at)
		}
		dir := t.TempDir()
		path := filepath.Join(dir, fileName)
		must(t, os.WriteFile(path, hurt, 0o644))
		err := readAll(dir, 40)
		if err == nil {
			intact++
			continue
		}
		if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("round %d, %s: %v", round, what, err)
		}
		if now, _ := os.ReadFile(path); !bytes.Equal(now, hurt) {
			t.Errorf("round %d, %s: the damaged file was written to", round, what)
		}
	}
	t.Logf("%d of 150 still whole", intact)
}

// readAll opens the store for writing and compares all that fill put into it.
func readAll(dir string, launches int) (err error) {
	s, err := Open(dir, ReadWrite)
	if err != nil {
		return err
	}
	defer s.Close()
	n, err := verify(s, "one")
	if err != nil {
		return err
	}
	steps, err := s.Steps("one")
	if err != nil {
		return err
	}
	goods, err := s.Goods()
	if err != nil {
		return err
	}
	x, err := s.Session("one")
	if err != nil {
		return err
	}
	if n != launches || len(steps) != launches || len(goods) != 1 || goods[0].Detail != "fine" || string(x.Config) != `{"effect":"3%"}` {
		return errors.New("silent loss")
	}
	return nil
}

// TestDamagedLog damages the write-ahead log of a writer that is killed between two launches, when at most the last
// record may go, and of one killed while it copies the log into the database, page by page: what is half there is
// then an error that names the file.
func TestDamagedLog(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	dir := filepath.Join(t.TempDir(), "kbisect")
	fill(t, dir, 19)
	before, err := os.ReadFile(filepath.Join(dir, fileName))
	must(t, err)
	writer := open(t, dir, ReadWrite)
	must(t, writer.AddLaunch(launch("one", 19)))
	after, err := os.ReadFile(filepath.Join(dir, fileName))
	must(t, err)
	wal, err := os.ReadFile(filepath.Join(dir, fileName+"-wal"))
	must(t, err)
	const page = 4096
	var changed []int // offsets of pages
	for at := 0; at < len(after); at += page {
		if at >= len(before) || !bytes.Equal(before[at:at+page], after[at:at+page]) {
			changed = append(changed, at)
		}
	}
	if len(changed) < 2 {
		t.Fatalf("the launch changed the pages at %v: nothing can be half copied", changed)
	}
	lost, half := 0, 0
	for round := range 60 {
		db, copied := after, len(changed)
		if round%2 == 0 {
			db = append(bytes.Clone(before), make([]byte, len(after)-len(before))...)
			copied = 0
			for _, at := range changed {
				if rnd.IntN(2) == 0 {
					copied += copy(db[at:at+page], after[at:at+page]) / page
				}
			}
		}
		hurt := bytes.Clone(wal)
		if round%4 < 2 {
			hurt = hurt[:rnd.IntN(len(hurt))]
		} else {
			hurt[rnd.IntN(len(hurt))] ^= byte(1 + rnd.IntN(255))
		}
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, fileName), db, 0o644))
		must(t, os.WriteFile(filepath.Join(dir, fileName+"-wal"), hurt, 0o644))
		n := 0
		s, err := Open(dir, ReadWrite)
		if err == nil {
			n, err = verify(s, "one")
			must(t, s.Close())
		}
		var damaged *damagedError
		switch {
		case err == nil && n == 20:
		case err == nil && n == 19:
			lost++
		case copied > 0 && copied < len(changed) && errors.As(err, &damaged) && damaged.Path == filepath.Join(dir, fileName):
			half++
		default:
			t.Errorf("round %d, %d of %d pages copied: %d launches, %v", round, copied, len(changed), n, err)
		}
	}
	t.Logf("in 60 rounds %d without the last launch, %d refused", lost, half)
}

func TestOtherFiles(t *testing.T) {
	var damaged *damagedError
	for name, content := range map[string]string{"empty": "", "short": "SQLite format 3\x00", "text": strings.Repeat("hello ", 100)} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, fileName), []byte(content), 0o644))
		if _, err := Open(dir, ReadWrite); !errors.As(err, &damaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, fileName), 0o755))
	if _, err := Open(dir, ReadWrite); !errors.As(err, &damaged) {
		t.Errorf("a directory: %v", err)
	}
	dir = t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, fileName+"-wal"), []byte("log"), 0o644))
	if _, err := Open(dir, ReadWrite); !errors.As(err, &damaged) {
		t.Errorf("a log without its database: %v", err)
	}
	for pragma, want := range map[string]any{"user_version = 3": new(*versionError), "user_version = 0": &damaged, "application_id = 7": &damaged} {
		dir := t.TempDir()
		fill(t, dir, 1)
		db, err := sql.Open("sqlite", filepath.Join(dir, fileName))
		must(t, err)
		_, err = db.Exec("PRAGMA " + pragma)
		must(t, errors.Join(err, db.Close()))
		for _, mode := range []Mode{ReadOnly, ReadWrite} {
			if _, err := Open(dir, mode); err == nil || !errors.As(err, want) || !strings.Contains(err.Error(), "hint: ") {
				t.Errorf("%s: %v", pragma, err)
			}
		}
	}
}

// mount mounts a small file system of its own at a new directory, or skips the test.
func mount(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("SKIPPED: cannot mount a file system (%v); what this test is about was not tested", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func TestFullDisk(t *testing.T) {
	dir := mount(t, "700k")
	s := open(t, filepath.Join(dir, "kbisect"), ReadWrite)
	must(t, s.CreateSession(Session{ID: "one", Created: day, Status: Running}))
	n, err := addUntilError(s, 0)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "hint: ") {
		t.Fatalf("after %d launches: %v", n, err)
	}
	if got, err := verify(s, "one"); got != n || err != nil {
		t.Errorf("recorded %d, stored %d, %v", n, got, err)
	}
	if other, err := Open(filepath.Join(dir, "kbisect"), ReadOnly); err != nil {
		t.Errorf("reading on a full disk: %v", err)
	} else {
		other.Close()
	}
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=2m"))
	if err := s.AddLaunch(launch("one", n)); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if got, err := verify(s, "one"); got != n+1 || err != nil {
		t.Errorf("with room again: stored %d, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "fat"), make([]byte, 3<<20), 0o644); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "new"), ReadWrite); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a new store on a full disk: %v", err)
	}
}

func addUntilError(s *Store, n int) (int, error) {
	for ; n < 10000; n++ {
		if err := s.AddLaunch(launch("one", n)); err != nil {
			return n, err
		}
	}
	return n, nil
}

func TestReadOnlyFileSystem(t *testing.T) {
	dir := mount(t, "2m")
	fill(t, filepath.Join(dir, "kbisect"), 5)
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	s := open(t, filepath.Join(dir, "kbisect"), ReadOnly)
	if n, err := verify(s, "one"); n != 5 || err != nil {
		t.Errorf("%d launches, %v", n, err)
	}
	for _, sub := range []string{"kbisect", "new"} {
		if _, err := Open(filepath.Join(dir, sub), ReadWrite); !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("Open %s for writing: %v", sub, err)
		}
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("SKIPPED: permissions do not bind root; the read-only directory was not tested")
	}
	dir := t.TempDir()
	fill(t, dir, 5)
	must(t, os.Chmod(dir, 0o555))
	defer os.Chmod(dir, 0o755)
	s := open(t, dir, ReadOnly)
	if n, err := verify(s, "one"); n != 5 || err != nil {
		t.Errorf("%d launches, %v", n, err)
	}
	killed := filepath.Join(t.TempDir(), "kbisect")
	cmd, _, out := pose(t, "KBISECT_TEST_WRITE", killed)
	for range 5 {
		_, err := out.ReadString('\n')
		must(t, err)
	}
	must(t, cmd.Process.Kill())
	cmd.Wait()
	left, err := filepath.Glob(filepath.Join(killed, "*"))
	must(t, err)
	for _, name := range append(left, killed) { // as another user sees them
		must(t, os.Chmod(name, 0o555))
	}
	defer os.Chmod(killed, 0o755)
	if n, err := verify(open(t, killed, ReadOnly), "one"); n < 5 || err != nil {
		t.Errorf("after a kill: %d launches, %v", n, err)
	}
	for _, d := range []string{dir, filepath.Join(dir, "new")} {
		if _, err := Open(d, ReadWrite); !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("Open %s for writing: %v", d, err)
		}
	}
}

// A file that goes while it is opened: nothing is wrong when one looks again.
func TestGoneInBetween(t *testing.T) {
	dir := t.TempDir()
	f := file{dir: dir, path: filepath.Join(dir, fileName)}
	if err := f.diskError("open the store", errors.New("unable to open database file"), 14); !strings.Contains(err.Error(), "hint: ") || !strings.Contains(err.Error(), f.path) {
		t.Error(err)
	}
}
