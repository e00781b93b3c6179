package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// kubeJob and kubePod are the parts of a Job and of a Pod that the reports depend on.
type kubeJob struct {
	Spec   struct{ Suspend bool }
	Status struct{ Conditions []kubeCondition }
}

type kubePod struct {
	Spec   struct{ NodeName string }
	Status struct {
		Phase, Reason, Message string
		Conditions             []kubeCondition
		InitContainerStatuses  []kubeContainer
		ContainerStatuses      []kubeContainer
	}
}

type kubeCondition struct{ Type, Status, Reason, Message string }

type kubeContainer struct {
	State struct {
		Waiting    *struct{ Reason, Message string }
		Terminated *struct {
			Reason, Message string
			ExitCode        int
		}
	}
}

// report is what a pod's status says of its job. The first matching rule wins, and their order is the policy: why
// the machine ended it comes before how its containers ended, since an evicted container also ends with an exit
// status. Reasons are those of the kubelet, the scheduler, the taint manager and the pod garbage collector;
// anything unknown may still run.
func (p kubePod) report() Report {
	r := Report{Pending, p.Spec.NodeName, p.Status.Phase}
	say := func(s State, reason, message string) Report {
		r.State, r.Words = s, words(reason, message)
		return r
	}
	for _, c := range p.Status.Conditions { // set when something other than its containers ended it
		if c.Type != "DisruptionTarget" || c.Status != "True" {
			continue
		}
		switch c.Reason {
		case "PreemptionByScheduler", "EvictionByEvictionAPI":
			return say(Cancelled, c.Reason, c.Message)
		}
		return say(Lost, c.Reason, c.Message)
	}
	switch p.Status.Reason {
	case "DeadlineExceeded":
		return say(Late, p.Status.Reason, p.Status.Message)
	case "Preempting", "Preempted":
		return say(Cancelled, p.Status.Reason, p.Status.Message)
	case "NodeLost": // its phase stays Running, as no kubelet is left to change it
		return say(Lost, p.Status.Reason, p.Status.Message)
	}
	all := append(append([]kubeContainer{}, p.Status.InitContainerStatuses...), p.Status.ContainerStatuses...)
	for _, c := range all {
		if t := c.State.Terminated; t != nil && t.Reason == "OOMKilled" {
			return say(TooLarge, t.Reason, t.Message)
		}
	}
	switch p.Status.Phase {
	case "Succeeded":
		return say(Done, "Succeeded", "")
	case "Failed":
		if p.Status.Reason != "" { // the kubelet rejected or evicted it
			return say(Lost, p.Status.Reason, p.Status.Message)
		}
		for _, c := range all {
			if t := c.State.Terminated; t != nil && (t.ExitCode != 0 || t.Reason != "Completed") {
				return say(Failed, fmt.Sprintf("%s, exit %d", t.Reason, t.ExitCode), t.Message)
			}
		}
		return say(Failed, "Failed", p.Status.Message)
	case "Unknown":
		return say(Lost, "Unknown", p.Status.Message)
	case "Running":
		r.State = Running
		return r
	}
	for _, c := range all {
		if w := c.State.Waiting; w != nil {
			switch w.Reason {
			case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
				"CreateContainerConfigError", "CreateContainerError", "RunContainerError":
				return say(Unstartable, w.Reason, w.Message)
			}
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" {
			return say(Pending, c.Reason, c.Message)
		}
	}
	return r
}

// words joins a reason and its message.
func words(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ": " + oneLine(message)
}

// seen is what the two watches have reported of the jobs of a session. The goroutines of the watches write it; Submit,
// States and the waiting samples read it.
type seen struct {
	first chan struct{} // closed when both first lists have been answered or have failed

	mu      sync.Mutex
	waiting int  // first lists that are still outstanding
	listed  bool // some list has been answered
	jobs    map[string]kubeJob
	pods    map[string]seenPod       // by job: its newest pod, also after that is gone
	told    map[string]chan struct{} // by job: closed at its next change; see news
	away    map[string]error         // by resource: why it is not watched now; nil if it is
}

// seenPod is the last state of a pod. A pod that is gone keeps its report: it may be the only trace of a lost node.
type seenPod struct {
	name, uid, created string
	gone               bool
	report             Report
}

func newSeen() *seen {
	return &seen{first: make(chan struct{}), waiting: 2, jobs: map[string]kubeJob{}, pods: map[string]seenPod{}, told: map[string]chan struct{}{}, away: map[string]error{}}
}

// ever reports whether the server has ever answered, and so has accepted the credentials.
func (s *seen) ever() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed
}

// answered notes that a list was answered, or why it was not. first is true for the caller's first list and is
// reset.
func (s *seen) answered(resource string, err error, first *bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away[resource] = err
	s.listed = s.listed || err == nil
	if *first {
		*first = false
		if s.waiting--; s.waiting == 0 {
			close(s.first)
		}
	}
}

// take takes in the new state of a job or a pod, or that it was deleted. Of several pods of a job the one that was
// made last counts, whatever the order in which their events arrive.
func (s *seen) take(o *unstructured.Unstructured, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.GetKind() == "Job" {
		var j kubeJob
		if delete(s.jobs, o.GetName()); !gone && decode(o, &j) == nil {
			s.jobs[o.GetName()] = j
		}
		s.tell(o.GetName())
		return
	}
	var p kubePod
	if decode(o, &p) != nil {
		return
	}
	job, at := o.GetLabels()[jobLabel], o.GetCreationTimestamp().UTC().Format(time.RFC3339)
	if last, ok := s.pods[job]; ok && last.uid != string(o.GetUID()) && at < last.created {
		return
	}
	s.pods[job] = seenPod{o.GetName(), string(o.GetUID()), at, gone, p.report()}
	s.tell(job)
}

