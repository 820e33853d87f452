package doc

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"
)

//go:embed page.html
var pageText string

// The template escapes all text of the model; the page has no scripts and loads
// nothing.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"width":   width,
		"percent": percent,
		"add":     func(a, b int) int { return a + b },
		"join":    strings.Join,
	}).Parse(pageText))
})

// HTML writes the page as one self-contained file.
func (p *Page) HTML(w io.Writer) error { return pageTemplate().Execute(w, p) }

// width is a share as the width of a bar: a share above 0 is always visible,
// and one above 1 fills the bar.
func width(share float64) string {
	if share <= 0 {
		return "0"
	}
	return fmt.Sprintf("%.1f%%", min(100, max(0.5, 100*share)))
}
