package ps

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// ReadFile is os.ReadFile for the files of /proc and of control groups, of which a trial reads dozens. It makes three
// system calls for each, where os makes a dozen: it first finds out that such a file cannot be waited for. Errors are
// those of os.ReadFile.
func ReadFile(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	text := make([]byte, 0, 1<<10)
	for {
		n, err := unix.Read(fd, text[len(text):cap(text)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: name, Err: err}
		case n == 0:
			return text, nil
		default:
			if text = text[:len(text)+n]; len(text) == cap(text) {
				text = slices.Grow(text, cap(text))
			}
		}
	}
}
