// Package browser tests the console in a browser.
package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/tablemodel"
)

// browser is the browser of all tests, each of which has a tab in it; nil if there is none.
var browser context.Context

func TestMain(m *testing.M) {
	os.Exit(func() int {
		chromium, err := exec.LookPath("chromium")
		if err != nil {
			return m.Run()
		}
		// The names resolve to this machine, as with DNS rebinding.
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.Flag("host-resolver-rules", "MAP *.example 127.0.0.1"), chromedp.WindowSize(1280, 800))
		for range 3 { // on a busy machine it sometimes ends while it starts
			ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
			defer stop()
			ctx, cancel := chromedp.NewContext(ctx)
			defer cancel()
			if err = chromedp.Do(ctx); err == nil {
				browser = ctx
				return m.Run()
			}
		}
		fmt.Fprintln(os.Stderr, err)
		return 1
	}())
}

// server is a stator with a console.
type server struct {
	url string
	db  *stator.DB
	*dynamodb.Client
	stop func()
}

func serve(t *testing.T, change func(*stator.Options)) *server {
	t.Helper()
	if browser == nil {
		t.Skip("chromium is not installed, so pages are not tested in a browser")
	}
	o := stator.Options{Console: stator.ConsoleWrite, ConsoleModels: tablemodel.Console("")}
	if change != nil {
		change(&o)
	}
	db, err := stator.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(db.Handler())
	s := &server{url: web.URL, db: db, stop: sync.OnceFunc(func() {
		web.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})}
	s.Client = dynamodb.New(dynamodb.Options{BaseEndpoint: &s.url, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")})
	t.Cleanup(s.stop)
	return s
}

// create creates a table with keys such as "customer S", "placed S".
func (s *server) create(t *testing.T, table string, keys ...string) {
	t.Helper()
	in := &dynamodb.CreateTableInput{TableName: &table, BillingMode: types.BillingModePayPerRequest}
	for i, key := range keys {
		name, kind, _ := strings.Cut(key, " ")
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeType(kind)})
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: &name, KeyType: []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[i]})
	}
	if _, err := s.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

type item = map[string]types.AttributeValue

func text(s string) types.AttributeValue   { return &types.AttributeValueMemberS{Value: s} }
func number(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }

func (s *server) put(t *testing.T, table string, i item) {
	t.Helper()
	if _, err := s.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: i}); err != nil {
		t.Fatal(err)
	}
}

// orders makes the table of most tests.
func (s *server) orders(t *testing.T, n int) {
	t.Helper()
	s.create(t, "Orders", "customer S", "placed S")
	_, err := s.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{
		TableName:            aws.String("Orders"),
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("status"), AttributeType: "S"}, {AttributeName: aws.String("total"), AttributeType: "N"}},
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
			IndexName:  aws.String("by-status"),
			KeySchema:  []types.KeySchemaElement{{AttributeName: aws.String("status"), KeyType: "HASH"}, {AttributeName: aws.String("total"), KeyType: "RANGE"}},
			Projection: &types.Projection{ProjectionType: "ALL"},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var batch []types.WriteRequest
	for i := range n {
		batch = append(batch, types.WriteRequest{PutRequest: &types.PutRequest{Item: item{
			"customer": text(fmt.Sprintf("c-%03d", i%7)), "placed": text(fmt.Sprintf("2026-%02d-%02dT%02d:%02d:00Z", 1+i%12, 1+i/12%28, 10+i/1680, i%60)),
			"status": text([]string{"open", "paid", "shipped"}[i%3]), "total": number(fmt.Sprintf("%d.%02d", 10+i*7%90, i%100)), "name": text([]string{"Ada", "Grace", "Edsger", "Barbara"}[i%4]),
			"lines": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: item{"sku": text(fmt.Sprintf("sku-%d", i%50)), "n": number("2")}}}},
			"tags":  &types.AttributeValueMemberSS{Value: []string{"eu", []string{"gift", "b2b"}[i%2]}},
		}}})
		if len(batch) == 25 || i == n-1 {
			if _, err := s.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"Orders": batch}}); err != nil {
				t.Fatal(err)
			}
			batch = nil
		}
	}
}

// tab is a tab of the browser.
type tab struct {
	*testing.T
	ctx context.Context
	url string // of the console
}

// watch collects what must not happen.
const watch = `window.faults = [];
addEventListener("securitypolicyviolation", (e) => faults.push("policy: " + e.violatedDirective + " " + e.blockedURI));
addEventListener("error", (e) => faults.push("error: " + e.message));
addEventListener("unhandledrejection", (e) => faults.push("rejection: " + e.reason));`

