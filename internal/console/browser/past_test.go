package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/cli"
	"github.com/stator-db/stator/internal/console"
)

// pastServer is a server whose clock a test moves. It begins four hours before the present, so that the page, whose clock is that of the
// machine, has a past to show.
type pastServer struct {
	*server
	ago *atomic.Int64 // nanoseconds by which its clock is behind
}

func servePast(t *testing.T, change func(*stator.Options)) *pastServer {
	t.Helper()
	p := &pastServer{ago: new(atomic.Int64)}
	p.ago.Store(int64(4 * time.Hour))
	p.server = serve(t, func(o *stator.Options) {
		o.Now = func() time.Time { return time.Now().Add(-time.Duration(p.ago.Load())) }
		if change != nil {
			change(o)
		}
	})
	return p
}

// pass moves the clock, and returns the second that was the last before.
func (p *pastServer) pass(d time.Duration) int64 {
	was := time.Now().Add(-time.Duration(p.ago.Add(-int64(d)) + int64(d)))
	return was.Unix()
}

// present moves the clock to the present.
func (p *pastServer) present() { p.ago.Store(0) }

// record creates a table whose past is kept.
func (p *pastServer) record(t *testing.T, table string, keys ...string) {
	t.Helper()
	p.create(t, table, keys...)
	p.keep(t, table)
}

func (p *pastServer) keep(t *testing.T, table string) {
	t.Helper()
	if _, err := p.UpdateContinuousBackups(t.Context(), &dynamodb.UpdateContinuousBackupsInput{TableName: &table, PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}}); err != nil {
		t.Fatal(err)
	}
	p.pass(10 * time.Second)
}

func (p *pastServer) delete(t *testing.T, table string, key item) {
	t.Helper()
	if _, err := p.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: key}); err != nil {
		t.Fatal(err)
	}
}

// shop makes the tables of the screenshots: orders that a faulty program has changed.
func (p *pastServer) shop(t *testing.T) (good, bad int64) {
	t.Helper()
	p.orders(t, 240)
	p.keep(t, "Orders")
	one := item{
		"customer": text("c-001"), "placed": text("2026-11-18T09:12:44Z"), "status": text("open"), "total": number("129.90"), "name": text("Ada"),
		"address": &types.AttributeValueMemberM{Value: item{"street": text("12 St James's Square"), "city": text("London"), "geo": &types.AttributeValueMemberL{Value: []types.AttributeValue{number("51.5074561"), number("-0.1357700")}}}},
		"tags":    &types.AttributeValueMemberSS{Value: []string{"eu", "gift"}}, "note": text("Please ring twice: the bell at the gate is broken."),
	}
	put := func(change func(item)) {
		change(one)
		p.put(t, "Orders", one)
		p.pass(37*time.Minute + 311*time.Millisecond)
	}
	put(func(item) {})
	put(func(i item) { i["status"], i["paid"] = text("paid"), &types.AttributeValueMemberBOOL{Value: true} })
	put(func(i item) {
		i["note"] = text("Please ring once: the bell at the gate is repaired.")
		i["tags"] = &types.AttributeValueMemberSS{Value: []string{"eu", "express", "gift"}}
		i["address"].(*types.AttributeValueMemberM).Value["city"] = text("Leeds")
	})
	good = p.pass(5 * time.Minute)
	for i := range 9 {
		found, err := p.Query(t.Context(), &dynamodb.QueryInput{TableName: aws.String("Orders"), KeyConditionExpression: aws.String("customer = :c"), ExpressionAttributeValues: item{":c": text("c-001")}, Limit: aws.Int32(12)})
		if err != nil {
			t.Fatal(err)
		}
		of := found.Items[i]
		of["status"], of["total"] = text("shipped"), number("0")
		p.put(t, "Orders", of)
		p.pass(time.Second)
	}
	delete(one, "paid")
	put(func(i item) { i["status"], i["total"] = text("shipped"), number("0") })
	p.delete(t, "Orders", item{"customer": text("c-002"), "placed": text("2026-03-01T10:02:00Z")})
	p.put(t, "Orders", item{"customer": text("c-999"), "placed": text("2026-11-18T12:00:00Z"), "status": text("test")})
	bad = p.pass(2 * time.Minute)
	found, err := p.Query(t.Context(), &dynamodb.QueryInput{TableName: aws.String("Orders"), KeyConditionExpression: aws.String("customer = :c"), ExpressionAttributeValues: item{":c": text("c-001")}, Limit: aws.Int32(1)})
	if err != nil {
		t.Fatal(err)
	}
	found.Items[0]["status"] = text("returned")
	p.put(t, "Orders", found.Items[0])
	p.present()
	return good, bad
}

