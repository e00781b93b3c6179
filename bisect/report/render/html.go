package render

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/kbisect/kbisect/bisect/report/page"
	"github.com/kbisect/kbisect/bisect/report/words"
)

// web holds the template of the page, its style and script, and the charting library with the licences.
//
//go:embed web
var web embed.FS

// library is the charting library as its makers publish it, packed.
const library = "web/echarts-6.1.0.min.js.gz"

// HTML writes a page as one file that needs nothing else: scripts, styles and data are in it, and its
// content security policy lets no request leave it and no script run but the two that are named by
// their hashes, whatever a commit message or a program's output holds. Text is escaped by html/template, by where it
// stands.
func HTML(w io.Writer, p page.Page) error {
	t, err := template.New("page.html").Funcs(template.FuncMap{
		"row": rowState, "right": func(t page.Table, i int) bool { return slices.Contains(t.Right, i) }, "rows": func(t page.Table) string { return words.Count(len(t.Rows), "row") },
		"chart": func() func() int { n := -1; return func() int { n++; return n } }(),
	}).ParseFS(web, "web/page.html")
	if err != nil {
		return err
	}
	data, err := json.Marshal(charts(p)) // escapes <, > and &, so that nothing ends the element early
	if err != nil {
		return fmt.Errorf("the charts of session %s: %w", p.Session, err)
	}
	echarts, err := unpacked(library)
	if err != nil {
		return err
	}
	script, style, licences := file("page.js"), file("page.css"), file("licences.txt")
	return t.Execute(w, struct {
		page.Page
		Policy         string
		Style          template.CSS
		Data           template.JS
		Charts, Script template.JS
		Licences       string
		Badge          string
	}{
		p, policy(echarts, script), template.CSS(style), template.JS(data), template.JS(echarts), template.JS(script), licences,
		strings.ReplaceAll(p.Result, "-", " "),
	})
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

// charts are the charts of all sections, in the order in which the template numbers them.
func charts(p page.Page) []page.Chart {
	out := []page.Chart{}
	for _, s := range p.Sections {
		out = append(out, s.Charts...)
	}
	return out
}

// file is an embedded file, which is there or the program would not have been built.
func file(name string) string {
	data, err := web.ReadFile("web/" + name)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// unpacked is an embedded file as it was before it was compressed.
func unpacked(name string) (string, error) {
	data, err := web.ReadFile(name)
	if err != nil {
		return "", err
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(z)
	return string(text), err
}

// rowState is the state of row i, which decides its colour and symbol.
func rowState(t page.Table, i int) page.State {
	if i < len(t.States) {
		return t.States[i]
	}
	return ""
}
