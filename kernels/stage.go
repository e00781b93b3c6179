package kernels

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
)

// File is a file that a plan puts into the export. Source files are the candidate's own: the file
// of that path is copied to Name, and a candidate that lacks it cannot be built. All others hold
// Text, the same for every candidate: that is how the judge of a problem is pinned.
type File struct {
	Name     string   // where it goes, below [Plan.Dir]
	Source   string   // path in the export; "": Text is written
	Formerly []Former `json:",omitempty"` // the names that Source had before, the newest first
	Text     string
	Exec     bool // Text is a program
	Lend     bool // Text is only for candidates that hold no file of that name
}

// Former is a name that a file had until a commit renamed it.
type Former struct {
	Path    string
	Renamed string // id of that commit
}

// At is the plan for one candidate: its sources have the names that they had then. descends says whether a
// commit is the candidate or before it. A name that the candidate does not hold after all is passed over
// for another, as in a merge of both.
func (p Plan) At(descends func(commit string) bool) Plan {
	files := slices.Clone(p.Files)
	for i, f := range files {
		k := slices.IndexFunc(f.Formerly, func(x Former) bool { return descends(x.Renamed) })
		if k < 0 {
			k = len(f.Formerly)
		}
		names := append([]Former{{Path: f.Source}}, f.Formerly...)
		if k > 0 {
			files[i].Source, files[i].Formerly = names[k].Path, append(slices.Clone(names[:k]), names[k+1:]...)
		}
	}
	p.Files = files
	return p
}

// ReadFile reads a file that every candidate gets at the path that it has below dir.
func ReadFile(dir, name string) (File, error) {
	full := filepath.Join(dir, filepath.FromSlash(name))
	text, err := readBounded(full)
	if err != nil {
		return File{}, err
	}
	st, err := os.Stat(full)
	if err != nil {
		return File{}, err
	}
	return File{Name: path.Clean(name), Text: string(text), Exec: st.Mode()&0o100 != 0}, nil
}

// Stage is one process of a trial. A stage that does not end well ends the trial, with the class
// and the reason of its own end; the phases and series of all stages are those of the trial.
type Stage struct {
	Name     string
	Run      []string
	Env      []string      // NAME=value, whatever the user's environment has
	Limit    time.Duration // of the whole process tree; 0: only those of the trial
	Base     string        // phase at the start, see [Protocol.Base]
	Speaks   string        // the environment variable that names the descriptor; "": KBISECT_FD
	Metric   string        // name of the series of timings; "": as the user says
	Ranking  string        // how KernelBot makes one score of the means: last, mean or geom; "": it does not
	Optional bool          // its end, a reached limit too, decides nothing: the next stage follows in any case
	Killed   int           // exit code by which the runner that is imitated reports a reached Limit; 0: none
}

// PopcornFD names the descriptor of processes that speak KernelBot's protocol, see [Popcorn].
const PopcornFD = "POPCORN_FD"

func (f File) mode() os.FileMode {
	if f.Exec {
		return 0o755
	}
	return 0o644
}

// Write puts the files of a plan into an export, over what is there.
func (p Plan) Write(root string) error {
	dir := filepath.Join(root, filepath.FromSlash(p.Dir))
	for _, f := range p.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			return fmt.Errorf("file %q of the plan leads out of the export", f.Name)
		}
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		if _, err := os.Lstat(name); f.Lend && err == nil {
			continue
		}
		text := []byte(f.Text)
		if f.Source != "" {
			var err error
			if text, err = f.take(root, p.Dir); err != nil {
				return &MissingSourceError{Path: f.Source, Err: err}
			}
		}
		if err := writeOver(name, text, f.mode()); err != nil {
			return fmt.Errorf("writing %s into the export: %w", f.Name, err)
		}
	}
	return nil
}

// take reads a source file from an export, the files of which are those of the plan's folder dir. A source of C++ that
// stands in for another folder's is included, since headers beside it are found from where it is.
func (f File) take(root, dir string) ([]byte, error) {
	var first error
	for _, x := range append([]Former{{Path: f.Source}}, f.Formerly...) {
		text, err := readBounded(filepath.Join(root, filepath.FromSlash(x.Path)))
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		if to, err := filepath.Rel(path.Dir(f.Name), x.Path); err == nil && dir == "" && path.Dir(f.Name) != path.Dir(x.Path) && isCPlusPlus(x.Path) {
			return fmt.Appendf(nil, "#include %q\n", filepath.ToSlash(to)), nil
		}
		return text, nil
	}
	return nil, first
}

func isCPlusPlus(name string) bool {
	return slices.Contains([]string{".cu", ".cpp", ".cc", ".cxx", ".c"}, path.Ext(name))
}

// MissingSourceError is a candidate that lacks a file which the plan takes from it.
type MissingSourceError struct {
	Path string
	Err  error
}

func (e *MissingSourceError) Error() string {
	return fmt.Sprintf("the candidate holds no %s: %v", e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *MissingSourceError) Unwrap() error { return e.Err }

// writeOver replaces what has a name: a link that a candidate has put there is not followed.
func writeOver(name string, text []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	f, err := renameio.NewPendingFile(name, renameio.WithTempDir(filepath.Dir(name)), renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	defer f.Cleanup()
	if _, err := f.Write(text); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

// Digest identifies what of a plan changes the result of its build.
func (p Plan) Digest() string {
	files := make([]File, len(p.Files))
	for i, f := range p.Files {
		files[i] = f
		files[i].Name = path.Clean(f.Name)
	}
	data, err := json.Marshal([]any{p.Build, p.Outputs, p.Dir, files, p.Env})
	if err != nil {
		panic(err) // strings always marshal
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Limit is the time that all stages may take together; 0 when one of them has no limit of its own.
func (p Plan) Limit() time.Duration {
	var sum time.Duration
	for _, s := range p.Stages {
		if s.Limit <= 0 {
			return 0
		}
		sum += s.Limit
	}
	return sum
}

// maxFile bounds the files that are read whole, in bytes.
const maxFile = 8 << 20

// readBounded reads a plain file of bounded size.
func readBounded(name string) ([]byte, error) {
	st, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no plain file", name)
	case st.Size() > maxFile:
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, st.Size(), maxFile)
	}
	return os.ReadFile(name)
}

// Merge returns env with each NAME=value of more whose name it lacks.
func Merge(env, more []string) []string {
	have := map[string]bool{}
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		have[name] = true
	}
	out := append([]string(nil), env...)
	for _, v := range more {
		if name, _, _ := strings.Cut(v, "="); !have[name] {
			out = append(out, v)
		}
	}
	return out
}
