package main

import (
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDirectionIsStatedInEveryResult: whether higher or lower is better stands in all that is said of a metric, by every
// command and in every format.
func TestDirectionIsStatedInEveryResult(t *testing.T) {
	for _, d := range []direction{
		{unit: "MB/s", higher: true, said: `\btime\b.{0,150}(\bhigher\b|\blower \(worse\))`, never: "lower is better"},
		{unit: "us", said: `\btime\b.{0,150}\b(lower|slower|faster)\b`, never: "higher is better"},
	} {
		for name, tell := range map[string]func(*directed){"history": (*directed).searches, "sets": (*directed).sets, "two": (*directed).comparisons, "gate": (*directed).gates} {
			t.Run(d.unit[:1]+" "+name, func(t *testing.T) {
				t.Parallel()
				tell(newDirected(t, d))
			})
		}
	}
}

// direction is a number of whose values the higher or the lower are better, and how that is said.
type direction struct {
	unit        string
	higher      bool
	said, never string
}

// directed is a history in which a number gets worse twice.
type directed struct {
	*repo
	direction
}

func newDirected(t *testing.T, d direction) *directed {
	r := &directed{newRepo(t), d}
	worse := []int{100, 100, 80, 80, 64, 0, 0, 50}
	if !d.higher {
		worse = []int{100, 100, 125, 125, 160, 0, 0, 200}
	}
	r.write("kbisect.toml", `version = 1
[run]
command = ["sh", "bench.sh"]
[[flag]]
name = "double"
values = ["0", "1"]
env = "DOUBLE"
[[flag]]
name = "halve"
values = ["0", "1"]
env = "HALVE"
`)
	r.write("bench.sh", fmt.Sprintf(`v=$(cat value)
[ $v = 0 ] && exit 125
[ "$DOUBLE" = 1 ] && v=$((v * 2))
[ "$HALVE" = 1 ] && v=$((v / 2))
echo "sample: $v %s" >&$KBISECT_FD
`, d.unit))
	r.write("slow.sh", "sleep 2\n. ./bench.sh\n")
	for i, v := range worse {
		r.write("value", fmt.Sprintf("%d\n", v))
		r.write("n", fmt.Sprintln(i))
		r.commit(fmt.Sprint("change ", i+1))
		r.git("tag", fmt.Sprint("v", i+1))
	}
	return r
}

// told runs a command in every format, and holds what it says against the direction; where line is set, what lists of
// sessions say of it rests on a number too.
func (r *directed) told(code int, line bool, command string) {
	r.t.Helper()
	files := [2]string{filepath.Join(r.home, "x.md"), filepath.Join(r.home, "x.html")}
	name, rest, _ := strings.Cut(command, " ")
	out, errs, got := r.kbisect(append([]string{"--quiet", name, "--markdown", files[0], "--report", files[1]}, strings.Fields(rest)...)...)
	if got != code {
		r.t.Errorf("%s: exit %d, not %d\n%s%s", command, got, code, out, errs)
		return
	}
	r.holds(command, out)
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			r.t.Error(err)
		}
		r.holds(command+", "+path, string(text))
	}
	r.holds(command+", JSON", r.says("report", "--json", "last"))
	if line {
		r.holds(command+", show", r.says("show", "last"))
		r.holds(command+", sessions", strings.Split(r.says("sessions"), "\n")[1])
	}
}

// says is what a command says that launches nothing.
func (r *directed) says(args ...string) string {
	r.t.Helper()
	out, errs, code := r.kbisect(args...)
	if code != 0 {
		r.t.Errorf("%v: exit %d\n%s", args, code, errs)
	}
	return out
}

var (
	notText = regexp.MustCompile(`(?s)<(script|style).*?</(script|style)>|<[^>]*>`)
	aBlank  = regexp.MustCompile(`\s+`)
)

// holds reports a text, or a document, that does not say the direction, or says another.
func (r *directed) holds(what, text string) {
	r.t.Helper()
	var document any
	if json.Unmarshal([]byte(text), &document) == nil && !strings.Contains(text, "sarif-schema") { // SARIF has texts alone
		said := map[string]int{}
		directions(document, said)
		if want := map[bool]string{true: "higher", false: "lower"}[r.higher]; said[want] == 0 || len(said) > 1 {
			r.t.Errorf("%s: %v, want %s\n%.3000s", what, said, want, text)
		}
		return
	}
	plain := aBlank.ReplaceAllString(html.UnescapeString(notText.ReplaceAllString(text, " ")), " ")
	if !regexp.MustCompile(r.said).MatchString(plain) || strings.Contains(plain, r.never) {
		r.t.Errorf("%s: no %s, or %q in\n%.3000s", what, r.said, r.never, plain)
	}
}

// directions counts what the objects of a document say, but for those of another metric, such as the phases.
func directions(x any, said map[string]int) {
	switch x := x.(type) {
	case []any:
		for _, v := range x {
			directions(v, said)
		}
	case map[string]any:
		if metric, ok := x["metric"].(string); ok && metric != "time" {
			return
		}
		if higher, ok := x["higher_is_better"].(bool); ok {
			said[map[bool]string{true: "higher", false: "lower"}[higher]]++
		}
		if better, ok := x["better"].(string); ok && better != "" {
			said[better]++
		}
		for _, name := range slices.Sorted(maps.Keys(x)) {
			directions(x[name], said)
		}
	}
}

func (r *directed) searches() {
	r.told(0, true, "run --good v1 --bad v4 --no-past")
	r.told(0, true, "run --good v1 --bad v5 --all --no-explain --no-hunks")
	r.told(4, true, "run --good v1 --bad v2")
	r.told(3, false, "run --good v5 --bad v8")
	r.holds("history", r.says("history"))
	for _, format := range []string{"--json", "--markdown=-", "--html=-"} {
		r.holds("history "+format, r.says("history", format))
	}
}

func (r *directed) sets() {
	r.told(0, true, "run --axis flags --bad v1")
	r.told(0, false, "run --axis hunks --good v1 --bad v4")
}

func (r *directed) comparisons() {
	r.told(0, false, "measure v1 --launches 2")
	r.told(1, true, "compare v1 v4")
	r.told(0, true, "compare v4 v1")
	r.told(0, true, "compare v1 v2")
	r.told(0, true, "explain v1 v4 --launches 5 -- sh slow.sh") // how long a busy machine loads is not the largest change then
	r.holds("baseline record", r.says("baseline", "record", "v1", "--launches", "2"))
	r.holds("baseline show", r.says("baseline", "show"))
	r.holds("baseline show, JSON", r.says("baseline", "show", "--json"))
}

func (r *directed) gates() {
	for _, c := range []struct{ head, result string }{{"v2", "pass"}, {"v5", "regression"}} {
		r.git("checkout", "-q", "-B", "branch", c.head)
		r.git("branch", "-f", "main", "v1")
		files, _ := r.gate("--bisect")
		if !strings.Contains(files["json"], `"result": "`+c.result+`"`) {
			r.t.Errorf("%s: %s", c.result, files["json"])
		}
		if c.result == "pass" {
			delete(files, "stderr") // no annotation
			files["sarif"] = files["junit"]
		}
		delete(files, "outputs") // a ratio beside its result
		for name, text := range files {
			r.holds("gate, "+c.result+", "+name, text)
		}
	}
	r.told(1, true, "gate --base v1")
}
