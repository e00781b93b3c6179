package main

import (
	"strings"
	"testing"
)

func TestPermute(t *testing.T) {
	app := newApp(nil, nil, nil)
	for in, want := range map[string]string{
		"kbisect show 1 --json":                         "kbisect show --json -- 1",
		"kbisect -C dir report last --html f.html":      "kbisect -C dir report --html f.html -- last",
		"kbisect report --html=f last":                  "kbisect report --html=f -- last",
		"kbisect run --good x -- true --json":           "kbisect run --good x -- true --json",
		"kbisect cache trim --nosuch x":                 "kbisect cache trim --nosuch -- x",
		"kbisect simulate s.json --trials 3 --json":     "kbisect simulate --trials 3 --json -- s.json",
		"kbisect compare A B --pairs 5 -- x --y":        "kbisect compare --pairs 5 -- A B -- x --y",
		"kbisect --quiet sessions":                      "kbisect --quiet sessions",
		"kbisect nosuch --x":                            "kbisect nosuch --x",
		"kbisect run --wait 5m --good x t.sh --wait 5m": "kbisect run --wait=5m --good x t.sh --wait 5m",
		"kbisect measure HEAD --wait -- x":              "kbisect measure --wait -- HEAD -- x",
		"kbisect":                                       "kbisect",
		"kbisect demo --dir":                            "kbisect demo --dir",
	} {
		if got := strings.Join(permute(app, strings.Fields(in)), " "); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
