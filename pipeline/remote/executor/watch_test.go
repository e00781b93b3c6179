package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// apiServer is as much of one as kbisect needs: what is there, and all that happened, which watches are told of.
type apiServer struct {
	*httptest.Server

	mu     sync.Mutex
	asked  map[string]int               // requests, by verb and resource
	there  map[string]map[string]string // objects, by resource and name
	events map[string][]string
	news   *sync.Cond
	gone   int    // watches that are told 410
	token  string // the one that is known
	cut    bool   // watches end
}

// newAPIServer starts one, and makes it that of this process.
func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{asked: map[string]int{}, there: map[string]map[string]string{"jobs": {}, "pods": {}}, events: map[string][]string{}, token: "first"}
	s.news = sync.NewCond(&s.mu)
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(func() {
		s.end()
		s.Close()
	})
	config := filepath.Join(t.TempDir(), "kubeconfig")
	t.Setenv("KUBECONFIG", config)
	s.login(t, "first")
	return s
}

func (s *apiServer) login(t *testing.T, token string) {
	text := fmt.Sprintf(`{"current-context": "c", "clusters": [{"name": "c", "cluster": {"server": %q, "insecure-skip-tls-verify": true}}], "users": [{"name": "u", "user": {"token": %q}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`, s.URL, token)
	if err := os.WriteFile(os.Getenv("KUBECONFIG"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// end ends all watches.
func (s *apiServer) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = true
	s.news.Broadcast()
}

// put makes or changes an object.
func (s *apiServer) put(resource, name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.there[resource][name] = text
	s.events[resource] = append(s.events[resource], `{"type": "MODIFIED", "object": `+text+"}\n")
	s.news.Broadcast()
}

func (s *apiServer) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[what]
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := "jobs"
	if strings.Contains(r.URL.Path, "/pods") {
		resource = "pods"
	}
	verb := r.Method
	if r.URL.Query().Get("watch") != "" {
		verb = "WATCH"
	}
	s.mu.Lock()
	s.asked[verb+" "+resource]++
	known := r.Header.Get("Authorization") == "Bearer "+s.token
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case !known:
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized", "message": "Unauthorized", "code": 401}`)
	case verb == "POST":
		var job struct{ Metadata struct{ Name string } }
		if err := json.NewDecoder(r.Body).Decode(&job); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		text := fmt.Sprintf(`{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": %q, "resourceVersion": "2"}}`, job.Metadata.Name)
		s.put("jobs", job.Metadata.Name, text)
		fmt.Fprint(w, text)
	case verb == "WATCH":
		s.watch(w, resource)
	case verb == "DELETE":
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.there[resource], path.Base(r.URL.Path))
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Success"}`)
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		var all []string
		for _, o := range s.there[resource] {
			all = append(all, o)
		}
		fmt.Fprintf(w, `{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "%d"}, "items": [%s]}`, len(s.events[resource]), strings.Join(all, ","))
	}
}

// watch tells of all that happened, from the first on: what is told twice does no harm.
func (s *apiServer) watch(w http.ResponseWriter, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone > 0 {
		s.gone--
		fmt.Fprintln(w, `{"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}}`)
		return
	}
	for told := 0; !s.cut; s.news.Wait() {
		for ; told < len(s.events[resource]); told++ {
			fmt.Fprint(w, s.events[resource][told])
		}
		w.(http.Flusher).Flush()
	}
}

func (s *apiServer) open(t *testing.T) *kubernetes {
	x, err := newKubernetes(Settings{Kind: Kubernetes, Image: "i"}, "kbisect-s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if x.stop != nil {
			x.stop()
		}
	})
	return x
}

func (s *apiServer) pod(job string, n int, phase string) {
	s.put("pods", job, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "uid": %q, "resourceVersion": "2", "labels": {"kbisect.dev/job": %q}}, "spec": {"nodeName": "n%d"}, "status": {"phase": %q}}`, job, job, job, n%64, phase))
}

// until waits for what the watches will bring.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			t.Fatal("never: " + what)
		}
	}
}

// TestThousandJobs: a thousand jobs on 64 nodes are one list and one watch of jobs and of pods, and hardly any memory.
func TestThousandJobs(t *testing.T) {
	const jobs = 1000
	s := newAPIServer(t)
	x := s.open(t)
	var ids []string
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for n := range jobs {
		id, err := x.Submit(t.Context(), Job{Session: "kbisect-s", Name: fmt.Sprint(n), Fence: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for _, phase := range []string{"Pending", "Running", "Succeeded"} {
		for n, id := range ids {
			s.pod(id, n, phase)
		}
	}
	until(t, "all are done", func() bool {
		states, err := x.States(t.Context(), ids)
		for _, r := range states {
			if r.State != Done {
				return false
			}
		}
		return err == nil && len(states) == jobs
	})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 64<<20 { // the server's own objects among them
		t.Errorf("%d MB are held", held>>20)
	}
	for what, want := range map[string]int{"POST jobs": jobs, "GET jobs": 1, "GET pods": 1, "WATCH jobs": 1, "WATCH pods": 1} {
		if n := s.count(what); n != want {
			t.Errorf("%s: %d requests, want %d", what, n, want)
		}
	}
}

// TestWatches: a watch that ends, or that has missed too much, lists again; a token that is refused is read again.
func TestWatches(t *testing.T) {
	s := newAPIServer(t)
	s.gone = 3
	x := s.open(t)
	id, err := x.Submit(t.Context(), Job{Session: "kbisect-s", Name: "1", Fence: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	is := func(want State) func() bool {
		return func() bool {
			states, err := x.States(t.Context(), []string{id})
			return err == nil && states[id].State == want
		}
	}
	s.pod(id, 1, "Running")
	until(t, "it runs", is(Running))
	until(t, "each of 3 watches that had missed too much was followed by a list", func() bool { return s.count("GET jobs")+s.count("GET pods") == 5 })
	s.mu.Lock()
	s.token = "second"
	s.mu.Unlock()
	s.end()
	until(t, "the token is refused", func() bool { _, err := x.States(t.Context(), []string{id}); return err != nil })
	s.mu.Lock()
	s.cut = false
	s.mu.Unlock()
	s.pod(id, 1, "Succeeded")
	s.login(t, "second")
	until(t, "it is done", is(Done))
}

// TestNamesOfJobs: one that is submitted again after it was deleted has another name; one whose id was not learned is found.
func TestNamesOfJobs(t *testing.T) {
	s := newAPIServer(t)
	x := s.open(t)
	submit := func(again bool) string {
		id, err := x.Submit(t.Context(), Job{Session: "kbisect-s", Name: "1", Fence: time.Minute, Again: again})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := submit(false)
	if err := x.Cancel(t.Context(), "kbisect-s", first); err != nil {
		t.Fatal(err)
	}
	second := submit(true)
	if second == first {
		t.Errorf("%s is the name of two jobs", first)
	}
	if third := submit(true); third != second {
		t.Errorf("%s was made beside %s", third, second)
	}
}

// TestStrangersToken: a token that was never accepted is not waited for.
func TestStrangersToken(t *testing.T) {
	s := newAPIServer(t)
	s.login(t, "another")
	var refused *RefusedError
	if _, err := s.open(t).Submit(t.Context(), Job{}); err == nil || !errors.As(err, &refused) {
		t.Error(err)
	}
}
