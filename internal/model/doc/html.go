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

// The template escapes all that comes from the model; the page itself allows
// no scripts and fetches nothing.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"width":   width,
		"percent": percent,
		"add":     func(a, b int) int { return a + b },
		"join":    strings.Join,
	}).Parse(pageText))
})

// HTML writes the page as one file that needs no other.
func (p *Page) HTML(w io.Writer) error { return pageTemplate().Execute(w, p) }

// width is a share as the width of a bar: a little of what is there is always
// seen, and what is too much fills it.
func width(share float64) string {
	if share <= 0 {
		return "0"
	}
	return fmt.Sprintf("%.1f%%", min(100, max(0.5, 100*share)))
}
