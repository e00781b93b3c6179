package executor

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/kbisect/kbisect/bisect/hint"
)

// kubernetes makes a Job of each block. Two watches report what becomes of jobs and pods (kubestate.go); nothing is
// polled. Objects are plain maps and the client is dynamic: the typed clients would add 4 MB to the program, and
// informers 22.
type kubernetes struct {
	settings Settings
	session  string         // name that its jobs have in common, and their label
	template map[string]any // the user's pod template; nil if there is none; never changed
	seen     *seen
	stop     context.CancelFunc // ends the watches; nil until they begin; guarded by mu

	mu     sync.Mutex
	opened *cluster // nil until opened, and again when the credentials were refused
}

// cluster is a client of one API server and one namespace.
type cluster struct {
	namespace, host string
	objects         *dynamic.DynamicClient
	raw             *rest.RESTClient
}

var (
	jobsOf    = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	podsOf    = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	secretsOf = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	reviewsOf = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}
)

// The inputs of a job lie in Secrets that it owns. The API server limits a Secret to 1 MiB; 4 KiB of that are left for
// what is in it besides data.
const (
	pieceSize, mostPieces = 1<<20 - 1<<12, 32

	MostLog = 64 << 20 // bytes that are read of what a job prints or writes, anywhere in package remote
)

// NodeVariable is the environment variable in which a job of Kubernetes finds the name of its node.
const NodeVariable = "KBISECT_NODE"

// Labels: jobs and pods carry that of their session, jobs also that of their block, and pods that of their job.
const sessionLabel, blockLabel, jobLabel = "kbisect.dev/session", "kbisect.dev/block", "kbisect.dev/job"

// kubernetesHint ends the message about anything that a cluster refuses.
const kubernetesHint = "\nhint: kbisect doctor --executor tries the keys of [executor]; kbisect help clusters has the rights that kbisect needs"

// newKubernetes reads the pod template and the kubeconfig. It does not contact the server yet.
func newKubernetes(s Settings, session string) (*kubernetes, error) {
	x := &kubernetes{settings: s, session: session, seen: newSeen()}
	if s.PodTemplate != "" {
		data, err := os.ReadFile(s.PodTemplate)
		if err == nil {
			x.template, err = parseTemplate(data)
		}
		if err != nil {
			return nil, &RefusedError{fmt.Sprintf("[executor] pod_template: %v", err)}
		}
	}
	_, err := x.open()
	return x, err
}

// parseTemplate reads a pod template or a pod, in YAML or JSON. It checks no more than the code relies on; the API
// server checks the rest when a job is submitted.
func parseTemplate(data []byte) (t map[string]any, err error) {
	if err := yaml.UnmarshalStrict(data, &t); err != nil {
		return nil, err
	}
	for _, key := range []string{"metadata", "spec"} {
		if _, ok := t[key].(map[string]any); !ok && t[key] != nil {
			return nil, fmt.Errorf("%s: expected a mapping", key)
		}
	}
	if t["spec"] == nil {
		return nil, errors.New("no spec: expected a pod, or the template of one")
	}
	if _, _, err := unstructured.NestedSlice(t, "spec", "containers"); err != nil {
		return nil, err
	}
	return t, nil
}

