package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/pipeline/remote/executor"
)

// Executors lists the kinds of executors that a user may name, in [executor] kind and with --executor. Local, the
// default, is one of them: it overrules the file for one run.
func Executors() []string {
	return []string{executor.Local, executor.Slurm, executor.Kubernetes, executor.Command}
}

// readExecutor reads [executor]. It checks what can be checked without asking the scheduler: that keys belong to the
// kind, that a shared folder is mounted in the pods, that the commands take what they need. The scheduler itself is
// tried by kbisect doctor --executor. Keys of another kind are mistakes and not ignored: they would seem to work.
func readExecutor(t table) executor.Settings {
	s := executor.Settings{
		Kind: t.choice("kind", Executors()), Jobs: jobs(t, "jobs", ""), Shared: t.str("shared"),
		Partition: t.str("partition"), Account: t.str("account"), QOS: t.str("qos"), Gres: t.str("gres"), Constraint: t.str("constraint"), Container: t.str("container"),
		Time: t.duration("time"), Options: t.strs("options", `an array of options of sbatch, such as ["--exclusive"]`),
		Build: t.strs("build", `an array of options of sbatch, such as ["--cpus-per-task=16"]`), BuildResources: words(t.table("build_resources")),
		Stream:  t.choice("transport", []string{"shared", "stream"}) == "stream",
		Context: t.str("context"), Namespace: t.str("namespace"), Image: t.str("image"), ServiceAccount: t.str("service_account"), Queue: t.str("queue"), PodTemplate: t.str("pod_template"),
		Resources: words(t.table("resources")), NodeSelector: words(t.table("node_selector")),
		Tolerations: t.strs("tolerations", `an array of key=value:effect, such as ["nvidia.com/gpu:NoSchedule"]`), Volumes: t.strs("volumes", `an array of claim:path, such as ["lab:/shared"]`),
		Submit: t.command("submit"), State: t.command("state"), Cancel: t.command("cancel"),
	}
	if s.Shared != "" && !filepath.IsAbs(s.Shared) {
		t.errorf("shared", "%q is relative; name the folder as every node sees it, such as /shared/me", s.Shared)
	}
	if s.PodTemplate != "" && !filepath.IsAbs(s.PodTemplate) {
		s.PodTemplate = filepath.Join(filepath.Dir(t.r.file), s.PodTemplate)
	}
	mounted := s.PodTemplate != "" // it may mount the folder; its text is not looked at
	for i, v := range s.Volumes {
		claim, path, _ := strings.Cut(v, ":")
		if claim == "" || !filepath.IsAbs(path) {
			t.r.add(t.at("volumes", indexOf(i)), "%q: expected the name of a claim and where the pod sees it, such as lab:/shared", v)
		}
		rel, err := filepath.Rel(path, s.Shared)
		mounted = mounted || err == nil && filepath.IsLocal(rel)
	}
	switch {
	case s.Stream && s.Shared != "":
		t.errorf("shared", `transport = "stream" shares nothing; remove one of them`)
	case s.Kind != executor.Kubernetes:
	case s.Shared != "" && !mounted:
		t.errorf("shared", "no volume holds %s; mount it in the pods, as volumes = [\"lab:%s\"]", s.Shared, s.Shared)
	case s.Shared == "" && t.str("transport") == "shared":
		t.errorf("transport", `shared needs a folder: shared = "/shared/me", on a volume that this machine sees, too`)
	}
	for _, key := range []string{"build", "build_resources"} {
		if t.has(key) && s.Streams() {
			t.errorf(key, "builds that are jobs of their own need a folder that all nodes see: transport = \"shared\"")
		}
	}
	for key, kind := range map[string]string{
		"partition": executor.Slurm, "account": executor.Slurm, "qos": executor.Slurm, "gres": executor.Slurm, "constraint": executor.Slurm, "container": executor.Slurm, "options": executor.Slurm, "build": executor.Slurm,
		"context": executor.Kubernetes, "namespace": executor.Kubernetes, "image": executor.Kubernetes, "resources": executor.Kubernetes, "node_selector": executor.Kubernetes,
		"tolerations": executor.Kubernetes, "volumes": executor.Kubernetes, "service_account": executor.Kubernetes, "queue": executor.Kubernetes, "pod_template": executor.Kubernetes, "build_resources": executor.Kubernetes,
		"submit": executor.Command, "state": executor.Command, "cancel": executor.Command,
	} {
		if t.has(key) && s.Kind != kind && s.Kind != "" {
			t.errorf(key, "belongs to kind = %q; this is kind %q", kind, s.Kind)
		}
	}
	if s.Kind == executor.Kubernetes && s.Image == "" && s.PodTemplate == "" {
		t.r.add(t.path, `missing key "image": the container that trials run in, with kbisect where nothing is shared`)
	}
	if s.Kind != executor.Command {
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

// words reads a table whose keys are the user's own: amounts and labels, given as strings, integers or booleans. It is
// nil if the table is missing or empty.
func words(t table) map[string]string {
	var out map[string]string
	if len(t.values) > 0 {
		out = map[string]string{}
	}
	for key, v := range t.values {
		switch v.(type) {
		case string, int64, bool:
			out[key] = fmt.Sprint(v)
		default:
			t.errorf(key, "expected a string or a number, got %s", typeName(v))
		}
	}
	return out
}
