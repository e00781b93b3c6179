package export

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/source/internal/attributes"
	"github.com/kbisect/kbisect/pipeline/source/internal/objects"
)

func TestAttributesEqualGit(t *testing.T) {
	r := gittest.New(t)
	names := []string{"a", "b.cu", "d/b.cu", "d/e/f.txt", "d/e/x.bat", "x.bat", "[z]", "d/a-b", "7.cu", "d/Q_9", "w z", "d/e/f/g/x.bat"}
	patterns := []string{"*", "*.cu", "/b.cu", "d/*", "d/**", "**/f.txt", "d/", "**/e/*", "x.ba?", "[a-c]*", "[!a]*", "*.[ct]*", `\[z\]`, `"b.cu"`, "d/**/x.bat", "**", "a**", "d/*/f*",
		"[[:digit:]]*", "[[:upper:]]*", "d/[^[:lower:]]*", "[[:alpha:]_]*", "*[[:space:]]z", `"w z"`, "d/[!e]*", `[a\-c]*`, "[]z[]*", "d/**/g/*", "**/e/**", "d/e**", "*/b.cu", "[[:nosuch:]]*"}
	values := []string{"text", "-text", "!text", "text=auto", "eol=crlf", "eol=lf", "binary", "filter=foo", "-filter", "!eol", "mac", "-mac", "crlf", "-crlf", "ident"}
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(label string, macros bool) attributes.File {
			var lines []string
			if macros {
				lines = append(lines, "[attr]mac eol=crlf -ident")
			}
			for range rapid.IntRange(1, 4).Draw(rt, label) {
				lines = append(lines, rapid.SampledFrom(patterns).Draw(rt, "pattern")+" "+
					rapid.SampledFrom(values).Draw(rt, "value")+"\t"+rapid.SampledFrom(values).Draw(rt, "value"))
			}
			text := strings.Join(lines, "\n") + "\n"
			r.Write(rt, filepath.Join(label, ".gitattributes"), text)
			f := attributes.Parse(text)
			f.Dir = label
			return f
		}
		a := attributes.New([]attributes.File{draw("d", false), draw("", true)})
		if a == nil {
			return
		}
		out := r.Pipe(rt, strings.Join(names, "\n"), "check-attr", "--stdin", "text", "eol", "filter", "ident", "crlf")
		for line := range strings.SplitSeq(out, "\n") {
			f := strings.Split(line, ": ")
			got := a.Of(f[0])[f[1]]
			if got == "" {
				got = attributes.Unspecified
			}
			if got != f[2] {
				rt.Fatalf("%s of %s: got %s, want %s", f[1], f[0], got, f[2])
			}
		}
	})
}

func TestLineEndsEqualCheckout(t *testing.T) {
	r := gittest.New(t)
	for name, text := range map[string]string{"lf": "a\nb\n", "crlf": "a\r\nb\r\n", "mixed": "a\r\nb\n", "bin": "a\x00\nb\n", "cr": "a\rb\n", "none": "a", "odd": "\x01\x02\n", "eof": "text\n\x1a"} {
		for _, ext := range []string{"bat", "auto", "txt", "raw"} {
			r.Write(t, "d/"+name+"."+ext, text)
		}
	}
	r.Write(t, "d/.gitattributes", "* -text\n")
	a := r.Commit(t, "as they are")
	r.Write(t, ".gitattributes", "*.bat text eol=crlf\n*.auto text=auto eol=crlf\n*.txt eol=crlf\n*.raw -text eol=crlf\n* export-ignore\n")
	os.Remove(filepath.Join(r.Dir, "d/.gitattributes"))
	r.Git(t, "rm", "-q", "--cached", "d/.gitattributes")
	r.Git(t, "add", ".gitattributes") // the blobs keep their odd line ends
	r.Git(t, "commit", "-qm", "attributes")
	b := r.Git(t, "rev-parse", "HEAD")
	want := map[string]map[string]string{}
	for _, c := range []string{a, b} {
		want[c] = r.Checkout(t, filepath.Join(t.TempDir(), "want"), c)
	}
	e := export(t, open(t, r.Dir))
	for i, c := range []string{b, a, b, a} {
		hop(t, e, c, i%2 == 0)
		gittest.SameListing(t, gittest.Listing(t, e.Dir()), want[c], fmt.Sprint(i))
	}
}

