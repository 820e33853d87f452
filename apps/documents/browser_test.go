package documents

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stator-db/stator/apps/documents/api"
	"github.com/stator-db/stator/apps/internal/web"
)

// In a browser a person signs in, sees a batch change without loading the page
// again, corrects a document and approves it.
func TestBrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	s := start(t, nil)
	c, ids := furnished(s, "acme", "ann@acme.example")
	s.API.Guests = []api.Guest{{Email: "ann@acme.example", Tenant: c.tenant, Of: "acme"}}
	listener, err := web.Listen("127.0.0.1:0", false) // with the headers that pages have
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener, false) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	url := "http://" + listener.Addr().String()

	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox)
	browser, closeBrowser := chromedp.NewExecAllocator(ctx, options...)
	defer closeBrowser()
	tab, closeTab := chromedp.NewContext(browser)
	defer closeTab()
	tab, cancel := context.WithTimeout(tab, time.Minute)
	defer cancel()
	act := func(what string, a chromedp.Action[chromedp.Void]) {
		t.Helper()
		if _, err := chromedp.Run(tab, a); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	wait := func(expression string) {
		t.Helper()
		for {
			_, err := chromedp.Run(tab, chromedp.Poll[bool](expression))
			if err == nil {
				return
			}
			if tab.Err() != nil {
				t.Fatalf("wait for %s: %v", expression, err)
			}
			// The page was replaced meanwhile: look at the next one.
		}
	}
	act("open", chromedp.Navigate(url))
	act("sign in", chromedp.Click(chromedp.CSS("button")))
	wait(`document.body.innerText.includes("acme project")`)
	act("open the batch", chromedp.Navigate(url+fill(inBatch, ids)))
	wait(`document.querySelectorAll("#batch .card b")[3].innerText == "2"`)
	wait(`window.here = true`)
	must[object](c, "POST", "/v1"+fill(inBatch, ids)+"/documents/"+ids["failed"]+"/retry", object{})
	wait(`document.querySelectorAll("#batch .card b")[4].innerText == "1"`)
	s.passes()
	wait(`document.querySelectorAll("#batch .card b")[3].innerText == "2" && window.here`)

	act("open the document", chromedp.Navigate(url+fill(ofDocument, ids)))
	act("correct", chromedp.SetValue(chromedp.CSS(`input[name="field:total"]`), "300.00"))
	act("approve", chromedp.Click(chromedp.CSS(`button[value="approve"]`)))
	wait(`location.pathname == "/review" && document.body.innerText.includes("acme-1.txt") && !document.body.innerText.includes("acme-0.txt")`)
	if _, text := c.request("GET", "/v1"+fill(ofDocument, ids)+"/result", nil); !strings.Contains(text, `"value":"300.00","confidence":1,"source":"reviewer"`) {
		t.Errorf("%s", text)
	}
}
