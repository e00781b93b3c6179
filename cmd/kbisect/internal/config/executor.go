package config

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/pipeline/remote"
)

// Executors lists where trials can be made.
func Executors() []string { return []string{remote.Local, remote.Slurm, remote.Command} }

// readExecutor reads [executor].
func readExecutor(t table) remote.Settings {
	s := remote.Settings{
		Kind: t.choice("kind", Executors()), Jobs: jobs(t, "jobs", ""), Shared: t.str("shared"),
		Partition: t.str("partition"), Account: t.str("account"), QOS: t.str("qos"), Gres: t.str("gres"), Constraint: t.str("constraint"),
		Time: t.duration("time"), Options: t.strs("options", `an array of options of sbatch, as ["--exclusive"]`),
		Submit: t.command("submit"), State: t.command("state"), Cancel: t.command("cancel"),
	}
	if s.Shared != "" && !filepath.IsAbs(s.Shared) {
		t.errorf("shared", "%q is relative; name the folder as every node sees it, as /shared/me", s.Shared)
	}
	for key, kind := range map[string]string{
		"partition": remote.Slurm, "account": remote.Slurm, "qos": remote.Slurm, "gres": remote.Slurm, "constraint": remote.Slurm, "options": remote.Slurm,
		"submit": remote.Command, "state": remote.Command, "cancel": remote.Command,
	} {
		if t.has(key) && s.Kind != kind && s.Kind != "" {
			t.errorf(key, "belongs to kind = %q; this is kind %q", kind, s.Kind)
		}
	}
	if s.Kind != remote.Command {
		return s
	}
	t.require("submit", "state", "cancel")
	for _, x := range []struct {
		key, word string
		argv      []string
	}{{"submit", "{spec}", s.Submit}, {"state", "{id}", s.State}, {"cancel", "{id}", s.Cancel}} {
		if t.has(x.key) && !slices.ContainsFunc(x.argv, func(w string) bool { return strings.Contains(w, x.word) }) {
			t.errorf(x.key, "nothing in it holds %s", x.word)
		}
	}
	return s
}
