package report

import (
	"slices"

	"github.com/kbisect/kbisect/bisect/report/words"
)

// Facts are what the JSON of every command says besides its own result. [Complete] fills them in.
type Facts struct {
	Measured Measured       `json:"measured"`
	Next     []Command      `json:"next"`  // what a reader would type now
	Times    map[string]any `json:"times"` // seconds: accounts that add up to "wall", and under "overlapped" what ran beside them
	LeftOut  LeftOut        `json:"left_out"`
}

func (f *Facts) facts() *Facts { return f }

// Command is a command line and what it is for.
type Command struct {
	Why  string   `json:"why"`
	Argv []string `json:"argv"`
}

// Line is the command as it is typed into a shell.
func (c Command) Line() string { return words.Shell(c.Argv) }

// Measured is what was launched, and the number that the result is about.
type Measured struct {
	Command   []string `json:"command"`
	Metric    *string  `json:"metric"`    // null: the result is about how launches end
	Direction *string  `json:"direction"` // of better values: lower or higher
	Cases     []string `json:"cases"`
	Device    *string  `json:"device"` // the first; null: none was watched
	Driver    *string  `json:"driver"`
	Caches    *string  `json:"caches"` // cold or warm; null where the program uses none
	Dirty     bool     `json:"dirty"`  // the work tree had changes that nothing was launched of
}

// LeftOut is how much of what was asked about was not searched because it cannot matter.
type LeftOut struct {
	Commits int     `json:"commits"`
	Hunks   int     `json:"hunks"`
	By      *string `json:"by"` // inotify: no process opened what they change; paths: the configuration says so; null: nothing was
}

// Setup is how the launches of a session were made.
type Setup struct {
	Command []string
	Driver  string
	Dirty   bool
}

// Complete fills in the facts of a document from the ledger that it rests on. It comes last, since the commands that
// it suggests depend on the result.
func Complete(d Document, l Ledger) {
	f, about := d.facts(), d.about()
	f.Next, f.LeftOut = Next(d, l), about.left
	f.Fill(l, about.totals, about.devices, about.metric, about.higher)
}

// subject is what the facts of a document are about.
type subject struct {
	totals  Totals
	devices []string
	metric  string // "" where the result is about how launches end
	higher  bool   // values of it are better
	left    LeftOut
}

// Fill fills in what was launched, and where the time went; metric is what the result is about, "" for how launches
// end.
func (f *Facts) Fill(l Ledger, totals Totals, devices []string, metric string, higher bool) {
	f.Times = times(totals, l.Launches)
	m := Measured{Command: append([]string{}, l.Setup.Command...), Metric: text(metric), Cases: cases(l.Launches, metric), Driver: text(l.Setup.Driver), Dirty: l.Setup.Dirty}
	if metric != "" {
		m.Direction = text(words.Direction(higher))
	}
	if len(devices) > 0 {
		m.Device = text(devices[0])
	}
	for _, x := range l.Launches {
		if x.Outcome.Caches != "" {
			m.Caches = text(x.Outcome.Caches)
		}
	}
	f.Measured = m
}

// cases are those of a metric that launches have sent, in their order.
func cases(launches []Launch, metric string) []string {
	all := []string{}
	for _, l := range launches {
		for _, s := range l.Outcome.Series {
			if s.Metric == metric && s.Case != "" && !slices.Contains(all, s.Case) {
				all = append(all, s.Case)
			}
		}
	}
	return all
}

// times is where the wall time went, in seconds. Accounts are exclusive and add up to "wall"; whatever the launches
// took beyond their account ran beside something else, and is listed under "overlapped".
func times(t Totals, launches []Launch) map[string]any {
	out, counted := map[string]any{"wall": t.Wall}, map[string]float64{}
	for _, s := range t.Spent {
		counted[s.Account] += s.Seconds
	}
	for account, seconds := range counted {
		out[account] = seconds
	}
	overlapped := map[string]float64{}
	for _, p := range (Ledger{Launches: Made(launches)}).PhaseCosts() {
		const noise = 0.05 // accounts are switched a moment before or after a phase
		if more := p.Seconds - counted[p.Phase]; more > noise && more > noise*p.Seconds {
			overlapped[p.Phase] = more
		}
	}
	out["overlapped"] = overlapped
	return out
}

// Next is what a reader would type now: see the change, read its output, go on with what stopped early, or find out
// more.
func Next(d Document, l Ledger) []Command { return d.next(l) }

// every is the command that shows the launches of a session.
func every(l Ledger, session string) Command {
	return Command{"list the raw launches", l.Call.Line("show", session)}
}
