package downloads_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stator-db/stator/apps/downloads/ledger"
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
	if code, text = get(t, h, "GET", "/api/days/"+r.date); code != 200 || !strings.Contains(text, `"Status":"failed"`) {
		t.Errorf("the day: %d %s", code, text)
	}
	for target, want := range map[string]string{"/metrics": `downloads_jobs_total{status="error"} 1`, "/healthz": "ok", "/static/style.css": "{", "/downloads.css": ".batch"} {
		if code, text := get(t, h, "GET", target); code != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d without %q", target, code, want)
		}
	}
	for _, c := range []struct {
		method, target string
		code           int
	}{
		{"GET", "/?date=yesterday", 400}, {"GET", "/api/days/x", 400}, {"POST", "/api/days/2026-02-30/batches", 400}, {"POST", "/api/days/1999-01-01/batches", 400},
		{"POST", "/api/days/..%2f..%2f/batches", 400}, {"POST", "/trigger?date=x", 400}, {"GET", "/nothing", 404}, {"PUT", "/api/days/" + r.date, 405},
	} {
		if code, text := get(t, h, c.method, c.target); code != c.code {
			t.Errorf("%s %s: %d %s", c.method, c.target, code, text)
		}
	}
}

// In a browser the page updates by itself.
func TestPageIsLive(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("no chromium")
	}
	r := open(t, nil)
	listener := httptest.NewUnstartedServer(http.NotFoundHandler()).Listener
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, listener) }()
	defer func() { stop(); <-done }()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU)
	browser, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	defer cancel()
	tab, cancel := chromedp.NewContext(browser)
	defer cancel()
	tab, cancel = context.WithTimeout(tab, time.Minute)
	defer cancel()
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
