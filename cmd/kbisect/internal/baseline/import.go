package baseline

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// Import keeps a baseline that was read from a file; the same one again is not an error and changes nothing. If
// this machine has the device that it was measured on, its commit counts as good from then on. The session that
// keeps it has no launches.
func Import(ctx context.Context, w io.Writer, version string, repo *source.Repo, b Baseline) error {
	st, err := store.Open(store.Dir(repo.CommonDir()), store.ReadWrite)
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	defer st.Close()
	all, err := List(st)
	if err != nil {
		return err
	}
	for _, old := range all {
		if old.Commit == b.Commit && old.Recorded.Equal(b.Recorded) && old.Config == b.Config {
			fmt.Fprintf(w, "already known as %s\n", old.Session)
			return nil
		}
	}
	s, err := session.NewSession(&policy.Policy{Good: b.Commit, Bad: b.Commit}, Kind, version)
	if err != nil {
		return err
	}
	b.Session = s.ID
	k := Kept{b, true}
	here := machine.Here(ctx)
	s.Status, s.Config, s.Summary = ImportedStatus, nil, "Imported: "+cmp.Or(b.Note, b.Subject)
	if s.Finding, err = json.Marshal(b); err == nil {
		err = st.CreateSession(*s)
	}
	if err == nil && len(b.Machine.Devices) > 0 && !b.Machine.Elsewhere(here) {
		err = st.RecordGood(store.Good{Commit: b.Commit, When: b.Recorded, Session: s.ID, Detail: fmt.Sprintf("an imported baseline, %s passed", words.Count(b.Launches, "launch"))})
	}
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	fmt.Fprintf(w, "imported as %s: %s, recorded %s\n", s.ID, bisect.ShortID(b.Commit), b.Recorded.Format(time.RFC3339))
	if hints := k.Hints(here); len(hints) > 0 {
		fmt.Fprintf(w, "It is only a hint on this machine: %s.\n", strings.Join(hints, "; "))
	}
	return nil
}

// GoodElsewhere is a hint line for a user who names no good end: the newest imported baseline of an ancestor of
// bad. It is "" if there is none or the store cannot be read, as a hint is not worth an error.
func GoodElsewhere(ctx context.Context, repo *source.Repo, bad string) string {
	st, err := session.StoreOf(repo)
	if st == nil || err != nil {
		return ""
	}
	defer st.Close()
	all, err := List(st)
	if err != nil {
		return ""
	}
	for _, b := range all {
		if yes, err := repo.IsAncestor(ctx, b.Commit, bad); err == nil && yes && b.Imported && b.Commit != bad {
			return fmt.Sprintf("\nhint: %s was good on another machine (%s); try --good %[1]s", bisect.ShortID(b.Commit), b.Machine.DeviceNames())
		}
	}
	return ""
}
