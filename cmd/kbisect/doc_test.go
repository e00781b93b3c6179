package main

import (
	"fmt"
	"io/fs"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/config"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// block is a fenced block of Markdown.
type block struct{ language, text string }

var fenced = regexp.MustCompile("(?sm)^```([a-z]*)\n(.*?)^```$")

func blocksOf(page string) (all []block) {
	for _, m := range fenced.FindAllStringSubmatch(page, -1) {
		all = append(all, block{m[1], m[2]})
	}
	return all
}

// pages are the pages of the manual by topic.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := fs.Glob(manual, "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range files {
		text, err := manual.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(path.Base(f), ".md")] = string(text)
	}
	return all
}

// TestManual runs the examples of the manual, each page's in a repository of its own: in a block marked console, a line
// that begins with $ is a command, the lines below it must be among what it prints; … stands for anything. Every other
// block says what it is, and what is marked toml is a configuration without mistakes.
func TestManual(t *testing.T) {
	t.Parallel()
	examples := 0
	for topic, page := range pages(t) {
		var console []string
		for i, b := range blocksOf(page) {
			switch b.language {
			case "console":
				console = append(console, b.text)
			case "toml":
				if _, err := config.Parse(fmt.Sprintf("%s.md, block %d", topic, i+1), []byte(b.text)); err != nil {
					t.Error(err)
				}
			case "text", "yaml":
			default:
				t.Errorf("%s.md: block %d is marked %q", topic, i+1, b.language)
			}
		}
		if len(console) == 0 {
			continue
		}
		examples += len(console)
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			runExamples(t, console)
		})
	}
	if examples < 10 {
		t.Errorf("%d blocks of examples", examples)
	}
}

// runExamples runs blocks of commands in a repository whose seventh change of eleven is at fault.
func runExamples(t *testing.T, blocks []string) {
	r := newRepo(t)
	r.write("Makefile", "bench: n\n\tcp n bench\n")
	r.history(1, func(int) string { return "true" })
	r.git("tag", "v1")
	for i := 1; i <= 11; i++ {
		r.write("n", strconv.Itoa(i))
		r.write("test.sh", "#!/bin/sh\ntest $(cat n) -lt 7\n")
		r.commit("change " + strconv.Itoa(i))
	}
	output := ""
	for line := range strings.Lines(strings.Join(blocks, "")) {
		line = strings.TrimSuffix(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ ")
		if !isCommand {
			pattern := "(?m)^" + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*")
			if !regexp.MustCompile(pattern).MatchString(output) {
				t.Errorf("no line %q in\n%s", line, output)
			}
			continue
		}
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir, cmd.Env = r.dir, r.env()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		output = string(out)
	}
}

// TestTopics: each page of the manual is a topic of kbisect help, listed with its title, and no topic hides a command.
func TestTopics(t *testing.T) {
	r := newRepo(t)
	all := pages(t)
	list, _, code := r.kbisect("help", "topics")
	if code != exit.OK || len(all) != len(topics()) {
		t.Fatalf("exit %d, %d pages, %d topics", code, len(all), len(topics()))
	}
	app := newApp(nil, nil, nil)
	for topic, page := range all {
		title, _, _ := strings.Cut(strings.TrimPrefix(page, "# "), "\n")
		if !slices.Contains(topics(), topic) || !strings.Contains(list, title) {
			t.Errorf("%s is not listed in\n%s", topic, list)
		}
		if app.Command(topic) != nil {
			t.Errorf("%s is a command as well", topic)
		}
		shown, errs, code := r.kbisect("help", topic)
		if code != exit.OK || errs != "" || !strings.HasPrefix(shown, title+"\n") || strings.Contains(shown, "```") {
			t.Errorf("%s: exit %d, %s%s", topic, code, errs, shown)
		}
		for line := range strings.Lines(page) {
			if prose := strings.TrimRight(line, "\n"); len([]rune(prose)) > 80 && !strings.ContainsAny(prose[:1], "|`") && !strings.Contains(shown, "    "+prose) {
				t.Errorf("%s.md: longer than 80: %s", topic, prose)
			}
		}
	}
	whole, _, _ := r.kbisect("help")
	if !strings.HasSuffix(whole, "\n"+list) {
		t.Errorf("kbisect help does not end with the topics:\n%s", whole)
	}
	if _, errs, code := r.kbisect("help", "strat"); code != exit.UsageError || !strings.Contains(errs, `did you mean "start"?`) {
		t.Errorf("exit %d: %s", code, errs)
	}
}
