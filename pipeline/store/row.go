package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"time"
)

// timeLayout has a fixed width, so that the text sorts like the time.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

func formatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

func parseTime(text string) (time.Time, error) { return time.Parse(timeLayout, text) }

// seconds and duration convert between a duration and its column; exact up to about fifty days.
func seconds(d time.Duration) float64 { return d.Seconds() }

func duration(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// document returns the column for a JSON document: text, so that tools show it, or NULL.
func document(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return string(b)
}

// number returns the column for a measured value. SQLite has no NaN and may drop the sign of zero.
func number(v float64) any {
	if math.IsNaN(v) {
		return nil
	}
	if v == 0 {
		return 0.0
	}
	return v
}

// checksum covers the columns of one row, given as they are stored. The
// table's name is part of it, so that a row cannot turn up in another table.
func checksum(table string, columns []any) int64 {
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	var n [8]byte
	put := func(kind byte, v uint64) {
		binary.BigEndian.PutUint64(n[:], v)
		h.Write([]byte{kind})
		h.Write(n[:])
	}
	for _, c := range append([]any{table}, columns...) {
		switch c := c.(type) {
		case nil:
			put('n', 0)
		case string:
			put('s', uint64(len(c)))
			h.Write([]byte(c))
		case int64:
			put('i', uint64(c))
		case float64:
			put('f', math.Float64bits(c))
		default:
			panic(fmt.Sprintf("store: no checksum for a %T", c)) // a mistake in this package, on every row
		}
	}
	return int64(h.Sum32())
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// valueOf is the inverse of number.
func valueOf(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}
