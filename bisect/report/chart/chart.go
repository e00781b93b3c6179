// Package chart draws the pictures of a report as SVG: rows with bars and intervals ([Rows]), values along a range of
// commits ([Plane]), what a search believed after each step ([Belief]), and flags that were on ([Matrix]).
//
// [Range] and [Launches] make pictures from a document; a [Picture] holds only values and texts and is drawn by [SVG].
// The package must not know what else is on a page, nor how wide it will be.
//
// A picture is complete without a script and fits any width: what lies along an axis is placed in per cent, so that
// text and marks keep their size on a phone and on paper. Heights are in CSS pixels. The style sheet of the page gives
// colours by class and defines the shape of each state as #m-STATE. Titles are shown to whoever points at a mark, and
// marks about the same commit share a key (data-k), by which a script lights them up together. All texts are escaped
// here; they come from commits and programs.
package chart

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Picture is one drawing: [Rows], [Plane], [Belief] or [Matrix].
type Picture interface{ draw(c *canvas) }

// SVG draws a picture as a piece of HTML, already escaped. id is a prefix for the ids in it, unique on its page; label
// says what it shows, for readers who do not see it.
func SVG(id, label string, p Picture) string {
	c := &canvas{id: id, label: label}
	p.draw(c)
	return c.String()
}

// State marks a row, a commit or an answer. It decides on colour and symbol.
type State string

// The states. Each has a shape of its own besides its colour, for print and for the colour-blind.
const (
	Good    State = "good"
	Bad     State = "bad"
	Better  State = "better" // improved
	Skipped State = "skip"
	Other   State = "other" // fails in another way; worse, but accepted
	Unsure  State = "unsure"
	Culprit State = "culprit"
)

// Key explains a state or, where Class is set, a class of bars in a legend.
type Key struct {
	State State
	Class string
	Text  string
}

// meanings are the states of commits in words, in the order of a legend.
var meanings = []Key{{Good, "", "good"}, {Bad, "", "bad"}, {Culprit, "", "first bad"}, {Skipped, "", "not testable"}, {Other, "", "fails otherwise"}, {Unsure, "", "undecided"}, {"", "", "not judged"}}

// keys are the explanations of the states that some dots have, in a fixed order.
func keys(all ...[]Dot) (out []Key) {
	// The order is fixed, so that legends of different pictures read alike.
	for _, k := range meanings {
		for _, dots := range all {
			if slices.ContainsFunc(dots, func(d Dot) bool { return d.State == k.State }) && !slices.Contains(out, k) {
				out = append(out, k)
			}
		}
	}
	return out
}

// canvas collects the HTML of one picture. Places along an axis are shares of the width, 0 to 1; y and heights are in
// pixels, from the top.
type canvas struct {
	strings.Builder
	id, label string
}

// f appends markup. Texts among the arguments must have been escaped.
func (c *canvas) f(format string, args ...any) { fmt.Fprintf(c, format, args...) }

// legend explains colours and shapes; nothing is written where there is nothing to explain.
func (c *canvas) legend(keys []Key) {
	if len(keys) == 0 {
		return
	}
	c.f(`<ul class="keys">`)
	for _, k := range keys {
		c.f(`<li><svg width="14" height="14" aria-hidden="true">`)
		if k.Class != "" {
			c.f(`<rect class="%s" x="1" y="2" width="12" height="10"/>`, k.Class)
		} else {
			c.mark("50%", 7, k.State, "", "")
		}
		c.f(`</svg> %s</li>`, text(k.Text))
	}
	c.f(`</ul>`)
}

// mark draws the shape of a state centred at a place; x is a length of CSS. key is "" or what other marks are about
// too.
// One without a state is drawn hollow.
func (c *canvas) mark(x string, y float64, state State, key, title string) {
	if state == "" {
		state = "none"
	}
	c.f(`<use href="#m-%s" x="%s" y="%s"%s`, state, x, short(y), keyed(key))
	c.end("use", title)
}

