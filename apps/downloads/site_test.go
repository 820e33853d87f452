package downloads_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/upstream/stand"
	"github.com/stator-db/stator/apps/internal/browsertest"
)

// The page, the API, /metrics and /healthz.
func TestSite(t *testing.T) {
	r := start(t, nil)
	r.up.Fault("accounts", "forgedkey", 1)
	h := r.Handler()
	if code, text := get(t, h, "GET", "/?date="+r.date); code != 200 || !strings.Contains(text, "No batch for this day") {
		t.Errorf("an empty day: %d %s", code, text)
	}
	code, text := get(t, h, "POST", "/api/days/"+r.date+"/batches")
	if code != 200 || !strings.Contains(text, `{"batch":"batch-`+r.date) {
		t.Fatalf("a trigger: %d %s", code, text)
	}
	id := text[len(`{"batch":"`):strings.LastIndex(text, `"`)]
	b := r.end(id)
	if b.Status != ledger.Failed || len(b.FailedFiles) != 1 {
		t.Errorf("the batch is %+v", b)
	}
	code, text = get(t, r.Handler(), "GET", "/?date="+r.date)
	for _, want := range []string{id, "1 of 10 files failed", "not wrapped for our RSA key", "transactions-" + r.date} {
		if code != 200 || !strings.Contains(text, want) {
			t.Errorf("the page does not have %q: %d %s", want, code, text)
		}
	}
	if strings.Contains(text, "signature=") {
		t.Error("the page shows a pre-signed URL")
	}
	if code, text = get(t, h, "GET", "/api/days/"+r.date); code != 200 || !strings.Contains(text, `"status":"failed"`) {
		t.Errorf("the day: %d %s", code, text)
	}
	for target, want := range map[string]string{"/metrics": `downloads_files{status="error"} 1`, "/api/counts": `"completed":9`, "/api/days/" + r.date + "?files": "not wrapped for our RSA key",
		"/months/" + r.date[:7]: "accounts-" + r.date, "/api/months/" + r.date[:7]: `"missing":["accounts-` + r.date, "/api/months/" + r.date[:7] + ".csv": r.date + ",incomplete,accounts-" + r.date + ",false,false," + id,
		"/files/accounts-" + r.date: "Queue again", "/healthz": "ok", "/static/style.css": "{", "/downloads.css": ".batch"} {
		code, text := get(t, h, "GET", target)
		for end := time.Now().Add(time.Minute); !strings.Contains(text, want) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			code, text = get(t, h, "GET", target) // counts may be two seconds old
		}
		if code != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d without %q", target, code, want)
		}
	}
	for _, c := range []struct {
		method, target string
		code           int
	}{
		{"GET", "/?date=yesterday", 400}, {"GET", "/api/days/x", 400}, {"POST", "/api/days/2026-02-30/batches", 400}, {"POST", "/api/days/1999-01-01/batches", 400},
		{"POST", "/api/days/..%2f..%2f/batches", 400}, {"POST", "/trigger?date=x", 400}, {"GET", "/nothing", 404}, {"PUT", "/api/days/" + r.date, 405},
		{"GET", "/months/March", 400}, {"GET", "/api/months/March.csv", 400}, {"GET", "/files/nothing", 404}, {"POST", "/requeue?date=x", 400}, {"POST", "/requeue?date=" + r.date, 400},
		{"POST", "/requeue?date=" + r.date + "&file=cards-" + r.date, 409},
	} {
		if code, text := get(t, h, c.method, c.target); code != c.code {
			t.Errorf("%s %s: %d %s", c.method, c.target, code, text)
		}
	}
}

