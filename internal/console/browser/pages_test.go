package browser

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var shots = flag.String("screenshots", "", "folder for screenshots of each page in both themes")

// newTab returns a tab without the page.
func newTab(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	ctx, late := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(late)
	return ctx
}

// consolePage is a page, with the steps that lead to it.
type consolePage struct{ name, hash, steps string }

// pages are the pages of tables and items; others have tests of their own.
var pages = []consolePage{
	{"tables", "#/tables", `await t.has("ACTIVE");`},
	{"create-table", "#/tables", `await t.write(); await t.click("button", "Create table"); await t.fill("input[name=tableName]", "Invoices"); await t.fill("dialog .columns input", "customer"); await t.click("button", "Add index");`},
	{"items", "#/table/Orders/items", `await t.rows(100);`},
	{"query", "#/table/Orders/items", `await t.rows(100); await t.fill(".scalar", "c-001"); await t.click("button", "Add filter"); await t.fill(".filter input", "total"); await t.fill(".filter select", ">"); await t.fill(".filter select", "N", 1); await t.fill(".filter input", "50", 1); await t.click("button.primary", "Run"); await t.has("filtered out"); await t.click("[data-key=e]"); await t.click("button", "Python");`},
	{"item", "#/table/Every/items", `await t.rows(1); await t.write(); await t.click(".grid button.link"); await t.el("dialog .parts");`},
	{"bulk", "#/table/Orders/items", `await t.rows(100); await t.write(); document.querySelector(".menu").open = true; await t.click(".entries button", "Edit all matching"); await t.has("240 matching items");`},
	{"import", "#/table/Orders/items", `await t.rows(100); await t.write(); document.querySelector(".menu").open = true; await t.click(".entries button", "Import"); await t.fill("dialog textarea", "customer,placed,total (N)\nc-001,2026-12-24,12.50"); await t.has("1 item in the text");`},
	{"settings", "#/table/Orders/settings", `await t.write(); await t.has("by-status");`},
	{"stream", "#/table/Payments/stream", `await t.fill("select", "TRIM_HORIZON"); await t.until(() => t.all(".opener").length === 8, "8 records"); t.all(".feed tbody > tr").find((r) => r.textContent.includes("modify")).querySelector(".opener").click(); await t.el(".images .changed");`},
	{"streams", "#/now", `await t.has("Payments");`},
	{"triggers", "#/now/triggers", `await t.has("retrying"); await t.has("the endpoint answered 503"); await t.until(() => t.all(".figures dd.bad", "3").length, "three dead letters"); await t.click("summary");`},
	{"dead-letters", "#/now/triggers/receipts", `await t.write(); await t.click(".opener"); await t.el(".images");`},
	{"expiry", "#/now/expiry", `await t.has("Carts"); await t.has("last sweep"); await t.click(".opener"); await t.has("cart-1");`},
	{"jobs", "#/now/jobs", `await t.has("before-migration");`},
	{"partiql", "#/partiql", `await t.fill("textarea", 'SELECT * FROM "Orders" WHERE "customer" = \'c-001\' AND "status" = \'paid\''); await t.click("button.primary", "Run"); await t.has("units");`},
	{"help", "#/tables", `await t.has("ACTIVE"); await t.click('[aria-label="Keyboard shortcuts"]');`},
}

// widest names the elements that are wider than the page.
const widest = `return [...document.querySelectorAll("main *, header *, dialog *")].filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1 && !e.closest("table, pre, .grid")).slice(0, 5).map((e) => e.tagName + "." + e.className).join(", ")`

// misplaced names cells of tables that are not laid out as cells, because a class means something else in another view.
const misplaced = `return [...document.querySelectorAll("td, th")].filter((e) => e.checkVisibility() && getComputedStyle(e).display !== "table-cell").slice(0, 5).map((e) => e.tagName + "." + e.className + " " + getComputedStyle(e).display).join(", ")`

// All pages satisfy axe-core, fit a phone, and can be photographed in both themes.
func TestPages(t *testing.T) {
	t.Parallel()
	s := serve(t, nowOptions(t))
	s.orders(t, 240)
	s.happenings(t)
	s.create(t, "Every", "id S", "sort B")
	s.put(t, "Every", every())
	s.create(t, "Sessions", "token B")
	s.checkPages(t, pages)
}

