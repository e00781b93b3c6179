package chart

import (
	"fmt"
	"math"
)

// Rows is a picture of rows that share one scale: bars, intervals, dots, lanes in time. All values in it are on Axis,
// except those of a Trace.
type Rows struct {
	Axis  Axis
	Rows  []Row
	Keys  []Key
	Lines []Line      // across all rows
	Band  *[2]float64 // values between which nothing matters
	Lanes bool        // rows are narrow lanes with short names
}

// Row is one of the rows; whatever of Bars, Dots, Span and Trace is set is drawn.
type Row struct {
	Group string // a heading where it changes
	State State  // a mark before the name; "" for none
	Name  string
	Value string // behind the row
	Key   string // of what marks elsewhere are about as well
	Bars  []Bar
	Dots  []Dot
	Span  *Span
	Trace []Dot // a line through points of a second scale
	Scale *Axis // of Trace
}

// Bar is a bar between two values of the axis.
type Bar struct {
	From, To float64
	Class    string // f-0 to f-9 or f-STATE
	Key      string
	Title    string
}

// Dot is a point. X is a value of the axis in a row and a place in a plane; Y counts only in a plane and in a trace. A
// dot without a state is hollow; in a trace it is a small point, drawn only where it has a title.
type Dot struct {
	X, Y  float64
	State State
	Key   string
	Title string
}

// Span is an interval with its middle; bounds that are not finite are not drawn.
type Span struct {
	Low, Mid, High float64
	At             float64 // in a Plane: the place
	State          State
	Title          string
	Key            string
}

