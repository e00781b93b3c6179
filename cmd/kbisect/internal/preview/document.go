package preview

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/pipeline/store"
)

// Schema names the format of a [Document] and its version.
const Schema = "kbisect.try/1"

// Document is what a preview found out, as kbisect try --json prints it. Times are in seconds; noise, changes and
// effects are fractions (0.05 is 5 %), and positive changes are for the worse. Lists are empty and never null.
type Document struct {
	Schema     string                 `json:"schema"`
	Session    string                 `json:"session"`
	Result     string                 `json:"result"`
	Verdict    string                 `json:"verdict"`
	Hint       string                 `json:"hint"`     // what to do where nothing can be searched for
	Ends       []End                  `json:"ends"`     // the good one, unless none is known, and the bad one
	Recorded   bool                   `json:"recorded"` // the user named no good end; it is the newest recorded as good
	Command    []string               `json:"command"`
	Build      []string               `json:"build"`
	BuildLimit float64                `json:"build_limit_s"`
	Limit      float64                `json:"limit_s"`
	Phases     []Phase                `json:"phases"`
	Metric     string                 `json:"metric"`  // that is compared; "": none was read
	Better     string                 `json:"better"`  // lower or higher
	Metrics    []report.MetricSummary `json:"metrics"` // its values at the first end, case by case
	Cases      []Case                 `json:"cases"`
	Noise      report.Number          `json:"noise"`    // standard deviation of one launch, a fraction
	Change     report.Number          `json:"change"`   // by which the bad end is worse, a fraction
	Step       float64                `json:"step"`     // largest change above the noise, of a case or of all; 0: none
	Hidden     float64                `json:"hidden"`   // without a Step, the largest change, which may be noise
	Finds      []Outlook              `json:"finds"`    // how simulated searches end, by size of the change
	Findable   float64                `json:"findable"` // the smallest of these changes that is found; 0: none
	Commits    int                    `json:"commits"`  // in the range
	Matter     int                    `json:"matter"`   // of these, that change an input
	Cost       *Outlook               `json:"cost"`     // of a search; null where there is nothing to search for
	GPUHour    float64                `json:"gpu_hour"`
	Printed    string                 `json:"printed"` // if no metric was read, a line of output with a time or a rate
	Devices    []string               `json:"devices"`
	Warnings   []string               `json:"warnings"`
	Error      *string                `json:"error"`
	report.Facts

	asked []string // the user's options that the suggested commands have to repeat
}

// End is one end of the range, with what its launches came to: the class, phase, reason and wall time of the first
// that failed, or of the first one. Build is the longest build; it is 0 if all came from the cache.
type End struct {
	Revision string  `json:"revision"`
	Commit   string  `json:"commit"`
	Launches int     `json:"launches"`
	Class    string  `json:"class"`
	Phase    string  `json:"phase"`
	Why      string  `json:"why"`
	Build    float64 `json:"build_s"`
	Wall     float64 `json:"wall_s"`
}

// Phase is the median time of a phase at the first end, with its limit; 0 if it has none of its own.
type Phase struct {
	Name    string        `json:"phase"`
	Seconds report.Number `json:"seconds"`
	Limit   float64       `json:"limit_s"`
}

// Case is one case of the metric: its medians at the first and the last end, in Unit. With one end both are the same.
type Case struct {
	Name   string        `json:"case"`
	Unit   string        `json:"unit"`
	Good   report.Number `json:"good"`
	Bad    report.Number `json:"bad"`
	Noise  report.Number `json:"noise"`
	Change report.Number `json:"change"`
}

