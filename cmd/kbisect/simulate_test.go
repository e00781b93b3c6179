package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/fixtures/simulate"
)

// specFile writes a specification and returns a repository to start kbisect in; simulate needs none.
func specFile(t *testing.T, text string) *repo {
	t.Helper()
	r := &repo{t: t, dir: t.TempDir(), home: t.TempDir()}
	if err := os.WriteFile(filepath.Join(r.dir, "spec.json"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return r
}

const quickSpec = `{"preset":"quiet","commits":32,"step_log":0.1,"trials":9,"rules":["kbisect","fixed1"]}`

// Options may stand before or after the specification, and the table holds a row for every rule. Searches are played side by
// side here under the race detector.
func TestSimulateTable(t *testing.T) {
	t.Parallel()
	r := specFile(t, quickSpec)
	r.watched = true
	for _, args := range [][]string{
		{"simulate", "--trials", "5", "spec.json"}, {"simulate", "spec.json", "--trials", "5"}, {"simulate", "spec.json", "--trials=5"},
	} {
		out, errs, code := r.kbisect(args...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if code != 0 || errs != "" || len(lines) != 5 || lines[0] != "32 commits, 5 trials a rule from seed 1" {
			t.Fatalf("%v: exit %d\n%s%s", args, code, out, errs)
		}
		for _, title := range []string{"rule", "right", "wrong", "inconclusive", "launches", "95 % need", "device", "builds", "slowest decision"} {
			if !strings.Contains(lines[2], title) {
				t.Errorf("%v: no column %q in %q", args, title, lines[2])
			}
		}
		if f := strings.Fields(lines[3]); f[0] != "kbisect" || f[1] != "100.0" {
			t.Errorf("%v: %q", args, lines[3])
		}
		if f := strings.Fields(lines[4]); f[0] != "fixed1" {
			t.Errorf("%v: %q", args, lines[4])
		}
	}
}

// The answer of --json is a list of an object for each rule with the keys of the contract, and the same
// for the same seed but for the time that decisions took.
func TestSimulateJSON(t *testing.T) {
	r := specFile(t, quickSpec)
	play := func(args ...string) []map[string]any {
		out, errs, code := r.kbisect(args...)
		var rules []map[string]any
		if err := json.Unmarshal([]byte(out), &rules); err != nil || code != 0 {
			t.Fatalf("%v: exit %d, %v\n%s%s", args, code, err, out, errs)
		}
		for _, x := range rules {
			delete(x, "decision_ms_max")
		}
		return rules
	}
	a, b := play("simulate", "--json", "spec.json"), play("simulate", "spec.json", "--json")
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%v, then %v", a, b)
	}
	if len(a) != 2 || a[0]["rule"] != "kbisect" || a[0]["trials"] != 9.0 || a[0]["right"] != 1.0 {
		t.Errorf("%v", a)
	}
	for _, key := range []string{"rule", "trials", "right", "wrong", "inconclusive", "launches_mean", "launches_p95", "device_seconds", "builds"} {
		if _, ok := a[0][key]; !ok {
			t.Errorf("key %s is missing", key)
		}
	}
}

// --example prints a specification that simulate takes, with every key.
func TestSimulateExample(t *testing.T) {
	r := specFile(t, "")
	out, errs, code := r.kbisect("simulate", "--example")
	s, err := simulate.ReadSpec([]byte(out))
	if code != 0 || errs != "" || err != nil || !reflect.DeepEqual(s, simulate.DefaultSpec()) {
		t.Errorf("exit %d, %v, %q\n%s", code, err, errs, out)
	}
	var keys map[string]any
	if err := json.Unmarshal([]byte(out), &keys); err != nil || keys["effect"] != 0.005 || keys["devices"] != 1.0 {
		t.Errorf("%v: %v", err, keys)
	}
}

// The smallest change that is looked for can be set: a step below it is no difference.
func TestSimulateEffect(t *testing.T) {
	for text, named := range map[string]bool{
		`{"preset":"quiet","commits":32,"step_log":0.02,"trials":3}`:               true,
		`{"preset":"quiet","commits":32,"step_log":0.02,"trials":3,"effect":0.08}`: false,
	} {
		r := specFile(t, text)
		out, errs, code := r.kbisect("simulate", "--json", "spec.json")
		var rules []simulate.Score
		if err := json.Unmarshal([]byte(out), &rules); err != nil || code != 0 {
			t.Fatalf("exit %d, %v\n%s%s", code, err, out, errs)
		}
		if (rules[0].Right == 1) != named || rules[0].Wrong > 0 {
			t.Errorf("%s: %+v", text, rules[0])
		}
	}
}

// A search launches on all devices of a machine at a time, which shortens it; the rivals launch on one.
func TestSimulateDevices(t *testing.T) {
	r := specFile(t, strings.Replace(quickSpec, "{", `{"devices":4,`, 1))
	one := specFile(t, quickSpec)
	out, _, code := r.kbisect("simulate", "spec.json")
	if code != 0 || !strings.Contains(out, "4 devices at a time") {
		t.Errorf("exit %d\n%s", code, out)
	}
	scores := func(r *repo) (s []simulate.Score) {
		out, _, _ := r.kbisect("simulate", "--json", "spec.json")
		if err := json.Unmarshal([]byte(out), &s); err != nil || len(s) != 2 {
			t.Fatal(err, out)
		}
		for i := range s {
			s[i].DecisionMax = 0
		}
		return s
	}
	if a, b := scores(r), scores(one); a[0].DevicesUsed != 4 || b[0].DevicesUsed != 1 || !(a[0].WallSeconds < b[0].WallSeconds) || !reflect.DeepEqual(a[1], b[1]) {
		t.Errorf("on four devices %+v, on one %+v", a, b)
	}
}

func TestSimulateErrors(t *testing.T) {
	r := specFile(t, `{"trials":2,"step_lag":0.1}`)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("fine.json", quickSpec)
	write("without.json", `{"devices":0}`)
	write("broken.json", `{"trials":`)
	write("endless.json", `{"trials":1,"commits":4,"step_log":1e308,"rules":["kbisect"]}`)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"simulate"}, "one specification is needed\nhint: kbisect simulate --example"},
		{[]string{"simulate", "spec.json"}, "spec.json: line 1: unknown key \"step_lag\"\nhint: "},
		{[]string{"simulate", "none.json"}, "none.json: no such file"},
		{[]string{"simulate", "broken.json"}, "broken.json: line 1: invalid JSON: unexpected end of JSON input"},
		{[]string{"simulate", "without.json"}, "devices: 0 is less than 1"},
		{[]string{"simulate", "fine.json", "spec.json"}, "takes one specification, not also \"spec.json\""},
		{[]string{"simulate", "fine.json", "--loud"}, "kbisect: there is no option --loud\nhint: kbisect simulate --help"},
		{[]string{"simulate", "--trials", "-1", "fine.json"}, "--trials -1: 1 to 1000000 are played"},
		{[]string{"simulate", "fine.json", "--trials", "1000000000000"}, "1 to 1000000 are played"},
		{[]string{"simulate", "endless.json"}, "endless.json: the times of the simulated launches are not finite\nhint: "},
		{[]string{"simulate", "fine.json", "--trials", "x"}, "--trials x: "},
	} {
		out, errs, code := r.kbisect(c.args...)
		if code != exit.UsageError || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d, %q\n%s", c.args, code, out, errs)
		}
	}
}
