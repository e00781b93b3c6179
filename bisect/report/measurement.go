package report

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// MeasurementSchema names the JSON document of a measurement and its version.
const MeasurementSchema = "kbisect.measurement/1"

// Measurement is what the launches of one candidate showed. Numbers that are not known are null.
type Measurement struct {
	Schema    string          `json:"schema"`
	Session   string          `json:"session"`
	Result    string          `json:"result"`  // ok, the class of the launches that failed, infra, interrupted
	Verdict   string          `json:"verdict"` // the result in a sentence
	Candidate Candidate       `json:"candidate"`
	Phases    []PhaseTimes    `json:"phases"`
	Wall      Summary         `json:"wall"` // of whole launches, without build, seconds
	Metrics   []MetricSummary `json:"metrics"`
	Memory    *int64          `json:"memory_bytes"` // most at a time
	Devices   []DeviceState   `json:"devices"`
	Totals    Totals          `json:"totals"`
	Warnings  []string        `json:"warnings"`
	Error     *string         `json:"error"`
}

// PhaseTimes are the seconds of one phase, with caches that an earlier process filled (or where there are
// none) and with empty ones.
type PhaseTimes struct {
	Phase string  `json:"phase"`
	Times Summary `json:"times"`
	Cold  Summary `json:"cold"`
}

// MetricSummary describes one metric of one case: one number a launch, the median of its samples.
type MetricSummary struct {
	Metric  string  `json:"metric"`
	Case    *string `json:"case"`
	Unit    string  `json:"unit"`
	Values  Summary `json:"launches"`
	Samples int     `json:"samples"`       // of all launches together
	Within  Number  `json:"spread_within"` // of the samples of one launch, as a fraction: the median
	Modes   *Modes  `json:"modes"`
}

// Modes are two groups that launches clearly fall into.
type Modes struct {
	Low   Number `json:"low"` // their medians
	High  Number `json:"high"`
	Share Number `json:"share_high"`
}

// DeviceState is what a device went through while it was measured on.
type DeviceState struct {
	Name        string   `json:"name"`
	Clock       Summary  `json:"sm_clock_mhz"` // after each launch
	Temperature Summary  `json:"temperature_c"`
	Power       Summary  `json:"power_w"`
	Throttled   []string `json:"throttled"` // what held the clocks down
	Shared      []string `json:"shared"`    // who else was on it
}

// MeasurementText writes a measurement for people.
func MeasurementText(w io.Writer, m Measurement) error {
	p := &printer{w: w}
	p.f("%s\n", m.Verdict)
	if m.Error != nil {
		p.f("  %s\n", indent(*m.Error, "  "))
	}
	p.f("\n  %s\n", m.Candidate.line())
	p.phases(m)
	p.metrics(m)
	p.devices(m)
	p.f("\n")
	p.launches("", m.Candidate)
	if m.Memory != nil {
		p.f("  memory %.0f MiB at most\n", float64(*m.Memory)/(1<<20))
	}
	p.price(m.Totals, nil)
	p.warnings(m.Warnings)
	p.f("\nNext\n  kbisect show %s    # every launch\n", m.Session)
	return p.err
}

func (p *printer) phases(m Measurement) {
	if len(m.Phases) == 0 {
		return
	}
	cold := false
	for _, x := range m.Phases {
		cold = cold || x.Cold.N > 0
	}
	p.f("\n")
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  phase\tmedian\tmin to max\t%s\n", map[bool]string{true: "with empty caches"}[cold])
	for _, x := range m.Phases {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", printable(x.Phase), quantity(x.Times.Median, "s"), x.Times.extremes("s"), x.Cold.some("s"))
	}
	fmt.Fprintf(t, "  whole launch\t%s\t%s\t\n", quantity(m.Wall.Median, "s"), m.Wall.extremes("s"))
	p.flush(t)
}

func (p *printer) metrics(m Measurement) {
	if len(m.Metrics) == 0 {
		return
	}
	p.f("\n")
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  \tmedian\tmin to max\tspread\tlaunches\tsamples\tspread within\n")
	for _, x := range m.Metrics {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%d\t%d\t%s\n", printable(x.name()), x.Values.median(x.Unit), x.Values.extremes(x.Unit), share(x.Values.Spread), x.Values.N, x.Samples, share(x.Within))
	}
	p.flush(t)
	p.f("\n  One number a launch, the median of its samples; in brackets the 95 %% interval of their median, from 6 launches on.\n")
	for _, x := range m.Metrics {
		if x.Modes != nil {
			p.f("  %s falls into two groups: %s, and in %s of the launches %s.\n", printable(x.name()), quantity(x.Modes.Low, x.Unit), share(x.Modes.Share), quantity(x.Modes.High, x.Unit))
		}
	}
}

func (p *printer) devices(m Measurement) {
	for _, d := range m.Devices {
		p.f("\n  on %s\n     clock %s MHz, %s °C, %s W after a launch (min to max)\n", d.Name, d.Clock.extremes(""), d.Temperature.extremes(""), d.Power.extremes(""))
		for _, x := range d.Throttled {
			p.f("     held back: %s\n", printable(x))
		}
		for _, x := range d.Shared {
			p.f("     shared: %s\n", printable(x))
		}
	}
}

func (m MetricSummary) name() string {
	if m.Case != nil {
		return m.Metric + " of " + *m.Case
	}
	return m.Metric
}

// some is the median where there is one.
func (s Summary) some(unit string) string {
	if s.N == 0 {
		return ""
	}
	return quantity(s.Median, unit)
}

// extremes are the least and the greatest value.
func (s Summary) extremes(unit string) string {
	if !s.Min.Known() {
		return "-"
	}
	scale, name := prefixed(float64(s.Max), unit)
	return fmt.Sprintf("%s to %s%s", figure(s.Min*scale), figure(s.Max*scale), unitWord(name))
}

// quantity is a value with the unit in which it is best read.
func quantity(n Number, unit string) string {
	if !n.Known() {
		return "-"
	}
	scale, name := prefixed(float64(n), unit)
	return figure(n*scale) + unitWord(name)
}

func share(n Number) string {
	if !n.Known() {
		return "-"
	}
	return percent(float64(n))
}

// Described is a median with its interval and unit.
func Described(s Summary, unit string) string { return s.median(unit) }