// conclude sets the verdict, the hint and the suggested commands. The first matching rule wins. The rules about
// sessions that ended early come first, then those for one end; the others compare the ends and rely on there being
// two. Suggested commands repeat the options that decide what is searched for.
func (d *Document) conclude(call report.Call) {
	next := func(why string, args ...string) {
		d.Next = append(d.Next, report.Command{Why: why, Argv: call.Again(args...)})
	}
	ends := func() []string {
		return slices.Concat([]string{"run", "--good", d.Ends[0].Revision, "--bad", d.Ends[1].Revision}, d.asked)
	}
	bad := d.Ends[len(d.Ends)-1]
	passes := bad.Class == string(bisect.OK)
	switch {
	case d.Result == store.Interrupted:
		d.Verdict = "Interrupted."
	case d.Result == store.Infra:
		d.Verdict = "Stopped: machine problem."
	case d.Hidden > 0: // its result is "inconclusive" as well, so it comes before that
		d.Verdict = fmt.Sprintf("Not clear: %s is worse by %s, and varies by %s from launch to launch.", d.Metric, words.Percent(d.Hidden), words.Percent(float64(d.Noise)))
		next("makes as many launches as it takes", ends()...)
		// Time that a process waits, for a processor or a disk, is not in its processor time.
		if d.Metric != "cpu" {
			next("processor time may vary less", "try", "--good", d.Ends[0].Revision, "--bad", bad.Revision, "--metric", "cpu")
		}
	case d.Result == store.Inconclusive:
		d.Verdict = "The budget was used up before both ends were launched."
	case d.Result == OneEnd && passes:
		d.Verdict = fmt.Sprintf("%s passes. No good revision is known: name one with --good REV.", bad.Revision)
		next("records it as good, for later", "baseline", "record", bad.Revision)
	case d.Result == OneEnd:
		d.Verdict = fmt.Sprintf("%s fails: %s. No good revision is known.", bad.Revision, bad.Why)
		next("walks back to a good revision, then searches", "run", "--find-good", "--bad", bad.Revision)
	case d.Result == Ready && passes:
		d.Verdict = fmt.Sprintf("Ready: %s is worse at %s than at %s by %s.", d.Metric, bad.Revision, d.Ends[0].Revision, words.Percent(d.Step))
		next("the search", ends()...)
	case d.Result == Ready:
		d.Verdict = fmt.Sprintf("Ready: %s passes, %s fails: %s.", d.Ends[0].Revision, bad.Revision, bad.Why)
		next("the search", ends()...)
	// From here on there is nothing to search for. If the good end fails it matters most, whatever the bad one does.
	case d.Ends[0].Class != string(bisect.OK):
		d.Verdict = fmt.Sprintf("Nothing to search for: the good revision %s fails: %s.", d.Ends[0].Revision, d.Ends[0].Why)
		d.Hint = "name a revision that passes; where none does, the command or the build is at fault, not a commit"
		next("walks back to a revision that passes", "run", "--find-good", "--bad", bad.Revision)
	case !passes:
		d.Verdict = fmt.Sprintf("Nothing to search for: %s cannot be judged: %s.", bad.Revision, bad.Why)
		d.Hint = "a skip says nothing about a commit; name a bad revision that runs"
	case d.Metric == "" && d.Printed != "":
		d.Verdict = fmt.Sprintf("No difference: both revisions pass. The program prints %q, which nothing reads yet.", d.Printed)
		d.Next = append(d.Next, report.Command{Why: "writes kbisect.toml with the pattern that reads it", Argv: call.Line(d.init()...)})
	case d.Metric == "":
		d.Verdict = "No difference: both revisions pass, and no metric was read."
		d.Hint = "a failure must exit with another code than 0; for a slowdown, a program prints its time (kbisect help metrics), or"
		next("compares the time of the whole process", "try", "--good", d.Ends[0].Revision, "--bad", bad.Revision, "--metric", "wall")
	default:
		d.Verdict = fmt.Sprintf("No difference stands out: %s changes by %s, and varies by %s from launch to launch.", d.Metric, words.Change(1+float64(d.Change)), words.Percent(float64(d.Noise)))
		d.Hint = "more launches decide:"
		next("up to 120 pairs of launches", "compare", d.Ends[0].Revision, bad.Revision)
	}
}

// init are the arguments of kbisect init that describe the command and build of this preview, so that the user need not
// type them again.
func (d *Document) init() []string {
	args := []string{"init"}
	if len(d.Build) > 0 {
		args = append(args, "--build", d.buildLine())
	}
	return append(append(args, "--"), d.Command...)
}

// buildLine is the build as one would give it to --build, which wraps it in sh -c.
func (d *Document) buildLine() string {
	if len(d.Build) == 3 && d.Build[0] == "sh" && d.Build[1] == "-c" {
		return d.Build[2]
	}
	return words.Shell(d.Build)
}

