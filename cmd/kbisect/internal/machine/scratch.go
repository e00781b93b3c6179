package machine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kbisect/kbisect/pipeline/cache"
	"github.com/kbisect/kbisect/pipeline/workspace"
)

// Scratch makes an empty folder below the user's cache folder, and not in TMPDIR, where nobody would remove what a
// killed kbisect has left. The caller calls remove; if it was killed before, the next search or Scratch removes the
// folder.
func Scratch(ctx context.Context) (dir string, remove func(), err error) {
	root, _, err := cache.Root()
	if err != nil {
		return "", nil, err
	}
	r, err := workspace.Open(ctx, filepath.Join(root, "work", fmt.Sprintf("scratch-%d-%d", os.Getpid(), time.Now().UnixNano())), "")
	if err != nil {
		return "", nil, err
	}
	return r.Dir, func() { r.Close() }, nil
}