// checkPages checks pages, and writes their screenshots if there is a folder for them.
func (s *server) checkPages(t *testing.T, pages []consolePage) {
	t.Helper()
	axe, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Log("axe-core is not installed, so that pages are not checked with it: npm ci installs it")
	}
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			b := s.open(t, "#/none")
			b.run(`await t.go($1); `+p.steps+` await t.rest(); document.activeElement?.blur();`, p.hash)
			if faults := b.run(misplaced); faults != "" {
				t.Errorf("the rules of another view are used for cells: %s", faults)
			}
			for _, theme := range []string{"dark", "light"} {
				if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}}); err != nil {
					t.Fatal(err)
				}
				if *shots != "" {
					b.run(`await t.rest();`)
					b.photograph(p.name + "-" + theme)
				}
				if axe != nil {
					rules := `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]`
					if theme == "dark" { // only its colours differ
						rules = `{ type: "rule", values: ["color-contrast"] }`
					}
					faults := b.run(`if (!window.axe) {` + string(axe) + `} const found = await axe.run(document, { runOnly: ` + rules + ` });
						return found.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html.slice(0, 160) + " " + (n.any[0]?.message ?? "")).slice(0, 3).join(" | ")).join("\n");`)
					if faults != "" {
						t.Errorf("in the %s theme axe-core finds:\n%s", theme, faults)
					}
				}
			}
			if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(390, 844)); err != nil {
				t.Fatal(err)
			}
			if width, _ := strconv.Atoi(b.run(`await t.rest(); return document.documentElement.scrollWidth`)); width == 0 || width > 390 {
				t.Errorf("on a phone the page is %d pixels wide: %s", width, b.run(widest))
			}
			if *shots != "" && slices.Contains([]string{"items", "item", "history", "past", "stream", "heat", "model"}, p.name) {
				b.photograph(p.name + "-phone")
			}
		})
	}
}

// photograph writes a screenshot.
func (b *tab) photograph(name string) {
	b.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		text, err = shrink(text)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(*shots, name+".png"), text, 0o644) //nolint:gosec // it is public
	}
	if err != nil {
		b.Fatal(err)
	}
}

// An item is found, opened, changed and saved with the keyboard alone.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(t, "Notes", "id S")
	s.put(t, "Notes", item{"id": text("1"), "title": text("old")})
	b := s.open(t, "")
	b.run(`await t.has("Notes"); await t.write(); document.activeElement.blur();`)
	b.keys("?")
	b.run(`await t.el("dialog kbd");`)
	b.keys("\u001b")
	b.run(`await t.until(() => !t.all("dialog").length, "the help to close");`)
	b.keys("/")
	b.keys("not")
	b.run(`await t.until(() => document.activeElement.value === "not", "the search"); document.querySelector("td a").focus();`)
	b.keys("\r")
	b.run(`await t.rows(1); document.querySelector(".grid").focus();`)
	b.keys("\r")
	b.run(`(await t.el('dialog [aria-label="Value of title"]')).select(); t.all('dialog [aria-label="Value of title"]')[0].focus();`)
	b.keys("new")
	b.keys("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	b.run(`await t.has("Saved,"); await t.until(() => t.cells()[0].includes("new"), "the new title");`)
	b.keys("gp")
	b.run(`await t.el("textarea[aria-label=Statement]");`)
	b.keys("gt")
	b.run(`await t.el("[data-search]"); await t.has("Notes");`)
}

var views = flag.Int("views", 3, "times that TestFirstView opens the console")

// shownAt keeps when a page has the status of a table for the first time, in milliseconds since it was asked for.
const shownAt = `new MutationObserver((_, o) => { if (document.body?.textContent.includes("ACTIVE")) { o.disconnect(); requestAnimationFrame(() => (window.shownAt = performance.now())); } }).observe(document, { childList: true, subtree: true, characterData: true });`

// The first view shows the tables to a browser that has never been there. How long that takes is logged, next to a page that is one line of text.
func TestFirstView(t *testing.T) {
	s := serve(t, nil)
	s.orders(t, 24)
	line := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><p>ACTIVE</p>")
	}))
	defer line.Close()
	open := func(url string) float64 {
		t.Helper()
		ctx, closeTab := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
		defer closeTab()
		ctx, late := context.WithTimeout(ctx, time.Minute)
		defer late()
		b := &tab{T: t, ctx: ctx}
		if _, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: shownAt}); err != nil {
			t.Fatal(err)
		}
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 800), chromedp.Navigate(url)); err != nil {
			t.Fatal(err)
		}
		ms, err := strconv.ParseFloat(b.run(`return t.until(() => window.shownAt, "the tables")`), 64)
		if err != nil {
			t.Fatal(err)
		}
		return ms
	}
	open(s.url + "/console/") // the server compresses its files when they are first asked for
	var console, text []float64
	for range *views {
		console, text = append(console, open(s.url+"/console/")), append(text, open(line.URL))
	}
	slices.Sort(console)
	slices.Sort(text)
	median, least := console[len(console)/2], text[len(text)/2]
	t.Logf("the tables are shown after %.0f ms (median of %d; %.0f to %.0f), a line of text after %.0f ms", median, *views, console[0], console[len(console)-1], least)
}
