package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// texts are the README, CONTRIBUTING and the manual, by their file.
func texts(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{"README.md", ".github/CONTRIBUTING.md"} {
		all[name] = readFile(t, name)
	}
	for topic, page := range pages(t) {
		all["cmd/kbisect/docs/"+topic+".md"] = page
	}
	return all
}

// commandLine finds a command line of kbisect in a block, in the text or in a workflow.
var commandLine = regexp.MustCompile("(?m)(?:`|\\$ |run: |\\()kbisect ((?:-C|[a-z-]+)\\b[^`|\n)#]*)")

// TestReadme reads every command line of kbisect in the README and the manual, in their blocks and in their text: the
// commands, options and topics are there. The README shows every command, names what sets it up, and stays short.
func TestReadme(t *testing.T) {
	app := newApp(nil, nil, nil)
	app.Setup()
	tried := map[string]bool{}
	for file, text := range texts(t) {
		text = strings.ReplaceAll(regexp.MustCompile("(?m)\n +").ReplaceAllString(quickStarts(text), "\n"), "`kbisect\n", "`kbisect ")
		for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
			words := splitLine("kbisect " + m[1] + " ")
			words = words[1 : len(words)-1]
			p := findPlace(app, words)
			switch {
			case words[0] == "help" && len(words) == 2 && (slices.Contains(topics(), words[1]) || words[1] == "topics" || words[1] == "TOPIC" || words[1] == "NAME"):
				continue
			case p.command == nil:
				t.Errorf("%s: kbisect %s: no such command", file, m[1])
				continue
			case len(p.commands) > 0:
				t.Errorf("%s: kbisect %s: no such sub-command", file, m[1])
			}
			if file == "README.md" {
				for _, w := range words {
					tried[w] = true
				}
			}
			for _, w := range words[:max(0, slices.Index(append(words, "--"), "--"))] {
				name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
				if strings.HasPrefix(w, "-") && name != "" && name != "help" && flagNamed(append(slices.Clone(p.flags), app.Flags...), name) == nil {
					t.Errorf("%s: kbisect %s: no option %s", file, m[1], w)
				}
			}
		}
	}
	for _, c := range app.VisibleCommands() {
		if !tried[c.Name] && !slices.Contains([]string{"version", "help"}, c.Name) {
			t.Errorf("the README does not show kbisect %s", c.Name)
		}
	}
	readme, makefile := readFile(t, "README.md"), readFile(t, "Makefile")
	if n := strings.Count(readme, "\n"); n > 150 {
		t.Errorf("the README has %d lines, at most 150 are wanted", n)
	}
	for _, target := range regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllStringSubmatch(readme, -1) {
		if !regexp.MustCompile(`(?m)^` + target[1] + `:`).MatchString(makefile) {
			t.Errorf("the README names make %s, which the Makefile lacks", target[1])
		}
	}
	for _, target := range []string{"make demo", "make test"} {
		if !strings.Contains(readme, "\n"+target+" ") {
			t.Errorf("the README lacks %s", target)
		}
	}
}

// quickStarts makes the lines of blocks without a language, which hold commands alone, look like those with a prompt.
func quickStarts(text string) string {
	return fenced.ReplaceAllStringFunc(text, func(block string) string {
		if !strings.HasPrefix(block, "```\n") {
			return block
		}
		return strings.ReplaceAll(block, "\nkbisect ", "\n$ kbisect ")
	})
}

// TestWorkflows: what the manual gives CI to run, runs: options, and the files that later steps take up.
func TestWorkflows(t *testing.T) {
	var workflows []string
	for _, b := range blocksOf(pages(t)["ci"]) {
		if b.language == "yaml" {
			workflows = append(workflows, b.text)
		}
	}
	if len(workflows) != 2 {
		t.Fatalf("%d workflows, of GitHub and GitLab", len(workflows))
	}
	flag := func(line, name string) string {
		_, rest, _ := strings.Cut(line, "--"+name+" ")
		return strings.Fields(rest + " -")[0]
	}
	github, gitlab := workflows[0], workflows[1]
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

var (
	named  = regexp.MustCompile("[` ]((?:bisect|cmd|fixtures|kernels|pipeline)/[^` *)]*)`")
	linked = regexp.MustCompile(`\]\(([^)]+)\)|(?:src|srcset|href)="([^"]+)"`)
)

// TestDocumentedFiles: the files that the documentation names are there, and so is what it links to.
func TestDocumentedFiles(t *testing.T) {
	found := 0
	for file, text := range texts(t) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			found++
			if _, err := os.Stat("../../" + m[1]); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		for _, m := range linked.FindAllStringSubmatch(text, -1) {
			target, section, _ := strings.Cut(m[1]+m[2], "#")
			if strings.HasPrefix(target, "https://") {
				continue
			}
			found++
			if _, err := os.Stat(filepath.Join("../..", filepath.Dir(file), target)); err != nil || section != "" {
				t.Errorf("%s: link to %s: %v", file, m[0], err)
			}
		}
	}
	if found < 40 {
		t.Errorf("%d files named in %v", found, slices.Sorted(maps.Keys(texts(t))))
	}
}