// between answers the requests of a page by an endpoint, except those that answer does.
type between struct {
	url    string
	answer func(r console.Request) *console.Reply
}

func (between) Asks() console.SignIn { return console.NoSignIn }
func (b between) Now() time.Time     { return time.Time{} }
func (b between) About() console.About {
	return console.About{URL: b.url, Region: "us-east-1"}
}

func (between) Identify(context.Context, console.Credentials, console.Client) (console.Identity, error) {
	return console.Identity{}, console.ErrCredentials
}

func (between) Permit(context.Context, console.Identity, console.Request, string) (string, error) {
	return "", nil
}

func (b between) Do(ctx context.Context, _ console.Identity, r console.Request) (console.Reply, error) {
	if reply := b.answer(r); reply != nil {
		return *reply, nil
	}
	out, err := request(ctx, b.url, r.Target, string(r.Body))
	if err != nil {
		return console.Reply{}, err
	}
	defer out.Body.Close()
	text, err := io.ReadAll(out.Body)
	return console.Reply{Status: out.StatusCode, Body: text}, err
}

// openBetween opens a console whose requests go through answer.
func (s *server) openBetween(t *testing.T, hash string, answer func(r console.Request) *console.Reply) *tab {
	t.Helper()
	web := httptest.NewServer(console.New(console.Options{Endpoint: between{s.url, answer}, Mode: console.ReadWrite, AcceptsHost: func(string) bool { return true }}))
	t.Cleanup(web.Close)
	direct := s.url
	s.url = web.URL
	defer func() { s.url = direct }()
	return s.open(t, hash)
}

// All pages of the past satisfy axe-core, fit a phone, and can be photographed in both themes.
func TestPastPages(t *testing.T) {
	t.Parallel()
	s := servePast(t, nil)
	good, bad := s.shop(t)
	s.checkPages(t, []consolePage{
		{"history", `#/table/Orders/past/history?{"key":{"customer":{"S":"c-001"},"placed":{"S":"2026-11-18T09:12:44Z"}}}`, `await t.write(); await t.has("created");`},
		{"past", fmt.Sprintf(`#/table/Orders/items?{"at":%d}`, good), `await t.rows(100);`},
		{"past-time", fmt.Sprintf(`#/table/Orders/items?{"at":%d}`, good), `await t.rows(100); await t.click("button", "Other time"); await t.has("kept from");`},
		{"past-item", fmt.Sprintf(`#/table/Orders/items?{"at":%d,"hash":["c-001"]}`, good), `await t.rows(36); await t.click(".grid button.link"); await t.click("dialog button", "Compared with now"); await t.el("dialog .diff");`},
		{"undo", fmt.Sprintf(`#/table/Orders/past/undo?{"from":%d,"to":%d}`, good+1, bad), `await t.write(); await t.click("button", "Preview"); await t.has("to write"); await t.click(".plan li:nth-child(3) summary"); await t.el(".plan .diff");`},
		{"restore", fmt.Sprintf(`#/table/Orders/past/restore?{"at":%d}`, good), `await t.write(); await t.click("main form button.primary", "Restore"); await t.has("has the items of");`},
	})
}

