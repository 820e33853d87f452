package web

import (
	"embed"
	"net/http"
)

//go:embed static
var static embed.FS

// Static serves /static/style.css and /static/live.js, which the pages of all
// applications share. The script reloads each element with the attribute
// data-live when the page's event stream, named by data-events of the body,
// tells something.
func Static(mux *http.ServeMux) {
	mux.Handle("GET /static/", http.FileServerFS(static))
}
