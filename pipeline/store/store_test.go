package store

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("KBISECT_TEST_WRITE"); dir != "" {
		writeForever(dir)
	}
	if dir := os.Getenv("KBISECT_TEST_LOCK"); dir != "" {
		lockForever(dir)
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string, mode Mode) *Store {
	t.Helper()
	s, err := Open(dir, mode)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

var day = time.Date(2026, 11, 21, 7, 45, 12, 123456789, time.UTC)

// launch returns a launch that depends on n only, with n%4 numbers in its outcome.
func launch(session string, n int) Launch {
	var series []string
	for i := range n % 4 {
		series = append(series, fmt.Sprintf(`{"metric":"time","case":"shape%d","unit":"us","values":[%v]}`, i, float64(n)/float64(i+3)))
	}
	return Launch{Session: session, Seq: n, Candidate: fmt.Sprintf("key%d", n), Commit: strings.Repeat(fmt.Sprint(n%10), 40), Purpose: "search",
		Ordinal: n % 3, Class: "ok", Phase: "measure", Started: day.Add(time.Duration(n) * time.Second), Wall: time.Duration(n) * 1234567891,
		Outcome: fmt.Appendf(nil, `{"n":%d,"series":[%s],"pad":%q}`, n, strings.Join(series, ","), strings.Repeat("x", n*37%900))}
}

// fill makes a store with one session of so many launches and steps, and closes it.
func fill(t testing.TB, dir string, launches int) {
	t.Helper()
	s, err := Open(dir, ReadWrite)
	must(t, err)
	must(t, s.CreateSession(Session{ID: "one", Created: day, Status: Running, Args: []string{"run"}, Config: []byte(`{"effect":"3%"}`)}))
	for n := range launches {
		must(t, s.AddLaunch(launch("one", n)))
		must(t, s.AddStep(Step{Session: "one", Seq: n, Commit: fmt.Sprint(n), Call: "good", Probability: 0.5, Why: "because"}))
	}
	must(t, s.RecordGood(Good{Commit: "c0ffee", When: day, Session: "one", Detail: "fine"}))
	must(t, s.Close())
}

// verify checks that a store holds the first launches that fill made, and returns how many.
func verify(s *Store, session string) (int, error) {
	launches, err := s.Launches(session)
	if err != nil {
		return 0, err
	}
	for n, got := range launches {
		if want := launch(session, n); !reflect.DeepEqual(got, want) {
			return 0, fmt.Errorf("launch %d is %+v, want %+v", n, got, want)
		}
	}
	return len(launches), nil
}

func TestSessions(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "a ?#%41 b", "kbisect"), ReadWrite)
	if _, err := s.Session("last"); !errors.Is(err, errNone) {
		t.Errorf("Session in an empty store: %v", err)
	}
	one := Session{ID: "20261121-074512-3f9a", Created: day, Updated: day, Status: Running, Args: []string{"run", "--good", "a b"},
		Config: []byte(`{"x":1}`), Good: "g", Bad: "b", Axis: "history", Seed: -7, Summary: "s", Elapsed: 3 * time.Hour, Version: "v"}
	two := one
	two.ID, two.Created, two.Status, two.Args = "20261121-074513-0000", day.Add(time.Second), Interrupted, []string{}
	must(t, s.CreateSession(one))
	must(t, s.CreateSession(two))
	if err := s.CreateSession(one); err == nil {
		t.Error("the same id was created twice")
	}
	for id, want := range map[string]Session{"": two, "last": two, one.ID: one, "20261121-074512": one, two.ID: two} {
		if got, err := s.Session(id); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Session(%q) = %+v, %v\nwant %+v", id, got, err, want)
		}
	}
	if _, err := s.Session("2026"); err == nil || !strings.Contains(err.Error(), one.ID) || !strings.Contains(err.Error(), "hint: ") {
		t.Errorf("an ambiguous prefix: %v", err)
	}
	for _, id := range []string{"x", "%", "_", "20261121-074512-3f9a0"} {
		if _, err := s.Session(id); !errors.Is(err, errNone) {
			t.Errorf("Session(%q): %v", id, err)
		}
	}
	must(t, s.UpdateSession(two.ID, func(x *Session) { x.Status, x.Finding = Found, []byte(`{"f":2}`) }))
	if got, _ := s.Session("last"); got.Status != Found || string(got.Finding) != `{"f":2}` || !got.Updated.After(day) {
		t.Errorf("after the update: %+v", got)
	}
	if err := s.UpdateSession("none", func(*Session) {}); !errors.Is(err, errNone) {
		t.Errorf("update of nothing: %v", err)
	}
	if list, err := s.Sessions(1); err != nil || len(list) != 1 || list[0].ID != two.ID {
		t.Errorf("Sessions(1) = %v, %v", list, err)
	}
	if list, err := s.Sessions(0); err != nil || len(list) != 2 {
		t.Errorf("Sessions(0) = %v, %v", list, err)
	}
}

