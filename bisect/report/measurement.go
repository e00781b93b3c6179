package report

import "github.com/kbisect/kbisect/bisect/report/words"

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
	Facts
}

func (*Measurement) schema() string { return MeasurementSchema }

// about implements Document.
func (m *Measurement) about() (s subject) {
	s.totals = m.Totals
	for _, d := range m.Devices {
		s.devices = append(s.devices, d.Name)
	}
	if len(m.Metrics) > 0 {
		s.metric, s.higher = m.Metrics[0].Metric, m.Metrics[0].Better == words.Direction(true)
	}
	return s
}

// next implements Document.
func (m *Measurement) next(l Ledger) []Command { return []Command{every(l, m.Session)} }

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
	Better  string  `json:"better"` // lower, higher or unknown
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

// Name is the metric with its case.
func (m MetricSummary) Name() string { return number(m.Metric, m.Case) }
