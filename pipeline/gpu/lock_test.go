//go:build unix

package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const testUUID = "GPU-0a1b2c3d-0000-1111-2222-333344445555"

// TestMain lets the test binary pose as another kbisect that holds a device.
func TestMain(m *testing.M) {
	dir := os.Getenv("GPU_TEST_HOLD")
	if dir == "" {
		os.Exit(m.Run())
	}
	if _, err := tryLockIn(dir, testUUID); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	time.Sleep(time.Minute)
}

func TestLockExcludes(t *testing.T) {
	dir := t.TempDir()
	var holders, worst atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				release, err := lockIn(t.Context(), dir, testUUID)
				if err != nil {
					t.Error(err)
					return
				}
				worst.Store(max(worst.Load(), holders.Add(1)))
				time.Sleep(time.Millisecond)
				holders.Add(-1)
				release()
				release() // again does nothing
			}
		})
	}
	wg.Wait()
	if worst.Load() != 1 {
		t.Errorf("%d held it at once", worst.Load())
	}
}

// TestLockOfAnotherProcess waits for one that is killed.
func TestLockOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GPU_TEST_HOLD="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	_, err = tryLockIn(dir, testUUID)
	if !errors.Is(err, errLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", cmd.Process.Pid)) {
		t.Fatalf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := lockIn(ctx, dir, testUUID); !errors.Is(err, errLocked) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = cmd.Process.Kill() })
	release, err := lockIn(t.Context(), dir, testUUID)
	if err != nil {
		t.Fatal(err)
	}
	release()
}

func TestLockFile(t *testing.T) {
	dir := t.TempDir()
	old := syscall.Umask(0o077)
	release, err := tryLockIn(dir, testUUID)
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "kbisect-"+testUUID+".lock")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// Somebody cleans the directory: the holder of the old file no longer counts.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	again, err := tryLockIn(dir, testUUID)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := tryLockIn(dir, testUUID); !errors.Is(err, errLocked) {
		t.Errorf("got %v", err)
	}
	again()
}

// TestLockRefuses plants what an attacker would in a directory that all may write.
func TestLockRefuses(t *testing.T) {
	plant := map[string]func(path string) error{
		"symlink": func(p string) error { return os.Symlink(filepath.Join(filepath.Dir(p), "victim"), p) },
		"pipe":    func(p string) error { return syscall.Mkfifo(p, 0o666) },
		"folder":  func(p string) error { return os.Mkdir(p, 0o777) },
	}
	for name, make := range plant {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "victim"), []byte("keep"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := make(filepath.Join(dir, "kbisect-"+testUUID+".lock")); err != nil {
			t.Fatal(err)
		}
		if _, err := tryLockIn(dir, testUUID); err == nil || errors.Is(err, errLocked) || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%s: %v", name, err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, "victim")); err != nil || string(data) != "keep" {
			t.Errorf("%s: the victim now holds %q", name, data)
		}
	}
	for _, uuid := range []string{"", "..", "../x", "a/b", "a b", "---", strings.Repeat("a", 200)} {
		if _, err := TryLock(uuid); err == nil {
			t.Errorf("locked %q", uuid)
		}
	}
}