// steps are what tests do on a page.
const steps = `window.t ??= {
  async until(f, what) {
    for (let i = 0; i < 3000; i++) {
      let v;
      try { v = await f(); } catch { v = undefined; }
      if (v) return v;
      await new Promise((r) => setTimeout(r, 20));
    }
    throw new Error("waited in vain for " + (what ?? f) + "; the page has: " + document.body.innerText.slice(0, 1500));
  },
  all: (sel, text) => [...document.querySelectorAll(sel)].filter((e) => e.checkVisibility() && (text === undefined || e.textContent.includes(text))),
  el: (sel, text) => t.until(() => t.all(sel, text)[0], sel + " " + (text ?? "")),
  async click(sel, text) { (await t.until(() => t.all(sel, text).find((e) => !e.disabled), "enabled " + sel + " " + (text ?? ""))).click(); await t.rest(); },
  async fill(sel, value, n = 0) {
    const e = await t.until(() => t.all(sel)[n], sel);
    e.focus();
    if (e.type === "checkbox") e.checked = value; else e.value = value;
    e.dispatchEvent(new Event("input", { bubbles: true }));
    e.dispatchEvent(new Event("change", { bubbles: true }));
    await t.rest();
  },
  async choose(sel, name, text) {
    const e = await t.el(sel), chosen = new DataTransfer();
    chosen.items.add(new File([text], name));
    e.files = chosen.files;
    e.dispatchEvent(new Event("change", { bubbles: true }));
    await t.rest();
  },
  rest: () => new Promise((r) => setTimeout(r, 30)),
  has: (text) => t.until(() => document.body.innerText.includes(text), text),
  async rows(n) { return t.until(() => document.querySelector(".grid table")?.getAttribute("aria-rowcount") === String(n + 1), n + " rows"); },
  async go(hash) { location.hash = hash; await t.rest(); },
  async write() { if (!(await t.el(".switch input")).checked) await t.click(".switch input"); },
  cells: () => t.all(".grid tbody tr:not([aria-hidden])").map((r) => [...r.cells].map((c) => c.textContent)),
  async download(act) {
    const made = new Promise((r) => { const old = URL.createObjectURL; URL.createObjectURL = (b) => { URL.createObjectURL = old; r(b); return "about:blank"; }; });
    HTMLAnchorElement.prototype.click = function () {};
    await act();
    return (await made).text();
  },
};`

// open opens the console in a tab of its own. The test fails if the page violates its policy or has errors.
func (s *server) open(t *testing.T, hash string) *tab {
	t.Helper()
	return s.openFor(t, hash, 2*time.Minute)
}

// openFor opens the console for a test that takes at most a time.
func (s *server) openFor(t *testing.T, hash string, most time.Duration) *tab {
	t.Helper()
	of, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(of); err != nil { // the tab ends with the context of the first call
		t.Fatal(err)
	}
	ctx, late := context.WithTimeout(of, most)
	t.Cleanup(late)
	b := &tab{T: t, ctx: ctx, url: s.url + "/console/"}
	if _, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch}); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 800), chromedp.Navigate(b.url+hash), chromedp.WaitReady(chromedp.CSS("#main"))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The time of the test may be over: it waits for its subtests, and they for other tests.
		ctx, late := context.WithTimeout(of, 2*time.Minute)
		defer late()
		// Fatal would end the test without its report, if it has parallel subtests.
		if faults, err := evaluate(ctx, `return faults.join("\n")`); err != nil || faults != "" {
			t.Errorf("the page has: %s, %v", faults, err)
		}
	})
	return b
}

// run runs steps on the page, and returns what they return.
func (b *tab) run(script string, args ...any) string {
	b.Helper()
	var places []string
	for i, arg := range args {
		quoted, err := json.Marshal(arg)
		if err != nil {
			b.Fatal(err)
		}
		places = append(places, fmt.Sprintf("$%d", i+1), string(quoted))
	}
	script = strings.NewReplacer(places...).Replace(script) // once: arguments may contain $1
	v, err := evaluate(b.ctx, script)
	if err != nil {
		b.Fatalf("%s: %v", script, err)
	}
	return v
}

// evaluate runs steps on the page of a tab, and returns what they return.
func evaluate(ctx context.Context, script string) (string, error) {
	wait := true
	return chromedp.Run(ctx, chromedp.Evaluate[string](steps+`(async () => String((await (async () => {`+script+`})()) ?? ""))()`, func(p *runtime.EvaluateParams) { p.AwaitPromise = &wait }))
}

// keys presses keys. Browsers send raw events before the character, which is not typed if a page handles them.
func (b *tab) keys(keys string, opts ...chromedp.KeyOption) {
	b.Helper()
	opts = append(opts, func(p *input.DispatchKeyEventParams) {
		if p.Type == kb.KeyDown {
			p.Type = "rawKeyDown"
		}
	})
	if err := chromedp.Do(b.ctx, chromedp.KeyEvent(keys, opts...)); err != nil {
		b.Fatal(err)
	}
}

// get returns an item as the server sends it, so that the order and form of all values count.
func (s *server) get(t *testing.T, table, key string) string {
	t.Helper()
	var out bytes.Buffer
	fmt.Fprintf(&out, `{"TableName":%q,"Key":%s,"ConsistentRead":true}`, table, key)
	return s.post(t, "GetItem", out.String())
}
