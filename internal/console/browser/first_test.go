package browser

import (
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/stator-db/stator"
)

// countRequests keeps which requests a page has sent.
const countRequests = `window.sent = []; { const send = window.fetch; window.fetch = (url, o) => { sent.push(o.method + " " + (o.headers["X-Amz-Target"] ?? "session").replace(/.*\./, "") + " " + (o.body?.match(/"TableName":"([^"]*)"/)?.[1] ?? "")); return send(url, o); }; }`

// count keeps the requests of the pages that a tab opens from now on.
func (b *tab) count() {
	b.Helper()
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: countRequests}); err != nil {
		b.Fatal(err)
	}
}

// again opens an address in a tab as if it were new.
func (b *tab) again(hash string) {
	b.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(b.url+hash), chromedp.WaitReady(chromedp.CSS("#main"))); err != nil {
		b.Fatal(err)
	}
}

// The first requests leave early, and are not sent twice; later ones read again.
func TestFirstRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(t, "Notes", "id S")
	s.create(t, "Orders", "id S")
	b := s.open(t, "#/none")
	b.count()
	b.again("")
	b.run(`await t.until(() => t.all(".status.active").length === 2, "two tables"); await t.rest();`)
	if got, want := b.run(`return sent.toSorted().join(", ")`), "GET session , POST DescribeTable Notes, POST DescribeTable Orders, POST ListTables "; got != want {
		t.Errorf("the first view has sent %s, and not %s", got, want)
	}
	s.create(t, "Third", "id S")
	s.put(t, "Notes", item{"id": text("1")})
	b.run(`sent.length = 0; await t.click("button", "Refresh"); await t.has("Third"); await t.until(() => t.all(".status.active").length === 3, "three tables"); await t.rest();`)
	if got, want := b.run(`return sent.toSorted().join(", ")`), "POST DescribeTable Notes, POST DescribeTable Orders, POST DescribeTable Third, POST ListTables "; got != want {
		t.Errorf("Refresh has sent %s, and not %s", got, want)
	}
	b.again("#/model")
	b.run(`await t.el("input[type=file]"); await t.rest();`)
	if got, want := b.run(`return sent.join(", ")`), "GET session , POST GetModel "; got != want {
		t.Errorf("another view has sent %s, and not %s", got, want)
	}
}

// A page that nobody has signed in to sends no operation.
func TestFirstRequestsSignedOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	access, err := stator.OpenAccess(writeAccess(t, dir, map[string][]string{"ada": {"dynamodb:*"}}))
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(o *stator.Options) { o.Access = access })
	b := s.open(t, "#/none")
	b.count()
	b.again("")
	b.run(`await t.el("input[name=accessKey]"); await t.rest();`)
	if got, want := b.run(`return sent.join(", ")`), "GET session "; got != want {
		t.Errorf("it has sent %s, and not %s", got, want)
	}
	b.run(`await t.fill("input[name=accessKey]", "ADAKEY"); await t.fill("input[name=secret]", "ada-secret-0123456789"); await t.click("button", "Sign in"); await t.has("No tables yet");`)
	b.again("") // with the cookie and the secret of its session
	b.run(`await t.has("No tables yet"); await t.rest();`)
	if got, want := b.run(`return sent.toSorted().join(", ")`), "GET session , POST ListTables "; got != want {
		t.Errorf("somebody who has signed in has sent %s, and not %s", got, want)
	}
}
