package remote

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/pipeline/remote/executor"
	"github.com/kbisect/kbisect/pipeline/source"
)

// TestStream: a block packed here is a block there, whole, and its result comes back with its log.
func TestStream(t *testing.T) {
	t.Parallel()
	r, ids := history(t, "good", "bad", "other")
	repo, err := source.Open(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	s := Spec{Request: bisect.Request{Candidate: bisect.Candidate{Commit: ids[1]}}, Reference: &bisect.Request{Candidate: bisect.Candidate{Commit: ids[0]}}}
	file := filepath.Join(t.TempDir(), "inputs.tar")
	if err := pack(t.Context(), repo, s, file, 1000); err == nil || !strings.Contains(err.Error(), "a job carries at most") {
		t.Errorf("more than a job carries: %v", err)
	}
	if err := pack(t.Context(), repo, s, file, 0); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir, into := t.TempDir(), t.TempDir()
	for i, piece := range [][]byte{data[:1000], data[1000:]} {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d", i)), piece, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in, err := inputs(dir)
	if err != nil {
		t.Fatal(err)
	}
	there, err := unpacked(in, into)
	if err != nil {
		t.Fatal(err)
	}
	if there.Request.Candidate.Commit != ids[1] || !strings.HasPrefix(there.Repo, into) || !strings.HasPrefix(there.Cache, into) {
		t.Errorf("%+v", there)
	}
	copied, err := source.Open(there.Repo)
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	for i, id := range ids {
		if _, err := copied.Resolve(context.Background(), id); (err == nil) != (i < 2) {
			t.Errorf("commit %d: %v", i, err)
		}
	}
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("it said"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	out.WriteString("first\n" + resultMark + "of a stranger\n")
	if err := (Result{Node: "n1", Outcome: bisect.Outcome{Class: bisect.OK, Log: log}}).print(&out); err != nil {
		t.Fatal(err)
	}
	j := executor.Job{Spec: filepath.Join(t.TempDir(), "spec.json"), Output: filepath.Join(t.TempDir(), "output")}
	if err := unprinted(out.Bytes(), j); err != nil {
		t.Fatal(err)
	}
	res, err := readResult(j)
	if err != nil || res == nil || res.Node != "n1" {
		t.Fatalf("%v %+v", err, res)
	}
	if said, _ := os.ReadFile(res.Outcome.Log); string(said) != "it said" {
		t.Errorf("log %q", said)
	}
	if said := tail(j.Output); !strings.HasPrefix(said, "first") {
		t.Errorf("output %q", said)
	}
}

// FuzzPrinted: what a job prints is no result, or one; and a part of a line is none.
func FuzzPrinted(f *testing.F) {
	var out bytes.Buffer
	if err := (Result{Node: "n"}).print(&out); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Add(out.Bytes()[:out.Len()-5])
	f.Add([]byte("\n" + resultMark + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, rest, err := parsePrinted(data)
		if p != nil && err != nil || len(rest) > len(data) {
			t.Errorf("%v %v", p, err)
		}
	})
}

// FuzzUntar: no archive reaches outside of its folder.
func FuzzUntar(f *testing.F) {
	for _, h := range []tar.Header{{Name: "a/b", Typeflag: tar.TypeReg, Size: 1}, {Name: "../out", Typeflag: tar.TypeReg, Size: 1}, {Name: "/out", Typeflag: tar.TypeReg, Size: 1}, {Name: "l", Linkname: "/", Typeflag: tar.TypeSymlink}} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&h); err != nil {
			f.Fatal(err)
		}
		_, _ = w.Write([]byte("x"))
		_ = w.Close()
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		in := filepath.Join(dir, "in")
		if err := os.Mkdir(in, 0o700); err != nil {
			t.Fatal(err)
		}
		_ = untar(bytes.NewReader(data), in)
		if names, _ := os.ReadDir(dir); len(names) != 1 {
			t.Errorf("written outside: %v", names)
		}
	})
}
