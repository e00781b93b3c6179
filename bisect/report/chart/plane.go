package chart

import (
	"fmt"

	"github.com/kbisect/kbisect/bisect/report/words"
)

// Plane is values at places along a range of commits, with a strip of all the commits below. Places count from 0, the
// good end.
type Plane struct {
	Length int // places
	Name   string
	Y      Axis
	Places []string // their names; nil: their numbers
	Dots   []Dot    // X is a place
	Spans  []Span
	Level  []Dot  // steps between places
	Heads  []Line // places to be marked, such as culprits
	Limit  *Line  // a value
	Keys   []Key
	Strip  *Strip
	Flat   bool // no values: only the strip
}

// Strip is the range of commits: what was tested has a mark, what was not is hollow. A run of Shade holds its first
// and its last place.
type Strip struct {
	Marks []Dot    // X is a place
	Shade [][2]int // places that may hold the culprit
}

// Runs joins neighbours among places, which must be sorted, into runs [first, last].
func Runs(places []int) (out [][2]int) {
	for _, at := range places {
		if n := len(out); n > 0 && out[n-1][1] >= at-1 {
			out[n-1][1] = at
			continue
		}
		out = append(out, [2]int{at, at})
	}
	return out
}

// place is the middle of a place on the axis, as a share of the width.
func (p Plane) place(at float64) float64 { return (at + 0.5) / float64(max(p.Length, 1)) }

// draw stacks, from the top: legend, name of the values, heads, values, strip, and the numbers of the places. The
// labels of the values stand left of the picture, in the padding that the style sheet gives a plane. A flat plane has
// no values.
func (p Plane) draw(c *canvas) {
	const tall, strip = 220.0, 34.0
	if p.Strip != nil && len(p.Keys) == 0 {
		p.Keys = keys(p.Strip.Marks)
	}
	c.legend(p.Keys)
	if !p.Flat && p.Y.Name != "" {
		c.f(`<p class="axis-name y">%s</p>`, text(p.Y.Name))
	}
	// Heads may take several lines, so their height is measured before anything is drawn.
	top := c.words(p.Heads, p.place, true) + 4
	bottom := top
	if !p.Flat {
		bottom += tall
	}
	end := bottom
	if p.Strip != nil {
		end += strip
	}
	class := "plane"
	if p.Flat {
		class += " flat"
	}
	c.f(`<div class="%s" role="group" aria-label="%s" tabindex="0"><svg height="%s" aria-hidden="true">`, class, text(c.label), short(end+20))
	c.words(p.Heads, p.place, false)
	y := func(v float64) float64 { return top + tall*(1-p.Y.at(v)) }
	for _, l := range p.Heads {
		c.line(p.place(l.At), top, p.place(l.At), bottom, "rule")
	}
	if !p.Flat {
		for _, t := range p.Y.ticks() {
			c.line(0, y(t.At), 1, y(t.At), "grid")
			c.f(`<text class="tick" x="-8" y="%s" text-anchor="end">%s</text>`, short(y(t.At)+4), text(t.Text))
		}
		if l := p.Limit; l != nil && l.At <= p.Y.Max {
			c.line(0, y(l.At), 1, y(l.At), "rule")
			c.f(`<text class="mark" x="4" y="%s" text-anchor="start">%s</text>`, short(y(l.At)-4), text(l.Text))
		}
		// Levels are steps, not slopes: a commit has one level until the next one changes it.
		for i := 1; i < len(p.Level); i++ {
			a, b := p.Level[i-1], p.Level[i]
			c.line(p.place(a.X), y(a.Y), p.place(b.X), y(a.Y), "level")
			c.line(p.place(b.X), y(a.Y), p.place(b.X), y(b.Y), "level")
		}
		for _, s := range p.Spans {
			if !finite(s.Mid) {
				continue
			}
			x := p.place(s.At)
			c.f(`<g class="span s-%s">`, s.State)
			if finite(s.Low, s.High) {
				c.line(x, y(s.Low), x, y(s.High), "")
			}
			c.mark(pc(x), y(s.Mid), "tick", s.Key, s.Title)
			c.f(`</g>`)
		}
		for _, d := range p.Dots {
			if finite(d.Y) {
				c.mark(pc(p.place(d.X)), y(d.Y), d.State, d.Key, d.Title)
			}
		}
	}
	if p.Strip != nil {
		p.strip(c, *p.Strip, bottom+4, strip-8)
	}
	for _, at := range p.ticks() {
		label := fmt.Sprint(at)
		if at < len(p.Places) {
			label = p.Places[at]
		}
		c.word(p.place(float64(at)), end+15, "tick", label)
	}
	c.f(`</svg></div>`)
	if p.Name != "" {
		c.f(`<p class="axis-name">%s</p>`, text(p.Name))
	}
}

// ticks are round places.
func (p Plane) ticks() (out []int) {
	if p.Length == 0 {
		return nil
	}
	for _, t := range (Axis{Min: 0, Max: float64(p.Length - 1)}).ticks() {
		if at := int(t.At); float64(at) == t.At {
			out = append(out, at)
		}
	}
	if len(out) == 0 {
		out = []int{0}
	}
	return out
}

