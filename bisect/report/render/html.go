package render

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect/report/chart"
	"github.com/kbisect/kbisect/bisect/report/page"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// web holds the template of the page, its style and its script.
//
//go:embed web
var web embed.FS

// HTML writes a page as one file that needs nothing else: pictures, style and script are in it, and its
// content security policy lets no request leave it and no script run but the one that is named by
// its hash, whatever a commit message or a program's output holds. It is complete where scripts are off. Text is
// escaped by html/template, by where it stands.
func HTML(w io.Writer, p page.Page) error {
	charts := 0
	t, err := template.New("page.html").Funcs(template.FuncMap{
		"row": rowState, "right": func(t page.Table, i int) bool { return slices.Contains(t.Right, i) }, "rows": func(t page.Table) string { return words.Count(len(t.Rows), "row") },
		"draw": func(c page.Chart) template.HTML {
			charts++
			return template.HTML(chart.SVG(fmt.Sprintf("c%d", charts), words.Printable(c.Label), c.Picture)) // package chart escapes
		},
	}).ParseFS(web, "web/page.html")
	if err != nil {
		return err
	}
	script, style := file("page.js"), file("page.css")
	return t.Execute(w, struct {
		page.Page
		Policy string
		Style  template.CSS
		Script template.JS
		Badge  string
	}{p, policy(script), template.CSS(style), template.JS(script), strings.ReplaceAll(p.Result, "-", " ")})
}

// policy forbids everything but what the page holds itself.
func policy(scripts ...string) string {
	s := "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'; script-src"
	for _, x := range scripts {
		sum := sha256.Sum256([]byte(x))
		s += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return s
}

// file is an embedded file, which is there or the program would not have been built.
func file(name string) string {
	data, err := web.ReadFile("web/" + name)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// rowState is the state of row i, which decides its colour and symbol.
func rowState(t page.Table, i int) page.State {
	if i < len(t.States) {
		return t.States[i]
	}
	return ""
}