func TestRecords(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 25)
	s := open(t, dir, ReadWrite)
	if n, err := verify(s, "one"); n != 25 || err != nil {
		t.Errorf("%d launches, %v", n, err)
	}
	if steps, err := s.Steps("one"); err != nil || len(steps) != 25 || steps[7].Why != "because" || steps[7].Verdict != nil {
		t.Errorf("steps %v, %v", steps, err)
	}
	l := launch("one", 3)
	if err := s.AddLaunch(l); err == nil {
		t.Error("the same launch was added twice")
	}
	l.Session = "other"
	if err := s.AddLaunch(l); !errors.Is(err, errNone) {
		t.Errorf("launch of no session: %v", err)
	}
	if n, err := verify(s, "one"); n != 25 || err != nil {
		t.Errorf("after refused launches: %d launches, %v", n, err)
	}
	must(t, s.RecordGood(Good{Commit: "beef", When: day.Add(time.Hour)}))
	must(t, s.RecordGood(Good{Commit: "c0ffee", When: day.Add(time.Minute), Detail: "again"}))
	goods, err := s.Goods()
	want := []Good{{Commit: "beef", When: day.Add(time.Hour)}, {Commit: "c0ffee", When: day.Add(time.Minute), Detail: "again"}}
	if err != nil || !reflect.DeepEqual(goods, want) {
		t.Errorf("Goods = %v, %v", goods, err)
	}
}

// TestAnyValue stores what a program under test may come up with.
func TestAnyValue(t *testing.T) {
	s := open(t, t.TempDir(), ReadWrite)
	must(t, s.CreateSession(Session{ID: "x", Created: day, Status: Running}))
	seq := 0
	text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(rt *rapid.T) {
		seq++
		l := Launch{Session: "x", Seq: seq, Candidate: text.Draw(rt, "key"), Commit: text.Draw(rt, "commit"), Class: text.Draw(rt, "class"),
			Started: time.Unix(rapid.Int64Range(0, 4e9).Draw(rt, "s"), rapid.Int64Range(0, 999999999).Draw(rt, "ns")).UTC(),
			Wall:    time.Duration(rapid.Int64Range(0, 4e15).Draw(rt, "wall")), Outcome: []byte(text.Draw(rt, "outcome"))}
		p := Step{Session: "x", Seq: 2 * seq, Why: text.Draw(rt, "why"), Probability: rapid.Float64().Draw(rt, "value")}
		q := Step{Session: "x", Seq: 2*seq + 1, Call: text.Draw(rt, "call"), Probability: rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 5e-324, 3}).Draw(rt, "odd")}
		must(t, errors.Join(s.AddLaunch(l), s.AddStep(p), s.AddStep(q)))
		launches, err := s.Launches("x")
		must(t, err)
		got := launches[len(launches)-1]
		if !bytes.Equal(got.Outcome, l.Outcome) {
			rt.Fatalf("outcome %q, want %q", got.Outcome, l.Outcome)
		}
		got.Outcome, l.Outcome = nil, nil
		if !reflect.DeepEqual(got, l) {
			rt.Fatalf("got %+v, want %+v", got, l)
		}
		steps, err := s.Steps("x")
		must(t, err)
		steps = steps[len(steps)-2:]
		if steps[0].Probability != p.Probability || steps[0].Why != p.Why || steps[1].Call != q.Call {
			rt.Fatalf("got %+v, want %+v and %+v", steps, p, q)
		}
		if v := steps[1].Probability; v != q.Probability && !(math.IsNaN(v) && math.IsNaN(q.Probability)) {
			rt.Fatalf("got %v, want %v", v, q.Probability)
		}
	})
	if _, err := timings(s); err != nil { // the view skips what is not JSON
		t.Error(err)
	}
}

