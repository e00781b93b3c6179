package report

import (
	"slices"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// Facts are what the JSON of every command says beside its own result. [Complete] fills them in.
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

// Complete fills in the facts of a document from the ledger that it rests on.
func Complete(d Document, l Ledger) {
	f := d.facts()
	var totals Totals
	var devices []string
	var metric string
	higher := false
	switch d := d.(type) {
	case *Search:
		totals, devices = d.Totals, d.Devices
		if c := d.Complaint; c != nil && c.Ends != nil {
			metric, higher = c.Ends.Metric, c.Ends.Higher
		}
		f.LeftOut = leftOut(d)
	case *Comparison:
		totals, devices = d.Totals, d.Devices
		metric, higher = d.main()
	case *Gate:
		totals, devices = d.Totals, d.Devices
		metric, higher = d.main()
	case *Measurement:
		totals = d.Totals
		for _, x := range d.Devices {
			devices = append(devices, x.Name)
		}
		if len(d.Metrics) > 0 {
			metric, higher = d.Metrics[0].Metric, d.Metrics[0].Better == words.Direction(true)
		}
	case *Explanation:
		totals, devices = d.Totals, d.Devices
	}
	f.Next = Next(d, l)
	f.Fill(l, totals, devices, metric, higher)
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

// main is the metric that moved farthest, and which values of it are better.
func (s Compared) main() (metric string, higher bool) {
	for _, result := range []string{GateRegression, GateImprovement, GateAccepted} {
		if all := With(result, s.Contrasts); len(all) > 0 {
			return all[0].Metric, all[0].Higher
		}
	}
	if len(s.Contrasts) > 0 {
		return s.Contrasts[0].Metric, s.Contrasts[0].Higher
	}
	return "", false
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

// times is where the wall time went, in seconds, by account; what launches took beyond that ran beside something else.
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

// leftOut is what a search left out of its range and of its culprits.
func leftOut(d *Search) LeftOut {
	learned, paths := "inotify", "paths"
	switch {
	case d.Axis != AxisHistory:
		return LeftOut{}
	case d.Unread > 0 || d.UnreadHunks > 0:
		return LeftOut{d.Unread, d.UnreadHunks, &learned}
	case d.Range > d.Matter:
		return LeftOut{d.Range - d.Matter, 0, &paths}
	}
	return LeftOut{}
}

// Next is what a reader would type now: see the change, read its output, go on with what stopped early, or find out more.
func Next(d Document, l Ledger) (out []Command) {
	add := func(why string, argv ...string) { out = append(out, Command{why, argv}) }
	again := func(why string, args ...string) { add(why, l.Call.Again(args...)...) }
	every := func(session string) []Command {
		return append(out, Command{"every launch", l.Call.Line("show", session)})
	}
	switch d := d.(type) {
	case *Search:
		switch d.Result {
		case bisect.Found:
			for _, c := range d.Culprits {
				add("", "git", "show", words.Short(c.Commit))
				if log := outputFile(l, c); log != "" {
					add("its output", "less", log)
				}
			}
			if r := d.Recommended; r != nil && r.Setting != nil && len(r.Parts()) > 0 {
				at := words.Short(d.Ends.Bad)
				again("what the setting to keep costs or gains", "compare", at, at+":"+r.Setting.Flags)
			}
			if d.Spent {
				add("looks for more", l.Call.Line("run", "--resume", "--budget", "10m")...)
			}
		case bisect.Interrupted, bisect.Broken:
			add("continues where this stopped", l.Call.Line("run", "--resume")...)
		case bisect.Inconclusive, bisect.NoDifference:
			if d.Spent && d.Result == bisect.Inconclusive {
				add("continues where this stopped", l.Call.Line("run", "--resume", "--budget", "10m")...)
			} else if d.Ends.Bad != "" {
				out = append(out, unsettled(d, l))
			}
		}
		return every(d.Session)
	case *Comparison:
		out = every(d.Session)
		switch {
		case d.Result == GateRegression && d.FlagsDiffer():
			again("which flags, and what you can keep", "run", "--axis", "flags", "--bad", words.Short(d.B.Commit))
		case d.Result == GateOpen:
			return append(d.settle(l, "compare", d.A.Revision, d.B.Revision), out...)
		case d.Result == GateRegression && d.A.Commit != d.B.Commit:
			again("which commit between them it was", "run", "--good", d.A.Revision, "--bad", d.B.Revision)
		}
		return out
	case *Gate:
		gate := func(why string, args ...string) {
			again(why, slices.Concat([]string{"gate"}, l.Call.Base(), args)...)
		}
		if d.Session == nil {
			return []Command{}
		}
		regression := d.Result == GateRegression
		if d.Culprit != nil {
			add("", "git", "show", words.Short(d.Culprit.Commit))
		}
		if regression && d.Culprit == nil && d.Search == nil {
			gate("which commit of the branch it was", "--bisect")
		}
		if regression && d.Failure == nil {
			gate("if it is intended: records it in the repository", "--accept", "REASON")
		}
		if d.Result == GateOpen {
			out = append(out, d.settle(l, append([]string{"gate"}, l.Call.Base()...)...)...)
		}
		return every(*d.Session)
	case *Measurement:
		return every(d.Session)
	case *Explanation:
		return every(d.Session)
	}
	return []Command{}
}

// unsettled is what is likeliest to help where a search ended without an answer: a look at the suspects or at the ends,
// other ends, or more launches of them.
func unsettled(d *Search, l Ledger) Command {
	good, bad := words.Short(d.Ends.Good), words.Short(d.Ends.Bad)
	launched, failed := map[bisect.Purpose]int{}, map[bisect.Purpose]bool{}
	for _, x := range l.Launches {
		launched[x.Purpose]++
		failed[x.Purpose] = failed[x.Purpose] || x.Outcome.Class != bisect.OK
	}
	onWall := []string{"run", "--find", "slow", "--metric", "wall", "--bad", bad}
	switch n := len(d.Suspects); {
	case n > 0 && d.Result == bisect.Inconclusive:
		const most = 5
		show := []string{"git", "show", "--stat"}
		for _, s := range d.Suspects[:min(n, most)] {
			show = append(show, words.Short(s.Commit))
		}
		return Command{"what the suspects change", show}
	case good == "", failed[bisect.EndGood] && (failed[bisect.EndBad] || launched[bisect.EndBad] == 0):
		return Command{"looks for a commit that passes", l.Call.Again("run", "--find-good", "--bad", bad)}
	case (failed[bisect.EndGood] || failed[bisect.EndBad]) && d.Axis == AxisHistory:
		return Command{"what both ends do and print", l.Call.Again("try", "--good", good, "--bad", bad)}
	case d.Axis == AxisFlags:
		return Command{"compares the time of the whole run", l.Call.Again(append(onWall, "--axis", d.Axis)...)}
	case launched[bisect.EndGood] == 1 && d.Result == bisect.NoDifference:
		return Command{"compares the time of the whole run", l.Call.Again(append(onWall, "--good", good)...)}
	}
	return Command{"launches both until a change is shown or ruled out", l.Call.Again("compare", good, bad)}
}

// settle is what may lead to a verdict where there is none. Where launches failed, or sent no numbers, they are to be
// looked at instead.
func (s Compared) settle(l Ledger, again ...string) []Command {
	switch {
	case s.BudgetOver:
		return []Command{{"or a larger --effect", l.Call.Again(append(again, "--budget", "30m")...)}}
	case s.Hopeless:
		return []Command{{"what makes the times vary", l.Call.Again("doctor", "--noise")}}
	}
	return nil
}

// outputFile is the file that keeps the output of the last launch in which a culprit showed what it is blamed for, and
// printed something; "" for none.
func outputFile(ledger Ledger, c Culprit) (log string) {
	for _, l := range ledger.Launches {
		failed := c.Effect != nil || l.Outcome.Class == c.Class
		if l.Candidate == (bisect.Candidate{Commit: c.Commit}) && failed && l.Outcome.Log != "" && l.Outcome.Tail != "" {
			log = l.Outcome.Log
		}
	}
	return log
}
