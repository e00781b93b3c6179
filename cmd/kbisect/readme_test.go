package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReadme reads every command line of kbisect in the README, in its blocks and in its text: the commands and
// options are there.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	app := newApp(nil, nil, nil)
	app.Setup()
	tried := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)(?:`|\\$ |run: |^ *- |\\()kbisect ((?:-C|[a-z-]+)\\b[^`|\n)]*)").FindAllStringSubmatch(string(text), -1) {
		words := splitLine("kbisect " + m[1] + " ")
		words = words[1 : len(words)-1]
		p := findPlace(app, words)
		switch {
		case p.command == nil:
			t.Errorf("kbisect %s: no such command", m[1])
			continue
		case len(p.commands) > 0:
			t.Errorf("kbisect %s: no such sub-command", m[1])
		}
		for _, w := range words {
			tried[w] = true
		}
		for _, w := range words[:max(0, slices.Index(append(words, "--"), "--"))] {
			name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
			if strings.HasPrefix(w, "-") && name != "" && name != "help" && flagNamed(append(slices.Clone(p.flags), app.Flags...), name) == nil {
				t.Errorf("kbisect %s: no option %s", m[1], w)
			}
		}
	}
	for _, c := range app.VisibleCommands() {
		if !tried[c.Name] && !slices.Contains([]string{"cache", "explain", "version", "help"}, c.Name) {
			t.Errorf("the README does not show kbisect %s", c.Name)
		}
	}
}

// TestReadmeWorkflows: what the README gives CI to run, runs: options, and the files that later steps take up.
func TestReadmeWorkflows(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d workflows, of GitHub and GitLab", len(blocks))
	}
	flag := func(line, name string) string {
		_, rest, _ := strings.Cut(line, "--"+name+" ")
		return strings.Fields(rest + " -")[0]
	}
	github, gitlab := blocks[0][1], blocks[1][1]
	line := regexp.MustCompile(`kbisect gate .*`).FindString(github)
	for _, want := range []string{"sarif_file: " + flag(line, "sarif") + "\n", "fetch-depth: 0\n", "security-events: write", "id: gate\n"} {
		if !strings.Contains(github, want) {
			t.Errorf("no %q in the workflow of GitHub", want)
		}
	}
	line = regexp.MustCompile(`kbisect gate .*`).FindString(gitlab)
	for _, want := range []string{"junit: " + flag(line, "junit") + "\n", "paths: [" + flag(line, "markdown") + "]\n", "GIT_DEPTH: \"0\"\n", "when: always\n", "$CI_MERGE_REQUEST_TARGET_BRANCH_NAME"} {
		if !strings.Contains(gitlab, want) {
			t.Errorf("no %q in the job of GitLab", want)
		}
	}
}

// TestReadmeFiles: the files that the README and CONTRIBUTING name are there.
func TestReadmeFiles(t *testing.T) {
	for _, doc := range []string{"README.md", ".github/CONTRIBUTING.md"} {
		text, err := os.ReadFile("../../" + doc)
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile("`((?:bisect|cmd|fixtures|kernels|pipeline)/[^` *]*)`").FindAllStringSubmatch(string(text), -1)
		if len(named) == 0 {
			t.Errorf("%s names no file", doc)
		}
		for _, m := range named {
			if _, err := os.Stat("../../" + m[1]); err != nil {
				t.Errorf("%s: %v", doc, err)
			}
		}
	}
}
