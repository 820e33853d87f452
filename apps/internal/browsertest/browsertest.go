// Package browsertest tests pages in a browser, as tests of all applications do.
package browsertest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// The widths of a phone's screen and of a window, in pixels.
const (
	Phone  = 390
	window = 1280
)

// Folder is the environment variable with a folder for screenshots of all pages that a test
// looks at, at both widths. `make screenshots` sets it.
const Folder = "SCREENSHOTS"

// Open starts a browser for a test, which it skips if there is none.
func Open(t testing.TB) context.Context {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed, so pages are not tested in a browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU)
	for attempt := 1; ; attempt++ {
		ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
		t.Cleanup(stop)
		ctx, cancel := chromedp.NewContext(ctx)
		t.Cleanup(cancel)
		err := chromedp.Do(ctx)
		if err == nil {
			ctx, late := context.WithTimeout(ctx, 2*time.Minute)
			t.Cleanup(late)
			return ctx
		}
		if attempt == 3 { // on a busy machine it sometimes ends while it starts
			t.Fatal(err)
		}
	}
}

// unlabelled lists the visible controls that have no label for a screen reader.
const unlabelled = `[...document.querySelectorAll("input:not([type=hidden]), select, textarea")]
	.filter(e => e.offsetParent && !e.labels.length && !e.getAttribute("aria-label")).map(e => e.name).join(" ")`

// widest names the elements that are wider than the page.
const widest = `[...document.querySelectorAll("main *, header *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest("table, pre"))
	.slice(0, 5).map(e => e.tagName + "." + e.className + " " + (e.name || "")).join(", ")`

// hidden names the tables of which a part is only seen by scrolling to the side.
const hidden = `[...document.querySelectorAll("table")].filter(e => { const box = e.closest(".scroll") ?? e; return e.offsetParent && ([box, e].some(b => b.scrollWidth > b.clientWidth + 1)) })
	.map(e => e.innerText.replace(/\s+/g, " ").slice(0, 60)).join("; ")`

// FitsAPhone fails the test if a page or a table is wider than a phone, or has controls without
// a label. See, if it is not nil, looks at each page while it is open.
func FitsAPhone(ctx context.Context, t testing.TB, url string, paths []string, see func(path string)) {
	t.Helper()
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(Phone, 844)); err != nil {
		t.Fatal(err)
	}
	for i, path := range paths {
		if err := chromedp.Do(ctx, chromedp.Navigate(url+path), chromedp.WaitVisible(chromedp.CSS("body"))); err != nil {
			t.Fatalf("open %s: %v", path, err)
		}
		width, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.documentElement.scrollWidth`))
		if err != nil || width > Phone {
			wide, _ := chromedp.Run(ctx, chromedp.Evaluate[string](widest))
			t.Errorf("%s is %d pixels wide, %v: %s", path, width, err, wide)
		}
		tables, err := chromedp.Run(ctx, chromedp.Evaluate[string](hidden))
		if err != nil || tables != "" {
			t.Errorf("%s has tables that must be scrolled to the side: %s, %v", path, tables, err)
		}
		names, err := chromedp.Run(ctx, chromedp.Evaluate[string](unlabelled))
		if err != nil || names != "" {
			t.Errorf("%s has controls without a label: %s, %v", path, names, err)
		}
		if see != nil {
			see(path)
		}
		screenshots(ctx, t, i+1, path)
	}
}

// screenshots writes pictures of the open page to Folder.
func screenshots(ctx context.Context, t testing.TB, n int, path string) {
	t.Helper()
	folder := os.Getenv(Folder)
	if folder == "" {
		return
	}
	name := strings.Trim(regexp.MustCompile(`[^a-zA-Z0-9]+`).ReplaceAllString(ids.ReplaceAllString(path, "id"), "-"), "-")
	for _, width := range []int64{window, Phone} {
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 844)); err != nil {
			t.Fatal(err)
		}
		picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
		if err != nil {
			t.Fatalf("a picture of %s: %v", path, err)
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%02d-%s-%d.png", n, cmp.Or(name, "home"), width)), picture, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// ids match the ids in the paths of pages.
var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
