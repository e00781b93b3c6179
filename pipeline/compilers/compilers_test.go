package compilers

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// project is an export with wrappers, and a log of the calls of the compiler behind them.
type project struct {
	t                  *testing.T
	dir, objects, path string
	log                string
	env                []string
}

// newProject makes one whose compiler is the real cc, which says in the log when it compiles.
func newProject(t *testing.T, dir, objects string) *project {
	t.Helper()
	return newProjectWith(t, t.TempDir(), dir, objects)
}

// newProjectWith is newProject with a folder for the compiler.
func newProjectWith(t *testing.T, tools, dir, objects string) *project {
	t.Helper()
	real, err := exec.LookPath("cc")
	if err != nil {
		t.Fatal("NOT TESTED: a C compiler is missing: ", err)
	}
	p := &project{t: t, dir: dir, objects: objects, log: filepath.Join(tools, "log")}
	fake := fmt.Sprintf("#!/bin/sh\necho compiles >>%[2]s\n%[1]s \"$@\"\ncode=$?\n[ -z \"$MEANWHILE\" ] || eval \"$MEANWHILE\"\nexit $code\n", real, p.log)
	if err := os.WriteFile(filepath.Join(tools, "cc"), []byte(fake), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	if p.path, err = Write(t.TempDir(), nil); err != nil {
		t.Fatal(err)
	}
	p.env = append(os.Environ(), "PATH="+p.path+":"+os.Getenv("PATH"))
	if objects != "" {
		if err := os.MkdirAll(objects, 0o777); err != nil {
			t.Fatal(err)
		}
		p.env = append(p.env, Environ(objects, dir, "tree")...)
	}
	return p
}

// write writes files below the project.
func (p *project) write(files ...string) {
	p.t.Helper()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(p.dir, files[i])
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(files[i+1]), 0o666); err != nil {
			p.t.Fatal(err)
		}
	}
}

// sh runs a script in the project. It returns what that printed, and how often the compiler compiled.
func (p *project) sh(script string) (out string, compiled int) {
	p.t.Helper()
	os.Remove(p.log)
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = p.dir, p.env
	text, err := cmd.CombinedOutput()
	out = string(text)
	if err != nil {
		out += err.Error()
	}
	data, _ := os.ReadFile(p.log)
	return out, bytes.Count(data, []byte("\n"))
}

