package remote

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/pipeline/remote/executor"
	"github.com/kbisect/kbisect/pipeline/source"
)

// Where nothing is shared, a job gets all that it needs as one tar archive:
//
//	spec.json    the block; its paths are relative to the archive
//	repo.git     only the commits that the block needs, in a git pack, which compresses them
//	made.json    a commit that exists in memory only, if the block is about one
//
// The result comes back as the last line that the job prints, see Result.print.
const (
	specFile, repoFolder, madeFile = "spec.json", "repo.git", "made.json"

	mostKept = 1 << 20 // bytes from the end of a launch's log that come back with the result

	resultMark = "kbisect-result " // begins the line of the result; what follows is base64 of gzipped JSON
)

// pack writes the archive of a block to file. It is an [*executor.RefusedError] if it has more than most bytes,
// which is what the executor can carry; 0 is no limit. Files are gathered in a scratch folder beside it, which is
// removed.
func pack(ctx context.Context, repo *source.Repo, s Spec, file string, most int64) error {
	scratch := file + ".d"
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if !s.Check {
		var commits []string
		need := func(ids ...string) {
			for _, id := range ids {
				if !slices.Contains(commits, id) {
					commits = append(commits, id)
				}
			}
		}
		if made, ok := source.SyntheticOf(repo, s.Request.Candidate.Commit); ok {
			need(made.Sides...)
			if err := writeJSON(filepath.Join(scratch, madeFile), made); err != nil {
				return err
			}
			s.Made = madeFile
		} else {
			need(s.Request.Candidate.Commit)
		}
		if s.Reference != nil {
			need(s.Reference.Candidate.Commit)
		}
		if err := source.Extract(ctx, repo, filepath.Join(scratch, repoFolder), commits...); err != nil {
			return err
		}
	}
	s.Repo, s.Cache, s.Logs = repoFolder, "builds", "logs"
	if err := writeJSON(filepath.Join(scratch, specFile), s); err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	if err := errors.Join(w.AddFS(os.DirFS(scratch)), w.Close(), out.Close()); err != nil {
		return err
	}
	if fi, err := os.Stat(file); err == nil && most > 0 && fi.Size() > most {
		return &executor.RefusedError{Why: fmt.Sprintf("the sources of %s take %d MB, and a job carries at most %d MB\nhint: transport = \"shared\" and a volume that this machine sees too (kbisect help clusters)", s.Request.Candidate.Brief(), fi.Size()>>20, most>>20)}
	}
	return nil
}

// inputs opens the archive of this job: standard input for "-", or the pieces of a folder in the order of their
// names. A Kubernetes job gets it in pieces because a Secret holds at most 1 MiB.
func inputs(from string) (io.ReadCloser, error) {
	if from == "-" {
		return os.Stdin, nil
	}
	names, err := filepath.Glob(filepath.Join(from, "[0-9][0-9][0-9]"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("%s holds no inputs", from)
	}
	var all bytes.Buffer
	for _, name := range names { // sorted
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all.Write(data)
	}
	return io.NopCloser(&all), nil
}

// unpacked unpacks the archive of a job into a folder of its own and returns its spec with absolute paths.
func unpacked(r io.Reader, into string) (s Spec, err error) {
	if err := untar(r, into); err != nil {
		return s, fmt.Errorf("unpacking the inputs of the job: %w", err)
	}
	if ok, err := readJSON(filepath.Join(into, specFile), &s); err != nil || !ok {
		return s, errors.Join(err, fmt.Errorf("the inputs of the job have no %s", specFile))
	}
	for _, path := range []*string{&s.Repo, &s.Made, &s.Cache, &s.Logs} {
		if *path != "" {
			*path = filepath.Join(into, *path)
		}
	}
	return s, nil
}

// untar writes the files and folders of an archive below a folder. An [os.Root] keeps names from leading out of it,
// and any other kind of entry is an error: a symbolic link could redirect a later file.
func untar(r io.Reader, into string) error {
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer root.Close()
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(filepath.Clean(h.Name), 0o700)
		case tar.TypeReg:
			var f *os.File
			if f, err = root.OpenFile(filepath.Clean(h.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				_, err = io.Copy(f, t)
				err = errors.Join(err, f.Close())
			}
		default:
			err = fmt.Errorf("%s: neither a file nor a folder", h.Name)
		}
		if err != nil {
			return err
		}
	}
}

// printed is what a job that shares nothing hands back in its last line.
type printed struct {
	Result Result
	Log    []byte // the end of the launch's log, at most mostKept bytes
}

// print writes a result as the last line of a job. The line begins with a newline of its own, so that it is found
// even if the candidate's output did not end with one.
func (r Result) print(w io.Writer) error {
	p := printed{Result: r}
	if r.Outcome.Log != "" {
		var err error
		if p.Log, err = end(r.Outcome.Log, mostKept); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	line.WriteString("\n" + resultMark)
	b := base64.NewEncoder(base64.StdEncoding, &line)
	z := gzip.NewWriter(b)
	_, err = z.Write(data)
	if err = errors.Join(err, z.Close(), b.Close()); err != nil {
		return err
	}
	line.WriteString("\n")
	_, err = w.Write(line.Bytes())
	return err
}

// unprinted puts what a job printed where a job with a shared folder would have put it: result, launch log and
// output, so that everything after it works alike. The result is written last, since it is what others wait for.
// Without a result nothing is replaced that the job may still be writing to.
func unprinted(out []byte, j executor.Job) error {
	p, rest, err := parsePrinted(out)
	if err != nil {
		return fmt.Errorf("the result of job %s: %w", j.Name, err)
	}
	dir := filepath.Dir(j.Spec)
	if p == nil {
		if _, err := os.Stat(j.Output); err == nil { // it may still be written to
			return nil
		}
	}
	if err := write(j.Output, 0o600, bytes.NewReader(rest)); err != nil || p == nil {
		return err
	}
	if p.Result.Outcome.Log != "" {
		p.Result.Outcome.Log = filepath.Join(dir, filepath.Base(p.Result.Outcome.Log))
		if err := write(p.Result.Outcome.Log, 0o600, bytes.NewReader(p.Log)); err != nil {
			return err
		}
	}
	return writeJSON(filepath.Join(dir, resultFile), p.Result)
}

// parsePrinted finds the result at the end of what a job printed and returns it with the output before it. p is nil
// if the output does not end with a result; an error means that a result began there and is damaged.
func parsePrinted(out []byte) (p *printed, rest []byte, err error) {
	at := bytes.LastIndex(out, []byte("\n"+resultMark))
	if at < 0 || !bytes.HasSuffix(out, []byte("\n")) {
		return nil, out, nil
	}
	line := string(out[at+1+len(resultMark):])
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(strings.TrimSuffix(line, "\n"))))
	if err != nil {
		return nil, out, err
	}
	data, err := io.ReadAll(io.LimitReader(z, executor.MostLog))
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil || p == nil {
		return nil, out, err
	}
	return p, out[:at], nil
}
