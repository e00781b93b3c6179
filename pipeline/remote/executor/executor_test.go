package executor

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSlurmStates: what squeue prints, and that what is not known of a job never ends it.
func TestSlurmStates(t *testing.T) {
	got := parseStates("7|COMPLETED|n1|None\n8|PENDING||Resources\n9|NODE_FAIL|n2|None\n10|OUT_OF_MEMORY|n[1-2]|None\n\nslurm_load_jobs error\n11|NEW_STATE|n1|a|b\n")
	want := map[string]Report{
		"7": {Done, "n1", "COMPLETED"}, "8": {Pending, "", "PENDING (Resources)"}, "9": {Lost, "n2", "NODE_FAIL"},
		"10": {TooLarge, "n[1-2]", "OUT_OF_MEMORY"}, "11": {Running, "n1", "NEW_STATE (a|b)"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v\nwant\n%v", got, want)
	}
}

// FuzzStates: whatever a scheduler prints, each line is one job or none.
func FuzzStates(f *testing.F) {
	f.Add("7|COMPLETED|n1|None\n8|PENDING||Resources\n")
	f.Add("|\n||||||\n\x00|")
	f.Fuzz(func(t *testing.T, out string) {
		all := parseStates(out)
		if len(all) > strings.Count(out, "\n")+1 {
			t.Errorf("%d jobs of %q", len(all), out)
		}
		for id := range all {
			if id == "" || strings.ContainsAny(id, "|\n") {
				t.Errorf("id %q", id)
			}
		}
	})
}

// TestCommands: three commands of the user's are a scheduler.
func TestCommands(t *testing.T) {
	dir := t.TempDir()
	x := &commands{live: map[string]bool{}, settings: Settings{
		Submit: []string{"sh", "-c", `[ {seconds} = 60 ] && : >{spec}.job && printf 'thank you\n%s\n' {spec}.job`},
		State:  []string{"sh", "-c", `[ -e {id} ] && echo running || echo done`},
		Cancel: []string{"sh", "-c", `rm {id}`},
	}}
	id, err := x.Submit(t.Context(), Job{Spec: filepath.Join(dir, "spec.json"), Fence: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := x.States(t.Context(), []string{id}); err != nil || s[id].State != Running {
		t.Fatalf("%v %v", s, err)
	}
	if err := x.Cancel(t.Context(), "all"); err != nil {
		t.Fatal(err)
	}
	if s, err := x.States(t.Context(), []string{id}); err != nil || s[id].State != Done {
		t.Fatalf("%v %v", s, err)
	}
	x.settings.State = []string{"echo", "odd"}
	if _, err := x.States(t.Context(), []string{id}); err == nil || !strings.Contains(err.Error(), `printed "odd"`) {
		t.Error(err)
	}
	x.settings.Submit = []string{"sh", "-c", "echo no such queue >&2; exit 3"}
	var refused *RefusedError
	if _, err := x.Submit(t.Context(), Job{}); err == nil || errors.As(err, &refused) {
		t.Errorf("a first failure may pass: %v", err)
	}
	if _, err := x.Submit(t.Context(), Job{Again: true}); !errors.As(err, &refused) || !strings.Contains(err.Error(), "no such queue") {
		t.Errorf("%v", err)
	}
}