// A source is compiled once as long as nothing changes that the object depends on, and every time otherwise.
func TestObjectsAreKept(t *testing.T) {
	p := newProject(t, t.TempDir(), filepath.Join(t.TempDir(), "objects"))
	const build = "cc -O1 -Wall $MORE -c main.c && cc -Wall -I. -c f.c -o ab.o && cc main.o ab.o -o prog && ./prog"
	p.write("main.c", "#include <stdio.h>\n#include \"x.h\"\nint f(void);\nint main(void) { printf(\"%d %d %s\\n\", X, f(), Y); }\n",
		"x.h", "#define X 1\n#define Y \"y\"\n", "f.c", "int f(void) { return 1; }\n")
	steps := []struct {
		name     string
		do       func()
		more     string
		out      string
		compiled int // the link counts, too
	}{
		{"first", func() {}, "", "1 1 y\n", 3},
		{"again", func() {}, "", "1 1 y\n", 1},
		{"a comment", func() { p.write("x.h", "#define X 1 // one\n#define Y \"y\"\n") }, "", "1 1 y\n", 2},
		{"a header", func() { p.write("x.h", "#define X 2\n#define Y \"y\"\n") }, "", "2 1 y\n", 2},
		{"back", func() { p.write("x.h", "#define X 1\n#define Y \"y\"\n") }, "", "1 1 y\n", 1},
		{"a source", func() { p.write("f.c", "int f(void) { return 3; }\n") }, "", "1 3 y\n", 2},
		{"an option", func() {}, "-O2", "1 3 y\n", 2},
		{"a macro", func() { p.write("x.h", "#ifndef X\n#define X 1\n#endif\n#define Y \"it's \\\"y\\\"\"\n") }, "-DX=5", "5 3 it's \"y\"\n", 2},
		{"its value", func() {}, "-DX=6", "6 3 it's \"y\"\n", 2},
		{"both at once", func() {}, "-DX=6 -Dunused", "6 3 it's \"y\"\n", 2},
		{"the value before", func() {}, "-DX=5", "5 3 it's \"y\"\n", 1},
		{"one header more", func() { p.write("x.h", "#include \"y.h\"\n", "y.h", "#define X 7\n#define Y \"z\"\n") }, "", "7 3 z\n", 3}, // the other source may find it, too
		{"without it", func() {
			p.write("x.h", "#ifndef X\n#define X 1\n#endif\n#define Y \"it's \\\"y\\\"\"\n")
			os.Remove(filepath.Join(p.dir, "y.h"))
		}, "-DX=5", "5 3 it's \"y\"\n", 1},
		{"with it again", func() { p.write("x.h", "#include \"y.h\"\n", "y.h", "#define X 7\n#define Y \"z\"\n") }, "", "7 3 z\n", 1},
		{"a header that shadows", func() {
			p.write("inc/stdio.h", "int printf(const char *, ...);\n#define f() 9\n", "main.c", "#include <stdio.h>\nint main(void) { printf(\"%d\\n\", f()); }\n")
		}, "-Iinc", "9\n", 3}, // the other source may find it, too
	}
	for _, c := range steps {
		c.do()
		if out, n := p.sh("rm -f *.o prog; MORE='" + c.more + "'; " + build); out != c.out || n != c.compiled {
			t.Errorf("%s: %q, compiled %d times; want %q, %d times", c.name, out, n, c.out, c.compiled)
		}
	}
}

// A program of one source that links nothing of the project is kept, too, with what the compiler said.
func TestProgramsOfOneSource(t *testing.T) {
	p := newProject(t, t.TempDir(), filepath.Join(t.TempDir(), "objects"))
	p.write("main.c", "#include <stdio.h>\n#include \"x.h\"\nint main(void) { int unused; puts(X); return 0; }\n", "x.h", "#define X \"x\"\n",
		"f.c", "const char *f(void) { return \"f\"; }\n", "g.c", "#include <stdio.h>\nconst char *f(void);\nint main(void) { puts(f()); return 0; }\n")
	for _, c := range []struct {
		name, script, out string
		compiled          int
	}{
		{"first", "cc -O1 -o prog main.c -lm && ./prog", "x\n", 1},
		{"again", "cc -O1 -o prog main.c -lm && ./prog", "x\n", 0},
		{"by its other name", "cc -O1 main.c -lm && ./a.out", "x\n", 1},
		{"with stubs of the system", "export LIBRARY_PATH=/usr/lib/stubs:/usr/lib; cc main.c && ./a.out; cc main.c && ./a.out", "x\nx\n", 1},
		{"with libraries of the project", "export LIBRARY_PATH=/usr/lib:$PWD; cc main.c && ./a.out; cc main.c && ./a.out", "x\nx\n", 2},
		{"with libraries of where it runs", "export LIBRARY_PATH=/usr/lib:; cc main.c && ./a.out; LIBRARY_PATH=lib cc main.c && ./a.out", "x\nx\n", 2},
		{"a header", "echo '#define X \"y\"' >x.h; cc -O1 -o prog main.c -lm && ./prog", "y\n", 1},
		{"a library of the project", "cc -c f.c && ar rc libf.a f.o 2>&1 && cc -o g g.c -L. -lf && ./g", "f\n", 2},
		{"another such library", "sed -i 's/\"f\"/\"h\"/' f.c; cc -c f.c && ar rc libf.a f.o 2>&1 && cc -o g g.c -L. -lf && ./g", "h\n", 2},
		{"a folder of the project like the system's", "mkdir -p v2/usr/include; for i in 1 2; do echo \"#define V $i\" >v2/usr/include/v.h; printf '#include \"v2/usr/include/v.h\"\\nint main(void) { return V; }\\n' >v.c; cc -o g v.c; ./g; echo $?; done", "1\n2\n", 2},
		{"a file for the linker", "cc -o g g.c -Wl,libf.a && ./g; cc -o g g.c -Wl,libf.a && ./g", "h\nh\n", 2},
		{"of two sources", "cc -Wall -o g g.c f.c && ./g", "h\n", 3},
		{"of which one has changed", "sed -i 's/\"h\"/\"i\"/' f.c; cc -Wall -o g g.c f.c && ./g", "i\n", 2},
		{"the other", "sed -i 's/f());/f()); puts(\"\");/' g.c; cc -Wall g.c f.c -o g -lm && ./g", "i\n\n", 2},
		{"with a library of the project", "cc -Wall g.c f.c -o g -L. -lf && ./g", "i\n\n", 1},
		{"objects of several", "rm -f f.o; cc -Wall -c g.c f.c && cc g.o f.o -o g && ./g", "i\n\n", 3},
		{"again", "rm g.o f.o; cc -Wall -c g.c f.c && cc g.o f.o -o g && ./g", "i\n\n", 1},
		{"objects", "cc -c main.c; cc -o prog main.o; rm main.o; cc -c main.c && cc main.o -o prog && ./prog", "y\n", 3},
	} {
		if out, n := p.sh("rm -f prog a.out g; " + c.script); out != c.out || n != c.compiled {
			t.Errorf("%s: %q, compiled %d times; want %q, %d times", c.name, out, n, c.out, c.compiled)
		}
	}
}

