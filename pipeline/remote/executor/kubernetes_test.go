package executor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestManifests: what a Job is made of, by what kbisect.toml says.
func TestManifests(t *testing.T) {
	template, err := parseTemplate([]byte(`
metadata: {labels: {team: lab}, annotations: {why: tests}}
spec:
  containers:
  - {name: trial, image: old, env: [{name: A, value: b}], resources: {limits: {cpu: "2"}}}
  - {name: sidecar, image: proxy}
  tolerations: [{key: mine, operator: Exists}]
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		x      *kubernetes
		j      Job
		pieces int
	}{
		"least": {&kubernetes{settings: Settings{Kind: Kubernetes, Image: "bench:1"}}, Job{}, 2},
		"all": {&kubernetes{template: template, settings: Settings{
			Kind: Kubernetes, Image: "bench:1", Shared: "/shared/me", Volumes: []string{"lab:/shared"}, ServiceAccount: "runner", Queue: "gpus",
			Resources: map[string]string{"nvidia.com/gpu": "1"}, NodeSelector: map[string]string{"model": "h100"}, Tolerations: []string{"nvidia.com/gpu:NoSchedule", "a=b"},
		}}, Job{Exclude: []string{"n1", "n2"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.j.Session, c.j.Name, c.j.Fence, c.j.Program, c.j.Spec, c.j.Output = "kbisect-s", "1", time.Minute, "/shared/kbisect", "/shared/spec.json", "/shared/output"
			m := c.x.manifest("kbisect-s-1-abcde", c.j, c.pieces)
			spec := m["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
			delete(spec, "securityContext") // whoever runs the test
			got, err := json.MarshalIndent(m, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "job-"+name+".json")
			if os.Getenv("KBISECT_GOLDEN") != "" {
				if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.TrimSpace(string(want)), string(got)); d != "" {
				t.Error(d)
			}
		})
	}
	if labels := template["metadata"].(map[string]any)["labels"].(map[string]any); len(labels) != 1 {
		t.Errorf("a job changed the template: %v", labels)
	}
}

// TestPods: what becomes of a job by what the kubelet, the scheduler and the controllers write.
func TestPods(t *testing.T) {
	pod := func(status string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON([]byte(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "1", "labels": {"kbisect.dev/job": "j"}}, "spec": {"nodeName": "n1"}, "status": ` + status + `}`)); err != nil {
			t.Fatal(err)
		}
		return o
	}
	job := func(rest string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON([]byte(`{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}` + rest + `}`)); err != nil {
			t.Fatal(err)
		}
		return o
	}
	for status, want := range map[string]Report{
		`{"phase": "Running"}`:   {Running, "n1", "Running"},
		`{"phase": "Succeeded"}`: {Done, "n1", "Succeeded"},
		`{"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]}`: {Pending, "n1", "Unschedulable: 0/3 nodes"},
		`{"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}`:                                 {Pending, "n1", "Pending"},
		`{"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no\nsuch"}}}]}`:           {Unstartable, "n1", "ImagePullBackOff: no; such"},
		`{"phase": "Pending", "initContainerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}`:                                  {Unstartable, "n1", "ErrImagePull"},
		`{"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]}`:                      {TooLarge, "n1", "OOMKilled"},
		`{"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"reason": "Error", "exitCode": 2}}}]}`:                            {Failed, "n1", "Error, exit 2"},
		`{"phase": "Failed", "reason": "Evicted", "message": "low on memory"}`:                                                                 {Lost, "n1", "Evicted: low on memory"},
		`{"phase": "Failed", "reason": "UnexpectedAdmissionError"}`:                                                                            {Lost, "n1", "UnexpectedAdmissionError"},
		`{"phase": "Failed", "reason": "DeadlineExceeded"}`:                                                                                    {Late, "n1", "DeadlineExceeded"},
		`{"phase": "Running", "reason": "NodeLost"}`:                                                                                           {Lost, "n1", "NodeLost"},
		`{"phase": "Running", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]}`:             {Lost, "n1", "DeletionByTaintManager"},
		`{"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}`:               {Cancelled, "n1", "PreemptionByScheduler"},
		`{"phase": "Running", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]}`:              {Cancelled, "n1", "EvictionByEvictionAPI"},
		`{"phase": "Unknown"}`:  {Lost, "n1", "Unknown"},
		`{"phase": "NewPhase"}`: {Pending, "n1", "NewPhase"},
	} {
		s := newSeen()
		s.take(job(""), false)
		s.take(pod(status), false)
		if got := s.reports([]string{"j", "another"}); len(got) != 1 || got["j"] != want {
			t.Errorf("%s\n%v\nwant %v", status, got, want)
		}
	}
	const failed = `, "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}`
	for name, c := range map[string]struct {
		job, pod string
		gone     bool
		want     Report
	}{
		"no pod yet":        {want: Report{Pending, "", "the job has no pod yet"}},
		"Kueue holds it":    {job: `, "spec": {"suspend": true}`, want: Report{Pending, "", "Suspended"}},
		"Kueue took it off": {job: `, "spec": {"suspend": true}`, pod: `{"phase": "Running"}`, gone: true, want: Report{Pending, "", "Suspended"}},
		"its pod deleted":   {job: failed, pod: `{"phase": "Running"}`, gone: true, want: Report{Cancelled, "n1", "BackoffLimitExceeded"}},
		"evicted, and gone": {job: failed, pod: `{"phase": "Failed", "reason": "Evicted"}`, gone: true, want: Report{Lost, "n1", "Evicted"}},
		"complete":          {job: `, "status": {"conditions": [{"type": "Complete", "status": "True"}]}`, want: Report{Done, "", "Complete"}},
		"the fence":         {job: `, "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]}`, want: Report{Late, "", "DeadlineExceeded"}},
	} {
		s := newSeen()
		s.take(job(c.job), false)
		if c.pod != "" {
			s.take(pod(c.pod), false)
		}
		if c.gone {
			s.replace(false, nil) // a list, after a watch that was cut
		}
		if got := s.reports([]string{"j"}); got["j"] != c.want {
			t.Errorf("%s: %v, want %v", name, got["j"], c.want)
		}
	}
}

