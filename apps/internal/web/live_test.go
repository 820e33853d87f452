package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stator-db/stator/apps/internal/browsertest"
)

// A page that is left closes its event stream, although the browser keeps the page for its back button, and
// opens it again there: a browser has six connections to a server.
func TestPagesThatAreLeftCloseTheirStreams(t *testing.T) {
	var live Live
	var open, opened atomic.Int32
	mux := http.NewServeMux()
	Static(mux)
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		opened.Add(1)
		open.Add(1)
		defer open.Add(-1)
		live.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /pages/{page}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `<!doctype html><title>page</title><body data-events="/events"><p id="page" data-live>%s %d</p><script src="/static/live.js"></script>`,
			r.PathValue("page"), opened.Load())
	})
	site := httptest.NewServer(mux)
	t.Cleanup(site.Close)
	ctx := browsertest.Open(t)
	for n := range int32(8) {
		if err := chromedp.Do(ctx, chromedp.Navigate(fmt.Sprintf("%s/pages/%d", site.URL, n))); err != nil {
			t.Fatalf("page %d: %v, with %d streams", n, err, open.Load())
		}
		eventually(ctx, t, "the page alone has a stream", func() bool { return opened.Load() == n+1 && open.Load() == 1 })
	}
	// NavigateBack would wait for the page to load, which one that was kept does not.
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[any](`history.back()`)); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "the page before has a stream again", func() bool { return opened.Load() == 9 && open.Load() == 1 })
	live.Broadcast("changed")
	eventually(ctx, t, "the page before is reloaded", func() bool {
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.querySelector("#page").textContent`))
		return err == nil && text == "6 9"
	})
}

// eventually waits until a condition holds, for as long as the browser runs.
func eventually(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("it never holds that %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
