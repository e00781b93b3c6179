package render

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"testing"
)

// colour is red, green and blue, linear, from 0 to 1.
type colour [3]float64

// colours are the variables of the style sheet by name, of the light and of the dark theme.
func colours(t *testing.T) (themes [2]map[string]colour) {
	t.Helper()
	css := file("page.css")
	blocks := regexp.MustCompile(`(?s)--page:.*?\n\s*\}`).FindAllString(css, -1)
	if len(blocks) != 3 { // light, dark by the system, dark by the button
		t.Fatalf("%d blocks of colours", len(blocks))
	}
	for i := range themes {
		themes[i] = map[string]colour{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): #([0-9a-f]{3,6});`).FindAllStringSubmatch(blocks[i], -1) {
			hex := m[2]
			if len(hex) == 3 {
				hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
			}
			n, err := strconv.ParseUint(hex, 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			for k := range 3 {
				v := float64(n>>(16-8*k)&255) / 255
				if v <= 0.04045 {
					v /= 12.92
				} else {
					v = math.Pow((v+0.055)/1.055, 2.4)
				}
				c := themes[i][m[1]]
				c[k] = v
				themes[i][m[1]] = c
			}
		}
	}
	return themes
}

// contrast is that of WCAG 2.2, 1 to 21.
func contrast(a, b colour) float64 {
	l := func(c colour) float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] + 0.05 }
	return max(l(a), l(b)) / min(l(a), l(b))
}

// seen are the ways in which people see colours: as they are, and without one of the three kinds of cones (Viénot,
// Brettel and Mollon 1999 for the first two, the plane of Brettel 1997 simplified for the third), on linear values.
var seen = map[string][3][3]float64{
	"everyone":     {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.11238, 0.88762, 0}, {0.11238, 0.88762, 0}, {0.00401, -0.00401, 1}},
	"deuteranopia": {{0.29275, 0.70725, 0}, {0.29275, 0.70725, 0}, {-0.02234, 0.02234, 1}},
	"tritanopia":   {{1.01277, 0.13548, -0.14826}, {-0.01243, 0.86812, 0.14431}, {0.07589, 0.805, 0.11911}},
}

// apart is how different two colours look: the distance in CIELAB.
func apart(a, b colour, by [3][3]float64) float64 {
	lab := func(c colour) (out colour) {
		var x colour
		for i := range 3 {
			x[i] = min(max(by[i][0]*c[0]+by[i][1]*c[1]+by[i][2]*c[2], 0), 1)
		}
		f := func(v float64) float64 {
			if v > 0.008856 {
				return math.Cbrt(v)
			}
			return 7.787*v + 16.0/116
		}
		fx := f((0.4124*x[0] + 0.3576*x[1] + 0.1805*x[2]) / 0.9505)
		fy := f(0.2126*x[0] + 0.7152*x[1] + 0.0722*x[2])
		fz := f((0.0193*x[0] + 0.1192*x[1] + 0.9505*x[2]) / 1.089)
		return colour{116*fy - 16, 500 * (fx - fy), 200 * (fy - fz)}
	}
	p, q := lab(a), lab(b)
	return math.Sqrt((p[0]-q[0])*(p[0]-q[0]) + (p[1]-q[1])*(p[1]-q[1]) + (p[2]-q[2])*(p[2]-q[2]))
}

// Texts can be read and marks be seen in both themes, and who sees fewer colours tells apart what lies side by side:
// the verdicts, which have shapes besides, and neighbours among the phases.
func TestColours(t *testing.T) {
	for i, c := range colours(t) {
		theme := []string{"light", "dark"}[i]
		for _, x := range []struct {
			of, on string
			least  float64
		}{
			{"ink", "card", 7}, {"muted", "card", 4.5}, {"muted", "page", 4.5}, {"bad", "card", 4.5}, {"link", "card", 4.5}, {"card", "ink", 7}, {"ink", "good-soft", 7}, {"ink", "bad-soft", 7}, {"muted", "soft", 4.5}, {"muted", "good-soft", 4.5}, {"muted", "bad-soft", 4.5},
			{"good", "card", 3}, {"skip", "card", 3}, {"other", "card", 3}, {"unsure", "card", 3}, {"better", "card", 3}, {"p0", "card", 3},
		} {
			if got := contrast(c[x.of], c[x.on]); got < x.least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, wanted is %g", theme, x.of, x.on, got, x.least)
			}
		}
		var pairs [][2]string
		for _, x := range []string{"good", "bad", "better"} {
			for _, y := range []string{"bad", "better", "skip"} {
				if x != y {
					pairs = append(pairs, [2]string{x, y})
				}
			}
		}
		for k := range 10 {
			pairs = append(pairs, [2]string{fmt.Sprintf("p%d", k), fmt.Sprintf("p%d", (k+1)%10)})
		}
		for who, by := range seen {
			for _, x := range pairs {
				if got := apart(c[x[0]], c[x[1]], by); got < 12 {
					t.Errorf("%s, %s: %s and %s are %.1f apart", theme, who, x[0], x[1], got)
				}
			}
		}
	}
}
