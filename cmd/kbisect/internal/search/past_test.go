package search

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/pipeline/source/gittest"
	"github.com/kbisect/kbisect/pipeline/store"
)

// A search knows what launches of the same command scattered by in earlier sessions on this machine, and of no other
// command or machine. Resumed, it decides by what it knew when it began.
func TestPastSessions(t *testing.T) {
	r := gittest.New(t)
	for i := range 64 {
		r.Write(t, "program", fmt.Sprintf("#%d\n", i))
		r.Commit(t, fmt.Sprint("change ", i))
	}
	show := func(file string, _ map[string]string, _ bisect.Request, rng *rand.Rand) bisect.Outcome {
		var i int
		fmt.Sscanf(file, "#%d", &i)
		if i >= 40 {
			return timed(1.3, 0.002, rng)
		}
		return timed(1, 0.002, rng)
	}
	plain := policy.Request{Good: "HEAD~63", Argv: []string{"./program"}, NoHunks: true}
	on := func(d *simulated, q policy.Request) (past *report.Past, launches int, text string) {
		t.Helper()
		text = attempt(t, r, q, d)
		var doc struct {
			Result bisect.Result
			Ends   report.Ends
		}
		if err := json.Unmarshal([]byte(text), &doc); err != nil || doc.Result != bisect.Found {
			t.Fatalf("%v: %s", err, text)
		}
		return doc.Ends.Past, d.launch, text
	}
	search := func(q policy.Request) (past *report.Past, launches int, text string) {
		t.Helper()
		return on(&simulated{show: show, kill: -1}, q)
	}
	edit := func(f func(*policy.Policy)) { // what all sessions so far have kept
		t.Helper()
		st, err := store.Open(store.Dir(r.Dir+"/.git"), store.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		all, err := st.Sessions(100)
		for _, x := range all {
			var p policy.Policy
			if err == nil {
				err = json.Unmarshal(x.Config, &p)
			}
			f(&p)
			data, _ := json.Marshal(p)
			if err == nil {
				err = st.UpdateSession(x.ID, func(s *store.Session) { s.Config = data })
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	past, first, _ := search(plain)
	if past != nil {
		t.Errorf("the first search knew %+v", past)
	}
	search(plain)
	past, launches, whole := search(plain)
	if past == nil || past.Sessions != 2 || past.Launches != 2*first || past.Scatter < 0.001 || past.Scatter > 0.005 || launches != first-2 {
		t.Errorf("the third search knew %+v and made %d launches, the first %d", past, launches, first)
	}
	unknowing := plain
	unknowing.NoPast = true
	if past, launches, _ := search(unknowing); past != nil || launches != first {
		t.Errorf("--no-past: %+v, %d launches, the first search %d", past, launches, first)
	}
	other := plain
	other.Argv = []string{"./program", "-v"}
	if past, _, _ := search(other); past != nil {
		t.Errorf("another command: %+v", past)
	}

	edit(func(p *policy.Policy) { // the search that is killed is to know what the third one knew
		if p.Past == nil && p.NoPast || len(p.Past) > 0 {
			p.Machine = "elsewhere"
		}
	})
	ctx, kill := context.WithCancel(t.Context())
	d := &simulated{show: show, kill: 7, killed: kill}
	attemptIn(ctx, t, r, plain, d)
	edit(func(p *policy.Policy) {
		if p.Past == nil {
			p.Machine = "elsewhere"
		}
	})
	again := plain
	again.Resume, again.Argv, d.kill = true, nil, -1
	if past, _, text := on(d, again); past == nil || text != whole {
		t.Errorf("resumed, the search knew %+v:\n%s\nwithout being killed:\n%s", past, text, whole)
	}
	edit(func(p *policy.Policy) { p.Machine = "elsewhere" })
	if past, _, _ := search(plain); past != nil {
		t.Errorf("on another machine: %+v", past)
	}
}
