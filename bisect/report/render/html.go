package render

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html"
	"html/template"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kbisect/kbisect/bisect/report/chart"
	"github.com/kbisect/kbisect/bisect/report/page"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// web holds the template of the page (page.html), its style (page.css) and its script (page.js). The template decides
// what stands where, and can call only the functions that HTML gives it. Style and script know the classes and
// attributes that package chart writes; a class that is renamed there has to be renamed here.
//
//go:embed web
var web embed.FS

// HTML writes a page as one file that needs nothing else: pictures, style and script are in it. It is complete where
// scripts are off. The error is that of w.
//
// Pages hold what strangers wrote. html/template escapes every text by where it stands, and the content security
// policy lets no request leave the page and no script run except the one that is named by its hash. Only the functions
// that return template.HTML build markup themselves; each must escape its parts.
func HTML(w io.Writer, p page.Page) error {
	charts := 0
	t, err := template.New("page.html").Funcs(template.FuncMap{
		"row": rowState, "right": page.Table.Numeric, "rows": func(t page.Table) string { return words.Count(len(t.Rows), "row") },
		// Each picture has ids of its own: c1, c2 and so on in the order of the page, c0 for the strip.
		"draw": func(c page.Chart) template.HTML {
			charts++
			return template.HTML(chart.SVG(fmt.Sprintf("c%d", charts), words.Printable(c.Label), c.Picture)) // package chart escapes
		},
		// Rows and pictures that are "more", and tables behind a picture, are folded; each kind has its own place.
		"shown":   picked(func(r page.Row) bool { return r.More }),
		"charts":  picked(func(c page.Chart) bool { return c.More }),
		"tables":  picked(func(t page.Table) bool { return t.Detail }),
		"subject": func(r page.Row) bool { return r.Name == "commit" || r.Name == "culprit" },
		"again":   func(all []page.Row, i int) bool { return named(all, i) == "" },
		"strip":   strip, "heading": heading, "units": units, "fields": strings.Fields, "breaks": breaks,
		"details": func(all []page.Card) bool {
			return slices.ContainsFunc(all, func(c page.Card) bool {
				return slices.ContainsFunc(c.Rows, func(r page.Row) bool { return r.More })
			})
		},
	}).ParseFS(web, "web/page.html")
	if err != nil {
		return err
	}
	// The policy names the script by its hash, so both must come from the same text.
	script, style := file("page.js"), file("page.css")
	return t.Execute(w, struct {
		page.Page
		Policy string
		Style  template.CSS
		Script template.JS
		Badge  string
	}{p, policy(script), template.CSS(style), template.JS(script), strings.ReplaceAll(p.Result, "-", " ")})
}

// picked makes a function for the template that picks what is folded of some list, or what is not.
func picked[T any](is func(T) bool) func(all []T, wanted bool) []T {
	return func(all []T, wanted bool) []T {
		return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return is(x) != wanted })
	}
}

// strip draws the range in one line; "" where its order is not known.
func strip(s page.Strip) template.HTML {
	if len(s.States) == 0 {
		return ""
	}
	p := chart.Plane{Length: len(s.States), Flat: true, Strip: &chart.Strip{}}
	for at, state := range s.States {
		// Commits without a mark are drawn hollow by package chart.
		if state != "" {
			p.Strip.Marks = append(p.Strip.Marks, chart.Dot{X: float64(at), State: state, Key: fmt.Sprint(at), Title: fmt.Sprintf("commit %d: %s", at, state)})
		}
	}
	p.Strip.Shade = chart.Runs(s.Suspects)
	return template.HTML(chart.SVG("c0", fmt.Sprintf("The range from %s to %s: every commit", s.From, s.To), p))
}

// measured matches a number with what it counts, between which no line should break.
var measured = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(\d) (%|[nµmk]?s\b|times\b|[kMGT]i?B\b)`) })

// units ties numbers to their units with a space that does not break.
func units(s string) string { return measured().ReplaceAllString(s, "$1\u00a0$2") }

// breaks lets a long word of a command break behind a comma or colon; a browser would break it within a flag.
func breaks(word string) template.HTML {
	return template.HTML(strings.NewReplacer(",", ",<wbr>", ":", ":<wbr>").Replace(html.EscapeString(word)))
}

// policy is a content security policy that forbids everything except what the page holds itself; scripts are allowed
// by their hash.
func policy(scripts ...string) string {
	s := "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'; script-src"
	for _, x := range scripts {
		sum := sha256.Sum256([]byte(x))
		s += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return s
}

// file is an embedded file. It is there, or the program would not have been built.
func file(name string) string {
	data, err := web.ReadFile("web/" + name)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// rowState is the state of row i of a table, which decides its colour and symbol; "" for none.
func rowState(t page.Table, i int) page.State {
	if i < len(t.States) {
		return t.States[i]
	}
	return ""
}

// heading is the answer or, where there are several, what they have in common; names between backquotes become code.
func heading(p page.Page) template.HTML {
	text := p.Headline
	// A single card has its headline here and nowhere else on the page.
	if len(p.Cards) == 1 {
		text = p.Cards[0].Head
	}
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		if part = html.EscapeString(part); i%2 == 1 {
			part = "<code>" + part + "</code>"
		}
		b.WriteString(part)
	}
	return template.HTML(units(b.String())) // its parts are escaped
}