// The history of an item says who has changed what, page by page. Values are text, and one change is undone.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := servePast(t, nil)
	s.create(t, "Notes", "id S", "sort B")
	const key = `{"id":{"S":"<script>document.title='x'</script>"},"sort":{"B":"AQD/"}}`
	history := "#/table/Notes/past/history?" + `{"key":` + key + `}`
	s.put(t, "Notes", every())
	b := s.open(t, "#/table/Notes/items")
	// The past is not kept yet.
	b.run(`await t.rows(1); document.querySelector(".grid").focus();`)
	b.keys("h")
	b.run(`await t.has("The past of this table is not kept"); await t.click("a", "Restore to a second"); await t.has("This table cannot be restored"); history.back(); await t.has("The past of this table is not kept"); await t.has("Switch changes on first"); await t.write(); await t.click("button", "Enable point-in-time recovery"); await t.has("The past is kept from now on."); await t.has("The item has no recorded change");`)
	s.pass(10 * time.Second)
	changed := every()
	changed["n38"], changed["html"] = number("12345678901234567890123456789012345679"), text("<img src=x onerror=\"document.title='y'\"> changed")
	changed["ns"] = &types.AttributeValueMemberNS{Value: []string{"3", "-1.5", "99999999999999999999999999999999999999"}}
	changed["a.b"].(*types.AttributeValueMemberM).Value["deep"].(*types.AttributeValueMemberL).Value[2] = &types.AttributeValueMemberB{Value: []byte{1}}
	delete(changed, "__proto__")
	s.put(t, "Notes", changed)
	s.pass(2 * time.Second)
	got := b.run(`await t.go($1); await t.click("button", "Show history"); await t.has("1 change"); await t.el("li .diff");
		if (document.title !== "stator console") throw new Error("a value was run");
		return JSON.stringify(t.all("li .diff tbody tr").map((r) => [...r.cells].map((c) => c.textContent.replaceAll("\u2028", "|"))));`, history)
	var rows [][]string
	if err := json.Unmarshal([]byte(got), &rows); err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"__proto__", "−S p", "–"},
		{`a\.b.deep[2]`, "−B AP8= 2 bytes", "+B AQ== 1 byte"},
		{"html", `−S <img src=x onerror="document.title='x'">`, `+S <img src=x onerror="document.title='y'"> changed`},
		{"n38", "−N 12345678901234567890123456789012345678", "+N 12345678901234567890123456789012345679"},
		{"ns members", "−NS [12345678901234567890123456789012345678]", "+NS [99999999999999999999999999999999999999]"},
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("the diff is\n%q\nwant\n%q", rows, want)
	}
	// The change is undone, after its plan was shown. A change that was overwritten is a conflict.
	b.run(`await t.click("li button", "Undo"); await t.has("The item will be as it was before this change."); await t.el("dialog .diff"); await t.click("dialog button.start"); await t.has("Undone,"); await t.has("2 changes");`)
	if got, want := s.get(t, "Notes", key), `"n38":{"N":"12345678901234567890123456789012345678"}`; !strings.Contains(got, want) {
		t.Errorf("after the undo the item is %s", got)
	}
	for i := range 30 {
		changed["n38"] = number(fmt.Sprint(i))
		s.put(t, "Notes", changed)
		s.pass(time.Second)
	}
	s.present()
	b.run(`await t.click("button", "Show history"); await t.has("25 changes on page 1"); await t.click("button", "Older"); await t.has("7 changes on page 2");
		await t.click("li:last-child button", "Undo"); await t.has("The item was changed again after this change"); if (t.all("dialog button.start").length) throw new Error("a conflict can be undone");
		const to = (await t.el("dialog a", "Undo all of its changes")).hash; await t.click("dialog button", "Close"); await t.click("button", "Newer"); await t.has("25 changes on page 1");
		await t.click("li:first-child button", "Whole item"); await t.has('"n38": {');
		await t.go(to); await t.el("input[type=checkbox]:checked"); await t.click("button", "Preview"); await t.has("1 to write"); await t.click(".start"); await t.has("1 item undone in 1 transaction");`)
	// The editor leads to the history; what is not stored has none.
	b.run(`await t.go("#/table/Notes/items"); await t.rows(1); await t.click(".grid button.link"); await t.click("dialog a", "History"); await t.has("25 changes on page 1"); await t.has("who is not recorded");
		await t.fill("form .scalar", "none"); await t.click("button", "Show history"); await t.has("The item has no recorded change");`)
}

