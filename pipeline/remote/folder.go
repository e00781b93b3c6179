package remote

import (
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

// shared is the folder that both sides see. What lies there has the name of its content, and is made once:
//
//	bin/DIGEST/kbisect     this program, or kbisect.gz
//	repos/DIGEST.git       copies of repositories that lie elsewhere, by their paths
//	builds/                the build cache of all jobs
//	sessions/ID/made/      commits that exist in memory alone
//	sessions/ID/jobs/NAME  a block: spec.json, result.json, output, and id of the job; inputs.tar where nothing is shared
type shared struct{ dir string }

// openShared makes the folder, which nobody else may write: what lies there is run.
func openShared(dir string) (shared, error) {
	abs, err := filepath.Abs(filepath.Join(dir, "kbisect-"+fmt.Sprint(os.Getuid())))
	if err != nil {
		return shared{}, err
	}
	return shared{abs}, private(abs)
}

// private makes a folder that only this user may enter, with those above it, or checks one.
func private(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return err
	}
	return folder.MakePrivate(dir)
}

// program is this program in the folder, compressed for a job that gets it with its inputs, and its digest.
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

// self is a digest of the program that runs: versions are the same where it is. The ID that the linker made of the program's
// content does for that; to read all of the program takes longer than all else that an empty job does.
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

// repository is a repository as jobs see it: where it is, if that is below the folder, else a copy, which has the commits.
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

func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// writeJSON writes a value as a file, whole or not at all.
func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return write(path, 0o600, strings.NewReader(string(data)))
}

// write writes a file, whole or not at all: another machine may read it at any time.
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

// readJSON reads a file; ok is false where there is none. Its folder is listed first: a shared file system may remember for
// minutes that a file was not there.
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

// errStrange is what lies where a job writes a file and is none of its making.
var errStrange = errors.New("no file that kbisect wrote")

// plain opens a file that a job may have written, and so may the candidate in it: only a regular one, since to open a pipe
// would wait for its writer, and a device has no end.
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

// read reads such a file.
func read(path string) ([]byte, error) {
	f, _, err := plain(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, executor.MostLog+1))
	if len(data) > executor.MostLog {
		return nil, fmt.Errorf("read %s: %w: it is larger than %d MiB", path, errStrange, executor.MostLog>>20)
	}
	return data, err
}

// end reads the last bytes of such a file.
func end(path string, most int64) ([]byte, error) {
	f, size, err := plain(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, max(0, size-most), most))
}

// tail is the end of a job's output, for people.
func tail(path string) string {
	data, _ := end(path, 400)
	return strings.ToValidUTF8(strings.Join(strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' }), "; "), "")
}
