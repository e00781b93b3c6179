// Package plainfile reads files that a user or a candidate supplies whole, but
// never a device, a pipe or a file of unbounded size.
package plainfile

import (
	"fmt"
	"os"
)

// Most is the size, in bytes, up to which files that people write are read.
const Most = 8 << 20

// Read returns the content of a regular file of at most most bytes. Symbolic links
// are followed. The error wraps fs.ErrNotExist for a missing file.
func Read(name string, most int64) ([]byte, error) {
	st, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular(): // reading a pipe would wait forever
		return nil, fmt.Errorf("%s is not a regular file", name)
	case st.Size() > most:
		return nil, fmt.Errorf("%s has %d bytes; at most %d are read", name, st.Size(), most)
	}
	return os.ReadFile(name)
}
