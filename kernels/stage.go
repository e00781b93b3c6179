package kernels

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/kbisect/kbisect/kernels/plainfile"
)

// File is a file that a plan writes into the export. A file with a Source is the
// candidate's own: that path is copied to Name, and a candidate without it cannot be
// built. Any other file holds Text, the same for every candidate; this pins the judge of
// a problem.
type File struct {
	Name     string   // destination, relative to Plan.Dir
	Source   string   // path in the export; "": Text is written
	Formerly []Former `json:",omitempty"` // earlier names of Source, the newest first
	Text     string
	Exec     bool   // Text is a program
	Home     string `json:",omitempty"` // a folder that Text names, for which it names the export
	Overlay  bool   `json:"Lend"`       // Text is only for candidates without a file of that name; stored plans call it Lend
}

// Former is a name that a file had until a commit renamed it.
type Former struct {
	Path    string
	Renamed string // id of the commit
}

// At returns the plan for one candidate, with the names that its sources had then.
// descends reports whether the candidate is a commit or descends from it. The other names
// stay in Formerly, because a merge may hold the file under any of them.
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

// ReadFile reads the file that every candidate gets under the same path as below dir.
func ReadFile(dir, name string) (File, error) {
	full := filepath.Join(dir, filepath.FromSlash(name))
	text, err := plainfile.Read(full, plainfile.Most)
	if err != nil {
		return File{}, err
	}
	st, err := os.Stat(full)
	if err != nil {
		return File{}, err
	}
	return File{Name: path.Clean(name), Text: string(text), Exec: st.Mode()&0o100 != 0}, nil
}

// Stage is one process of a trial. A stage that fails ends the trial with its own class
// and reason; the trial has the phases and series of all stages.
type Stage struct {
	Name     string
	Run      []string
	Env      []string      // NAME=value; takes precedence over the user's environment
	Limit    time.Duration // wall clock of the whole process tree; 0: only the trial's limits
	Base     string        // phase at the start, see protocol.Reader
	Speaks   string        // environment variable that names the descriptor; "": KBISECT_FD
	Metric   string        // name of the series of timings; "": the user's
	Ranking  string        // how KernelBot makes one score of the means: last, mean or geom; "": no score
	Optional bool          // the next stage follows even if this one fails or reaches its limit
	Killed   int           // exit code with which KernelBot's runner reports a reached Limit; 0: none
}

// PopcornFD is the variable that names the descriptor of KernelBot's protocol, see protocol.Popcorn.
const PopcornFD = "POPCORN_FD"

func (f File) mode() os.FileMode {
	if f.Exec {
		return 0o755
	}
	return 0o644
}

// Rehome returns a text in which every mention of the folder from is one of the folder to.
func Rehome(text, from, to string) string {
	return folderName(from).ReplaceAllString(text, strings.ReplaceAll(to, "$", "$$")+"$1")
}

// Names reports whether a text names a folder or what is in it.
func Names(text, folder string) bool { return folderName(folder).MatchString(text) }

func folderName(folder string) *regexp.Regexp {
	return regexp.MustCompile(regexp.QuoteMeta(folder) + `([^\w.-]|$)`)
}

// Write writes the files of a plan into an export and replaces what is there, except
// under an overlay. A missing source is a *MissingSourceError.
func (p Plan) Write(root string) error {
	in, err := os.OpenRoot(root) // a candidate may have left links that lead out of it
	if err != nil {
		return err
	}
	defer in.Close()
	for _, f := range p.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			return fmt.Errorf("invalid file %q in the plan: outside the export", f.Name)
		}
		name := filepath.Join(filepath.FromSlash(p.Dir), filepath.FromSlash(f.Name))
		if _, err := in.Lstat(name); f.Overlay && err == nil {
			continue
		}
		text := []byte(f.Text)
		if f.Home != "" {
			text = []byte(Rehome(f.Text, f.Home, root))
		}
		if f.Source != "" {
			var err error
			if text, err = f.readSource(root, p.Dir); err != nil {
				return &MissingSourceError{Path: f.Source, Err: err}
			}
		}
		if err := writeOver(in, name, text, f.mode()); err != nil {
			return fmt.Errorf("writing %s into the export: %w", f.Name, err)
		}
	}
	return nil
}

// readSource reads the source of a file from an export; dir is Plan.Dir. A C++ source that
// was renamed into another folder is replaced by an #include of the original, because its
// own includes are relative to where it lies.
func (f File) readSource(root, dir string) ([]byte, error) {
	var first error
	for _, x := range append([]Former{{Path: f.Source}}, f.Formerly...) {
		text, err := plainfile.Read(filepath.Join(root, filepath.FromSlash(x.Path)), plainfile.Most)
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		if to, err := filepath.Rel(path.Dir(f.Name), x.Path); err == nil && dir == "" && path.Dir(f.Name) != path.Dir(x.Path) && slices.Contains(cPlusPlus, path.Ext(x.Path)) {
			return fmt.Appendf(nil, "#include %q\n", filepath.ToSlash(to)), nil
		}
		return text, nil
	}
	return nil, first
}

// cPlusPlus are the endings of sources that can include another one.
var cPlusPlus = []string{".cu", ".cpp", ".cc", ".cxx", ".c"}

// MissingSourceError means that the candidate lacks a source of the plan.
type MissingSourceError struct {
	Path string
	Err  error
}

func (e *MissingSourceError) Error() string {
	return fmt.Sprintf("the candidate has no %s: %v", e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *MissingSourceError) Unwrap() error { return e.Err }

// writeOver replaces a file atomically. A link on the way that leads out of the export, with which a candidate
// could direct the write to the user's files, is removed.
func writeOver(in *os.Root, name string, text []byte, mode os.FileMode) error {
	dir := filepath.Dir(name)
	err := in.MkdirAll(dir, 0o777)
	for at := dir; err != nil && at != "."; at = filepath.Dir(at) {
		if info, no := in.Lstat(at); no == nil && info.Mode().Type() == fs.ModeSymlink {
			err = cmp.Or(in.Remove(at), in.MkdirAll(dir, 0o777))
		}
	}
	if err != nil {
		return err
	}
	return renameio.WriteFile(name, text, mode, renameio.WithRoot(in), renameio.WithStaticPermissions(mode))
}

// Digest identifies everything in a plan that can change the result of its build.
func (p Plan) Digest() string {
	files := make([]File, len(p.Files))
	for i, f := range p.Files {
		files[i] = f
		files[i].Name = path.Clean(f.Name)
	}
	all := []any{p.Build, p.Outputs, p.Dir, files, p.Env}
	if len(p.Keep) > 0 {
		all = append(all, p.Keep, p.Kept)
	}
	data, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings always marshal
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// Limit is the sum of the stages' limits, or 0 when a stage has none.
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

// Merge adds to env each NAME=value of more whose name env does not set.
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
