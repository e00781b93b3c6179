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

// Scratch makes an empty folder in the user's folder for kbisect, not in TMPDIR, where nobody would remove what a
// killed kbisect has left. remove removes it; otherwise the next search or Scratch does.
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