// TestInfoAttributes has rules and a macro outside of the commit, as a user may
// set them for one clone.
func TestInfoAttributes(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "d/deep/a.txt", "1\n2\n")
	r.Write(t, "b.txt", "1\n2\n")
	r.Write(t, "c.cu", "1\n2\n")
	r.Write(t, "d/deep/.gitattributes", "*.txt -text\n[attr]dos -text\n")
	r.Write(t, ".gitattributes", "[attr]dos eol=lf\n*.cu dos\n")
	c := r.Commit(t, "c")
	r.Write(t, ".git/info/attributes", "[attr]dos text eol=crlf\nb.txt dos\nd/deep/* text eol=crlf\n")
	want := r.Checkout(t, filepath.Join(t.TempDir(), "want"), c)
	e := export(t, open(t, r.Dir))
	hop(t, e, c, true)
	gittest.SameListing(t, gittest.Listing(t, e.Dir()), want, "info/attributes")
	if !strings.Contains(want["b.txt"], `\r`) || !strings.Contains(want["d/deep/a.txt"], `\r`) {
		t.Errorf("git does not follow the rules: %v", want)
	}
}

func TestUnsupportedAttributes(t *testing.T) {
	r := gittest.New(t)
	r.Write(t, "k/a", "1")
	base := r.Commit(t, "base")
	r.Git(t, "config", "filter.crypt.smudge", "cat")
	r.Git(t, "config", "filter.strip.clean", "cat")
	e := export(t, open(t, r.Dir))
	hop(t, e, base, true)
	for attr, bad := range map[string]bool{
		"filter=crypt": true, "filter=strip": false, "filter=nobody": false, "ident": true, "working-tree-encoding=ISO-8859-1": true,
		"text": false, "text=auto": false, "eol=lf": false, "diff=cpp": false, "linguist-generated": false, "-filter": false, "merge=union": false,
	} {
		r.Write(t, ".gitattributes", "k/* "+attr+"\n")
		c := r.Commit(t, attr)
		e.Paths = nil
		_, err := e.Switch(t.Context(), c, true)
		var u *objects.UnsupportedError
		if got := errors.As(err, &u); got != bad {
			t.Errorf("%s: got %v", attr, err)
		}
		if bad && (u.Path != "k/a" || u.Attribute != attr || u.Commit != c) {
			t.Errorf("%s: got %+v", attr, u)
		}
		e.Paths = []string{"other"}
		hop(t, e, c, true)
		if len(e.Warnings()) > 0 != bad {
			t.Errorf("%s: warnings %q", attr, e.Warnings())
		}
		r.Git(t, "reset", "-q", "--hard", base)
	}
}