// print writes the document as text: verdict, facts, warnings, and what to do next. Text that comes from the program or
// the repository is made printable first: it may hold control characters.
func (d *Document) print(out io.Writer) error {
	var b strings.Builder // tabwriter and the rest cannot fail on it; only the last write can
	b.WriteString(d.Verdict + "\n\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i, e := range d.Ends {
		side := "bad end"
		if i < len(d.Ends)-1 {
			side = "good end"
		}
		took := fmt.Sprintf("%s of %s", words.Count(e.Launches, "launch"), words.Quantity(e.Wall, "s"))
		if e.Build > 0 {
			took = fmt.Sprintf("built in %s, %s", words.Quantity(e.Build, "s"), took)
		}
		name := e.Revision
		if d.Recorded && i == 0 {
			name = "newest recorded as good (kbisect baseline list)"
		}
		// A revision that the user gave as an id would be shown twice.
		if name = strings.TrimPrefix(name, bisect.ShortID(e.Commit)); name != "" {
			name = "  " + name
		}
		fmt.Fprintf(w, "  %s\t%s%s: %s; %s\n", side, bisect.ShortID(e.Commit), name, words.Printable(e.Why), took)
	}
	if len(d.Build) > 0 {
		fmt.Fprintf(w, "  build\t%s (limit %s)\n", words.Printable(d.buildLine()), words.Limit(d.BuildLimit))
	}
	if len(d.Command) > 0 {
		fmt.Fprintf(w, "  command\t%s (limit %s)\n", words.Printable(words.Shell(d.Command)), words.Limit(d.Limit))
	}
	if phases := d.phases(); phases != "" {
		fmt.Fprintf(w, "  phases\t%s\n", phases)
	}
	if d.Metric != "" {
		fmt.Fprintf(w, "  metric\t%s, %s is better, in %s\n", d.Metric, d.Better, words.Count(len(d.Cases), "case"))
		const most = 6
		for _, c := range d.Cases[:min(most, len(d.Cases))] {
			fmt.Fprintf(w, "  \t%s%s\n", cmp.Or(c.Name, "all")+": ", c.words(len(d.Ends) == 2))
		}
		if more := len(d.Cases) - most; more > 0 {
			fmt.Fprintf(w, "  \tand %d more\n", more)
		}
	}
	// Whether a search would find a change of the size that the user expects is what the noise means to them.
	if len(d.Finds) > 0 {
		found := "a search finds no change up to 100 %"
		if d.Findable > 0 {
			found = fmt.Sprintf("a search finds changes from %s on", words.Percent(d.Findable))
		}
		fmt.Fprintf(w, "  noise\t%s from launch to launch; %s\n", words.Percent(float64(d.Noise)), found)
	}
	if d.Cost != nil {
		fmt.Fprintf(w, "  a search\t%s\n", d.cost())
	}
	w.Flush()
	for _, warning := range d.Warnings {
		fmt.Fprintf(&b, "  note: %s\n", words.Printable(warning))
	}
	if d.Hint != "" || len(d.Next) > 0 {
		b.WriteString("\nNext")
		if d.Hint != "" {
			b.WriteString(": " + d.Hint)
		}
		b.WriteString("\n")
	}
	// The reason is a comment of the shell, so that a whole line can be copied.
	for _, n := range d.Next {
		fmt.Fprintf(&b, "  %s    # %s\n", words.Shell(n.Argv), n.Why)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// phases lists the phases of a trial in their order, with their limits. The build has a line of its own.
func (d *Document) phases() string {
	var all []string
	for _, p := range d.Phases {
		if p.Name == "build" {
			continue
		}
		text := fmt.Sprintf("%s %s", p.Name, words.Quantity(float64(p.Seconds), "s"))
		if p.Limit > 0 {
			text += fmt.Sprintf(" (limit %s)", words.Limit(p.Limit))
		}
		all = append(all, text)
	}
	return words.Listed(all, 8)
}

// Passes reports whether the last end ended well.
func (d *Document) Passes() bool { return d.Ends[len(d.Ends)-1].Class == string(bisect.OK) }

// Describe says in a line or two what one launch of one end showed; see [Once]. There must be an end.
func (d *Document) Describe() string {
	e := d.Ends[0]
	text := fmt.Sprintf("%s in %s", words.Printable(e.Why), words.Quantity(e.Wall, "s"))
	if e.Build > 0 {
		text += fmt.Sprintf(", built in %s", words.Quantity(e.Build, "s"))
	}
	// Without a metric the exit code and the times above are all that the launch gave.
	if d.Metric != "" {
		const most = 3
		var all []string
		for _, c := range d.Cases {
			all = append(all, strings.TrimPrefix(c.Name+" "+c.words(false), " "))
		}
		text += fmt.Sprintf("; %s (%s is better): %s", d.Metric, d.Better, words.Listed(all, most))
	}
	return text
}

// words are the values of a case at the first end or, with both, at both ends and their ratio. The change is that of
// the values and not of the document: positive is larger, not worse.
func (c Case) words(both bool) string {
	text := words.Quantity(float64(c.Good), c.Unit)
	if both {
		text += fmt.Sprintf(" to %s (%s)", words.Quantity(float64(c.Bad), c.Unit), words.Change(float64(c.Bad)/float64(c.Good)))
	}
	return text
}

// cost says what a search takes, or that the noise leaves it little chance: fewer than half of the simulated ones were
// right. Money is without a currency, as --gpu-hour is.
func (d *Document) cost() string {
	if d.Cost.Right < 0.5 {
		return fmt.Sprintf("does not find a change of %s with this noise in %d launches", words.Percent(float64(d.Cost.Effect)), mostLaunches)
	}
	builds := ""
	if d.Cost.Builds > 0 {
		builds = fmt.Sprintf(" and %.0f builds", d.Cost.Builds)
	}
	text := fmt.Sprintf("%d of %s change an input: about %.0f launches%s, %s", d.Matter, words.Count(d.Commits, "commit"), d.Cost.Launches, builds, words.Seconds(d.Cost.Seconds))
	if d.GPUHour > 0 {
		text += fmt.Sprintf(", %.2g at %.4g an hour", d.Cost.Seconds/3600*d.GPUHour, d.GPUHour)
	}
	if d.Cost.Effect.Known() {
		text += fmt.Sprintf(", for a change of %s", words.Percent(float64(d.Cost.Effect)))
		if d.Cost.Right < certainly {
			text += fmt.Sprintf("; %.0f %% of simulated searches found it", 100*d.Cost.Right)
		}
	}
	return text
}