// nvcc's objects and programs are kept by the same rules, with what ptxas printed. The host compiler that it calls keeps
// nothing, and options that it gets by its own variables count.
func TestNvcc(t *testing.T) {
	tools := t.TempDir()
	toolkit := filepath.Join(tools, "cuda", "include")
	if err := os.MkdirAll(filepath.Join(toolkit, "cuda", "std"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"cuda_runtime.h": "#include <cuda/std/cstdint>\n", "cuda/std/cstdint": "#if __has_include(<cstdint>)\n#endif\n"} {
		if err := os.WriteFile(filepath.Join(toolkit, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	fake := fmt.Sprintf(`#!/bin/bash
echo compiles >>%[1]s/log
[ -z "$KBISECT_OBJECTS" ] || echo "the host compiler keeps objects"
echo "ptxas info : Used 4 registers" >&2
args=(-include cuda_runtime.h -I %[1]s/../$(basename %[1]s)/cuda/include)
for a in $NVCC_PREPEND_FLAGS "$@" $NVCC_APPEND_FLAGS; do
	case $a in
	-gencode=* | -Xptxas* | -use_fast_math | -dc | -x | cu) ;;
	*.cu) args+=(-x c "$a") ;;
	*) args+=("$a") ;;
	esac
done
cc "${args[@]}" && for d in *.d; do [ ! -e "$d" ] || sed -i '1s/:/ :/' "$d"; done # as nvcc writes it
`, tools)
	if err := os.WriteFile(filepath.Join(tools, "nvcc"), []byte(fake), 0o777); err != nil {
		t.Fatal(err)
	}
	p := newProjectWith(t, tools, t.TempDir(), filepath.Join(t.TempDir(), "objects"))
	p.write("k.cu", "#include <stdio.h>\n#include \"k.cuh\"\n#ifndef M\n#define M 0\n#endif\nint main(void) { printf(\"%d %d\\n\", K, M); return 0; }\n", "k.cuh", "#define K 1\n")
	const said, program = "ptxas info : Used 4 registers\n", "nvcc -O3 -gencode=arch=compute_90a,code=sm_90a -Xptxas=-v,--warn-on-spills -MD -MF 0.d -o k k.cu && ./k && head -c 8 0.d"
	const listed = "k : k.cu"
	for _, c := range []struct {
		name, script, out string
		compiled          int
	}{
		{"first", program, said + "1 0\n" + listed, 2}, // nvcc, and the host compiler
		{"again", program, said + "1 0\n" + listed, 0},
		{"a header", "echo '#define K 2' >k.cuh; " + program, said + "2 0\n" + listed, 2},
		{"back", "echo '#define K 1' >k.cuh; " + program, said + "1 0\n" + listed, 0},
		{"a macro by its variable", "export NVCC_APPEND_FLAGS=-DM=7; " + program, said + "1 7\n" + listed, 2},
		{"and again", "export NVCC_APPEND_FLAGS=-DM=7; " + program, said + "1 7\n" + listed, 0},
		{"without it", program, said + "1 0\n" + listed, 0},
		{"an object", "nvcc -use_fast_math -c k.cu && nvcc -x cu -c k.cu -o l.o", said + said, 4},
		{"an object again", "nvcc -use_fast_math -c k.cu && nvcc -x cu -c k.cu -o l.o && ls *.o", said + said + "k.o\nl.o\n", 0},
		{"a shadowing header", "mkdir -p i; echo '#define K 9' >i/k.cuh; nvcc -Ii -o k k.cu && ./k; rm k.cuh; nvcc -Ii -o k k.cu && ./k", said + "1 0\n" + said + "9 0\n", 4},
	} {
		if out, n := p.sh("rm -f k *.o 0.d; " + c.script); out != c.out || n != c.compiled {
			t.Errorf("%s: %q, compiled %d times; want %q, %d times", c.name, out, n, c.out, c.compiled)
		}
	}
	p.write("k.cuh", "#define K 1\n", "cxx", "", "args.cu", "")
	for _, call := range []string{
		"INCLUDES=-Ii nvcc -c k.cu", "LIBRARIES=-L. nvcc k.cu", "PTXAS_FLAGS=-v nvcc -c k.cu", "nvcc -Xptxas=-v,-o,x -c k.cu", "nvcc -Xcompiler '-Wall -fPIC' -c k.cu",
		"NVCC_APPEND_FLAGS=-MMD nvcc -c k.cu", "NVCC_CCBIN=$PWD/cxx nvcc -c k.cu", "nvcc -ccbin ./cxx -c k.cu", "nvcc -Ii,. -c k.cu", "nvcc -I=i -c k.cu", "nvcc --options-file=args.cu k.cu",
		"NVCC_PREPEND_FLAGS='-I\"i\"' nvcc -c k.cu", "nvcc -fdevice-time-trace=x -c k.cu", "nvcc -dc k.cu k.cu",
	} {
		p.sh(call)
		if out, n := p.sh(call); n == 0 {
			t.Errorf("%s is taken from what was kept: %q", call, out)
		}
	}
}

// What an object holds is what the compiler alone would write, whatever the options; what is printed and the exit status
// are the same, and so are dependency files. What is not understood is passed on.
func TestWrapperIsLikeTheCompiler(t *testing.T) {
	alone := newProject(t, t.TempDir(), "")
	p := newProject(t, alone.dir, filepath.Join(t.TempDir(), "objects"))
	files := []string{"s.c", "#include \"h/h.h\"\nstatic int unused;\nint f(int x) { int y; return x * H; }\nchar here[] = __FILE__;\n", "h/h.h", "#define H 3\n", "other.c", "int g;\n", "main.c", "int f(int);\nint main(void) { return f(1) - 3; }\n",
		"wrong.c", "#error no\n", "bin.c", "__asm__(\".data\\n.incbin \\\"data\\\"\\n\");\n", "data", "one", "p.cpp", "struct A { virtual ~A() {} }; A a;\n", "t.s", ".data\n", "args", "-O2\n"}
	for _, script := range []string{
		"cc -c s.c", "cc -c s.c -o s.o", "cc -o sub/s.o -c ./s.c -Wall -Wextra", "cc -c s.c -o s.lo -fPIC", "cc -g -c s.c", "cc -g3 -c s.c", "cc -O2 -march=native -c -o s.o s.c",
		"cc -c -MD s.c", "cc -c -MMD -o sub/s.o s.c", "cc -c -MMD -MP -MF d.d -MT 'a b' s.c", "cc -MD -MF d.d -c s.c -o sub/s.o", "cc -c -MMD -MQ '$x' s.c", "cc -Wp,-MD,d.d -c s.c",
		"cc -c wrong.c", "cc -Wall -Werror -c s.c", "cc -c nowhere.c", "cc -c s.c other.c", "cc -c s.c -o nowhere/s.o", "cc -S s.c", "cc -E s.c", "cc -c bin.c", "cc -c p.cpp", "cc -x c++ -c other.c",
		"cc -c t.s", "cc -c @args s.c", "cc -c -fstack-usage s.c", "cc -c --coverage s.c", "cc -c -save-temps s.c", "cc -c -include h/h.h -D H2 -UH2 -D'S=\"a b\"' s.c", "cc -shared -fPIC s.c other.c -o lib.so", "cc -g main.c other.c s.c -o prog && ./prog", "cc -O2 main.c ./other.c s.c", "cc wrong.c s.c nowhere.c -o prog", "cc main.c other.c -o prog 2>&1 | grep -c undefined", "cc -c s.c other.c -o a.o", "mkdir prog; cc main.c s.c -o prog", "mkdir prog; cc main.c -o prog", "cp args args.c; cc -c s.c @args.c", "cc -c s.c wrong.c other.c",
		"cc -c -O0 s.c; cc -c -O3 s.c", "cc -c s.c -o", "cc -c", "cc", "cc --version", "echo 'int z;' | cc -x c -c - -o z.o", "cc -c s.c -o s.obj", "cc -c \"-DNL=a\nb\" s.c", "COMPILER_PATH=/ cc -c s.c", "cc -c $PWD/s.c -I$PWD",
		"cc -c s.c -fdiagnostics-color=always -Wall", "cc -frecord-gcc-switches -c s.c", "cc -c s.c -Wl,-z,now -lm -L/ -pthread",
		"cc -c -fsyntax-only s.c -o s.o", "cc -c -MP s.c", "cc -c -MT a s.c", "cc -MD -MF - -c s.c", "cc -c -MD -MF /dev/stdout s.c | cat", "CPATH=h cc -c s.c", "set -eu; export SHELLOPTS; cc -c s.c",
	} {
		var all [3]string
		for i, x := range []*project{alone, p, p} { // the last time with what the one before has kept
			os.RemoveAll(p.dir)
			x.write(files...)
			out, n := x.sh("mkdir sub; " + script)
			all[i] = out
			filepath.WalkDir(p.dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					if strings.Contains(script, "--coverage") { // which stamps what it writes
						all[i] += "\n" + path
						return nil
					}
					data, _ := os.ReadFile(path)
					all[i] += fmt.Sprintf("\n%s %q", strings.TrimPrefix(path, p.dir), data)
				}
				return nil
			})
			if strings.Contains(script, "-MMD") { // system headers are listed, too
				all[i] = strings.NewReplacer(" /usr/include/stdc-predef.h", "", `/usr/include/stdc-predef.h:\n`, "").Replace(all[i])
			}
			if i == 2 && n > 0 && strings.HasPrefix(script, "cc -c s.c") && !strings.Contains(script, "nowhere") && strings.Count(script, ".c") == 1 && strings.HasSuffix(script, "s.o") {
				t.Errorf("%s: compiled again", script)
			}
		}
		if all[1] != all[0] || all[2] != all[0] {
			t.Errorf("%s:\nalone  %.3000s\nfirst  %.3000s\nsecond %.3000s", script, all[0], all[1], all[2])
		}
	}
	p.write(files...)
	p.sh("cc -c bin.c -o one.o")
	p.write("data", "two")
	if out, _ := p.sh("cc -c bin.c -o two.o; cmp -s one.o two.o || echo differ"); out != "differ\n" {
		t.Errorf("a file that the assembler reads has changed: %q", out)
	}
}

// An object is not kept by the content of a file that was written while the compiler ran.
func TestFilesWrittenMeanwhile(t *testing.T) {
	p := newProject(t, t.TempDir(), filepath.Join(t.TempDir(), "objects"))
	p.write("s.c", "#include \"h.h\"\nint main(void) { return H; }\n", "h.h", "#define H 1\n")
	for _, meanwhile := range []string{"echo \"#define H 2\" >h.h", "mv older.h h.h"} {
		p.write("h.h", "#define H 1\n", "older.h", "#define H 2\n")
		p.sh("MEANWHILE='" + meanwhile + "' cc -c s.c")
		if out, n := p.sh("rm s.o; cc -c s.c && cc s.o && ./a.out; echo $?"); out != "2\n" || n != 2 {
			t.Errorf("%s: %q, compiled %d times", meanwhile, out, n)
		}
		os.RemoveAll(p.objects)
		os.Mkdir(p.objects, 0o777)
	}
}

// Compiled headers, and headers that are found elsewhere deep below, make other objects.
func TestHeadersThatNoListNames(t *testing.T) {
	p := newProject(t, t.TempDir(), filepath.Join(t.TempDir(), "objects"))
	const deep = "mkdir -p first; cc -Ifirst -Isecond -c deep.c && cc deep.o && ./a.out; echo $?"
	p.write("deep.c", "#include <a/b/c.h>\nint main(void) { return C; }\n", "second/a/b/c.h", "#define C 1\n")
	for i, want := range []string{"1\n", "1\n", "2\n"} {
		if i == 2 {
			p.write("first/a/b/c.h", "#define C 2\n")
		}
		if out, _ := p.sh(deep); out != want {
			t.Errorf("%d: %q", i, out)
		}
	}
	// A text that is included need not be called a header.
	const texts = "mkdir -p first; cc -Ifirst -Isecond -c t.c && cc t.o && ./a.out; echo $?"
	p.write("t.c", "#include \"in/t.def\"\n#include <u.c>\nint main(void) { return T + U; }\n", "in/t.def", "#include \"v.c\"\n", "second/v.c", "#define T 1\n", "second/u.c", "#define U 10\n")
	for i, c := range []struct {
		file, text, want string
		compiled         int
	}{
		{"other", "", "11\n", 2}, {"other", "", "11\n", 1}, {"second/v.c", "#define T 2\n", "12\n", 2}, {"first/u.c", "#define U 20\n", "22\n", 2},
		{"in/v.c", "#define T 3\n", "23\n", 2}, {"other", "", "23\n", 1},
	} {
		p.write(c.file, c.text)
		if out, n := p.sh(texts); out != c.want || n != c.compiled {
			t.Errorf("%d, %s: %q, compiled %d times; want %q, %d times", i, c.file, out, n, c.want, c.compiled)
		}
	}
	for _, c := range []struct {
		ask      string
		compiled int // objects, and the program twice
	}{{"\"gen.h\"", 4}, {" <deep/er/est/gen.h> ", 4}, {" \"gen.h\"", 4}, {"WHICH", 5}, {"/**/\"gen.h\"", 5}} {
		p.write("s.c", "#define WHICH \"gen.h\"\n#ifdef __has_include\n#if __has_include("+c.ask+") || defined(__has_include_next) && 0\nint main(void) { return 4; }\n#else\nint main(void) { return 3; }\n#endif\n#endif\n")
		out, n := p.sh("rm -rf gen.h x; cc -Ix -c s.c && cc -Ix -c s.c && cc s.o && ./a.out; echo $?; mkdir -p x/deep/er/est; touch gen.h x/deep/er/est/gen.h; cc -Ix -c s.c && cc s.o && ./a.out; echo $?")
		if out != "3\n4\n" || n != c.compiled {
			t.Errorf("%s comes to be there: %q, compiled %d times", c.ask, out, n)
		}
	}
	for _, compile := range []string{"cc all.h", "cc -x c-header all.h -o all.h.gch"} {
		for _, value := range []string{"5", "6"} {
			p.write("all.h", "#include \"v.h\"\n", "v.h", "#define V "+value+"\n", "v.c", "#include \"all.h\"\nint main(void) { return V; }\n")
			if out, _ := p.sh("rm -f *.gch; " + compile + " && cc -c v.c && cc v.o && ./a.out; echo $?"); out != value+"\n" {
				t.Errorf("%s: %q, want %s", compile, out, value)
			}
		}
		os.RemoveAll(p.objects)
		os.Mkdir(p.objects, 0o777)
	}
}

// Another workspace finds the same objects, whatever its name, but not where the name is in the program.
func TestObjectsServeOtherWorkspaces(t *testing.T) {
	objects, tools, path := filepath.Join(t.TempDir(), "objects"), t.TempDir(), os.Getenv("PATH")
	for i, name := range []string{"a", "b [1].*|&\\ c"} {
		t.Setenv("PATH", path)
		p := newProjectWith(t, tools, filepath.Join(t.TempDir(), name), objects)
		p.write("x/s.c", "#include \"h.h\"\nint f(void) { return H; }\n", "x/h.h", "#define H 1\n", "file.c", "char here[] = __FILE__;\n")
		if out, n := p.sh(`cc -g -c x/s.c && cd x && cc -c s.c`); out != "" || n != 2-2*i {
			t.Errorf("%s: %q, compiled %d times", name, out, n)
		}
		if out, n := p.sh(`cc -c "$PWD/file.c" && grep -c -F "$PWD" file.o`); out != "1\n" || n != 1 {
			t.Errorf("%s: __FILE__: %q, compiled %d times", name, out, n)
		}
	}
}

// As of CMake, calls that name files by their whole paths serve other workspaces too, with lists and warnings of paths as they
// are there; objects that hold such a path do not.
func TestObjectsOfWholePaths(t *testing.T) {
	base, objects, tools, path := t.TempDir(), filepath.Join(t.TempDir(), "objects"), t.TempDir(), os.Getenv("PATH")
	var projects []*project
	for _, name := range []string{"a", "b.c/a"} {
		t.Setenv("PATH", path)
		p := newProjectWith(t, tools, filepath.Join(base, name, "tree"), objects)
		p.write("x/s.c", "#include \"h.h\"\n#include <g.h>\n#warning here\nint f(void) { return H + G; }\n", "x/h.h", "#define H 1\n", "i/g.h", "#define G 1\n",
			"file.c", "char here[] = __FILE__;\n", "macro.c", "char here[] = MACRO;\n", "build/sub/empty", "")
		projects = append(projects, p)
	}
	for _, x := range []struct {
		what, call string
		serves     bool
	}{
		{"a source and a folder", `cc -c $root/x/s.c -o s.o -I$root/i`, true},
		{"the root, and a list", `cc -I$root -I $root/i -MD -MT s.o -MF s.d -o s.o -c $root/x/s.c`, true},
		{"all of them", `cc -isystem $root/i -MD -MT $root/build/sub/s.o -MF $root/build/sub/s.d -o $root/build/sub/s.o -c $root/x/s.c`, true},
		{"debug information", `cc -g -I$root/i -c $root/x/s.c -o s.o`, false},
		{"__FILE__", `cc -c $root/file.c -o s.o`, false},
		{"a macro", `cc -DMACRO=\"$root\" -c $root/macro.c -o s.o`, false},
		{"link time", `cc -flto -I$root/i -c $root/x/s.c -o s.o`, false},
	} {
		var objects [2]string
		for i, p := range projects {
			out, n := p.sh(`root=$PWD; cd build/sub; for i in 1 2; do rm -f s.o s.d; ` + x.call + ` || exit; done; cat s.o; test ! -f s.d || cat s.d`)
			want := 1
			if x.serves && i > 0 {
				want = 0
			}
			if n != want {
				t.Errorf("%s: compiled %d times for %s, want %d", x.what, n, p.dir, want)
			}
			if other := projects[1-i].dir + "/"; strings.Contains(out, other) {
				t.Errorf("%s: %s is named in %s:\n%s", x.what, other, p.dir, out)
			}
			objects[i] = strings.ReplaceAll(out, p.dir, "")
		}
		if x.serves && objects[0] != objects[1] {
			t.Errorf("%s:\n%q\n%q", x.what, objects[0], objects[1])
		}
		p := projects[1]
		p.write("i/g.h", "#define G 2\n", "file.c", "char here[] = \"\" __FILE__;\n", "macro.c", "char here[] = \"\" MACRO;\n")
		if _, n := p.sh(`root=$PWD; cd build/sub; ` + x.call); n != 1 {
			t.Errorf("%s: compiled %d times after a change", x.what, n)
		}
		p.write("i/g.h", "#define G 1\n", "file.c", "char here[] = __FILE__;\n", "macro.c", "char here[] = MACRO;\n")
	}
}

// Builds do not depend on the folder of objects: it may vanish, fill, or be somebody else's.
func TestObjectsMayVanish(t *testing.T) {
	objects := filepath.Join(t.TempDir(), "objects")
	p := newProject(t, t.TempDir(), objects)
	p.write("s.c", "int main(void) { return 7; }\n")
	const build = "rm -f s.o; cc -c s.c && cc s.o && ./a.out; echo $?"
	for _, do := range []func() error{
		func() error { return nil },
		func() error { return os.RemoveAll(objects) },
		func() error { return os.WriteFile(objects, nil, 0o666) },
		func() error { return os.Remove(objects) },
		func() error { return os.Symlink("/dev/full", objects) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if out, n := p.sh(build); out != "7\n" || n != 2 {
			t.Errorf("%q, compiled %d times", out, n)
		}
	}
}

// A compiler cache that goes by the compiler's name, size and time finds the same wrappers in every workspace, and one
// that stands in front of the compiler is not led back to itself.
func TestWrappersAndCompilerCaches(t *testing.T) {
	bin, first := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(bin, "cc"): "#!/bin/sh\necho the compiler \"$@\"\n",
		filepath.Join(first, "ccache"): `#!/bin/sh
[ -z "$INSIDE" ] || { echo led back; exit 1; }
IFS=:
for dir in $PATH; do
	if [ -x "$dir/cc" ] && [ "$(readlink -f "$dir/cc")" != "$(readlink -f "$0")" ]; then
		INSIDE=yes exec "$dir/cc" "$@"
	fi
done
`} {
		if err := os.WriteFile(name, []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("ccache", filepath.Join(first, "cc")); err != nil {
		t.Fatal(err)
	}
	system := os.Getenv("PATH")
	sizes := map[string]bool{}
	for _, c := range []struct{ path, want string }{{bin, "the compiler x"}, {first + ":" + bin, "the compiler x"}} {
		t.Setenv("PATH", c.path+":"+system)
		for _, options := range [][]string{nil, {"-O2"}, {"-O3"}} {
			want := strings.Join(append([]string{c.want}, options...), " ") + "\n"
			var files []os.FileInfo
			for range 2 {
				dir, err := Write(t.TempDir(), options)
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command("sh", "-c", "cc x")
				cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
				if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
					t.Errorf("%s: %q (%v), want %q", c.path, out, err, want)
				}
				if st, err := os.Stat(filepath.Join(dir, "cc")); err == nil {
					files = append(files, st)
				}
			}
			if len(files) > 0 && len(options) > 0 && c.path == bin {
				at := fmt.Sprint(files[0].Size(), files[0].ModTime())
				if sizes[at] {
					t.Errorf("other options make a wrapper of the same size and time, %s", at)
				}
				sizes[at] = true
			}
			if len(files) > 0 && (files[0].Size() != files[1].Size() || !files[0].ModTime().Equal(files[1].ModTime())) {
				t.Errorf("%s: wrappers of %d and %d bytes, written %v and %v", c.path, files[0].Size(), files[1].Size(), files[0].ModTime(), files[1].ModTime())
			}
		}
	}
}
