// Package baseline keeps commits that were measured and found good: it records them in the
// store ([Record]), exports and imports them as files that are not trusted, and chooses
// among them. A baseline of another machine is a hint, never a verdict.
package baseline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/bisect/compare"
	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/bisect/report"
	"github.com/kbisect/kbisect/bisect/report/words"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/machine"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/policy"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/session"
	"github.com/kbisect/kbisect/cmd/kbisect/internal/wording"
	"github.com/kbisect/kbisect/kernels"
)

// Schema names the document of a baseline and its version.
const Schema = "kbisect.baseline/1"

// Baseline is a commit that was good, with what its launches measured and on which machine.
type Baseline struct {
	Schema   string          `json:"schema"`
	Session  string          `json:"session"` // that keeps it
	Commit   string          `json:"commit"`
	Subject  string          `json:"subject"`
	Recorded time.Time       `json:"recorded"`
	Note     string          `json:"note"`
	Launches int             `json:"launches"`
	Levels   []Level         `json:"levels"`
	Machine  machine.Machine `json:"machine"`
	Config   measuredBy      `json:"config"`
	Version  string          `json:"kbisect"`
}

// Level is one metric, or one case of it: a value for every launch that counts, the median of its samples.
type Level struct {
	Metric string    `json:"metric"`
	Case   string    `json:"case"` // "": the metric has no cases, or all together
	Unit   string    `json:"unit"`
	Higher bool      `json:"higher_is_better"`
	Median float64   `json:"median"`
	Values []float64 `json:"launches"` // in the order of the launches
}

// measuredBy says how a baseline was built and run; only equal fingerprints compare.
type measuredBy struct {
	Fingerprint string `json:"fingerprint"` // SHA-256 of commands, limits, paths and metrics
	Build       string `json:"build"`
	Run         string `json:"run"`
}

// baselineOf makes a baseline of a measurement: every number that launches sent, the time of the whole run, and the
// phases but for the build. Launches whose times do not count are left out of the levels.
func baselineOf(t *session.Session, m report.Measurement, all []bisect.Outcome, on machine.Machine) Baseline {
	b := Baseline{
		Schema: Schema, Session: t.Record.ID, Commit: t.Policy.Good, Subject: m.Candidate.Subject, Recorded: time.Now().UTC().Truncate(time.Second),
		Launches: len(all), Machine: on, Config: measuredByOf(t.Policy), Version: t.Record.Version,
	}
	var s compare.Side
	fit := slices.DeleteFunc(slices.Clone(all), func(o bisect.Outcome) bool { return !s.Note(o) })
	found := append(session.Numbers(fit, ""), session.Number{Metric: "wall", One: ""})
	for _, ph := range phasesOf(fit) {
		found = append(found, session.Number{Metric: "phase." + ph, One: ""})
	}
	of := session.ByNumber(fit)
	for _, n := range found {
		if l := levelOf(t.Policy, of(n), n); len(l.Values) > 0 {
			b.Levels = append(b.Levels, l)
		}
	}
	return b
}

// phasesOf lists the phases of all launches except the build, in order of first appearance.
func phasesOf(all []bisect.Outcome) (out []string) {
	for _, o := range all {
		for _, p := range o.Phases {
			if p.Name != "build" && !slices.Contains(out, p.Name) {
				out = append(out, p.Name)
			}
		}
	}
	return out
}

// levelOf collects the values of one number. The outcomes hold no other number.
func levelOf(p *policy.Policy, all []bisect.Outcome, n session.Number) Level {
	m := p.Metric(n.Metric)
	better, _ := m.Direction(all...) // a baseline keeps numbers of which nothing says which are better, too
	l := Level{Metric: n.Metric, Case: n.One, Higher: better == metric.Higher}
	for _, o := range all {
		if v, ok := m.Value(o, ""); ok {
			l.Values, l.Unit = append(l.Values, v), m.Unit(o)
		}
	}
	l.Median = float64(compare.Describe(l.Values).Median)
	return l
}

// measuredByOf is the fingerprint of a policy, with its commands for people to read.
func measuredByOf(p *policy.Policy) measuredBy {
	return measuredBy{Fingerprint(p.Compares()), strings.Join(p.Plan.Build, " "), strings.Join(p.Plan.Run, " ")}
}

// The largest file that is read as a baseline, and what one may hold.
const (
	maxSize   = 8 << 20
	maxLevels = 10_000
)

// Read reads an exported baseline and checks all of it: a file may be edited, cut off, or come from elsewhere.
func Read(r io.Reader) (b Baseline, err error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return b, err
	}
	if len(data) > maxSize {
		return b, fmt.Errorf("invalid baseline: larger than %d MiB", maxSize>>20)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return Baseline{}, fmt.Errorf("invalid baseline: %w\nhint: kbisect baseline export writes one", plainJSON(err))
	}
	if _, err := d.Token(); err != io.EOF {
		return Baseline{}, errors.New("invalid baseline: unexpected data after its end")
	}
	if err := b.check(); err != nil {
		return Baseline{}, fmt.Errorf("invalid baseline: %w", err)
	}
	return b, nil
}