// timings reads the view of that name, a line for each number.
func timings(s *Store) (lines []string, err error) {
	rows, err := s.db.Query("SELECT session, seq, metric, case_name, value, unit FROM timings ORDER BY session, seq, metric, case_name, value")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var session, metric, name, unit string
		var seq int
		var value float64
		if err := rows.Scan(&session, &seq, &metric, &name, &value, &unit); err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprint(seq, " ", metric, " ", name, " ", value, " ", unit))
	}
	return lines, rows.Err()
}

func TestNewID(t *testing.T) {
	id, err := NewID(day, bytes.NewReader([]byte{0x3f, 0x9a, 0x17, 0xc2}))
	if id != "20261121-074512-3f9a17c2" || err != nil {
		t.Errorf("NewID = %q, %v", id, err)
	}
	if _, err := NewID(day, bytes.NewReader(nil)); err == nil {
		t.Error("NewID without randomness succeeded")
	}
}

// Sessions that begin together on one machine, as those of a nightly job do, have ids of their own: they would kill each
// other's processes.
func TestSessionsOfOneSecondDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 2000 { // of 16 bits, about 30 would be the same
		id, err := NewID(day, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		seen[id] = true
	}
	if len(seen) < 1999 {
		t.Errorf("%d ids of 2000 sessions", len(seen))
	}
}

func TestReadOnlyNeedsAStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kbisect")
	if _, err := Open(dir, ReadOnly); !errors.Is(err, ErrNoStore) {
		t.Errorf("Open = %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("opening for reading made the directory")
	}
	fill(t, dir, 2)
	s := open(t, dir, ReadOnly)
	if n, err := verify(s, "one"); n != 2 || err != nil {
		t.Errorf("%d launches, %v", n, err)
	}
	if err := s.RecordGood(Good{Commit: "a", When: day}); err == nil {
		t.Error("a read-only store was written")
	}
}

// TestReadersBesideAWriter reads from several handles while launches are added.
func TestReadersBesideAWriter(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 0)
	w := open(t, dir, ReadWrite)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := 0
			for stop := false; !stop; {
				select {
				case <-done:
					stop = true
				default:
				}
				r, err := Open(dir, ReadOnly)
				if err != nil {
					t.Error(err)
					return
				}
				n, err := verify(r, "one")
				r.Close()
				if err != nil || n < last {
					t.Errorf("%d launches after %d, %v", n, last, err)
					return
				}
				last = n
			}
			if last != 60 {
				t.Errorf("the last read saw %d launches", last)
			}
		})
	}
	for n := range 60 {
		if err := w.AddLaunch(launch("one", n)); err != nil {
			t.Error(err)
		}
	}
	close(done)
	wg.Wait()
}

// TestTwoCreators opens a new store from several handles at once; all must end up in one file.
func TestTwoCreators(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kbisect")
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			s, err := Open(dir, ReadWrite)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if err := s.RecordGood(Good{Commit: fmt.Sprint(i), When: day}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := open(t, dir, ReadOnly)
	list, err := s.Goods()
	must(t, err)
	for i := range 6 {
		if !slices.ContainsFunc(list, func(g Good) bool { return g.Commit == fmt.Sprint(i) }) {
			t.Errorf("what creator %d wrote is lost", i)
		}
	}
}

// TestSQLiteTool reads the file with the sqlite3 program, as people will.
func TestSQLiteTool(t *testing.T) {
	tool, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("SKIPPED: no sqlite3 program here; that it can read the store was not tested")
	}
	dir := t.TempDir()
	fill(t, dir, 8)
	query := "PRAGMA integrity_check; SELECT count(*), typeof(wall_s) FROM launches; SELECT value, unit, case_name FROM timings WHERE seq = 3 ORDER BY case_name;" +
		"SELECT json_extract(outcome, '$.n') FROM launches WHERE seq = 5; SELECT sum(launches) FROM candidates; SELECT config FROM sessions;"
	out, err := exec.Command(tool, filepath.Join(dir, fileName), query).CombinedOutput()
	want := "ok\n8|real\n1.0|us|shape0\n0.75|us|shape1\n0.6|us|shape2\n5\n8\n{\"effect\":\"3%\"}\n"
	if err != nil || string(out) != want {
		t.Errorf("sqlite3: %v\n%s\nwant\n%s", err, out, want)
	}
}