// A list of items, the query builder and the view of an item are of a second that is chosen, and back to now with a key. The items are those
// that a restore to that second has.
func TestAsOf(t *testing.T) {
	t.Parallel()
	s := servePast(t, nil)
	s.orders(t, 70)
	s.keep(t, "Orders")
	then := s.pass(5 * time.Second)
	for i := range 8 {
		s.put(t, "Orders", item{"customer": text("c-001"), "placed": text(fmt.Sprint("new ", i)), "status": text("open"), "total": number("1")})
	}
	s.delete(t, "Orders", item{"customer": text("c-000"), "placed": text("2026-01-01T10:00:00Z")})
	s.put(t, "Orders", item{"customer": text("c-001"), "placed": text("2026-01-04T10:36:00Z"), "status": text("<script>")})
	s.present()
	asked := 0
	b := s.openBetween(t, "#/table/Orders/items", func(r console.Request) *console.Reply {
		if r.Target != "Stator.ScanAt" || !strings.Contains(string(r.Body), `"Limit":25`) {
			return nil
		}
		if asked++; asked%4 == 0 {
			return nil
		}
		return &console.Reply{Status: 400, Body: fmt.Appendf(nil, `{"__type":"com.amazonaws#PastNotReadException","message":"not all","Progress":%v}`, float64(asked%4)/4)}
	})
	b.run(`await t.rows(77); document.activeElement.blur();`)
	b.keys("t")
	b.run(`await t.until(() => document.activeElement.value === "5m", "the field of the time"); const e = document.activeElement; e.value = "tomorrow"; e.dispatchEvent(new Event("input", { bubbles: true })); await t.has("Write 5m for five minutes ago"); e.value = ""; e.dispatchEvent(new Event("input", { bubbles: true }));`)
	b.keys(time.Unix(then, 0).UTC().Format(time.RFC3339) + "\r")
	b.run(`await t.rows(70); await t.has("As of "); await t.has("read-only"); await t.write();
		if (t.all("button", "New item").length || t.all(".entries button", "Edit all").length) throw new Error("the past can be changed"); document.activeElement.blur();`)
	b.keys(">")
	b.run(`await t.rows(70); document.activeElement.blur();`)
	b.keys("<")
	// The query builder, an index and an item.
	b.run(`await t.until(() => location.hash.includes($1)); await t.rows(70); await t.fill(".builder .scalar", "c-001"); await t.click("button.primary", "Run"); await t.rows(10); await t.has("Query");
		await t.click(".grid button.link", "c-001"); await t.has("As of "); if (t.all("dialog button", "Save").length) throw new Error("the past can be saved");
		await t.click("dialog button", "Compared with now"); await t.until(() => t.all("dialog .diff td").some((c) => c.textContent.includes("<script>")), "the value of now"); await t.click("dialog button", "Close");
		await t.click("button", "Clear"); await t.fill(".builder select", "by-status"); await t.fill(".builder .scalar", "open"); await t.click("button.primary", "Run"); await t.rows(24);`, fmt.Sprint(then))
	// A read that takes several requests shows its progress.
	b.run(`await t.click("button", "Clear"); document.querySelector(".options").open = true; await t.fill(".options select", "25");
		const seen = []; new MutationObserver(() => { const p = document.querySelector(".pastprogress"); if (p) seen.push(p.innerText); }).observe(document.body, { childList: true, subtree: true, characterData: true });
		await t.click("button.primary", "Run"); await t.rows(25); await t.until(() => seen.some((s) => s.includes("25 %")) && seen.some((s) => s.includes("75 %")), "the progress"); document.activeElement.blur();`)
	if asked != 4 {
		t.Errorf("there were %d requests, want 4", asked)
	}
	b.run(`await t.fill(".options select", "500"); document.activeElement.blur();`)
	b.keys("r")
	b.run(`await t.rows(70); document.activeElement.blur();`)
	past := b.run(`return JSON.stringify(t.cells().slice(0, 12).map((c) => c.slice(2)));`)
	b.keys("b")
	b.run(`await t.rows(77); if (t.all(".past-mark").length) throw new Error("the past is still marked");`)
	// A restore is asked for, waited for and opened. It has the same items.
	status := "CREATING"
	r := s.openBetween(t, fmt.Sprintf(`#/table/Orders/past/restore?{"at":%d}`, then), func(r console.Request) *console.Reply {
		if !strings.HasSuffix(r.Target, "DescribeTable") || !strings.Contains(string(r.Body), "Again") || status == "" {
			return nil
		}
		status = ""
		return &console.Reply{Status: 200, Body: []byte(`{"Table":{"TableName":"Again","TableStatus":"CREATING","ItemCount":12}}`)}
	})
	restored := r.run(`await t.has("can be restored from"); if (!t.all("main form button.primary")[0].disabled) throw new Error("changes are off"); await t.write(); await t.fill("main form label.grow input", "Again"); await t.click("main form button.primary", "Restore"); await t.has("has the items of");
		await t.click("a", "Open Again"); await t.rows(70); return JSON.stringify(t.cells().slice(0, 12).map((c) => c.slice(2)));`)
	if restored != past {
		t.Errorf("the past is\n%s\nthe restored table has\n%s", past, restored)
	}
}