// bar draws a rectangle between two places.
func (c *canvas) bar(from, to, y, height float64, class, key, title string) {
	c.f(`<rect class="%s" x="%s" y="%s" width="%s" height="%s"%s`, class, pc(from), short(y), pc(max(to-from, 0)), short(height), keyed(key))
	c.end("rect", title)
}

// line draws a line between two points, x being shares of the width.
func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	c.f(`<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, pc(x1), short(y1), pc(x2), short(y2))
}

// full draws a line across the whole height of a picture.
func (c *canvas) full(x float64, class string) {
	c.f(`<line class="%s" x1="%s" y1="0" x2="%s" y2="100%%"/>`, class, pc(x), pc(x))
}

// end closes an element that was opened without its ">", with a title for whoever points at it.
func (c *canvas) end(name, title string) {
	if title == "" {
		c.f(`/>`)
		return
	}
	c.f(`><title>%s</title></%s>`, text(title), name)
}

// word writes a text around a place; near the edges it is anchored so that it stays within the picture.
func (c *canvas) word(x, y float64, class, s string) {
	anchor := ""
	switch {
	case x < 0.12:
		anchor = ` text-anchor="start"`
	case x > 0.88:
		anchor = ` text-anchor="end"`
	}
	c.f(`<text class="%s" x="%s" y="%s"%s>%s</text>`, class, pc(x), short(y), anchor, text(s))
}

// words writes texts above their places, in as many lines as it takes for none to touch another on a phone, and
// returns the height that takes. With dry they are only measured. at turns a value into a place.
func (c *canvas) words(all []Line, at func(float64) float64, dry bool) float64 {
	// A page cannot measure text before it is shown, so the width of a phone is assumed.
	const height, wide = 16, 0.034 // of a line, and of a character on a phone
	var ends []float64
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b Line) int { return int(math.Copysign(1, a.At-b.At)) })
	for _, l := range sorted {
		if l.Text == "" {
			continue
		}
		x, half := at(l.At), wide*float64(len([]rune(l.Text)))/2
		from, to := x-half, x+half
		switch {
		case x < 0.12:
			from, to = x, x+2*half
		case x > 0.88:
			from, to = x-2*half, x
		}
		// The first line that has ended by here takes the text.
		row := slices.IndexFunc(ends, func(end float64) bool { return end <= from })
		if row < 0 {
			row, ends = len(ends), append(ends, 0)
		}
		if ends[row] = to; !dry {
			c.word(x, float64(row*height+12), l.class("mark"), l.Text)
		}
	}
	return float64(len(ends) * height)
}

// Line is a value to be marked across a picture; its text may be "".
type Line struct {
	At    float64
	Text  string
	Plain bool // a mere mark of the scale
}

// class is a class of the style sheet, which has another look for plain lines.
func (l Line) class(name string) string {
	if l.Plain {
		name += " plain"
	}
	return name
}

// text escapes s for XML and drops characters that XML does not allow or that are invisible.
func text(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r == 0xfffd || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, s))
}

// keyed is the attribute that links the marks about one thing; "" without a key.
func keyed(key string) string {
	if key == "" {
		return ""
	}
	return ` data-k="` + text(key) + `"`
}

// pc is a share of the width as a length of CSS.
func pc(share float64) string { return short(100*share) + "%" }

// short writes a number with at most two decimals, as pages have thousands of them; NaN and infinities, which would
// break the drawing, become 0.
func short(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "0"
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// Axis is a scale of values. With Log, Min must be above 0.
type Axis struct {
	Min, Max float64
	Log      bool
	Name     string // what the values are, with their unit
	Ratio    bool   // values are ratios, written as changes in per cent or, with Log, as multiples
}

// scale makes a scale that holds some values, with 6 % of room at either side; with zero it begins at 0 unless a value
// is below. Values that are not finite do not count.
func scale(name string, zero bool, values ...float64) Axis {
	a := Axis{Name: name, Min: math.Inf(1), Max: math.Inf(-1)}
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			a.Min, a.Max = min(a.Min, v), max(a.Max, v)
		}
	}
	if a.Min > a.Max {
		a.Min, a.Max = 0, 1
	}
	if zero {
		a.Min = min(0, a.Min)
	}
	// Marks have a size, and would be cut in half at the very edge.
	room := (a.Max - a.Min) * 0.06
	if room == 0 {
		room = max(math.Abs(a.Max)*0.02, 1e-12)
	}
	a.Max += room
	if a.Min != 0 || !zero {
		a.Min -= room
	}
	return a
}

// at is the place of a value on a scale, 0 to 1; values off the scale lie at its edge.
func (a Axis) at(v float64) float64 {
	low, high := a.Min, a.Max
	if a.Log {
		low, high, v = math.Log(low), math.Log(high), math.Log(v)
	}
	if high <= low {
		return 0
	}
	return min(max((v-low)/(high-low), 0), 1)
}

// ticks are the round values on a scale with their labels: 1, 2, 2.5 or 5 times a power of ten, about five of them; on
// a logarithmic scale 1, 2 and 5 times each power of ten, or over a wide range only the powers.
func (a Axis) ticks() (out []Line) {
	add := func(v float64, s string) {
		switch {
		case a.Ratio && a.Log:
			s = strconv.FormatFloat(v, 'g', 3, 64) + "×"
		case a.Ratio:
			s = change(v)
		}
		out = append(out, Line{At: v, Text: s})
	}
	if a.Log {
		steps := []float64{1, 2, 5}
		// Beyond two powers of ten there is no room for labels between them.
		if a.Max/a.Min > 100 {
			steps = steps[:1]
		}
		for e := math.Floor(math.Log10(a.Min)); e <= math.Ceil(math.Log10(a.Max)); e++ {
			for _, m := range steps {
				if v := m * math.Pow(10, e); v >= a.Min && v <= a.Max {
					add(v, strconv.FormatFloat(v, 'g', 6, 64))
				}
			}
		}
		return out
	}
	span := a.Max - a.Min
	if !(span > 0) || math.IsInf(span, 0) {
		return nil
	}
	power := math.Floor(math.Log10(span / 4))
	// The smallest round step of which at most five fit, with as many digits as it needs.
	step, digits := 0.0, 0
	for _, x := range []struct {
		times  float64
		digits int // behind the point, more than those of 1
	}{{1, 0}, {2, 0}, {2.5, 1}, {5, 0}, {10, -1}} {
		if step, digits = x.times*math.Pow(10, power), x.digits-int(power); span/step <= 5 {
			break
		}
	}
	digits = max(0, digits)
	for k := math.Ceil(a.Min/step - 1e-9); k*step <= a.Max+1e-9*span && len(out) < 8; k++ {
		v := k * step
		if k == 0 {
			v = 0 // and not -0
		}
		s := strconv.FormatFloat(v, 'f', digits, 64)
		// Longer labels would run into the picture.
		if math.Abs(v) >= 1e6 || digits > 6 {
			s = strconv.FormatFloat(v, 'e', 1, 64)
		}
		if v == 0 {
			s = "0"
		}
		add(v, s)
	}
	return out
}

// change writes a ratio as a change in per cent, or as a multiple where that reads better.
func change(ratio float64) string {
	// Per cent beyond that are harder to read than a factor.
	if ratio >= 3 || ratio < 0.2 {
		return strconv.FormatFloat(ratio, 'g', 3, 64) + "×"
	}
	s := strconv.FormatFloat(math.Round(1000*(ratio-1))/10, 'f', -1, 64)
	if ratio > 1 && s != "0" {
		s = "+" + s
	}
	return strings.Replace(s, "-", "−", 1) + " %"
}

// ratios is a scale of changes. No change (1) is always on it. A range beyond fourfold is shown as multiples,
// logarithmically.
func ratios(name string, values ...float64) Axis {
	a := scale(name, false, append(values, 1)...)
	a.Ratio = true
	if a.Max > 4 {
		low := 1.0
		for _, v := range values {
			if v > 0 {
				low = min(low, v)
			}
		}
		// A linear scale would press all small changes into one spot.
		a.Min, a.Log = low/1.1, true
	}
	return a
}
