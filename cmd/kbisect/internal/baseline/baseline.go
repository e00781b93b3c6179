// Package baseline keeps commits that were measured and found good. A [Baseline] is recorded in the store
// ([Record]), can be exported and imported as a file ([Read], [Import]), and is chosen by id or revision
// ([Choose]). Later searches start from recorded commits. Files come from anywhere and are not trusted: everything
// in them is checked. A baseline of another machine is a hint, never a verdict, so that this package must not
// compare its numbers with those of this machine.
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
	"github.com/kbisect/kbisect/kernels"
)

// Schema names the document of a baseline and its version. A file with another schema is refused.
const Schema = "kbisect.baseline/1"

// Baseline is a commit that was good, with what its launches measured and on which machine. It is stored and
// exported as JSON; its fields are part of that format.
type Baseline struct {
	Schema   string          `json:"schema"`
	Session  string          `json:"session"` // id of the session that keeps it; an import gets a new one
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

// Level is one metric, or one case of it, with one value for every launch that counts: the median of its samples.
type Level struct {
	Metric string    `json:"metric"`
	Case   string    `json:"case"` // "": the metric has no cases, or all together
	Unit   string    `json:"unit"`
	Higher bool      `json:"higher_is_better"`
	Median float64   `json:"median"`
	Values []float64 `json:"launches"` // in Unit, in the order of the launches
}

// measuredBy says how a baseline was built and run. Only baselines with equal fingerprints compare; the commands
// are there for people.
type measuredBy struct {
	Fingerprint string `json:"fingerprint"` // SHA-256 of commands, limits, paths and metrics
	Build       string `json:"build"`
	Run         string `json:"run"`
}

// baselineOf makes a baseline of a measurement. Its levels are every number that the launches sent, the wall time,
// and the phases except the build. Launches whose times do not count (disturbed, or with cold caches) are left out
// of the levels, but counted in Launches.
func baselineOf(t *session.Session, m report.Measurement, all []bisect.Outcome, on machine.Machine) Baseline {
	b := Baseline{
		Schema: Schema, Session: t.Record.ID, Commit: t.Policy.Good, Subject: m.Candidate.Subject, Recorded: time.Now().UTC().Truncate(time.Second),
		Launches: len(all), Machine: on, Version: t.Record.Version,
		Config: measuredBy{Fingerprint(t.Policy.Compares()), strings.Join(t.Policy.Plan.Build, " "), strings.Join(t.Policy.Plan.Run, " ")},
	}
	var s compare.Side
	fit := slices.DeleteFunc(slices.Clone(all), func(o bisect.Outcome) bool { return !s.Note(o) })
	found := append(session.Numbers(fit, ""), session.Number{Metric: "wall", One: ""})
	for _, p := range session.PhaseTimes(fit) {
		if p.Phase != "build" { // which is not part of a launch
			found = append(found, session.Number{Metric: "phase." + p.Phase, One: ""})
		}
	}
	of := session.ByNumber(fit)
	for _, n := range found {
		if l := levelOf(t.Policy, of(n), n); len(l.Values) > 0 {
			b.Levels = append(b.Levels, l)
		}
	}
	return b
}

// levelOf collects the values of one number. The outcomes must hold no other number, see [session.ByNumber]. A
// number whose better direction is unknown is kept as lower is better.
func levelOf(p *policy.Policy, all []bisect.Outcome, n session.Number) Level {
	m := p.Metric(n.Metric)
	better, _ := m.Direction(all...)
	l := Level{Metric: n.Metric, Case: n.One, Higher: better == metric.Higher}
	for _, o := range all {
		if v, ok := m.Value(o, ""); ok {
			l.Values, l.Unit = append(l.Values, v), m.Unit(o)
		}
	}
	l.Median = float64(compare.Describe(l.Values).Median)
	return l
}

// Bounds of an imported file, in bytes and in levels: far above what kbisect writes, and small enough that a
// hostile file cannot exhaust the memory.
const (
	maxSize   = 8 << 20
	maxLevels = 10_000
)

// Read reads an exported baseline and checks all of it: a file may have been edited, cut off, or made by someone
// else. Unknown fields and data after the end are errors, too. Errors say what is wrong with the file in its own
// terms.
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

// plainJSON describes an error of encoding/json without the names of this program's Go types.
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

// check refuses values that this program would never write. A date up to a day ahead is allowed, since clocks
// differ.
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

// check refuses values that no level of so many launches has. The median has to follow from the values, so that an
// edited one is noticed.
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

// Median is the number that a list shows: that of the first metric the program sent, or of the wall time; "-"
// without any.
func (b Baseline) Median() string {
	if len(b.Levels) == 0 {
		return "-"
	}
	l := b.Levels[0]
	return words.Printable(l.Name() + " " + l.Quantity(l.Median))
}

// Quantity is a value, given in Unit, with a unit of a readable scale.
func (l Level) Quantity(v float64) string {
	return words.Printable(words.Quantity(v, l.Unit))
}

// Name is the metric with its case.
func (l Level) Name() string {
	return bisect.Effect{Metric: l.Metric, Case: l.Case}.Name()
}

// Print writes a baseline for people. hints are the reasons why it is only a hint on this machine; see
// [Kept.Hints].
func (b Baseline) Print(w io.Writer, hints []string) error {
	fmt.Fprintf(w, "\n  %s  %s\n", bisect.ShortID(b.Commit), words.Printable(b.Subject))
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

// Fingerprint is the SHA-256 of a text, as 64 hexadecimal digits.
func Fingerprint(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// usesPython reports whether a project builds with or runs Python, so that the versions of Python and torch are
// part of the description of the machine. Finding them out starts Python, which takes seconds.
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