// open returns the client for the kubeconfig's cluster or, inside of a pod, for that of the pod; it makes one if
// there is none. A configuration that cannot be used is a RefusedError.
func (x *kubernetes) open() (*cluster, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.opened != nil {
		return x.opened, nil
	}
	klog.LogToStderr(false) // its lines would run through ours; all that matters is returned
	klog.SetOutput(io.Discard)
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(),
		&clientcmd.ConfigOverrides{CurrentContext: x.settings.Context, Context: api.Context{Namespace: x.settings.Namespace}})
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, &RefusedError{"[executor] kubernetes: " + err.Error() + "\nhint: name a kubeconfig by KUBECONFIG, and one of its contexts by [executor] context"}
	}
	c := &cluster{host: config.Host}
	if c.namespace, _, err = loaded.Namespace(); err != nil {
		return nil, &RefusedError{"[executor] kubernetes: " + err.Error()}
	}
	config.QPS, config.WarningHandler, config.UserAgent = -1, rest.NoWarnings{}, "kbisect" // no rate limit on our side: the server has its own
	client, err := rest.HTTPClientFor(config)
	if err == nil {
		c.objects, err = dynamic.NewForConfigAndClient(config, client)
	}
	if err == nil {
		config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
		config.GroupVersion = &schema.GroupVersion{}
		config.APIPath = "/api"
		c.raw, err = rest.RESTClientForConfigAndClient(config, client)
	}
	if err != nil {
		return nil, &RefusedError{"[executor] kubernetes: " + err.Error()}
	}
	x.opened = c
	return c, nil
}

// of is the client of one kind of object in the cluster's namespace.
func (c *cluster) of(r schema.GroupVersionResource) dynamic.ResourceInterface {
	return c.objects.Resource(r).Namespace(c.namespace)
}

// judged turns errors that waiting does not cure into a RefusedError, and leaves those of a server that is away.
// Refused credentials drop the client, so that the next request reads them again; they may have expired and been
// renewed. Only if the server has never accepted any is that the user's mistake.
func (x *kubernetes) judged(err error) error {
	switch {
	case apierrors.IsUnauthorized(err):
		x.mu.Lock()
		x.opened = nil
		x.mu.Unlock()
		if x.seen.ever() {
			return err
		}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsRequestEntityTooLargeError(err):
	default:
		return err
	}
	return &RefusedError{"[executor] kubernetes: " + err.Error() + kubernetesHint}
}

// ask makes one request within answerBound. The end of ctx does not stop it, since an interrupted search still has
// to cancel its jobs.
func (x *kubernetes) ask(ctx context.Context, request func(context.Context, *cluster) error) error {
	c, err := x.open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerBound)
	defer cancel()
	if err = request(ctx, c); err == nil {
		return nil
	}
	return x.judged(err)
}

