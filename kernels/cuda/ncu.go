package cuda

import (
	"bytes"
	"encoding/csv"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect/metric"
	"github.com/kbisect/kbisect/kernels/lazy"
	"github.com/kbisect/kbisect/kernels/protocol"
)

// NcuPass is a set of metrics to ask ncu for. A single metric that a version or a device does not know makes the whole
// set fail, so there is a smaller one to fall back to.
type NcuPass struct {
	Name    string
	Metrics []string
}

// NcuPasses lists the sets, the larger first.
func NcuPasses() []NcuPass {
	usual := []string{
		MetricTime, MetricRegisters, MetricStatic, MetricDynamic, "launch__grid_size", "launch__block_size", "launch__waves_per_multiprocessor",
		"launch__occupancy_limit_blocks", "launch__occupancy_limit_registers", "launch__occupancy_limit_shared_mem", "launch__occupancy_limit_warps",
		"sm__maximum_warps_per_active_cycle_pct", "sm__warps_active.avg.pct_of_peak_sustained_active",
		"sm__throughput.avg.pct_of_peak_sustained_elapsed",
		"dram__throughput.avg.pct_of_peak_sustained_elapsed", "dram__bytes_read.sum", "dram__bytes_write.sum",
		"lts__throughput.avg.pct_of_peak_sustained_elapsed", "lts__t_sector_hit_rate.pct",
	}
	full := slices.Concat(usual, []string{"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "sm__inst_executed_pipe_tensor.sum"})
	for _, s := range stalls() {
		full = append(full, "smsp__average_warps_issue_stalled_"+s+"_per_issue_active.ratio")
	}
	return []NcuPass{{"all metrics", full}, {"the usual metrics", usual}}
}

// stalls are the warp stall reasons that every architecture from 7.0 on counts.
func stalls() []string {
	return []string{
		"barrier", "branch_resolve", "dispatch_stall", "drain", "imc_miss", "lg_throttle", "long_scoreboard", "math_pipe_throttle",
		"membar", "mio_throttle", "misc", "no_instruction", "not_selected", "short_scoreboard", "sleeping", "tex_throttle", "wait",
	}
}

// Ncu is the command in front of a program that profiles it. The clocks are left alone, caches are flushed before each
// launch, and ncu's own messages go to the file log. kernels are function names: only those are profiled, or all if
// there are none.
func Ncu(ncu string, pass NcuPass, kernels []string, log string) []string {
	argv := []string{
		ncu, "--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "mangled", "--log-file", log,
		"--target-processes", "all", "--clock-control", "none", "--metrics", strings.Join(pass.Metrics, ","),
	}
	var quoted []string
	for _, k := range kernels {
		quoted = append(quoted, regexp.QuoteMeta(k))
	}
	names := ""
	if len(quoted) > 0 {
		names = "regex:^(" + strings.Join(quoted, "|") + ")$"
	}
	// three launches of every kernel, however many others come between
	return append(argv, "--kernel-name-base", "function", "--kernel-id", "::"+names+":1|2|3")
}

var ncuVersion = lazy.Pattern(`(?m)^Version ([0-9][0-9.]*)`)

// NcuVersion reads the output of `ncu --version`; "" if there is none. The meaning of a metric
// changes between versions, so values of different versions must not be compared.
func NcuVersion(output []byte) string {
	if m := ncuVersion().FindSubmatch(output); m != nil {
		return string(m[1])
	}
	return ""
}

// NcuError explains why ncu profiled nothing.
type NcuError struct {
	Permission bool   // this user may not read the performance counters
	Words      string // its first error, or what is missing
}

func (e *NcuError) Error() string {
	if e.Permission {
		return "ncu may not read the device's performance counters (ERR_NVGPUCTRPERM)\nhint: run as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0"
	}
	return "ncu: " + e.Words
}

// NcuCSV reads the output of ncu --csv --page raw: messages, a line of names, a line of units,
// and a line per profiled launch. Launches of a kernel with the same grid and block are grouped.
// The error is a *NcuError if no launch was profiled.
func NcuCSV(output []byte) ([]Launched, error) {
	trouble := &NcuError{Words: "it profiled no kernel"}
	table := ncuTable(output, trouble)
	r := csv.NewReader(bytes.NewReader(table))
	r.FieldsPerRecord, r.LazyQuotes = -1, true
	head, err := r.Read()
	if err != nil {
		return nil, trouble
	}
	c := ncuColumns{names: slices.Clone(head)}
	var all launches
	for {
		row, err := r.Read()
		if err != nil {
			break
		}
		c.row(row, &all)
	}
	out := all.launched()
	if len(out) == 0 {
		return nil, trouble
	}
	return out, nil
}

// ncuTable returns the table, without messages and what the program printed before it.
func ncuTable(output []byte, trouble *NcuError) []byte {
	var table bytes.Buffer
	said := false
	for line := range bytes.Lines(output) {
		switch {
		case bytes.Contains(line, []byte("ERR_NVGPUCTRPERM")):
			trouble.Permission = true
		case bytes.HasPrefix(line, []byte("==")):
			if text, ok := bytes.CutPrefix(line, []byte("==ERROR==")); ok && !said {
				said, trouble.Words = true, protocol.Plain(string(text), protocol.MaxWhy)
			}
		case table.Len() > 0:
			table.Write(line)
		case bytes.HasPrefix(line, []byte(`"ID"`)) && bytes.Contains(line, []byte(`"Kernel Name"`)):
			table.Write(line)
		}
	}
	return table.Bytes()
}

// ncuColumns holds the names and units of the columns.
type ncuColumns struct {
	names, units []string
}

// row takes in one line. The first line without an ID has the units; n/a and other words are not values.
func (c *ncuColumns) row(row []string, all *launches) {
	k := launchKey{}
	metrics := map[string]Measured{}
	id := ""
	for i, field := range row[:min(len(row), len(c.names))] {
		switch c.names[i] {
		case "ID":
			id = field
		case "Kernel Name":
			k.kernel = kernelName(field)
		case "Grid Size":
			k.grid = dimensions(field)
		case "Block Size":
			k.block = dimensions(field)
		case "CC":
			k.arch = protocol.Plain(field, 10)
		default:
			if v, ok := ncuNumber(field); ok && strings.Contains(c.names[i], "__") {
				metrics[c.names[i]] = c.measured(i, v)
			}
		}
	}
	switch {
	case id == "" && c.units == nil:
		c.units = slices.Clone(row)
	case id != "" && k.kernel != "":
		all.add(k, metrics)
	}
}

// measured brings a value to its base unit: ncu scales units by the size of the value, one launch in us and another in
// ms.
func (c *ncuColumns) measured(i int, v float64) Measured {
	unit := ""
	if i < len(c.units) {
		unit = protocol.Plain(c.units[i], 40)
	}
	long := map[string]string{"second": "s", "msecond": "ms", "usecond": "us", "nsecond": "ns"}
	if short, ok := long[unit]; ok {
		unit = short
	}
	v, unit = metric.Base(v, unit)
	return Measured{v, unit}
}

// thousands matches a number with separators, which ncu writes in some locales.
var thousands = lazy.Pattern(`^-?\d{1,3}(,\d{3})+(\.\d+)?$`)

// ncuNumber reads a value, with or without separators of thousands.
func ncuNumber(s string) (float64, bool) {
	if thousands().MatchString(s) {
		s = strings.ReplaceAll(s, ",", "")
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// dimensions parses "(256, 1, 1)".
func dimensions(s string) (d [3]int) {
	for i, word := range strings.SplitN(strings.Trim(s, "() "), ",", 3) {
		n, err := strconv.ParseUint(strings.TrimSpace(word), 10, 31)
		if err != nil {
			return [3]int{}
		}
		d[i] = int(n)
	}
	return d
}

// OccupancyOf returns the theoretical occupancy that ncu reported for a kernel. ok is false if
// the metrics are missing.
func OccupancyOf(l Launched) (Occupancy, bool) {
	o := Occupancy{}
	least := math.Inf(1)
	for _, by := range []struct{ metric, name string }{
		{"warps", limitWarps}, {"blocks", limitBlocks}, {"registers", limitRegisters}, {"shared_mem", limitShared},
	} {
		if m, ok := l.Metrics["launch__occupancy_limit_"+by.metric]; ok && m.Value < least {
			least, o.Limit, o.Blocks = m.Value, by.name, int(m.Value)
		}
	}
	share, ok := l.Metrics["sm__maximum_warps_per_active_cycle_pct"]
	o.Share = share.Value / 100
	return o, ok && o.Limit != ""
}