// A failed file is queued again from the page: it is sent at once, and its batch ends
// again. A file whose downloader is alive is not.
func TestRequeueFromPage(t *testing.T) {
	r := start(t, func(o *downloads.Options, _ *stand.Options) { o.Resend = time.Hour })
	r.up.Fault("accounts", "forgedkey", 1)
	r.up.Fault("cards", "forgedsum", 1)
	h := r.Handler()
	first := r.batch()
	if first.Status != ledger.Failed || len(first.FailedFiles) != 2 {
		t.Fatalf("the batch is %+v", first)
	}
	if code, text := get(t, h, "GET", "/?date="+r.date); code != 200 || strings.Count(text, "<button") != 4 || !strings.Contains(text, `class="bad" x="80%" width="20%"`) {
		t.Errorf("the page of a failed day: %d %s", code, text)
	}
	if code, text := get(t, h, "POST", "/requeue?date="+r.date+"&batch="+first.BatchID); code != 303 {
		t.Errorf("queue failed files again: %d %s", code, text)
	}
	b := r.end(first.BatchID)
	for b.Status == ledger.Failed { // it may have ended between the two statuses
		b = r.end(first.BatchID)
	}
	if b.Status != ledger.Completed || len(b.CompletedFiles) != 10 {
		t.Errorf("the batch is %+v", b)
	}
	j := ledger.Job{FileID: ledger.FileID("alive", r.date), BatchID: "b", Entity: "alive", DownloadDate: r.date}
	if _, err := r.Jobs.Queue(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Jobs.Claim(t.Context(), j.FileID, "mine"); err != nil {
		t.Fatal(err)
	}
	if code, text := get(t, h, "POST", "/requeue?date="+r.date+"&file="+j.FileID); code != 409 || !strings.Contains(text, "its downloader is alive") {
		t.Errorf("queue a live file again: %d %s", code, text)
	}
}

// The progress of a batch that runs: what the page, the API and the counts show.
func TestProgress(t *testing.T) {
	hold := make(chan struct{})
	r := start(t, func(o *downloads.Options, u *stand.Options) { o.Parallel, o.Stall, u.Hold = 3, time.Minute, hold })
	id, err := r.Keeper.Trigger(t.Context(), r.date)
	if err != nil {
		t.Fatal(err)
	}
	line := func() downloads.BatchLine {
		t.Helper()
		lines, err := downloads.Day(t.Context(), r.Jobs, r.Batches, r.date, "", true)
		if err != nil || len(lines) != 1 {
			t.Fatalf("%v, %v", lines, err)
		}
		return lines[0]
	}
	for line().Counts[ledger.Downloading] < 3 || line().Status != ledger.Queued {
		time.Sleep(5 * time.Millisecond)
	}
	if l := line(); l.Expected != 10 || l.Counts[ledger.Available] != 7 || l.Open != 10 || l.Completed != 0 || len(l.Files) != 10 {
		t.Errorf("the batch is %+v", l)
	}
	if code, text := get(t, r.Handler(), "GET", "/?date="+r.date); code != 200 || !strings.Contains(text, "<b>3</b> downloading") || !strings.Contains(text, "<b>7</b> waiting") {
		t.Errorf("the page: %d %s", code, text)
	}
	if code, text := get(t, r.Handler(), "GET", "/metrics"); code != 200 || !strings.Contains(text, `downloads_files{status="available"} 7`) || !strings.Contains(text, "downloads_running 1") {
		t.Errorf("the metrics: %d %s", code, text)
	}
	close(hold)
	r.end(id)
	if l := line(); l.Completed != 10 || l.Open != 0 {
		t.Errorf("at the end the batch is %+v", l)
	}
}

// No page is wider than a phone, the reason of a failed file is within the screen, and
// all controls have a label.
func TestPagesFitAPhone(t *testing.T) {
	r := start(t, nil)
	r.up.Fault("accounts", "forgedkey", 1)
	_, text := get(t, r.Handler(), "POST", "/api/days/"+r.date+"/batches")
	r.end(text[len(`{"batch":"`):strings.LastIndex(text, `"`)])
	site := httptest.NewServer(r.Handler())
	t.Cleanup(site.Close) // after the browser, whose pages wait for events
	paths := []string{"/", "/?date=" + r.date, "/?date=2020-01-01", "/months/" + r.date[:7], "/files/accounts-" + r.date, "/files/nonsense", "/nowhere"}
	ctx := browsertest.Open(t)
	browsertest.FitsAPhone(ctx, t, site.URL, paths, func(path string) {
		if path == "/?date="+r.date {
			right, err := chromedp.Run(ctx, chromedp.Evaluate[float64](`document.querySelector("td .reason").getBoundingClientRect().right`))
			if err != nil || right > browsertest.Phone {
				t.Errorf("the reason ends at pixel %v, %v", right, err)
			}
		}
		if path == "/files/accounts-"+r.date {
			right, err := chromedp.Run(ctx, chromedp.Evaluate[float64](`Math.max(...[...document.querySelectorAll("table.fields td")].map(e => e.getBoundingClientRect().right))`))
			if err != nil || right > browsertest.Phone {
				t.Errorf("a value of the file ends at pixel %v, %v", right, err)
			}
		}
	})
}

// In a browser the page updates by itself.
func TestPageIsLive(t *testing.T) {
	r := open(t, nil)
	listener := httptest.NewUnstartedServer(http.NotFoundHandler()).Listener
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, listener) }()
	defer func() { stop(); <-done }()
	tab := browsertest.Open(t)
	if err := chromedp.Do(tab,
		chromedp.Navigate("http://"+listener.Addr().String()+"/?date="+r.date),
		chromedp.WaitVisible(".empty"),
		chromedp.Submit("header form"),
		chromedp.WaitVisible(".batch .status.good"),
	); err != nil {
		t.Fatalf("the page does not update: %v", err)
	}
	text, err := chromedp.Run(tab, chromedp.Text("#files"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "accounts-"+r.date) {
		t.Errorf("the files are %q", text)
	}
}

// What is wrong with a request of a browser is shown on a page, with a way back.
func TestErrorPages(t *testing.T) {
	r := open(t, nil)
	later := time.Now().UTC().AddDate(1, 0, 0).Format(time.DateOnly)
	for _, c := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/files/nonsense", 404, "the file has no record"},
		{"GET", "/months/2026", 400, "is not a month"},
		{"GET", "/?date=tomorrow", 400, "tomorrow"},
		{"GET", "/nowhere", 404, "there is no page /nowhere"},
		{"POST", "/trigger?date=" + later, 400, later},
		{"POST", "/requeue?file=nonsense&date=" + r.date, 409, "nonsense"},
	} {
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) || !strings.Contains(w.Body.String(), `<a href="/?date=`) ||
			!strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
}
