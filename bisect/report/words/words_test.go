package words

import (
	"errors"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
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
		{999.98, 880, 1200, "1000 times (95 % CI 880 to 1200 times)"},
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

// A figure has four digits, whatever its size, and is the value to within half of the last of them.
func TestFigures(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1.000", -2.5: "-2.500", 999.94: "999.9", 999.96: "1000", 9.9996: "10.00", 0.0099999: "0.01000", 0.001: "0.001000", 0.00099: "9.900e-04",
		1234567: "1234567", math.Inf(1): "-", math.NaN(): "-",
	} {
		if got := Figure(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(1e-9, 1e9).Draw(t, "value")
		got := Figure(v)
		back, err := strconv.ParseFloat(got, 64)
		if err != nil || math.Abs(back-v) > 0.5001e-3*v {
			t.Fatalf("%v is written as %s, %v", v, got, err)
		}
		digits := strings.Trim(strings.TrimLeft(strings.SplitN(strings.Replace(got, ".", "", 1), "e", 2)[0], "-0"), "-")
		if n := len(digits); n != 4 && !(n > 4 && v > 999) {
			t.Fatalf("%v is written as %s, with %d digits", v, got, n)
		}
	})
}

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{0, "s", "0 ns"}, {2e-9, "s", "2.000 ns"}, {-0.002, "s", "-2.000 ms"}, {3600, "s", "3600 s"}, {0.9999996, "s", "1000 ms"},
		{9999, "B", "9999 B"}, {10000, "B", "10.00 kB"}, {5e9, "Hz", "5.000 GHz"}, {2e6, "op/s", "2.000 Mop/s"}, {2e6, "widgets", "2000000 widgets"}, {7, "1", "7.000"},
	} {
		if got := Quantity(c.v, c.unit); got != c.want {
			t.Errorf("%v %s: %s, want %s", c.v, c.unit, got, c.want)
		}
	}
	if got := Range(math.NaN(), 1, "s"); got != "-" {
		t.Error(got)
	}
}

func TestShortTexts(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Cut("naïve kernel", 6), "naïve…"}, {Cut("naïve", 5), "naïve"}, {Cut("", 3), ""},
		{Count(2, "series") + Count(1, "series"), "2 series1 series"}, {Count(3, "branch"), "3 branches"}, {Count(-1, "launch"), "-1 launches"},
		{Listed([]string{"a", "b"}, 2), "a, b"}, {Listed(nil, 3), ""}, {Listed([]string{"a", "b", "c", "d"}, 1), "a and 3 more"},
		{Seconds(59.994), "59.99 s"}, {Seconds(59.996), "1m0s"}, {Seconds(3661), "1h1m1s"}, {Seconds(0), "0.00 s"}, {Seconds(0.0321), "32.1 ms"}, {Seconds(0.1), "0.10 s"},
		{Percent(0.0996) + Percent(0.0004) + Percent(math.NaN()), "10 %0.04 %-"}, {Confidence(0.5) + Confidence(0.99999), "50 %99.99 %"},
		{Better(true), "higher is better"}, {Better(false), "lower is better"}, {P(math.NaN()), "-"},
		{Between(0.5, 0.4, 2.5), "-60.0 to +150.0 %"}, {Between(2.5, 0.4, 1200), "0.4 to 1200 times"},
		{Change(2), "2 times"}, {Change(1.999), "+99.9 %"}, {Change(0), "-100.0 %"}, {Change(math.Inf(1)), "-"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// A shell reads the words back as they were.
func TestShell(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"git", "show", "HEAD~1", "a/b.c", "x=y", "1,2%"}, "git show HEAD~1 a/b.c x=y 1,2%"},
		{[]string{"make", "a=~/x", "b=c:~", "d:e~"}, "make 'a=~/x' 'b=c:~' d:e~"},
		{[]string{"", "~", "it's", "$(rm)", "a b", "#", "é"}, `'' '~' 'it'\''s' '$(rm)' 'a b' '#' 'é'`},
		{nil, ""},
	} {
		if got := Shell(c.argv); got != c.want {
			t.Errorf("%q: %s, want %s", c.argv, got, c.want)
		}
	}
	shells := []string{"sh"}
	if _, err := exec.LookPath("bash"); err == nil {
		shells = append(shells, "bash")
	}
	rapid.Check(t, func(t *rapid.T) {
		argv := rapid.SliceOfN(rapid.StringOf(rapid.RuneFrom([]rune("ab'\"\\ \t\n$`~~==::!*?[]{}();&|<>#%^-é"))), 1, 5).Draw(t, "argv")
		shell := rapid.SampledFrom(shells).Draw(t, "shell")
		out, err := exec.Command(shell, "-c", `printf '%s\000' `+Shell(argv)).Output()
		if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); err != nil || !slices.Equal(got, argv) {
			t.Fatalf("%q is read as %q, %v", argv, got, err)
		}
	})
}

// However a text is cut or cleaned, what is left is valid, on one line and no longer than asked for.
func FuzzShortTexts(f *testing.F) {
	f.Add("naïve \x1b[31m kernel\u202e\n", 4)
	f.Add("\xff\xfe", 1)
	f.Fuzz(func(t *testing.T, text string, n int) {
		n = max(1, n)
		cut := Cut(text, n)
		if utf8.RuneCountInString(cut) > max(n, 1) || !strings.HasSuffix(cut, "…") && cut != text {
			t.Errorf("%q cut to %d is %q", text, n, cut)
		}
		if line := Printable(text); strings.ContainsAny(line, "\n\r\t\x1b\u202e") || Printable(line) != line {
			t.Errorf("%q is printed as %q", text, line)
		}
		if lines := Lines(text); strings.Contains(lines, "\n\n") || strings.HasSuffix(lines, "\n") || Lines(lines) != lines {
			t.Errorf("%q has the lines %q", text, lines)
		}
	})
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// An error of the stream is passed on, and the stream itself can be reached.
func TestWriterPassesErrorsOn(t *testing.T) {
	w := NewWriter(failing{})
	if n, err := w.Write([]byte("abc")); n != 0 || err == nil || err.Error() != "disk full" {
		t.Errorf("%d, %v", n, err)
	}
	if Raw(w) != (failing{}) || Raw(failing{}) != (failing{}) {
		t.Error("not the stream behind it")
	}
}
