package documents

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stator-db/stator/apps/documents/api"
	"github.com/stator-db/stator/apps/internal/browsertest"
	"github.com/stator-db/stator/apps/internal/web"
)

// serve serves the pages with the headers that they have, and returns their URL.
func (s *system) serve() string {
	s.t.Helper()
	listener, err := web.Listen("127.0.0.1:0", false)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener, false) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			s.t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

// tab is a tab of a browser in which the first guest has signed in.
type tab struct {
	context.Context
	t *testing.T
}

// openTab skips the test if there is no browser.
func openTab(t *testing.T, url string) tab {
	t.Helper()
	ctx := browsertest.Open(t)
	b := tab{ctx, t}
	b.signIn(url)
	return b
}

func (b tab) signIn(url string) {
	b.t.Helper()
	b.act("open", chromedp.Navigate(url))
	b.act("sign in", chromedp.Click(chromedp.CSS("button")))
	b.wait(`document.body.innerText.includes("Sign out")`)
}

func (b tab) act(what string, a chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if _, err := chromedp.Run(b, a); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// wait waits until an expression is true.
func (b tab) wait(expression string) {
	b.t.Helper()
	for {
		_, err := chromedp.Run(b, chromedp.Poll[bool](expression))
		if err == nil {
			return
		}
		if b.Err() != nil {
			b.t.Fatalf("wait for %s: %v", expression, err)
		}
		// The page was replaced meanwhile: look at the next one.
	}
}

// In a browser a person signs in, sees a batch change without loading the page
// again, corrects a document and approves it.
func TestBrowser(t *testing.T) {
	s := start(t, nil)
	c, ids := furnished(s, "acme", "ann@acme.example")
	s.API.Guests = []api.Guest{{Email: "ann@acme.example", Tenant: c.tenant, Of: "acme"}}
	url := s.serve()
	tab := openTab(t, url)
	act, wait := tab.act, tab.wait
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

// No page is wider than a phone, whatever long names it shows, and all controls have
// a label.
func TestPagesFitAPhone(t *testing.T) {
	s := start(t, nil)
	long := strings.Repeat("a-company-with-a-long-name", 6)
	c, ids := furnished(s, long, "ann@acme.example")
	must[object](c, "POST", "/v1/invitations", object{"email": "somebody-with-a-long-name@a-company-with-a-long-name.example"})
	ids["new"] = must[object](c, "POST", "/v1/projects", object{"name": long}).str("projectId")
	ids["pdf"] = must[object](c, "POST", "/v1"+fill(inProject, ids)+"/batches", object{"workflowId": ids["workflow"], "name": long, "documents": []object{
		{"name": long + ".pdf", "upload": c.upload(pdfOf("Invoice number: NW-1001\nTotal: EUR 12.50\n"))},
	}}).str("batchId")
	s.passes()
	ids["paper"] = s.documentsOf(s.batchOf(ids["pdf"]))[0].ID.String()
	s.API.Guests = []api.Guest{{Email: "ann@acme.example", Tenant: c.tenant, Of: long}}
	url := s.serve()
	ctx := browsertest.Open(t)
	browsertest.FitsAPhone(ctx, t, url, []string{"/signin", "/join"}, nil)
	tab := tab{ctx, t}
	tab.signIn(url)
	var paths []string
	for _, path := range []string{"/", "/review", "/people", "/projects/$new", inProject, inProject + "/workflows/new", inProject + "/workflows/$workflow", inBatch, inBatch + "?status=FAILED",
		ofDocument, inBatch + "/documents/$failed", inProject + "/batches/$pdf/documents/$paper", "/projects/nonsense"} {
		paths = append(paths, fill(path, ids))
	}
	browsertest.FitsAPhone(ctx, t, url, paths, func(path string) {
		if strings.Contains(path, "/workflows/"+ids["workflow"]) {
			tab.wait(`document.querySelector("#trial img") && document.documentElement.scrollWidth <= 390`)
			tab.act("see the JSON", chromedp.Click(chromedp.CSS(`button[value="json"]`)))
			tab.wait(`document.querySelector("[name=json]") && document.documentElement.scrollWidth <= 390`)
		}
	})
}