// The changes of a window are undone as they were previewed: page by page, once their count is confirmed, and not at all if they have changed.
func TestUndoWindow(t *testing.T) {
	t.Parallel()
	s := servePast(t, nil)
	s.orders(t, 130)
	s.keep(t, "Orders")
	before := s.post(t, "Scan", `{"TableName":"Orders"}`)
	first := s.pass(5*time.Second) + 1
	all, err := s.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("Orders")})
	if err != nil {
		t.Fatal(err)
	}
	for i, it := range all.Items {
		switch i {
		case 0:
			s.delete(t, "Orders", item{"customer": it["customer"], "placed": it["placed"]})
		default:
			it["total"] = number("0")
			s.put(t, "Orders", it)
		}
	}
	s.put(t, "Orders", item{"customer": text("new"), "placed": text("new")})
	last := s.pass(5 * time.Second)
	all.Items[5]["status"] = text("later")
	s.put(t, "Orders", all.Items[5])
	s.present()
	b := s.open(t, fmt.Sprintf(`#/table/Orders/past/undo?{"from":%d,"to":%d}`, first, last))
	b.run(`await t.el("form .time"); if (!t.all("button", "Preview")[0].disabled) throw new Error("a plan is made while changes are off"); await t.write(); await t.click("button", "Preview");
		await t.has("130 to write: 129 as before the window, 1 to delete"); await t.has("1 conflict"); await t.has("page 1 of 2");
		await t.click("button", "Next"); await t.has("page 2 of 2"); await t.click("button", "Previous"); await t.has("page 1 of 2");
		await t.click(".plan summary", "create again"); await t.el(".plan .diff"); const c = t.all(".plan summary", "conflict"); if (c.length) c[0].click();
		await t.fill(".confirm", "129"); if (!t.all(".start")[0].disabled) throw new Error("another count is accepted"); await t.fill(".confirm", "130");`)
	// Items of the second page are written after the preview: those of the first are undone, and the plan is shown again.
	all.Items[120]["status"] = text("meanwhile")
	s.put(t, "Orders", all.Items[120])
	b.run(`await t.click(".start"); await t.has("This is the plan of now."); await t.has("as before already"); await t.has("2 conflicts"); await t.until(() => t.all(".start")[0], "the button");
		const n = t.all(".start")[0].textContent.match(/\d+/)[0]; await t.fill(".confirm", n); await t.click(".start"); await t.has(n + " items undone in 1 transaction"); await t.has("2 items were changed again later");`)
	var now, was struct{ Items []map[string]any }
	if json.Unmarshal([]byte(s.post(t, "Scan", `{"TableName":"Orders"}`)), &now) != nil || json.Unmarshal([]byte(before), &was) != nil || len(now.Items) != len(was.Items) {
		t.Fatalf("there are %d items, want %d", len(now.Items), len(was.Items))
	}
	differ := 0
	for i := range now.Items {
		if !reflect.DeepEqual(now.Items[i], was.Items[i]) {
			differ++
		}
	}
	if differ != 2 {
		t.Errorf("%d items are not as before, want the 2 conflicts", differ)
	}
	b.run(`await t.click("button", "Preview"); await t.has("0 to write"); await t.has("2 conflicts"); if (t.all(".start").length) throw new Error("conflicts can be undone");`)
}

