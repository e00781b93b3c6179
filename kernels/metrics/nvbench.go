package metrics

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/protocol"
)

// nvbenchFile is the part of nvbench's JSON, file version 1, that is read. Numbers are strings there.
type nvbenchFile struct {
	Meta struct {
		Version struct {
			JSON struct {
				Major int `json:"major"`
			} `json:"json"`
		} `json:"version"`
	} `json:"meta"`
	Benchmarks []struct {
		Name   string         `json:"name"`
		States []nvbenchState `json:"states"`
	} `json:"benchmarks"`
}

// nvbenchState is one measurement: a benchmark at one value of each of its axes, on one device.
type nvbenchState struct {
	Name   string `json:"name"`
	Device int    `json:"device"`
	Axes   []struct {
		Name  string     `json:"name"`
		Value looseValue `json:"value"`
	} `json:"axis_values"`
	Summaries []struct {
		Tag  string `json:"tag"`
		Data []struct {
			Name  string     `json:"name"`
			Value looseValue `json:"value"`
		} `json:"data"`
	} `json:"summaries"`
	Skipped bool   `json:"is_skipped"`
	Reason  string `json:"skip_reason"`
}

// looseValue is a string or a number, as text.
type looseValue string

// UnmarshalJSON takes the value of a string and the text of anything else.
func (v *looseValue) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) != nil {
		s = string(data)
	}
	*v = looseValue(s)
	return nil
}

// The tags of the summaries that are read.
const (
	tagSamples = "nv/json/bin:nv/cold/sample_times"
	tagCPU     = "nv/cpu_only/time/cpu/mean"
)

// coldTags name the time of a state without samples, the best first.
var coldTags = []string{"nv/cold/time/gpu/median", "nv/cold/time/gpu/mean", tagCPU}

// readNVBench reads a report of nvbench with the sidecars that it names.
func readNVBench(x Input) (r Results, err error) {
	r.Series, r.Warnings, err = nvbench(x.Data, x.Metric, sidecars(x.Dir, x.File))
	return r, err
}

// nvbench reads a report of nvbench (--json or --jsonbin). Each state of a benchmark is a
// case, such as "gemm Elements=65536 T=F16", with the samples of its binary sidecar, or one
// value without a sidecar. read returns a sidecar by its path in the report; nil means that
// there are none. States that were skipped are warnings.
func nvbench(data []byte, metric string, read func(name string) ([]byte, error)) (series []bisect.Series, warnings []string, err error) {
	var file nvbenchFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, nil, fmt.Errorf("results of nvbench: %w", err)
	}
	if v := file.Meta.Version.JSON.Major; v != 1 {
		return nil, nil, fmt.Errorf("results of nvbench: unsupported file version %d, expected 1", v)
	}
	devices := map[int]bool{}
	for _, b := range file.Benchmarks {
		for _, s := range b.States {
			devices[s.Device] = true
		}
	}
	for _, b := range file.Benchmarks {
		for _, s := range b.States {
			caseName := s.name(b.Name, len(devices) > 1)
			if s.Skipped {
				warnings = append(warnings, protocol.Plain(fmt.Sprintf("nvbench skipped %s: %s", caseName, s.Reason), protocol.MaxWhy))
				continue
			}
			times, warning := s.times(caseName, read)
			for _, v := range times {
				series = protocol.AppendValue(series, metric, caseName, "s", v)
			}
			if warning != "" {
				warnings = append(warnings, warning)
			}
		}
	}
	return series, warnings, nil
}

// name describes a state by its axes.
func (s *nvbenchState) name(benchmark string, device bool) string {
	parts := []string{benchmark}
	if device {
		parts = append(parts, "device="+strconv.Itoa(s.Device))
	}
	for _, a := range s.Axes {
		parts = append(parts, a.Name+"="+string(a.Value))
	}
	if len(s.Axes) == 0 && s.Name != "" {
		parts = append(parts, s.Name)
	}
	return protocol.Plain(strings.Join(parts, " "), 200)
}

// datum returns a named value of a summary.
func (s *nvbenchState) datum(tag, name string) (string, bool) {
	for _, sum := range s.Summaries {
		if sum.Tag != tag {
			continue
		}
		for _, d := range sum.Data {
			if d.Name == name {
				return string(d.Value), true
			}
		}
	}
	return "", false
}

// number returns the value of a summary if it is a positive number.
func (s *nvbenchState) number(tag string) (float64, bool) {
	text, _ := s.datum(tag, "value")
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && v > 0 && !math.IsInf(v, 0)
}

// times are the samples of one state, in seconds. A sidecar that cannot be read gives a warning, and the summary
// stands in for it.
func (s *nvbenchState) times(caseName string, read func(string) ([]byte, error)) (samples []float64, warning string) {
	samples, err := s.sidecar(read)
	if err != nil {
		warning = protocol.Plain(fmt.Sprintf("samples of nvbench for %s: %v", caseName, err), protocol.MaxWhy)
	}
	for _, tag := range coldTags {
		if v, ok := s.number(tag); ok && len(samples) == 0 {
			return []float64{v}, warning
		}
	}
	return samples, warning
}

// sidecar reads the positive values of the binary file of samples, which are little-endian float32.
func (s *nvbenchState) sidecar(read func(string) ([]byte, error)) ([]float64, error) {
	name, ok := s.datum(tagSamples, "filename")
	if !ok || read == nil {
		return nil, nil
	}
	size, _ := s.datum(tagSamples, "size")
	data, err := read(name)
	if err != nil {
		return nil, err
	}
	if n, err := strconv.Atoi(size); err != nil || 4*min(n, protocol.MaxValues) != len(data) {
		return nil, fmt.Errorf("%s has %d bytes, which do not match %s values", name, len(data), protocol.Plain(size, 20))
	}
	out := make([]float64, 0, len(data)/4)
	for four := range slices.Chunk(data, 4) {
		v := float64(math.Float32frombits(binary.LittleEndian.Uint32(four)))
		if v > 0 && !math.IsInf(v, 0) { // NaN is not above 0
			out = append(out, v)
		}
	}
	return out, nil
}

// sidecars returns a function that reads sidecars below root and nowhere else, as much of them as is kept. nvbench
// writes their paths relative to the working directory of the program or to the folder of its report, whose path
// from root is file.
func sidecars(root, file string) func(name string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		in, err := os.OpenRoot(root)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		if filepath.IsAbs(name) {
			if name, err = filepath.Rel(root, name); err != nil {
				return nil, err
			}
		}
		for _, n := range []string{name, path.Join(path.Dir(filepath.ToSlash(file)), name)} {
			if st, err := in.Stat(n); err != nil || !st.Mode().IsRegular() {
				continue
			}
			f, err := in.Open(n)
			if err != nil {
				continue
			}
			defer f.Close()
			return io.ReadAll(io.LimitReader(f, 4*protocol.MaxValues))
		}
		return nil, fmt.Errorf("%s: %w", protocol.Plain(name, 100), fs.ErrNotExist)
	}
}
