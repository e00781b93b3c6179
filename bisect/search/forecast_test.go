package search

import "testing"

// Launches that take longer do not become more, and a few seconds are not worth a word.
func TestForecastOfSlowerLaunches(t *testing.T) {
	r := &Run{}
	for _, c := range []struct {
		pace, slower float64 // seconds of a launch
		why          Reason
	}{
		{0.01, 0.1, ""},
		{1, 10, Slower},
	} {
		var f forecast
		f.take(basis{run: r, pace: c.pace, made: 2}, 20)
		why := f.take(basis{run: r, pace: c.slower, made: 3}, 19)
		if f.launches > 20 || why != c.why || (f.seconds > 20*c.pace) != (why != "") {
			t.Errorf("from %v to %v s a launch: %.0f launches, %.0f s, %q", c.pace, c.slower, f.launches, f.seconds, why)
		}
	}
}