// tell wakes those who wait for news of a job. The caller holds mu.
func (s *seen) tell(job string) {
	if waiting := s.told[job]; waiting != nil {
		close(waiting)
		delete(s.told, job)
	}
}

// news returns a channel that the next [seen.tell] of a job closes.
func (s *seen) news(job string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told[job] == nil {
		s.told[job] = make(chan struct{})
	}
	return s.told[job]
}

// decode converts an object of the dynamic client by way of JSON, which ignores the fields that v lacks.
func decode(o *unstructured.Unstructured, v any) error {
	data, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// replace takes in a complete list. Jobs that are not in it no longer exist; pods that are not in it are marked as
// gone.
func (s *seen) replace(jobs bool, list []unstructured.Unstructured) {
	s.mu.Lock()
	if jobs {
		s.jobs = map[string]kubeJob{}
	} else {
		for job, p := range s.pods {
			p.gone = true
			s.pods[job] = p
		}
	}
	s.mu.Unlock()
	for i := range list {
		s.take(&list[i], false)
	}
}

// pod is the name of a job's pod, or "" if it is gone.
func (s *seen) pod(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[id]; !p.gone {
		return p.name
	}
	return ""
}

// reports are those of the jobs that exist, by id.
func (s *seen) reports(ids []string) map[string]Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]Report{}
	for _, id := range ids {
		if j, ok := s.jobs[id]; ok {
			p, has := s.pods[id]
			all[id] = jobReport(j, p, has)
		}
	}
	return all
}

// jobReport is what becomes of a job; has says whether p is a pod that it has or had. The conditions of the Job
// come first, since they are final. A failed Job whose pod did not end was deprived of it: somebody deleted the
// pod.
func jobReport(j kubeJob, p seenPod, has bool) Report {
	for _, c := range j.Status.Conditions {
		if c.Status != "True" {
			continue
		}
		switch c.Type {
		case "Complete":
			return Report{Done, p.report.Node, "Complete"}
		case "Failed":
			switch {
			case c.Reason == "DeadlineExceeded":
				return Report{Late, p.report.Node, words(c.Reason, c.Message)}
			case has && p.report.State.Ended():
				return p.report
			}
			return Report{Cancelled, p.report.Node, words(c.Reason, c.Message)} // somebody deleted the pod
		}
	}
	switch {
	case has && (!p.gone || p.report.State == Lost):
		return p.report
	case j.Spec.Suspend:
		return Report{Pending, "", "Suspended"}
	}
	return Report{Pending, "", "the job has no pod yet"}
}

// watching starts the watches, waits for their first lists, and returns why jobs cannot be seen at the moment, if
// so. The watches outlive ctx: they end with Cancel of the session.
func (x *kubernetes) watching(ctx context.Context) error {
	x.mu.Lock()
	if x.stop == nil {
		var life context.Context
		life, x.stop = context.WithCancel(context.WithoutCancel(ctx))
		go x.follow(life, jobsOf)
		go x.follow(life, podsOf)
	}
	x.mu.Unlock()
	select {
	case <-x.seen.first:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	x.seen.mu.Lock()
	defer x.seen.mu.Unlock()
	for _, err := range x.seen.away {
		if err != nil {
			return err
		}
	}
	return nil
}

// follow keeps one kind of object watched until ctx ends: it lists what there is, watches from there on, and begins
// again when the watch ends, which servers do after some minutes even if all is well. Failures are retried after
// 0.1 to 5 s.
func (x *kubernetes) follow(ctx context.Context, r schema.GroupVersionResource) {
	first, wait := true, time.Duration(0)
	for ctx.Err() == nil {
		w, err := x.list(ctx, r)
		x.seen.answered(r.Resource, err, &first)
		if err == nil {
			wait = 0
			for e := range w.ResultChan() {
				o, ok := e.Object.(*unstructured.Unstructured)
				if e.Type == watch.Error { // such as 410: it has missed too much, and only a new list helps
					break
				}
				if ok && e.Type != watch.Bookmark {
					x.seen.take(o, e.Type == watch.Deleted)
				}
			}
			w.Stop()
		}
		wait = min(max(2*wait, 100*time.Millisecond), 5*time.Second)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// list takes in what there is and returns a watch that begins at the version of the list, so that nothing is missed
// in between.
func (x *kubernetes) list(ctx context.Context, r schema.GroupVersionResource) (watch.Interface, error) {
	c, err := x.open()
	if err != nil {
		return nil, err
	}
	which := metav1.ListOptions{LabelSelector: sessionLabel + "=" + x.session}
	soon, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	all, err := c.of(r).List(soon, which)
	if err != nil {
		return nil, x.judged(err)
	}
	x.seen.replace(r == jobsOf, all.Items)
	which.ResourceVersion, which.AllowWatchBookmarks = all.GetResourceVersion(), true
	w, err := c.of(r).Watch(ctx, which)
	if err != nil {
		return nil, x.judged(err)
	}
	return w, nil
}
