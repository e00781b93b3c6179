package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// keptBaseline is a baseline with the session that keeps it.
type keptBaseline struct {
	baseline
	imported bool
}

// baselines reads those that the store keeps, the newest first.
func baselines(st *store.Store) (out []keptBaseline, err error) {
	all, err := st.Sessions(0)
	if err != nil {
		return nil, exit.With(exit.Machine, err)
	}
	for _, s := range all {
		if s.Axis != recording || s.Status != string(bisect.OK) && s.Status != importedStatus {
			continue
		}
		var b baseline
		if err := json.Unmarshal(s.Finding, &b); err != nil {
			return nil, fmt.Errorf("baseline %s: %w", s.ID, err)
		}
		b.Session = s.ID
		out = append(out, keptBaseline{b, s.Status == importedStatus})
	}
	return out, nil
}

// openBaselines reads the baselines of the repository.
func openBaselines(c *cli.Context) ([]keptBaseline, *source.Repo, error) {
	repo, err := source.Open(globals(c).dir)
	if err != nil {
		return nil, nil, exit.Usage(err)
	}
	st, err := openStore(c)
	if err != nil {
		repo.Close()
		return nil, nil, err
	}
	defer st.Close()
	all, err := baselines(st)
	if err == nil && len(all) == 0 {
		err = exit.Usagef("no baseline is recorded in this repository\nhint: kbisect baseline record launches HEAD and remembers it")
	}
	if err != nil {
		repo.Close()
		return nil, nil, err
	}
	return all, repo, nil
}

// chooseBaseline finds a baseline by its id, or the newest of a revision; "" is the newest of all.
func chooseBaseline(all []keptBaseline, repo *source.Repo, name string) (keptBaseline, error) {
	if name == "" {
		return all[0], nil
	}
	var found []keptBaseline
	for _, b := range all {
		if strings.HasPrefix(b.Session, name) {
			found = append(found, b)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	id, err := repo.Resolve(name)
	if err != nil {
		return keptBaseline{}, exit.Usagef("%q is neither the id of a baseline nor a revision\nhint: kbisect baseline list", name)
	}
	for _, b := range all {
		if b.Commit == id {
			return b, nil
		}
	}
	return keptBaseline{}, exit.Usagef("%s (%s) has no baseline\nhint: kbisect baseline record %[1]s", name, wording.Short(id))
}

func listBaselines(c *cli.Context) error {
	if c.Args().Present() {
		return exit.Usagef("baseline list takes no arguments, not %q", c.Args().Slice())
	}
	all, repo, err := openBaselines(c)
	if err != nil {
		return err
	}
	defer repo.Close()
	here := machine.Here(c.Context)
	t := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tCOMMIT\tRECORDED\tLAUNCHES\tMEDIAN\tDEVICE\tNOTE")
	for _, b := range all {
		device := b.Machine.DeviceWords()
		if b.imported {
			device += ", imported"
		}
		if len(b.hints(here)) > 0 {
			device += ", a hint here"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", b.Session, wording.Short(b.Commit), b.Recorded.Local().Format("2006-01-02 15:04"), b.Launches, b.median(), wording.Clean(device), wording.Clean(b.Note))
	}
	return t.Flush()
}

func showBaseline(c *cli.Context) error {
	words, err := plainWords(c, 0, 1)
	if err != nil {
		return err
	}
	all, repo, err := openBaselines(c)
	if err != nil {
		return err
	}
	defer repo.Close()
	b, err := chooseBaseline(all, repo, append(words, "")[0])
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return report.WriteJSON(c.App.Writer, b.baseline)
	}
	return b.print(c.App.Writer, b.hints(machine.Here(c.Context)))
}

// plainWords are the arguments of a command that takes no command after --.
func plainWords(c *cli.Context, least, most int) ([]string, error) {
	words, command, err := operands(c)
	if err != nil {
		return nil, err
	}
	if command != nil || len(words) < least || len(words) > most {
		return nil, exit.Usagef("usage: kbisect baseline %s %s", c.Command.Name, c.Command.ArgsUsage)
	}
	return words, nil
}

// hints are the reasons for which a baseline says little here. One that comes from a file and names no device may
// come from any machine.
func (b keptBaseline) hints(here *machine.Machine) (out []string) {
	m := b.Machine
	switch elsewhere := m.Elsewhere(here); {
	case len(m.Devices) == 0 && (b.imported || elsewhere):
		out = append(out, "it was measured without a device that could be told from others")
	case elsewhere:
		out = append(out, "its device is not here: "+m.DeviceWords())
	}
	if m.Driver != "" && here.Driver != "" && m.Driver != here.Driver {
		out = append(out, fmt.Sprintf("driver %s then, %s now", m.Driver, here.Driver))
	}
	return out
}