// plainJSON describes an error of encoding/json without the Go types of this program.
func plainJSON(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		return fmt.Errorf("%s: unexpected %s", wrong.Field, wrong.Value)
	case errors.As(err, &wrong):
		return fmt.Errorf("expected an object, got a %s", wrong.Value)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("unexpected end of file")
	}
	return err
}

// check finds values that this program would never write.
func (b Baseline) check() error {
	switch {
	case b.Schema != Schema:
		return fmt.Errorf("schema %q, expected %q", b.Schema, Schema)
	case !ObjectID(b.Commit):
		return fmt.Errorf("commit %q is not a full id", b.Commit)
	case b.Recorded.IsZero() || b.Recorded.After(time.Now().Add(24*time.Hour)):
		return fmt.Errorf("invalid date %s", b.Recorded.Format(time.RFC3339))
	case b.Launches < 1:
		return fmt.Errorf("invalid number of launches: %d", b.Launches)
	case len(b.Levels) == 0 || len(b.Levels) > maxLevels:
		return fmt.Errorf("invalid number of levels: %d", len(b.Levels))
	case len(b.Config.Fingerprint) != 64 || strings.Trim(b.Config.Fingerprint, "0123456789abcdef") != "":
		return fmt.Errorf("invalid fingerprint of the configuration: %q", b.Config.Fingerprint)
	}
	for i, l := range b.Levels {
		if err := l.check(b.Launches); err != nil {
			return fmt.Errorf("level %d (%s): %w", i+1, l.Metric, err)
		}
	}
	return b.Machine.Check()
}

// check finds values that no level of so many launches has.
func (l Level) check(launches int) error {
	switch {
	case l.Metric == "":
		return errors.New("no metric")
	case len(l.Values) == 0 || len(l.Values) > launches:
		return fmt.Errorf("%d values of %d launches", len(l.Values), launches)
	}
	if len(l.Unit) > 32 || len(l.Metric) > 1000 || len(l.Case) > 10_000 {
		return errors.New("a name is too long")
	}
	if m := float64(compare.Describe(l.Values).Median); !(math.Abs(m-l.Median) <= 1e-9*math.Abs(m)) {
		return fmt.Errorf("median %g, expected %g from its values", l.Median, m)
	}
	return nil
}

// Median is the median that a list shows: of the first metric that the program sent, else of the wall time.
func (b Baseline) Median() string {
	if len(b.Levels) == 0 {
		return "-"
	}
	l := b.Levels[0]
	return words.Printable(l.Name() + " " + l.Quantity(l.Median))
}

// Quantity is a value with a unit of a readable scale.
func (l Level) Quantity(v float64) string {
	return words.Printable(words.Quantity(v, l.Unit))
}

// Name is the metric with its case.
func (l Level) Name() string {
	return bisect.Effect{Metric: l.Metric, Case: l.Case}.Name()
}

// Print writes a baseline for people, with the reasons why it is only a hint on this machine.
func (b Baseline) Print(w io.Writer, hints []string) error {
	fmt.Fprintf(w, "\n  %s  %s\n", wording.Short(b.Commit), words.Printable(b.Subject))
	if b.Note != "" {
		fmt.Fprintf(w, "  note      %s\n", words.Printable(b.Note))
	}
	fmt.Fprintf(w, "  recorded  %s, %d launches, id %s\n", b.Recorded.Local().Format("2006-01-02 15:04:05"), b.Launches, b.Session)
	for _, line := range b.Machine.Lines() {
		fmt.Fprintf(w, "  %-9s %s\n", line[0], words.Printable(line[1]))
	}
	fmt.Fprintf(w, "  command   %s\n", words.Printable(b.Config.Run))
	if len(hints) > 0 {
		fmt.Fprintf(w, "  only a hint on this machine: %s\n", words.Printable(strings.Join(hints, "; ")))
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  NUMBER\tBETTER\tMEDIAN\tMIN TO MAX\tLAUNCHES")
	for _, l := range b.Levels {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s to %s\t%d\n", words.Printable(l.Name()), metric.Metric{Higher: l.Higher}.Better(), l.Quantity(l.Median), l.Quantity(slices.Min(l.Values)), l.Quantity(slices.Max(l.Values)), len(l.Values))
	}
	return t.Flush()
}

// Fingerprint is the SHA-256 of a text in hexadecimal.
func Fingerprint(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// usesPython reports whether a project builds or runs Python: the versions of its packages are then part of the machine.
func usesPython(p *policy.Policy) bool {
	python := func(argv []string) bool {
		return slices.ContainsFunc(argv, func(a string) bool {
			return strings.HasPrefix(filepath.Base(a), "python") || strings.HasSuffix(a, ".py")
		})
	}
	return p.Plan.Kind == kernels.KindTorch || p.Plan.Kind == kernels.KindKernelbot || python(p.Plan.Run) || python(p.Plan.Build)
}

// ObjectID reports whether s is the full id of a git object, SHA-1 or SHA-256.
func ObjectID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}
