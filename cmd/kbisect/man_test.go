package main

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
)

// TestMan typesets the manual page: no complaint, and it holds what --help says of each command and option.
func TestMan(t *testing.T) {
	r := newRepo(t)
	page, errs, code := r.kbisect("man")
	if code != exit.OK || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if _, err := exec.LookPath("groff"); err != nil {
		t.Skip("NOT TYPESET: groff is not installed")
	}
	cmd := exec.Command("groff", "-man", "-ww", "-Tascii", "-P-c", "-P-b", "-P-u", "-rLL=600n", "-rHY=0", "-dAD=l")
	cmd.Stdin = strings.NewReader(page)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil || said.Len() > 0 {
		t.Fatalf("groff: %v %s", err, said.String())
	}
	text := strings.Join(strings.Fields(string(out)), " ")
	app := newApp(nil, nil, nil)
	wants := []string{app.Usage, app.Description}
	for _, c := range app.VisibleCommands() {
		wants = append(wants, wordsOf(c)...)
	}
	for _, want := range wants {
		if want = strings.Join(strings.Fields(want), " "); !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestHelp: each command explains itself, asked in either way.
func TestHelp(t *testing.T) {
	var names []string
	var walk func(prefix string, all []*cli.Command)
	walk = func(prefix string, all []*cli.Command) {
		for _, c := range all {
			if !c.Hidden && c.Name != "help" { // help explains the whole program
				names = append(names, prefix+c.Name)
				walk(prefix+c.Name+" ", c.Subcommands)
			}
		}
	}
	walk("", newApp(nil, nil, nil).Commands)
	help := func(words ...string) string {
		var out, errs bytes.Buffer
		code := run(context.Background(), append([]string{"kbisect"}, words...), nil, &out, &errs)
		if code != exit.OK || errs.Len() > 0 || !strings.HasPrefix(out.String(), "NAME:\n   kbisect") {
			t.Errorf("%q: exit %d, %s%s", words, code, errs.String(), out.String())
		}
		return out.String()
	}
	for _, name := range names {
		words := strings.Fields(name)
		long := help(append(words, "--help")...)
		if !strings.HasPrefix(long, "NAME:\n   kbisect "+name+" - ") || help(append([]string{"help"}, words...)...) != long || help(append(words, "-h")...) != long {
			t.Errorf("kbisect %s: %s", name, long)
		}
	}
	var out, errs bytes.Buffer
	if code := run(context.Background(), []string{"kbisect", "help", "baseline", "recrod"}, nil, &out, &errs); code != exit.UsageError || out.Len() > 0 || !strings.HasPrefix(errs.String(), "kbisect: unknown command \"baseline recrod\"") {
		t.Errorf("exit %d: %s%s", code, out.String(), errs.String())
	}
}

// wordsOf are the texts of the help of a command and of those below it.
func wordsOf(c *cli.Command) []string {
	out := []string{c.Usage, c.Description}
	for _, f := range c.VisibleFlags() {
		out = append(out, strings.ReplaceAll(usageOf(f), "`", ""))
	}
	for _, sub := range c.Subcommands {
		if !sub.Hidden {
			out = append(out, wordsOf(sub)...)
		}
	}
	return out
}