// Requests to the past are copied as what really sends them: the command of stator, and curl. They are signed, and policies apply to each.
func TestPastIsCopied(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	access, err := stator.OpenAccess(writeAccess(t, dir, map[string][]string{"ada": {"*"}, "bob": {"dynamodb:*"}}))
	if err != nil {
		t.Fatal(err)
	}
	s := servePast(t, func(o *stator.Options) { o.Access = access })
	s.Client = dynamodb.New(dynamodb.Options{BaseEndpoint: &s.url, Region: "us-east-1", Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "ADAKEY", SecretAccessKey: "ada-secret-0123456789"}, nil
	})})
	s.record(t, "Hostile", "id S", "sort N")
	s.put(t, "Hostile", item{"id": text(nasty), "sort": number("7"), "v": text(nasty)})
	at := s.pass(10 * time.Second)
	s.put(t, "Hostile", item{"id": text(nasty), "sort": number("7"), "v": text("now")})
	to := s.pass(10 * time.Second)
	signIn := func(b *tab, name string) {
		b.run(`await t.fill("input[name=accessKey]", $1); await t.fill("input[name=secret]", $2); await t.click("button", "Sign in");`, strings.ToUpper(name)+"KEY", name+"-secret-0123456789")
	}
	b := s.open(t, "")
	signIn(b, "ada")
	key, err := json.Marshal(map[string]any{"id": map[string]any{"S": nasty}, "sort": map[string]any{"N": "7"}})
	if err != nil {
		t.Fatal(err)
	}
	names, values := `"ExpressionAttributeNames":{"#n0":"id","#n1":"sort"}`, fmt.Sprintf(`"ExpressionAttributeValues":{":v0":%s,":v1":{"N":"7"}}`, mustJSON(map[string]any{"S": nasty}))
	shim := filepath.Join(dir, "stator")
	if err := os.WriteFile(shim, []byte("#!/bin/sh\nprintf '%s\\0' \"$@\"\n"), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	shell := func(code string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", code)
		cmd.Env = append(os.Environ(), "PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"), "AWS_ACCESS_KEY_ID=ADAKEY", "AWS_SECRET_ACCESS_KEY=ada-secret-0123456789")
		out, err := cmd.Output()
		return string(out), err
	}
	// The command signs with the credentials of its environment, which tests that run at the same time do not share.
	requests := &recorder{}
	endpoint := requests.before(t, serveEverything(t))
	for _, c := range []struct{ operation, input, want string }{
		{"GetItemAt", fmt.Sprintf(`{"TableName":"Hostile","Key":%s,"AsOf":%d}`, key, at), ""},
		{"QueryAt", fmt.Sprintf(`{"TableName":"Hostile","KeyConditionExpression":"#n0 = :v0 AND #n1 = :v1",%s,%s,"Limit":25,"AsOf":%d}`, names, values, at), ""},
		{"QueryAt", fmt.Sprintf(`{"TableName":"Hostile","KeyConditionExpression":"#n0 = :v0 AND #n1 <= :v1",%s,%s,"AsOf":%d}`, names, values, at), "use curl"},
		{"ScanAt", fmt.Sprintf(`{"TableName":"Hostile","Limit":100,"AsOf":%d}`, at), ""},
		{"ScanAt", fmt.Sprintf(`{"TableName":"Hostile","FilterExpression":"attribute_exists(v)","AsOf":%d}`, at), "use curl"},
		{"ItemHistory", fmt.Sprintf(`{"TableName":"Hostile","Key":%s,"Limit":25}`, key), ""},
		{"UndoChanges", fmt.Sprintf(`{"TableName":"Hostile","From":%d,"To":%d,"Key":%s}`, at+1, to, key), ""},
	} {
		code := func(form string) string {
			return b.run(`const find = (name) => performance.getEntriesByType("resource").map((e) => e.name).find((n) => n.endsWith("/" + name));
				await t.go("#/table/Hostile/items"); await t.until(() => find("copyown.js"), "the module");
				const { ownForms } = await import(find("copyown.js"));
				const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";
				try { return ownForms({ url: $3, region: "us-east-1" }, quoted).find((f) => f.name === $4).make({ operation: "Stator." + $1, input: JSON.parse($2) }); } catch (err) { return "cannot: " + err.message; }`, c.operation, c.input, map[string]string{"curl": s.url, "stator": endpoint}[form], form)
		}
		command := code("stator")
		if c.want != "" {
			if !strings.Contains(command, c.want) {
				t.Errorf("%s %s is copied as %s", c.operation, c.input, command)
			}
		} else {
			words, err := shell(command)
			if err != nil {
				t.Fatalf("%s: %v", command, err)
			}
			requests.take()
			var out, problems bytes.Buffer
			if status := cli.Run(strings.Split(strings.TrimSuffix(words, "\x00"), "\x00"), &out, &problems); status != 0 {
				t.Fatalf("%s\n%s", command, problems.String())
			}
			sent := ""
			for _, call := range requests.take() {
				if call.target == "Stator."+c.operation {
					sent = call.request
				}
			}
			if got, want := withoutNames(t, sent), withoutNames(t, c.input); !reflect.DeepEqual(got, want) {
				t.Errorf("%s\nsends %s\nwant %s", command, sent, c.input)
			}
		}
		if _, err := exec.LookPath("curl"); err != nil {
			t.Log("curl is not installed")
			continue
		}
		got, err := shell("exec " + code("curl") + " --silent")
		if err != nil || !json.Valid([]byte(got)) || strings.Contains(got, "__type") || !strings.Contains(got, "😀") && !strings.Contains(got, `\ud83d`) {
			t.Errorf("%s %s by curl: %v %s", c.operation, c.input, err, got)
		}
	}
	// The history has the principal. Who may not read the past sees none of it.
	history := "#/table/Hostile/past/history?" + url.QueryEscape(`{"key":`+string(key)+`}`)
	history = strings.ReplaceAll(history, "+", "%20")
	s.present()
	b.run(`await t.go($1); await t.has("2 changes"); await t.el("li .who[title='arn:aws:iam::000000000000:user/ada']"); await t.click("button", "Request"); await t.click(".copyas button", "stator"); await t.has("stator history");
		await t.click("button", "Sign out"); await t.el("input[name=accessKey]");`, history)
	signIn(b, "bob")
	b.run(`await t.go("#/tables"); await t.go($1); await t.has("AccessDeniedException"); await t.has("stator:ItemHistory"); await t.go($2); await t.has("stator:ScanAt");
		await t.write(); await t.go($3); await t.click("button", "Preview"); await t.has("stator:UndoChanges");`, history, fmt.Sprintf(`#/table/Hostile/items?{"at":%d}`, at), fmt.Sprintf(`#/table/Hostile/past/undo?{"from":%d,"to":%d}`, at+1, to))
}

