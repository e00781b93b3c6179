package main

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/kbisect/kbisect/bisect/report"
)

// The JSON of every command says what was measured, what to type next, where the time went and what was left out.
func TestEveryDocumentHasTheFacts(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	for i, ms := range []string{"10", "10", "30"} {
		r.put(map[string]string{"t.sh": "#!/bin/sh\necho time " + ms + " ms\n", "note": string(rune('a' + i))})
		r.commit("takes " + ms)
	}
	r.put(map[string]string{"kbisect.toml": "version = 1\npaths = [\"t.sh\"]\n[run]\ncommand = [\"sh\", \"t.sh\"]\n[metric]\nname = \"time\"\nfrom = \"regex\"\npattern = 'time (?P<value>[0-9.]+) (?P<unit>ms)'\n"})
	for _, x := range []struct {
		args   []string
		metric string
		wants  string // the word behind kbisect, or else the program, of a next command
	}{
		{[]string{"run", "--good", "HEAD~2", "--json", "--no-hunks"}, "time", "show"},
		{[]string{"run", "--good", "HEAD~2", "--json", "--no-hunks"}, "time", "show"}, // from the store
		{[]string{"run", "--good", "HEAD~2", "--json", "--no-hunks", "--", "sh", "-c", "! grep 30 t.sh"}, "", "git"},
		{[]string{"compare", "--json", "HEAD^", "HEAD"}, "time", "run"},
		{[]string{"gate", "--json", "--base", "HEAD^"}, "time", "gate"},
		{[]string{"gate", "--json", "--base", "HEAD"}, "", ""}, // launches nothing
		{[]string{"measure", "--json", "HEAD"}, "time", "show"},
		{[]string{"explain", "--json", "HEAD^", "HEAD"}, "", "show"},
		{[]string{"try", "--json", "--good", "HEAD~2"}, "time", "run"},
		{[]string{"history", "--json"}, "", ""},
	} {
		out, said, _ := r.kbisect(x.args...)
		var keys map[string]json.RawMessage
		var d struct{ report.Facts }
		if err := json.Unmarshal([]byte(out), &keys); err != nil {
			t.Fatalf("%v: %v\n%s%s", x.args, err, out, said)
		}
		if err := json.Unmarshal([]byte(out), &d); err != nil {
			t.Fatalf("%v: %v", x.args, err)
		}
		for _, key := range []string{"measured", "next", "times", "left_out"} {
			if v := string(keys[key]); v == "" || v == "null" {
				t.Errorf("%v: %s is missing: %v", x.args, key, slices.Sorted(maps.Keys(keys)))
			}
		}
		launched := x.wants != ""
		switch m := d.Measured; {
		case launched && len(m.Command) == 0, report.Text(m.Metric) != x.metric, x.metric != "" && report.Text(m.Direction) != "lower", m.Dirty:
			t.Errorf("%v: measured %s", x.args, keys["measured"])
		}
		next := slices.ContainsFunc(d.Next, func(c report.Command) bool {
			return c.Argv[0] == x.wants || c.Argv[0] == "kbisect" && slices.Contains(c.Argv[1:], x.wants)
		})
		if next != launched {
			t.Errorf("%v: next is %s, without %q", x.args, keys["next"], x.wants)
		}
		var sum, wall float64
		for account, v := range d.Times {
			if seconds, ok := v.(float64); ok && account != "wall" {
				sum += seconds
			} else if ok {
				wall = seconds
			}
		}
		if _, ok := d.Times["overlapped"].(map[string]any); !ok || math.Abs(sum-wall) > 1e-6 || wall < 0 {
			t.Errorf("%v: times add up to %v: %s", x.args, sum, keys["times"])
		}
		if l := d.LeftOut; (x.args[0] == "run") != (l.By != nil && l.Commits == 1) {
			t.Errorf("%v: left out %s", x.args, keys["left_out"])
		}
	}
}
