package web

import (
	"embed"
	"net/http"
)

//go:embed static
var static embed.FS

// Static serves /static/style.css and /static/live.js, which the pages of all
// applications share. The script reloads each element with the attribute
// data-live on each event of the page's event stream, which data-events of the
// body names.
func Static(mux *http.ServeMux) {
	mux.Handle("GET /static/", http.FileServerFS(static))
}
