package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
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

// openStore opens the store of the repository at -C for reading. The caller closes it; the repository is only needed to
// find it. A repository without a store is a usage error.
func openStore(c *cli.Context) (*store.Store, error) {
	repo, err := source.Open(globals(c).dir)
	if err != nil {
		return nil, exit.Usage(err)
	}
	defer repo.Close()
	return session.ReadStore(repo)
}

// sessionsCommand lists stored sessions of all kinds. The table is built in memory first, since its lines are cut at
// the width of the terminal only after the columns are aligned.
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
			var b strings.Builder
			t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "SESSION\tKIND\tRESULT\tGOOD\tBAD\tTIME\tFINDING")
			running := st.Running() // one look at the lock, so that all lines agree
			for _, s := range all {
				s.Status = statusWord(s, running)
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, kindWord(s), s.Status, bisect.ShortID(s.Good), bisect.ShortID(s.Bad), wording.Span(s.Elapsed), s.Summary)
			}
			if err := t.Flush(); err != nil {
				return err
			}
			return writeTable(c, b.String(), "")
		},
	}
}

// writeTable writes a text, and cuts those of its lines that begin with indent at the width of the terminal: a table
// whose lines wrap cannot be read. If standard output is not a terminal, nothing is cut.
func writeTable(c *cli.Context, text, indent string) error {
	width := terminalOf(c).Width
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); width > 0 && strings.HasPrefix(line, indent) {
			line = words.Cut(line, width)
		}
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(c.App.Writer, b.String())
	return err
}

// kindWord is the command that made a session. A search is stored under its axis (history, flags or hunks), which users
// know only as an option of run.
func kindWord(s store.Session) string {
	if session.IsSearch(s) {
		return "run"
	}
	return s.Axis
}

// sides are the names that the command of a session gives its two commits; nil if it launches only one. Sessions are
// shown in these words, because the store calls both kinds of ends good and bad.
func sides(s store.Session) []string {
	switch {
	case session.IsSearch(s), s.Axis == session.Trying && s.Good != s.Bad:
		return []string{"good", "bad"}
	case s.Axis == gate.Kind:
		return []string{"merge base", "HEAD"}
	case s.Axis == session.Comparing, s.Axis == explain.Kind:
		return []string{"A", "B"}
	}
	return nil
}

// endsWords names the commits of a session as its command did: "good 1a2b…, bad 3c4d…", or one commit alone.
func endsWords(s store.Session) string {
	if x := sides(s); x != nil {
		return fmt.Sprintf("%s %s, %s %s", x[0], bisect.ShortID(s.Good), x[1], bisect.ShortID(s.Bad))
	}
	return bisect.ShortID(s.Good)
}

// purposeWord says what a launch was for, in the words of the command that made it.
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

// valuesWord is what a launch measured: the medians of the first two numbers, with their units, and how many more there
// are; "" without any. It formats them as baselines do, so that the same value looks the same in both lists.
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
	return words.Listed(out, most)
}

// statusWord is the status of a session for display. One that is marked as running has been killed unless it is the
// one that holds the lock, whose id is running.
func statusWord(s store.Session, running string) string {
	if s.Status == store.Running && s.ID != running {
		return "killed"
	}
	return s.Status
}

// showCommand lists what a session launched and concluded: launches and verdicts first, then the answer of a search.
// Other sessions have a headline instead of an answer; kbisect report shows their documents.
func showCommand() *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "show the launches, the verdicts and the answer of a session", ArgsUsage: "[SESSION]",
		Description: "SESSION is an id of kbisect sessions, the unique beginning of one, or last; the newest when left out.\n" +
			"kbisect --verbose show lists every launch and every verdict, and all that is known of the answer.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "the finding as it was kept", DisableDefaultText: true}},
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return exit.Usagef("show takes one session, not %q\nhint: options stand before it: kbisect show --json last", c.Args().Slice())
			}
			st, err := openStore(c)
			if err != nil {
				return err
			}
			defer st.Close()
			s, err := st.Session(cmp.Or(c.Args().First(), "last"))
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
			var b strings.Builder
			if err := cmp.Or(show(&b, st, s, globals(c).verbose), writeTable(c, b.String(), "  ")); err != nil || !session.IsSearch(s) {
				return err
			}
			return showAnswer(c, s.ID)
		},
	}
}

// showAnswer prints the answer of a search, rebuilt from the store as kbisect report does. The suggested commands are
// those of the answer, for this repository and not for the folder in which the search ran.
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
	answer := page.New(p.Document, p.Ledger(c.Context))
	answer.Next = answer.Next[:max(0, len(answer.Next)-1)] // the last suggestion is this very command
	fmt.Fprintln(c.App.Writer)
	return render.Text(c.App.Writer, answer, terminalOf(c))
}

// mostShown is how many launches, and how many verdicts, are listed without --verbose: together about a screenful.
const mostShown = 12

// show prints one session: what it was, what it launched, what it concluded. Launches are listed in the order in which
// they were made; of many, only the last ones unless all is set. A session that is still running can be shown as well,
// as far as it has got.
func show(w io.Writer, st *store.Store, s store.Session, all bool) error {
	fmt.Fprintf(w, "session   %s, %s\nbegun     %s, %s in all\nends      %s\ncommand   %s\n",
		s.ID, s.Status, s.Created.Local().Format("2006-01-02 15:04:05"), wording.Span(s.Elapsed), endsWords(s), words.Printable(words.Shell(s.Args)))
	if s.Summary != "" && !session.IsSearch(s) { // the answer of a search follows
		fmt.Fprintf(w, "finding   %s\n", words.Printable(s.Summary))
	}
	// Launches are what was run, steps are the verdicts on commits that followed from them.
	launches, err := session.KeptLaunches(st, s.ID)
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	steps, err := st.Steps(s.ID)
	if err != nil {
		return exit.With(exit.Machine, err)
	}
	most := mostShown
	if all {
		most = math.MaxInt
	}
	// heading counts a list, and returns from where on it is shown.
	heading := func(n int, what string) (first int) {
		text := words.Count(n, what)
		if first = max(0, n-most); first > 0 {
			text += fmt.Sprintf(", the last %d (kbisect --verbose show lists all)", most)
		}
		fmt.Fprintf(w, "\n%s\n", text)
		return first
	}
	first := heading(len(launches), "launch")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, l := range launches[first:] {
		o, build := l.Outcome, "-"
		switch {
		case o.CacheHit:
			build = "cached"
		case o.Built:
			build = fmt.Sprintf("%.2f s", o.Build)
		}
		fmt.Fprintf(t, "  %d\t%s\t%s\tbuild %s\trun %.2f s\t%s\t%s\n", first+i+1, bisect.ShortID(l.Candidate.Commit), purposeWord(s, string(l.Purpose)), build, o.Wall, valuesWord(o), words.Printable(o.Describe()))
	}
	if err := t.Flush(); err != nil || len(steps) == 0 {
		return err
	}
	for _, x := range steps[heading(len(steps), "verdict"):] {
		inferred := ""
		if x.Inferred {
			inferred = "inferred"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", bisect.ShortID(x.Commit), x.Call, inferred, words.Printable(x.Why))
	}
	return t.Flush()
}