// Submit implements Executor. The name of a job is its id and ends at random, because a name must never be used
// twice: the job controller (seen with Kubernetes 1.36) takes its record of a deleted job for that of a new one of
// the same name, and makes no pod for minutes. The Secrets with the inputs come after the job, which has to own
// them; its pod waits for them.
func (x *kubernetes) Submit(ctx context.Context, j Job) (string, error) {
	if err := x.watching(ctx); err != nil {
		return "", err
	}
	name := j.Session + "-" + j.Name + "-" + strings.ToLower(rand.Text()[:5])
	var pieces [][]byte
	if j.Inputs != "" {
		data, err := os.ReadFile(j.Inputs)
		if err != nil {
			return "", err
		}
		pieces = slices.Collect(slices.Chunk(data, pieceSize))
	}
	err := x.ask(ctx, func(ctx context.Context, c *cluster) error {
		made, err := found(ctx, c, j)
		if made == nil && err == nil {
			made, err = c.of(jobsOf).Create(ctx, &unstructured.Unstructured{Object: x.manifest(name, j, len(pieces))}, metav1.CreateOptions{FieldValidation: "Strict"})
		}
		if err != nil {
			return err
		}
		name = made.GetName()
		for i, piece := range pieces {
			secret := &unstructured.Unstructured{Object: pieceOf(name, made.GetUID(), j.Session, i, piece)}
			if _, err := c.of(secretsOf).Create(ctx, secret, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		return nil
	})
	var refused *RefusedError
	if errors.As(err, &refused) && len(pieces) > 0 {
		_ = x.Cancel(ctx, j.Session, name) // its pod would wait forever for the missing inputs
	}
	return name, err
}

// found looks for a job that an earlier try may have submitted, by its labels; nil if there is none. A job that is
// being deleted does not count.
func found(ctx context.Context, c *cluster, j Job) (*unstructured.Unstructured, error) {
	if !j.Again {
		return nil, nil
	}
	list, err := c.of(jobsOf).List(ctx, metav1.ListOptions{LabelSelector: sessionLabel + "=" + j.Session + "," + blockLabel + "=" + j.Name})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].GetDeletionTimestamp() == nil {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// States implements Executor from what the watches have seen, without a request.
func (x *kubernetes) States(ctx context.Context, ids []string) (map[string]Report, error) {
	if err := x.watching(ctx); err != nil {
		return nil, err
	}
	return x.seen.reports(ids), nil
}

// Cancel implements Executor. Pods and Secrets go with the job that owns them. Without ids the session is over, and
// its watches end, too.
func (x *kubernetes) Cancel(ctx context.Context, session string, ids ...string) error {
	all := ids == nil
	err := x.ask(ctx, func(ctx context.Context, c *cluster) error {
		if all {
			list, err := c.of(jobsOf).List(ctx, metav1.ListOptions{LabelSelector: sessionLabel + "=" + session})
			if err != nil {
				return err
			}
			for _, job := range list.Items {
				ids = append(ids, job.GetName())
			}
		}
		background := metav1.DeletePropagationBackground
		for _, id := range ids {
			if err := c.of(jobsOf).Delete(ctx, id, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	if all && x.stop != nil {
		x.stop()
	}
	return err
}

// News implements Watcher.
func (x *kubernetes) News(id string) <-chan struct{} { return x.seen.news(id) }

// Log implements Watcher. The log of a pod that is gone is lost, which is not an error.
func (x *kubernetes) Log(ctx context.Context, id string) (log []byte, err error) {
	pod := x.seen.pod(id)
	if pod == "" {
		return nil, nil
	}
	err = x.ask(ctx, func(ctx context.Context, c *cluster) error {
		r, err := c.raw.Get().AbsPath("/api/v1/namespaces/"+c.namespace+"/pods/"+pod+"/log").Param("container", x.container()).Stream(ctx)
		if err != nil {
			return err
		}
		defer r.Close()
		log, err = io.ReadAll(io.LimitReader(r, MostLog))
		return err
	})
	var refused *RefusedError
	if errors.As(err, &refused) { // the pod is gone, or never started
		return nil, nil
	}
	return log, err
}

// Version implements Executor. It also asks the server which of the rights that kbisect needs are missing; those
// are a RefusedError.
func (x *kubernetes) Version(ctx context.Context) (version string, err error) {
	var missing []string
	err = x.ask(ctx, func(ctx context.Context, c *cluster) error {
		for _, right := range x.rights() {
			verb, resource, _ := strings.Cut(right, " ")
			group, sub := "", ""
			if resource == "jobs" {
				group = "batch"
			}
			resource, sub, _ = strings.Cut(resource, "/")
			review, err := c.objects.Resource(reviewsOf).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
				"spec": map[string]any{"resourceAttributes": map[string]any{"namespace": c.namespace, "verb": verb, "group": group, "resource": resource, "subresource": sub}},
			}}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			if allowed, _, _ := unstructured.NestedBool(review.Object, "status", "allowed"); !allowed {
				missing = append(missing, right)
			}
		}
		data, err := c.raw.Get().AbsPath("/version").Do(ctx).Raw()
		var of struct{ GitVersion string }
		if err == nil {
			err = json.Unmarshal(data, &of)
		}
		version = fmt.Sprintf("Kubernetes %s at %s, namespace %s", of.GitVersion, c.host, c.namespace)
		return err
	})
	switch {
	case err != nil:
		return "", hint.Add(err, "kubectl get jobs says more")
	case len(missing) > 0:
		return "", &RefusedError{fmt.Sprintf("%s: you may not %s\nhint: kbisect help clusters has a Role with all that kbisect needs", version, strings.Join(missing, ", "))}
	}
	return version, nil
}

// rights are the least that kbisect works with, as "verb resource". The manual's Role has to grant the same.
func (x *kubernetes) rights() []string {
	all := []string{"create jobs", "list jobs", "watch jobs", "delete jobs", "list pods", "watch pods"}
	if x.settings.Streams() {
		all = append(all, "get pods/log", "create secrets")
	}
	return all
}

// container is the name of the container that runs kbisect: the first of the template.
func (x *kubernetes) container() string {
	all, _, _ := unstructured.NestedSlice(x.template, "spec", "containers")
	if len(all) > 0 {
		first, _ := all[0].(map[string]any)
		if name, _ := first["name"].(string); name != "" {
			return name
		}
	}
	return "kbisect"
}

// manifest describes a block as a Job: the user's template, and on top of it what [executor] says and what a block
// needs. pieces is the number of Secrets that hold its inputs; 0 if a folder is shared. The Job never restarts its
// pod (backoffLimit 0), since package remote decides about tries, and the server deletes it after an hour if nobody
// else does.
func (x *kubernetes) manifest(name string, j Job, pieces int) map[string]any {
	s, labels := x.settings, map[string]any{"app.kubernetes.io/managed-by": "kbisect", sessionLabel: j.Session}
	template := runtime.DeepCopyJSON(x.template)
	spec, _ := template["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
	}
	metadata, _ := template["metadata"].(map[string]any)
	podLabels, _ := metadata["labels"].(map[string]any)
	pod := map[string]any{"labels": merged(podLabels, merged(labels, map[string]any{jobLabel: name}))}
	if a, ok := metadata["annotations"]; ok {
		pod["annotations"] = a
	}
	containers, _ := spec["containers"].([]any)
	if len(containers) == 0 {
		containers = []any{map[string]any{}}
	}
	first, _ := containers[0].(map[string]any)
	first = merged(first, map[string]any{"name": x.container()})
	if s.Image != "" {
		first["image"] = s.Image
	}
	first["env"] = append(listOf(first["env"]), map[string]any{"name": NodeVariable, "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "spec.nodeName"}}})
	if j.Build {
		first["resources"] = map[string]any{"limits": texts(s.BuildResources)}
	} else if len(s.Resources) > 0 {
		resources, _ := first["resources"].(map[string]any)
		given, _ := resources["limits"].(map[string]any)
		first["resources"] = merged(resources, map[string]any{"limits": merged(given, texts(s.Resources))})
	}
	for i, v := range s.Volumes {
		claim, path, _ := strings.Cut(v, ":")
		addVolume(spec, first, fmt.Sprintf("kbisect-%d", i), path, map[string]any{"persistentVolumeClaim": map[string]any{"claimName": claim}})
	}
	// The shell sends what the job prints to the shared folder, and exec lets signals reach kbisect.
	first["command"] = []any{"/bin/sh", "-c", `exec "$0" worker "$1" >"$2" 2>&1`, j.Program, j.Spec, j.Output}
	if pieces > 0 {
		dir := "/run/kbisect/" + name
		first["command"] = []any{"kbisect", "worker", dir}
		var sources []any
		for i := range pieces {
			sources = append(sources, map[string]any{"secret": map[string]any{"name": pieceName(name, i)}})
		}
		addVolume(spec, first, "kbisect-inputs", dir, map[string]any{"projected": map[string]any{"sources": sources}})
	} else if uid := os.Getuid(); uid != 0 { // only this user may enter the shared folder
		security, _ := spec["securityContext"].(map[string]any)
		spec["securityContext"] = merged(map[string]any{"runAsUser": int64(uid), "runAsGroup": int64(os.Getgid())}, security)
	}
	delete(first, "args")
	containers[0] = first
	spec["containers"], spec["restartPolicy"], spec["activeDeadlineSeconds"] = containers, "Never", int64(j.Fence.Seconds())
	if len(s.NodeSelector) > 0 {
		selector, _ := spec["nodeSelector"].(map[string]any)
		spec["nodeSelector"] = merged(selector, texts(s.NodeSelector))
	}
	for _, t := range s.Tolerations {
		spec["tolerations"] = append(listOf(spec["tolerations"]), toleration(t))
	}
	if s.ServiceAccount != "" {
		spec["serviceAccountName"] = s.ServiceAccount
	} else if _, ok := spec["serviceAccountName"]; !ok {
		spec["automountServiceAccountToken"] = false // keeps the cluster's API out of the candidate's reach
	}
	if len(j.Exclude) > 0 {
		avoid(spec, j.Exclude)
	}
	job := map[string]any{"backoffLimit": int64(0), "ttlSecondsAfterFinished": int64(3600), "template": map[string]any{"metadata": pod, "spec": spec}}
	if s.Queue != "" { // Kueue resumes it
		job["suspend"] = true
		labels["kueue.x-k8s.io/queue-name"] = s.Queue
	}
	labels[blockLabel] = j.Name
	return map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": name, "labels": labels}, "spec": job}
}

// avoid makes a pod prefer other nodes. It does not require them: there may be no other node.
func avoid(spec map[string]any, nodes []string) {
	var fields []any
	for _, n := range nodes {
		fields = append(fields, map[string]any{"key": "metadata.name", "operator": "NotIn", "values": []any{n}})
	}
	affinity, _ := spec["affinity"].(map[string]any)
	node, _ := affinity["nodeAffinity"].(map[string]any)
	const key = "preferredDuringSchedulingIgnoredDuringExecution"
	term := map[string]any{"weight": int64(100), "preference": map[string]any{"matchFields": fields}}
	spec["affinity"] = merged(affinity, map[string]any{"nodeAffinity": merged(node, map[string]any{key: append(listOf(node[key]), term)})})
}

// addVolume gives a pod a volume and mounts it in a container.
func addVolume(spec, container map[string]any, name, path string, volume map[string]any) {
	spec["volumes"] = append(listOf(spec["volumes"]), merged(volume, map[string]any{"name": name}))
	container["volumeMounts"] = append(listOf(container["volumeMounts"]), map[string]any{"name": name, "mountPath": path})
}

// toleration reads key, key=value, key:effect or key=value:effect. Without a value any value is tolerated.
func toleration(s string) map[string]any {
	s, effect, _ := strings.Cut(s, ":")
	key, value, equal := strings.Cut(s, "=")
	t := map[string]any{"key": key, "operator": "Exists"}
	if equal {
		t["operator"], t["value"] = "Equal", value
	}
	if effect != "" {
		t["effect"] = effect
	}
	return t
}

// listOf is a copy of a list in an object, or nil if there is none. It is copied because append must not write into
// the array of the user's template.
func listOf(v any) []any {
	list, _ := v.([]any)
	return slices.Clone(list)
}

// texts converts a map of strings for use in an object.
func texts(m map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// merged returns a new map with the entries of both; above wins.
func merged(below, above map[string]any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, below)
	maps.Copy(out, above)
	return out
}

// pieceName has three digits, since the worker puts the pieces together in the order of their names.
func pieceName(job string, n int) string { return fmt.Sprintf("%s-%03d", job, n) }

// pieceOf is a piece of a job's inputs as a Secret, which the server deletes with the job. It is not a ConfigMap
// because sources may be confidential.
func pieceOf(job string, uid types.UID, session string, n int, data []byte) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true,
		"metadata": map[string]any{
			"name": pieceName(job, n), "labels": map[string]any{"app.kubernetes.io/managed-by": "kbisect", sessionLabel: session},
			"ownerReferences": []any{map[string]any{"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": string(uid)}},
		},
		"data": map[string]any{fmt.Sprintf("%03d", n): base64.StdEncoding.EncodeToString(data)},
	}
}
