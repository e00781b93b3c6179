package bisect

import (
	"encoding/json"
	"math"
)

// Number is a measured or computed value that may be unknown: not a number, or without bounds. In JSON, which has
// neither, that is null.
type Number float64

// Unknown is the number that is not known.
func Unknown() Number { return Number(math.NaN()) }

// Known reports whether there is a number.
func (n Number) Known() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	var v *float64
	err := json.Unmarshal(b, &v)
	*n = Unknown()
	if err == nil && v != nil {
		*n = Number(*v)
	}
	return err
}
