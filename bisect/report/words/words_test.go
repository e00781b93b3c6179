package words

import (
	"math"
	"testing"
)

func TestChanges(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		ratio, low, high float64
		want             string
	}{
		{1.049, 1.041, 1.056, "+4.9 % (95 % CI +4.1 to +5.6 %)"},
		{0.8, 0.79, 0.81, "-20.0 % (95 % CI -21.0 to -19.0 %)"},
		{1.004, 0.99, 1.02, "+0.40 % (95 % CI -1.00 to +2.00 %)"},
		{2.919, 2.85, 3.012, "2.92 times (95 % CI 2.85 to 3.01 times)"},
		{1.5, nan, nan, "+50.0 %"},
		{nan, nan, nan, "-"},
		{1.5, 0, math.Inf(1), "+50.0 %"},
		{1902.4, 880, 2100, "1902 times (95 % CI 880 to 2100 times)"},
	} {
		if got := Interval(c.ratio, c.low, c.high, 0.95); got != c.want {
			t.Errorf("%g: %q, want %q", c.ratio, got, c.want)
		}
	}
}

func TestQuantities(t *testing.T) {
	for _, c := range []struct {
		got, want string
	}{
		{Quantity(46.8e-6, "s"), "46.80 µs"},
		{Quantity(46.8, "us"), "46.80 µs"},
		{Quantity(1.2e12, "B/s"), "1.200 TB/s"},
		{Quantity(728, "B"), "728.0 B"},
		{Quantity(3, ""), "3.000"},
		{Quantity(math.NaN(), "s"), "-"},
		{Range(0.0015, 0.003, "s"), "1.500 to 3.000 ms"},
		{Percent(0.03), "3 %"},
		{Percent(0.5), "50 %"},
		{Confidence(1), "99.99 %"},
		{Count(1, "launch") + ", " + Count(2, "launch") + ", " + Count(0, "pair"), "1 launch, 2 launches, 0 pairs"},
		{Listed([]string{"a", "b", "c"}, 2), "a, b and 1 more"},
		{Short("0123456789abcdef") + Short("ab"), "0123456789ab"},
		{Printable("a\x1b[31m\u202eb\nc"), "a [31m b c"},
		{Lines("a \n\n\tb\x00"), "a\n\tb"},
		{Seconds(0.5) + " " + Seconds(90), "0.50 s 1m30s"},
		{P(0.0002) + " " + P(0.25), "2.0e-04 0.250"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
