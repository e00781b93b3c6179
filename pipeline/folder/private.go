package folder

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// MakePrivate makes a folder that only this user may enter, in a folder that exists, or checks the one that is
// there. Its error is for people.
func MakePrivate(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return Private(dir)
}

// Private returns an error unless dir is a folder, and not a link to one, that this user owns and nobody else can
// write to.
func Private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || info.Mode().Perm()&0o022 != 0 || ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s can be written by others, so it is not used as a private folder: remove it, or chmod 700", dir)
	}
	return nil
}
