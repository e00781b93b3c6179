package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/report/page"
	"github.com/kbisect/kbisect/bisect/report/render"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/baseline"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/exit"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/explain"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/gate"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/past"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/pipeline/source"
	"github.com/kbisect/kbisect/pipeline/store"
)

// openStore opens the store of the repository for reading.
func openStore(c *cli.Context) (*store.Store, error) {
	repo, err := source.Open(globals(c).dir)
	if err != nil {
		return nil, exit.Usage(err)
	}
	defer repo.Close()
	return session.ReadStore(repo)
}

func sessionsCommand() *cli.Command {
	return &cli.Command{
		Name: "sessions", Usage: "list past and interrupted searches, comparisons and measurements",
		Flags: []cli.Flag{&cli.IntFlag{Name: "limit", Usage: "at most `N`, newest first", Value: 20}},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return exit.Usagef("sessions takes no arguments, not %q\nhint: kbisect show SESSION shows one", c.Args().Slice())
			}
			st, err := openStore(c)
			if err != nil {
				return err
			}
			defer st.Close()
			all, err := st.Sessions(c.Int("limit"))
			if err != nil {
				return exit.With(exit.Machine, err)
			}
			t := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "SESSION\tKIND\tRESULT\tGOOD\tBAD\tTIME\tFINDING")
			running := st.Running()
			for _, s := range all {
				s.Status = statusWord(s, running)
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, kindWord(s), s.Status, wording.Short(s.Good), wording.Short(s.Bad), wording.Span(s.Elapsed), s.Summary)
			}
			return t.Flush()
		},
	}
}

// kindWord is the command that made a session: a search is stored under its axis.
func kindWord(s store.Session) string {
	if session.IsSearch(s) {
		return "run"
	}
	return s.Axis
}

// sides are what the command of a session calls its two commits; none where it launches one.
func sides(s store.Session) []string {
	switch {
	case session.IsSearch(s):
		return []string{"good", "bad"}
	case s.Axis == gate.Kind:
		return []string{"merge base", "HEAD"}
	case s.Axis == session.Comparing, s.Axis == explain.Kind:
		return []string{"A", "B"}
	}
	return nil
}

// endsWords names the commits of a session as its command called them.
func endsWords(s store.Session) string {
	if x := sides(s); x != nil {
		return fmt.Sprintf("%s %s, %s %s", x[0], wording.Short(s.Good), x[1], wording.Short(s.Bad))
	}
	return wording.Short(s.Good)
}

// purposeWord says what a launch was for.
func purposeWord(s store.Session, purpose string) string {
	x := sides(s)
	switch {
	case session.IsSearch(s):
		return purpose
	case x == nil:
		return "launch"
	case purpose == string(bisect.EndGood):
		return x[0]
	case purpose == string(bisect.EndBad), s.Axis != gate.Kind: // profilers of B have purposes of their own
		return x[1]
	}
	return purpose
}

// valuesWord is what a launch measured: the medians of the first numbers that it gave and how many more there are, or
// "".
func valuesWord(o bisect.Outcome) string {
	const most = 2
	var out []string
	for _, x := range o.Series {
		if len(x.Values) == 0 {
			continue
		}
		l := baseline.Level{Metric: x.Metric, Case: x.Case, Unit: x.Unit}
		out = append(out, words.Printable(l.Name())+" "+l.Quantity(float64(compare.Describe(x.Values).Median)))
	}
	if n := len(out) - most; n > 0 {
		out = append(out[:most], fmt.Sprintf("%d more", n))
	}
	return strings.Join(out, ", ")
}

// statusWord is the status of a session; a search that nobody runs any more has been killed.
func statusWord(s store.Session, running string) string {
	if s.Status == store.Running && s.ID != running {
		return "killed"
	}
	return s.Status
}

func showCommand() *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "show every trial and verdict of a session", ArgsUsage: "[SESSION]",
		Description: "SESSION is an id of kbisect sessions, the unique beginning of one, or last; the newest when left out.",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "the finding as it was kept", DisableDefaultText: true}},
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return exit.Usagef("show takes one session, not %q\nhint: options stand before it: kbisect show --json last", c.Args().Slice())
			}
			id := c.Args().First()
			if id == "" {
				id = "last"
			}
			st, err := openStore(c)
			if err != nil {
				return err
			}
			defer st.Close()
			s, err := st.Session(id)
			if err != nil {
				return exit.Usage(err)
			}
			if c.Bool("json") {
				if len(s.Finding) == 0 {
					return exit.Usagef("session %s has no finding (%s)\nhint: kbisect show %s lists what it launched", s.ID, statusWord(s, st.Running()), s.ID)
				}
				_, err := c.App.Writer.Write(words.JSON(s.Finding))
				return err
			}
			s.Status = statusWord(s, st.Running())
			if err := show(c.App.Writer, st, s); err != nil || !session.IsSearch(s) {
				return err
			}
			return showAnswer(c, s.ID)
		},
	}
}

// showAnswer prints all that is known of the answer of a search.
func showAnswer(c *cli.Context, id string) error {
	repo, err := source.Open(globals(c).dir)
	if err != nil {
		return exit.Usage(err)
	}
	defer repo.Close()
	p, err := past.Open(c.Context, repo, id)
	if err != nil {
		return err
	}
	t := terminalOf(c)
	t.All = true
	fmt.Fprintln(c.App.Writer)
	return render.Text(c.App.Writer, page.New(p.Document, p.Ledger(c.Context)), t)
}

// show prints one session: what it was, what it launched, what it concluded. Launches are listed as they were stored,
// in the order in which they were made.
func show(w io.Writer, st *store.Store, s store.Session) error {
	fmt.Fprintf(w, "session   %s, %s\nbegun     %s, %s in all\nends      %s\ncommand   %q\n",
		s.ID, s.Status, s.Created.Local().Format("2006-01-02 15:04:05"), wording.Span(s.Elapsed), endsWords(s), s.Args)
	if s.Summary != "" {
		fmt.Fprintf(w, "finding   %s\n", words.Printable(s.Summary))
	}
	launches, err := st.Launches(s.ID)
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	fmt.Fprintf(w, "\n%s\n", words.Count(len(launches), "trial"))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range launches {
		var o bisect.Outcome
		if err := json.Unmarshal(l.Outcome, &o); err != nil {
			return exit.With(exit.Machine, fmt.Errorf("trial %d: %w", l.Seq, err))
		}
		build := "-"
		switch {
		case o.CacheHit:
			build = "cached"
		case o.Built:
			build = fmt.Sprintf("%.2f s", o.Build)
		}
		fmt.Fprintf(t, "  %d\t%s\t%s\tbuild %s\trun %.2f s\t%s\t%s\n", l.Seq, wording.Short(l.Commit), purposeWord(s, l.Purpose), build, o.Wall, valuesWord(o), words.Printable(o.Describe()))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	steps, err := st.Steps(s.ID)
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	if !session.IsSearch(s) && len(steps) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%s\n", words.Count(len(steps), "judgement"))
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, x := range steps {
		inferred := ""
		if x.Inferred {
			inferred = "inferred"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", wording.Short(x.Commit), x.Call, inferred, words.Printable(x.Why))
	}
	return t.Flush()
}