// finite reports whether all values have a place on a scale.
func finite(values ...float64) bool {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// draw lays rows out in a grid of three columns, name, picture and value, which the style sheet folds into two on a
// phone; "r", "n" and "v" are the classes of a row and its cells. Grid, band and lines are drawn once, in a hidden
// head row, and used by every row.
func (r Rows) draw(c *canvas) {
	c.legend(r.Keys)
	class := "rows"
	if r.Lanes {
		class += " lanes"
	}
	c.f(`<div class="%s" role="group" aria-label="%s" tabindex="0">`, class, text(c.label))
	// Grid and labels share them.
	ticks := r.Axis.ticks()
	head := c.words(r.Lines, r.Axis.at, true)
	c.f(`<div class="r head" aria-hidden="true"><span></span><svg height="%s"><defs><g id="%s-grid">`, short(head+1), c.id)
	if r.Band != nil {
		from, to := r.Axis.at(r.Band[0]), r.Axis.at(r.Band[1])
		c.f(`<rect class="band" x="%s" width="%s" height="100%%"/>`, pc(from), pc(to-from))
	}
	for _, t := range ticks {
		c.full(r.Axis.at(t.At), "grid")
	}
	for _, l := range r.Lines {
		c.full(r.Axis.at(l.At), l.class("rule"))
	}
	c.f(`</g></defs>`)
	c.words(r.Lines, r.Axis.at, false)
	c.f(`</svg><span></span></div>`)
	group := ""
	for _, x := range r.Rows {
		if x.Group != group {
			group = x.Group
			c.f(`<h3>%s</h3>`, text(group))
		}
		r.row(c, x)
	}
	c.f(`<div class="r axis" aria-hidden="true"><span></span><svg height="18">`)
	for _, t := range ticks {
		c.word(r.Axis.at(t.At), 13, "tick", t.Text)
	}
	c.f(`</svg><span></span></div>`)
	if r.Axis.Name != "" {
		c.f(`<p class="axis-name">%s</p>`, text(r.Axis.Name))
	}
	c.f(`</div>`)
}

// row draws one row. Dots alternate between three heights so that equal values stay apart, and a bar has at least a
// thousandth of the width so that it can be seen and pointed at.
func (r Rows) row(c *canvas, x Row) {
	const tall, high = 24.0, 44.0
	height := tall
	if x.Trace != nil {
		height = high
	}
	if r.Lanes && x.Trace == nil {
		height = 18
	}
	c.f(`<div class="r"%s><span class="n">`, keyed(x.Key))
	if x.State != "" {
		c.f(`<svg width="14" height="14" aria-hidden="true">`)
		c.mark("50%", 7, x.State, "", "")
		c.f(`</svg> `)
	}
	c.f(`%s</span><svg height="%s" aria-hidden="true"><use href="#%s-grid"/>`, text(x.Name), short(height), c.id)
	for _, b := range x.Bars {
		y, h := 4.0, height-8
		if r.Lanes {
			y, h = 2, height-4
		}
		// A bar of no width can neither be seen nor pointed at.
		from, to := r.Axis.at(b.From), r.Axis.at(b.To)
		c.bar(from, max(to, from+0.001), y, h, b.Class, b.Key, b.Title)
	}
	if s := x.Span; s != nil && finite(s.Low, s.High) {
		a, b := r.Axis.at(s.Low), r.Axis.at(s.High)
		c.f(`<g class="span s-%s">`, s.State)
		c.line(a, height/2, b, height/2, "")
		c.line(a, height/2-4, a, height/2+4, "")
		c.line(b, height/2-4, b, height/2+4, "")
		c.f(`</g>`)
	}
	for i, d := range x.Dots {
		y := height / 2
		if n := len(x.Dots); n > 1 {
			y += float64(i%3-1) * 4
		}
		c.mark(pc(r.Axis.at(d.X)), y, d.State, d.Key, d.Title)
	}
	// The median comes last, so that no launch covers it.
	if s := x.Span; s != nil && finite(s.Mid) {
		m := r.Axis.at(s.Mid)
		c.f(`<line class="median s-%s" x1="%s" y1="%s" x2="%s" y2="%s"%s`, s.State, pc(m), short(height/2-7), pc(m), short(height/2+7), keyed(s.Key))
		c.end("line", s.Title)
	}
	if x.Trace != nil {
		r.trace(c, x, height)
	}
	c.f(`</svg><span class="v">%s</span></div>`, text(x.Value))
}

// trace draws a line through points. The line is stretched to the width of the row, which would distort marks; so
// these are drawn outside of it, in per cent.
func (r Rows) trace(c *canvas, x Row, height float64) {
	at := func(d Dot) (float64, float64) { return r.Axis.at(d.X), (height - 8) * (1 - x.Scale.at(d.Y)) }
	c.f(`<svg y="4" width="100%%" height="%s" viewBox="0 0 1000 %s" preserveAspectRatio="none"><path class="trace" d="`, short(height-8), short(height-8))
	// One path for the whole trace: a line for each pair of points would make pages much larger.
	for i, d := range x.Trace {
		a, b := at(d)
		command := "L"
		if i == 0 {
			command = "M"
		}
		c.f(`%s%s %s`, command, short(1000*a), short(b))
	}
	c.f(`"/></svg>`)
	for _, d := range x.Trace {
		a, b := at(d)
		switch {
		case d.State != "":
			c.mark(pc(a), b+4, d.State, d.Key, d.Title)
		case d.Title != "":
			c.f(`<circle class="dot" cx="%s" cy="%s" r="2.5"%s`, pc(a), short(b+4), keyed(d.Key))
			c.end("circle", d.Title)
		}
	}
}

// Matrix is a table of sets: a column for each flag, filled where the set has it.
type Matrix struct {
	Columns []string
	Rows    []MatrixRow
}

// MatrixRow is one set; a cell is what is set, "" for what is at its base.
type MatrixRow struct {
	State State
	Name  string // the answer
	Title string
	Cells []string
}

// draw writes an HTML table, which scrolls on a phone. A cell at its base is empty to the eye and says "base" to a
// screen reader.
func (m Matrix) draw(c *canvas) {
	c.f(`<div class="scroll" tabindex="0" role="region" aria-label="%s"><table class="matrix"><thead><tr>`, text(c.label))
	for _, x := range m.Columns {
		c.f(`<th scope="col"><span>%s</span></th>`, text(x))
	}
	c.f(`<th scope="col">answer</th></tr></thead><tbody>`)
	for _, r := range m.Rows {
		// The title is what else is known of the test, for whoever points at its row.
		c.f(`<tr title="%s">`, text(r.Title))
		for i, cell := range r.Cells {
			if cell == "" {
				c.f(`<td class="off"><span class="hidden">base</span></td>`)
				continue
			}
			c.f(`<td class="on c-%s" title="%s"><span>%s</span></td>`, r.State, text(fmt.Sprintf("%s=%s", m.Columns[i], cell)), text(cell))
		}
		c.f(`<td class="answer-cell"><svg width="14" height="14" aria-hidden="true">`)
		c.mark("50%", 7, r.State, "", "")
		c.f(`</svg> %s</td></tr>`, text(r.Name))
	}
	c.f(`</tbody></table></div>`)
}
