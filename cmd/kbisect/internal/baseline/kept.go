package baseline

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// Kept is a baseline in the store of this repository.
type Kept struct {
	Baseline
	Imported bool // from a file, not recorded in this repository
}

// List reads the baselines of the store, the newest first. Interrupted and refused recordings are not among them.
func List(st *store.Store) (out []Kept, err error) {
	all, err := st.Sessions(0)
	if err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	for _, s := range all {
		if s.Axis != Kind || s.Status != string(bisect.OK) && s.Status != ImportedStatus {
			continue
		}
		var b Baseline
		if err := json.Unmarshal(s.Finding, &b); err != nil {
			return nil, fmt.Errorf("baseline %s: %w", s.ID, err)
		}
		b.Session = s.ID
		out = append(out, Kept{b, s.Status == ImportedStatus})
	}
	return out, nil
}

// Choose finds a baseline by the beginning of its id, or the newest of a revision; "" is the newest of all. all
// must not be empty and is in the order of [List]. A name that fits nothing is a usage error.
func Choose(ctx context.Context, all []Kept, repo *source.Repo, name string) (Kept, error) {
	if name == "" {
		return all[0], nil
	}
	var found []Kept
	for _, b := range all {
		if strings.HasPrefix(b.Session, name) {
			found = append(found, b)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	id, err := repo.Resolve(ctx, name)
	if err != nil {
		return Kept{}, exit.Usagef("%q is neither the id of a baseline nor a revision\nhint: kbisect baseline list", name)
	}
	for _, b := range all {
		if b.Commit == id {
			return b, nil
		}
	}
	return Kept{}, exit.Usagef("%s (%s) has no baseline\nhint: kbisect baseline record %[1]s", name, bisect.ShortID(id))
}

// Hints are the reasons why a baseline is only a hint on this machine; none if it is more than that. One that comes
// from a file and names no device may come from any machine.
func (b Kept) Hints(here *machine.Machine) (out []string) {
	m := b.Machine
	switch elsewhere := m.Elsewhere(here); {
	case len(m.Devices) == 0 && (b.Imported || elsewhere):
		out = append(out, "measured without an identifiable device")
	case elsewhere:
		out = append(out, "measured on another device: "+m.DeviceNames())
	}
	if m.Driver != "" && here.Driver != "" && m.Driver != here.Driver {
		out = append(out, fmt.Sprintf("driver %s then, %s now", m.Driver, here.Driver))
	}
	return out
}