func TestLFS(t *testing.T) {
	r := gittest.New(t)
	content := strings.Repeat("weights\n", 300)
	oid := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	pointer := fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", oid, len(content))
	r.Write(t, "w.bin", pointer)
	r.Write(t, "pointer.txt", pointer) // no attribute: git leaves it alone
	r.Write(t, ".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
	r.Git(t, "config", "filter.lfs.clean", "cat")
	c := r.Commit(t, "c")
	repo := open(t, r.Dir)
	e := export(t, repo)
	_, err := e.Switch(t.Context(), c, true)
	if u := (*objects.UnsupportedError)(nil); !errors.As(err, &u) || !strings.Contains(err.Error(), "git lfs fetch") {
		t.Fatalf("got %v", err)
	}
	file := filepath.Join(repo.CommonDir(), "lfs/objects", oid[:2], oid[2:4], oid)
	os.MkdirAll(filepath.Dir(file), 0o777)
	os.WriteFile(file, []byte(content), 0o444)
	hop(t, e, c, true)
	if got, _ := os.ReadFile(filepath.Join(e.Dir(), "w.bin")); string(got) != content {
		t.Errorf("got %.60q", got)
	}
	if got, _ := os.ReadFile(filepath.Join(e.Dir(), "pointer.txt")); string(got) != pointer {
		t.Errorf("got %.60q", got)
	}
}

func TestSubmodules(t *testing.T) {
	leaf := gittest.New(t)
	leaf.Write(t, "deep.h", "1")
	leaf.Commit(t, "1")
	lib := gittest.New(t)
	lib.Write(t, "lib.h", "1")
	lib.Git(t, "submodule", "add", "-q", leaf.Dir, "third/leaf")
	lib.Commit(t, "1")
	r := gittest.New(t)
	r.Write(t, "main.cu", "1")
	before := r.Commit(t, "before")
	r.Git(t, "submodule", "add", "-q", lib.Dir, "dep/lib")
	r.Git(t, "submodule", "update", "-q", "--init", "--recursive")
	a := r.Commit(t, "a")
	lib.Write(t, "lib.h", "2")
	lib.Write(t, "new.h", "2")
	lib.Commit(t, "2")
	r.Git(t, "-C", "dep/lib", "pull", "-q")
	b := r.Commit(t, "b")
	want := map[string]map[string]string{before: {"main.cu": `-rw-r--r-- "1"`, ".gitattributes": ""}}
	repo := open(t, r.Dir)
	e := export(t, repo)
	for _, c := range []string{a, b} {
		r.Git(t, "checkout", "-q", c)
		r.Git(t, "submodule", "update", "-q", "--recursive")
		want[c] = dropDotGit(gittest.Listing(t, r.Dir))
	}
	for i, c := range []string{a, b, a, before, b} {
		stats := hop(t, e, c, i%2 == 0)
		if c == before {
			if got := gittest.Listing(t, e.Dir()); len(got) != 1 {
				t.Fatalf("slot holds %v", got)
			}
			continue
		}
		gittest.SameListing(t, gittest.Listing(t, e.Dir()), want[c], fmt.Sprint(i))
		if i == 1 && stats.Written != 2 {
			t.Errorf("a to b: %+v", stats)
		}
	}
	os.RemoveAll(filepath.Join(e.Dir(), "dep"))
	hop(t, e, b, false)
	gittest.SameListing(t, gittest.Listing(t, e.Dir()), want[b], "restored")

	clone := &gittest.Repo{Dir: filepath.Join(t.TempDir(), "clone"), Date: r.Date}
	r.Git(t, "clone", "-q", r.Dir, clone.Dir)
	e = export(t, open(t, clone.Dir))
	_, err := e.Switch(t.Context(), b, true)
	if u := (*objects.UnsupportedError)(nil); !errors.As(err, &u) || !strings.Contains(err.Error(), "git submodule update --init") {
		t.Fatalf("got %v", err)
	}
	e.Paths = []string{"main.cu"}
	hop(t, e, b, true)
	if got := gittest.Listing(t, e.Dir()); got["dep/lib"] != "folder" || len(e.Warnings()) != 1 {
		t.Fatalf("slot holds %v, warnings %q", got, e.Warnings())
	}
}

func dropDotGit(in map[string]string) map[string]string {
	for name := range in {
		if filepath.Base(name) == ".git" {
			delete(in, name)
		}
	}
	return in
}

func TestSafeSubmoduleName(t *testing.T) {
	for name, want := range map[string]bool{"lib": true, "third/lib": true, "../x": false, "a/../../x": false, "/abs": false, "": false, `a\..\b`: false} {
		if got := safeSubmoduleName(name); got != want {
			t.Errorf("%q: got %v", name, got)
		}
	}
}
