package detect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/kernels"
	"github.com/kbisect/kbisect/kernels/harness"
	"github.com/kbisect/kbisect/pipeline/source"
)

// WriteHarness writes the named example into dir and, unless there is one, a configuration for it. It reports on w
// what it wrote. Nothing is overwritten; a name that is taken is a usage error.
func WriteHarness(w io.Writer, dir, name string) error {
	example, written, err := writeFilesOf(dir, name)
	if err != nil {
		return exit.Usage(err)
	}
	for _, path := range written {
		fmt.Fprintf(w, "%s written\n", path)
	}
	fmt.Fprintf(w, "Try it: %s\n", example.Next)
	if top := topOf(dir); !source.SameFolder(top, dir) {
		fmt.Fprintf(w, "No %s was written, because it belongs in %s; kbisect init -- COMMAND writes it for a command of yours.\n", config.FileName, top)
		return nil
	}
	path, kind, err := exampleProject(name, slices.Sorted(maps.Keys(example.Files))).write(dir)
	switch {
	case errors.Is(err, fs.ErrExist):
		fmt.Fprintf(w, "%s already exists and was not changed\n", filepath.Join(dir, config.FileName))
		return nil
	case err != nil:
		return exit.Usage(err)
	}
	fmt.Fprintf(w, "%s written for a project of kind %s\n", path, kind)
	return nil
}

// exampleProject is the example as a project, whatever else is in the folder.
func exampleProject(name string, files []string) project {
	p := project{Kind: kernels.KindCommand, What: "the example of kbisect init --harness " + name, Paths: files}
	switch name {
	case "cuda":
		p.Kind, p.Sources, p.Outputs, p.Run = kernels.KindNvcc, []string{"bench.cu"}, []string{"bench"}, []string{"./bench"}
	case "torch":
		p.Kind, p.Task = kernels.KindTorch, config.TaskConfig{Submission: "submission.py", Reference: "reference.py"}
	default:
		p.Run = []string{"python3", "bench.py"}
	}
	return p
}

// writeFilesOf writes the files of an example into dir: all, or none if a name is taken by a file with another
// text; the error then wraps fs.ErrExist. It returns the paths of what it wrote.
func writeFilesOf(dir, name string) (harness.Example, []string, error) {
	example, err := harness.NewExample(name)
	if err != nil {
		return example, nil, err
	}
	var missing []string
	for _, file := range slices.Sorted(maps.Keys(example.Files)) {
		path := filepath.Join(dir, file)
		_, err := os.Lstat(path)
		switch have, _ := os.ReadFile(path); {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, path)
		case err != nil:
			return example, nil, fmt.Errorf("look for %s: %w", path, err)
		case string(have) != string(example.Files[file]):
			return example, nil, fmt.Errorf("%s was not changed: %w\nhint: move it away, or run kbisect -C DIR init --harness %s in another folder", path, fs.ErrExist, name)
		}
	}
	for i, path := range missing {
		if err := writeNew(path, example.Files[filepath.Base(path)]); err != nil {
			for _, p := range missing[:i] {
				_ = os.Remove(p)
			}
			return example, nil, err
		}
	}
	return example, missing, nil
}

// writeNew makes a file that must not exist, whole or not at all.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
