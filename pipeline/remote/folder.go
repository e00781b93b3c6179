package remote

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/folder"
	"github.com/kbisect/kbisect/pipeline/remote/executor"
	"github.com/kbisect/kbisect/pipeline/source"
)

// shared is the folder that both sides see. Programs, repositories and builds are named by their content or their path
// and made once, so that sessions side by side share them:
//
//	bin/DIGEST/kbisect     this program, or kbisect.gz
//	repos/DIGEST.git       mirrors of repositories that lie elsewhere; DIGEST is of the repository's path
//	builds/                the build cache of all jobs
//	sessions/ID/base.json  what the session's times are relative to, see Base
//	sessions/ID/made/      commits that exist in memory only
//	sessions/ID/jobs/NAME  a job: spec.json, result.json, output, the scheduler's id; inputs.tar if streamed
type shared struct{ dir string }

// openShared makes the folder for this user. Nobody else may write to it, because the programs in it are run.
func openShared(dir string) (shared, error) {
	abs, err := filepath.Abs(filepath.Join(dir, "kbisect-"+fmt.Sprint(os.Getuid())))
	if err != nil {
		return shared{}, err
	}
	return shared{abs}, private(abs)
}

// private makes a folder that only this user may enter, or checks that an existing one is; missing parents are made
// with ordinary rights.
func private(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return err
	}
	return folder.MakePrivate(dir)
}

// program copies this program into the folder, unless it is there, and returns its path and digest. Where nothing
// is shared it is compressed, since each job carries a copy. Each version has a digest of its own, whose first 16
// digits are in the name of its folder.
func (s shared) program(compressed bool) (path, digest string, err error) {
	if digest, err = self(); err != nil {
		return "", "", err
	}
	name := "kbisect"
	if compressed {
		name += ".gz"
	}
	path = filepath.Join(s.dir, "bin", digest[:16], name)
	if _, err := os.Stat(path); err == nil {
		return path, digest, nil
	}
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", "", err
	}
	defer in.Close()
	if !compressed {
		return path, digest, write(path, 0o700, in)
	}
	r, w := io.Pipe()
	defer r.Close()
	go func() {
		z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if err == nil {
			_, err = io.Copy(z, in)
			err = errors.Join(err, z.Close())
		}
		w.CloseWithError(err)
	}()
	return path, digest, write(path, 0o600, r)
}

// self is a digest that is the same for the same program: of the build ID that the linker derived from the
// program's content, or of the whole file if it has none. Reading the whole program, twice for each job, took
// longer than everything else that an empty job does.
func self() (string, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer f.Close()
	var content io.Reader = f
	if x, err := elf.NewFile(f); err == nil {
		if id := x.Section(".note.go.buildid"); id != nil && id.Size > 0 {
			content = id.Open()
		}
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, content); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// repository is the path by which jobs find the repository: its own if all of it lies below the shared folder, else
// that of a mirror that has the commits.
func (s shared) repository(ctx context.Context, r *source.Repo, commits []string) (string, error) {
	at := r.WorkDir()
	if at == "" {
		at = r.CommonDir()
	}
	if below(filepath.Dir(s.dir), r.CommonDir()) && below(filepath.Dir(s.dir), at) {
		return at, nil
	}
	sum := sha256.Sum256([]byte(r.CommonDir()))
	dir := filepath.Join(s.dir, "repos", hex.EncodeToString(sum[:8])+".git")
	if err := source.Mirror(ctx, r, dir, commits...); err != nil {
		return "", fmt.Errorf("copying the repository to %s: %w", dir, err)
	}
	return dir, nil
}

// below reports whether path is dir or lies in it.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// writeJSON writes a value as JSON; see write.
func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return write(path, 0o600, strings.NewReader(string(data)))
}

// write writes a file whole or not at all, by a rename within its folder: another machine may read it at any time.
// Missing folders are made for this user alone.
func write(path string, mode fs.FileMode, from io.Reader) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	defer f.Cleanup()
	if _, err := io.Copy(f, from); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

// readJSON reads a file that writeJSON wrote; ok is false if there is none. The folder is listed first because NFS
// clients may remember for minutes that a file did not exist, and a listing makes them look again. A stale handle
// (ESTALE) means that the file was replaced meanwhile: it counts as missing, and the caller looks again.
func readJSON(path string, v any) (ok bool, err error) {
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, n := range names {
		if n.Name() != filepath.Base(path) {
			continue
		}
		data, err := read(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESTALE) {
			return false, nil
		}
		if err == nil {
			if err = json.Unmarshal(data, v); err != nil {
				err = fmt.Errorf("read %s: %w", path, err)
			}
		}
		return err == nil, err
	}
	return false, nil
}

// errStrange says that something lies where a job writes a file, but kbisect did not make it. Waiting does not help
// then.
var errStrange = errors.New("not a file that kbisect wrote")

// plain opens a file for reading that a job may have written, which means that the candidate may have written it.
// Only a regular file will do: opening a pipe would wait for a writer (hence O_NONBLOCK), and a device has no end.
// size is in bytes.
func plain(path string) (f *os.File, size int64, err error) {
	if f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("read %s: %w: it is not a regular file (%v)", path, errStrange, fi.Mode().Type())
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, fi.Size(), nil
}

// read reads such a file whole, up to executor.MostLog bytes; a larger one is errStrange, and nothing of it is read.
func read(path string) ([]byte, error) {
	f, size, err := plain(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var data bytes.Buffer
	if size <= executor.MostLog {
		data.Grow(int(size) + bytes.MinRead)                          // at once: growing step by step takes five times as much
		_, err = data.ReadFrom(io.LimitReader(f, executor.MostLog+1)) // it may have grown since
	}
	if max(size, int64(data.Len())) > executor.MostLog {
		return nil, fmt.Errorf("read %s: %w: it is larger than %d MiB", path, errStrange, executor.MostLog>>20)
	}
	return data.Bytes(), err
}

// end reads at most the last most bytes of such a file.
func end(path string, most int64) ([]byte, error) {
	f, size, err := plain(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, max(0, size-most), most))
}

// tail is the end of a job's output on one line, for error messages; "" if there is none.
func tail(path string) string {
	data, _ := end(path, 400)
	return strings.ToValidUTF8(strings.Join(strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' }), "; "), "")
}