// mostHollow is how many untested commits are drawn one by one; of more, every second or third is.
const mostHollow = 1000

// strip draws every commit. The hollow ones are one path, stretched to the width, so that a long range takes few
// bytes; marks keep their shape.
func (p Plane) strip(c *canvas, s Strip, y, height float64) {
	for _, r := range s.Shade {
		c.bar(p.place(float64(r[0])-0.5), p.place(float64(r[1])+0.5), y, height, "suspects", "", words.Count(r[1]-r[0]+1, "suspect"))
	}
	// What was tested has a mark of its own, and would show through a hollow one.
	tested := map[int]bool{}
	for _, m := range s.Marks {
		tested[int(m.X)] = true
	}
	c.line(0, y+height/2, 1, y+height/2, "grid")
	c.f(`<svg y="%s" width="100%%" height="%s" viewBox="0 0 1000 %s" preserveAspectRatio="none"><path class="hollow" d="`, short(y), short(height), short(height))
	step := (p.Length + mostHollow - 1) / mostHollow
	for i := 0; i < p.Length; i += max(step, 1) {
		if !tested[i] {
			c.f("M%s 8v%s", short(1000*p.place(float64(i))), short(height-16))
		}
	}
	c.f(`"/></svg>`)
	for _, culprits := range []bool{false, true} { // what is drawn last lies on top
		for _, m := range s.Marks {
			if culprits == (m.State == Culprit) {
				c.mark(pc(p.place(m.X)), y+height/2, m.State, m.Key, m.Title)
			}
		}
	}
}

// Belief is where the culprit was thought to be, a row for each step of a search, the first step on top. Length is the
// number of places.
type Belief struct {
	Length int
	Name   string
	Steps  []Believed
	Heads  []Line // places to be marked
}

// Believed is one step: the commit that was looked at, and runs of commits with the probability that the culprit is
// among them.
type Believed struct {
	Look  Dot // X is a place
	Words string
	Runs  []Mass
}

// Mass is the probability P that the culprit lies at one of the places From to To, both included.
type Mass struct {
	From, To int
	P        float64
}

// draw makes a row for each step, thinner the more there are; rows below 9 pixels have no mark of the commit that was
// looked at. The slider stays hidden until the script of the page serves it: it shows the first steps, and the words
// of the last of these.
func (b Belief) draw(c *canvas) {
	p := Plane{Length: b.Length}
	height := min(16, max(5, 420/float64(max(len(b.Steps), 1))))
	top := c.words(b.Heads, p.place, true) + 4
	end := top + height*float64(len(b.Steps))
	c.f(`<p class="replay" hidden><label>Step <input type="range" min="1" max="%d" value="%d"></label> <output></output></p>`, len(b.Steps), len(b.Steps))
	c.f(`<div class="plane belief" role="group" aria-label="%s" tabindex="0"><svg height="%s" aria-hidden="true">`, text(c.label), short(end+20))
	c.words(b.Heads, p.place, false)
	for _, l := range b.Heads {
		c.line(p.place(l.At), top, p.place(l.At), end, "rule")
	}
	for i, s := range b.Steps {
		y := top + height*float64(i)
		c.f(`<g class="step" data-words="%s"><rect class="back" x="0" y="%s" width="100%%" height="%s"/>`, text(s.Words), short(y), short(height))
		most := 0.0
		for _, m := range s.Runs {
			// The likeliest single commit of this step sets the darkest shade.
			most = max(most, m.P/float64(m.To-m.From+1))
		}
		for _, m := range s.Runs {
			n := m.To - m.From + 1
			title := fmt.Sprintf("%d commits, together %s", n, words.Percent(m.P))
			if n == 1 {
				title = "one commit, " + words.Percent(m.P)
			}
			// Darkness is the probability of a single commit against that of the likeliest one in this step: in the
			// first steps every commit is unlikely, and the shares of all of them would be too light to see.
			shade := 0.04 + 0.96*m.P/float64(n)/most
			from, to := p.place(float64(m.From)-0.5), p.place(float64(m.To)+0.5)
			c.f(`<rect class="mass" x="%s" y="%s" width="%s" height="%s" fill-opacity="%s"`, pc(from), short(y+1), pc(max(to-from, 0.004)), short(height-1.5), short(shade))
			c.end("rect", fmt.Sprintf("step %d: %s", i+1, title))
		}
		if height >= 9 {
			c.mark(pc(p.place(s.Look.X)), y+height/2, s.Look.State, s.Look.Key, s.Words)
		}
		c.f(`</g>`)
		if every := max(1, len(b.Steps)/8); i%every == 0 {
			c.f(`<text class="tick" x="-8" y="%s" text-anchor="end">%d</text>`, short(y+height/2+4), i+1)
		}
	}
	for _, at := range p.ticks() {
		c.word(p.place(float64(at)), end+15, "tick", fmt.Sprint(at))
	}
	c.f(`</svg></div>`)
	if b.Name != "" {
		c.f(`<p class="axis-name">%s</p>`, text(b.Name))
	}
}
