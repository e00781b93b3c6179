// Package plainfile reads files that a user or a candidate supplies whole, but
// never a device, a pipe or a file of unbounded size.
package plainfile

import (
	"fmt"
	"os"
)

// MaxSize is the largest file that [Read] returns, in bytes.
const MaxSize = 8 << 20

// Read returns the content of a regular file of at most [MaxSize] bytes.
// Symbolic links are followed. The error wraps fs.ErrNotExist for a missing file.
func Read(name string) ([]byte, error) {
	st, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	case st.Size() > MaxSize:
		return nil, fmt.Errorf("%s has %d bytes; at most %d are read", name, st.Size(), MaxSize)
	}
	return os.ReadFile(name)
}
