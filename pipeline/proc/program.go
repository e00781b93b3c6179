package proc

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kbisect/kbisect/pipeline/proc/internal/ps"
)

// lookPath finds the program file as exec.LookPath does, but with PATH of env,
// and with relative names relative to dir, where it will be started.
func lookPath(file, dir string, env []string) (string, error) {
	if strings.Contains(file, "/") {
		return file, executable(under(dir, file))
	}
	if file == "" {
		return "", exec.ErrNotFound
	}
	for _, entry := range filepath.SplitList(Getenv(env, "PATH")) {
		if entry == "" {
			entry = "."
		}
		found := entry + "/" + file
		if executable(under(dir, found)) != nil {
			continue
		}
		if !filepath.IsAbs(entry) {
			return "", exec.ErrDot
		}
		return found, nil
	}
	return "", exec.ErrNotFound
}

// under resolves path against dir without cleaning it: "a/.." may not be ".".
func under(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return dir + "/" + path
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return &fs.PathError{Op: "exec", Path: path, Err: syscall.EISDIR}
	}
	if info.Mode()&0o111 == 0 {
		return &fs.PathError{Op: "exec", Path: path, Err: syscall.EACCES}
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return &fs.PathError{Op: "exec", Path: path, Err: err}
	}
	return nil
}

// workDir returns dir as an absolute path of a directory.
func workDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", &fs.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR}
	}
	return dir, nil
}

// Getenv returns the value of a variable, the last one of that name.
func Getenv(env []string, name string) string {
	for _, v := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// PythonName reports whether a program of that name is a Python interpreter.
func PythonName(name string) bool { return ps.PythonName(name) }
