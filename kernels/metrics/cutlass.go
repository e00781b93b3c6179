package metrics

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kbisect/kbisect/bisect"
	"github.com/kbisect/kbisect/kernels/protocol"
)

// cutlassRow is one result of the CUTLASS profiler.
type cutlassRow struct {
	Case        string       // operation and problem size
	Disposition string       // passed, incorrect, not_verified, ...
	Class       bisect.Class // what the disposition means
	Seconds     float64
}

// maxRows is the largest number of rows that is read.
const maxRows = 1 << 16

// readCutlass reads a report of the CUTLASS profiler.
func readCutlass(x Input) (r Results, err error) {
	rows, series, err := cutlass(x.Data, x.Metric)
	if err != nil {
		return r, err
	}
	r.Series = series
	r.Class, r.Why = cutlassOutcome(rows)
	return r, nil
}

// cutlass reads the CSV of the CUTLASS profiler, from a file (--output) or from the output
// of the program, which ends with it. Rows with a time become series of metric, in seconds.
func cutlass(data []byte, metric string) (rows []cutlassRow, series []bisect.Series, err error) {
	text, ok := cutlassTable(data)
	if !ok {
		return nil, nil, errors.New("no results of the CUTLASS profiler: missing header Problem,Provider,OperationKind,Operation,Disposition")
	}
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = -1, true, false
	header, err := r.Read()
	if err != nil {
		return nil, nil, fmt.Errorf("results of the CUTLASS profiler: %w", err)
	}
	for len(rows) < maxRows {
		record, err := r.Read()
		if err != nil {
			break // the end, or what the program printed after its table
		}
		if len(record) != len(header) {
			continue
		}
		row := parseCutlassRow(header, record)
		rows = append(rows, row)
		if row.Seconds > 0 {
			series = protocol.AppendValue(series, metric, row.Case, "s", row.Seconds)
		}
	}
	return rows, series, nil
}

// cutlassTable returns an output from the header of its last table on.
func cutlassTable(data []byte) ([]byte, bool) {
	i := bytes.LastIndex(data, []byte("Problem,Provider,OperationKind,Operation,Disposition"))
	if i < 0 {
		return nil, false
	}
	return data[bytes.LastIndexByte(data[:i], '\n')+1:], true
}

// parseCutlassRow reads one result. Runtime is in milliseconds; a result that is wrong has no time worth comparing.
func parseCutlassRow(header, record []string) cutlassRow {
	row := cutlassRow{}
	var name []string
	for i, column := range header {
		value := strings.TrimSpace(record[i])
		switch {
		case column == "Operation":
			name = append([]string{value}, name...)
		case column == "Disposition":
			row.Disposition = strings.ReplaceAll(strings.ToLower(value), " ", "_")
		case column == "Runtime":
			v, err := strconv.ParseFloat(value, 64)
			if err == nil && v > 0 && !math.IsInf(v, 0) {
				row.Seconds = v / 1e3
			}
		case slices.Contains(cutlassSizes, column):
			name = append(name, column+"="+value)
		}
	}
	row.Case = protocol.Plain(strings.Join(name, " "), 200)
	row.Class = cutlassClass(row.Disposition)
	if row.Class != bisect.OK {
		row.Seconds = 0
	}
	return row
}

// cutlassSizes are the columns that identify a problem; the others describe the kernel.
var cutlassSizes = []string{"m", "n", "k", "batch_count", "h", "w", "d", "c", "r", "s", "t", "p", "q", "z", "groups", "split_k_slices"}

// cutlassClass is what a disposition means for the whole trial. What was not run is no fault of the commit.
func cutlassClass(disposition string) bisect.Class {
	switch disposition {
	case "passed", "not_verified":
		return bisect.OK
	case "incorrect":
		return bisect.Wrong
	case "failed":
		return bisect.Crash
	}
	return bisect.Skip // not_run, not_supported, invalid_problem
}

// cutlassOutcome classifies a whole report: a wrong result or a crash in any row, else OK
// if any row ran, else a skip.
func cutlassOutcome(rows []cutlassRow) (bisect.Class, string) {
	for _, bad := range []bisect.Class{bisect.Wrong, bisect.Crash} {
		for _, r := range rows {
			if r.Class == bad {
				return bad, r.Case + ": " + r.Disposition
			}
		}
	}
	if slices.ContainsFunc(rows, func(r cutlassRow) bool { return r.Class == bisect.OK }) {
		return bisect.OK, ""
	}
	return bisect.Skip, "the profiler ran no operation"
}