// serveEverything answers requests so that commands go on.
func serveEverything(t *testing.T) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := `{"Item":{"id":{"S":"1"}},"Items":[],"Changes":[],"Writes":[],"Conflicts":[]}`
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), "DescribeTable") {
			reply = `{"Table":{"KeySchema":[{"AttributeName":"id","KeyType":"HASH"},{"AttributeName":"sort","KeyType":"RANGE"}],"AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"},{"AttributeName":"sort","AttributeType":"N"}]}}`
		}
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// withoutNames returns a request in which placeholders are replaced by what they stand for.
func withoutNames(t *testing.T, request string) map[string]any {
	t.Helper()
	var in map[string]any
	if err := json.Unmarshal([]byte(request), &in); err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	if text, ok := in["KeyConditionExpression"].(string); ok {
		for _, member := range []string{"ExpressionAttributeNames", "ExpressionAttributeValues"} {
			for placeholder, of := range in[member].(map[string]any) {
				text = strings.ReplaceAll(text, placeholder, mustJSON(of))
			}
			delete(in, member)
		}
		in["KeyConditionExpression"] = text
	}
	return in
}

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// A console that only reads shows the past, and undoes and restores nothing. Another endpoint does not have the past, which the pages say.
func TestPastElsewhere(t *testing.T) {
	t.Parallel()
	s := servePast(t, func(o *stator.Options) { o.Console = stator.ConsoleRead })
	s.record(t, "Notes", "id S")
	s.put(t, "Notes", item{"id": text("1"), "v": text("old")})
	at := s.pass(10 * time.Second)
	s.put(t, "Notes", item{"id": text("1"), "v": text("new")})
	s.present()
	const history = `#/table/Notes/past/history?{"key":{"id":{"S":"1"}}}`
	past, undo := fmt.Sprintf(`#/table/Notes/items?{"at":%d}`, at), fmt.Sprintf(`#/table/Notes/past/undo?{"from":%d,"to":%d}`, at+1, at+10)
	b := s.open(t, history)
	b.run(`await t.has("2 changes"); if (t.all("button", "Undo").length) throw new Error("there is a button to undo"); await t.go($1); await t.rows(1); await t.has("old");
		await t.go($2); await t.has("This console only reads"); if (!t.all("button", "Preview")[0].disabled) throw new Error("an undo can be planned");
		await t.go("#/table/Notes/past/restore"); await t.has("cannot restore");
		for (const target of ["Stator.UndoChanges", "DynamoDB_20120810.RestoreTableToPointInTime"]) {
			const r = await fetch("api", { method: "POST", headers: { "X-Stator-Console": "write", "X-Amz-Target": target }, body: "{}" });
			if (r.status !== 403) throw new Error(target + " is answered with " + r.status);
		}`, past, undo)
	e := s.openBetween(t, history, func(r console.Request) *console.Reply {
		if strings.HasPrefix(r.Target, "Stator.") {
			return &console.Reply{Status: 400, Body: []byte(`{"__type":"com.amazonaws#UnknownOperationException"}`)}
		}
		return nil
	})
	e.run(`const says = () => t.has("This endpoint does not have the operation"); await says(); await t.go($1); await says(); await t.has("Stator.ScanAt"); await t.write(); await t.go($2); await t.click("button", "Preview"); await says();`, past, undo)
}