// FuzzPods: whatever a cluster says of a pod, there is a state, and words for one that ended.
func FuzzPods(f *testing.F) {
	f.Add(`{"status": {"phase": "Failed", "reason": "Evicted", "containerStatuses": [{"state": {"terminated": {"exitCode": 137}}}]}}`)
	f.Add(`{"status": {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}], "conditions": [{}]}}`)
	f.Fuzz(func(t *testing.T, data string) {
		var m map[string]any
		if json.Unmarshal([]byte(data), &m) != nil || m == nil {
			return
		}
		m["apiVersion"], m["kind"], m["metadata"] = "v1", "Pod", map[string]any{"name": "p", "labels": map[string]any{jobLabel: "j"}}
		o := &unstructured.Unstructured{Object: m}
		s := newSeen()
		s.take(o, false)
		if r := s.pods["j"].report; r.State.Ended() && r.Words == "" {
			t.Errorf("%q: %v", data, r)
		}
	})
}

// FuzzTemplate: a template is a pod, or an error that says where.
func FuzzTemplate(f *testing.F) {
	f.Add([]byte("spec: {containers: [{name: a}]}"))
	f.Add([]byte("spec: {containers: [1], volumes: 3, affinity: [], nodeSelector: x}\nmetadata: {labels: 7}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		template, err := parseTemplate(data)
		if err != nil {
			return
		}
		x := kubernetes{template: template, settings: Settings{Kind: Kubernetes, Volumes: []string{"a:/b"}, NodeSelector: map[string]string{"a": "b"}, Tolerations: []string{"a"}}}
		if _, err := json.Marshal(x.manifest("j", Job{Exclude: []string{"n"}}, 1)); err != nil {
			t.Error(err)
		}
	})
}
