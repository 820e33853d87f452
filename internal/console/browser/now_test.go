package browser

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/chromedp/chromedp/kb"

	"github.com/stator-db/stator"
)

// stream switches the stream of a table on.
func (s *server) stream(t *testing.T, table string) {
	t.Helper()
	if _, err := s.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{
		TableName: &table, StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	}); err != nil {
		t.Fatal(err)
	}
}

func (s *server) expire(t *testing.T, table, attribute string) {
	t.Helper()
	if _, err := s.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{TableName: &table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &attribute, Enabled: aws.Bool(true)}}); err != nil {
		t.Fatal(err)
	}
}

// receiver is an endpoint of triggers.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	got    []string // bodies that were accepted
}

func newReceiver(t *testing.T, status int) *receiver {
	t.Helper()
	r := &receiver{status: status}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		w.WriteHeader(r.status)
		if r.status == http.StatusOK {
			r.got = append(r.got, string(body))
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) accepted() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.got, "\n")
}

// nowOptions are those of a server on which much happens: two triggers, one of which gives records
// up, and items that stay although they have expired.
func nowOptions(t *testing.T) func(*stator.Options) {
	return func(o *stator.Options) {
		if browser == nil {
			return
		}
		none := 0
		o.ExpiryInterval, o.ScrubRate, o.BackupEvery = time.Hour, 1000, time.Hour
		o.Triggers = []stator.Trigger{
			{Name: "receipts", Table: "Payments", URL: newReceiver(t, http.StatusBadRequest).URL, MaxRetries: &none, BatchSize: 1, DeadLetter: filepath.Join(t.TempDir(), "receipts.jsonl"), Filters: []stator.TriggerPattern{`{"eventName": ["MODIFY"]}`}},
			{Name: "ledger", Table: "Payments", URL: newReceiver(t, http.StatusServiceUnavailable).URL},
		}
	}
}

// happenings makes what the pages of what happens now show.
func (s *server) happenings(t *testing.T) {
	t.Helper()
	s.create(t, "Payments", "order S", "part N")
	s.stream(t, "Payments")
	amount := []string{"19.90", "249.00", "7.25"}
	for i, status := range []string{"authorized", "captured"} {
		for n := range 3 {
			payment := item{"order": text(fmt.Sprintf("o-10%d", 24+n)), "part": number("1"), "status": text(status), "amount": number(amount[n]), "currency": text("EUR"),
				"card": &types.AttributeValueMemberM{Value: item{"brand": text("visa"), "last4": text(fmt.Sprintf("42%d7", n)), "attempts": number(fmt.Sprint(i + 1))}}}
			if i == 1 {
				payment["capturedBy"] = text("checkout-7")
			}
			s.put(t, "Payments", payment)
		}
	}
	s.put(t, "Payments", item{"order": text("o-1023"), "part": number("1"), "status": text("failed")})
	if _, err := s.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("Payments"), Key: item{"order": text("o-1023"), "part": number("1")}}); err != nil {
		t.Fatal(err)
	}
	s.create(t, "Carts", "id S")
	now := time.Now().Unix()
	for i, in := range []int64{-95, -20, 70, 900, 5400, 90000} {
		s.put(t, "Carts", item{"id": text(fmt.Sprintf("cart-%d", i+1)), "until": number(fmt.Sprint(now + in))})
	}
	s.put(t, "Carts", item{"id": text("cart-wrong"), "until": number(fmt.Sprint(now * 1000))})
	s.expire(t, "Carts", "until")
	if _, err := s.CreateBackup(t.Context(), &dynamodb.CreateBackupInput{TableName: aws.String("Orders"), BackupName: aws.String("before-migration")}); err != nil {
		t.Fatal(err)
	}
}

const script = `<img src=x onerror="faults.push('ran')"><script>faults.push("ran")</script>`

// Changes appear as they are made, with what differs; they are filtered, paused, and bounded in number.
func TestStream(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *stator.Options) { o.ShardDuration = 3 * time.Second })
	s.create(t, "Jobs", "id S")
	b := s.open(t, "#/table/Jobs/stream")
	b.run(`await t.has("This table has no stream"); await t.write(); await t.click("button", "Switch the stream on"); await t.until(() => t.all(".phase.live").length === 1, "live");`)
	s.put(t, "Jobs", item{"id": text("a"), "n": number("1"), "m": &types.AttributeValueMemberM{Value: item{"x": text("1"), "y": text("same")}}})
	b.run(`await t.has("1 records read");`)
	s.put(t, "Jobs", item{"id": text("a"), "n": number("12345678901234567890123456789012345678"), "m": &types.AttributeValueMemberM{Value: item{"x": text("2"), "y": text("same")}}, script: text(script)})
	got := b.run(`const row = await t.until(() => t.all(".feed tbody > tr").find((r) => r.textContent.includes("modify")), "the change");
		row.querySelector(".opener").click(); await t.el(".images");
		return [...document.querySelectorAll(".images tbody tr")].filter((r) => r.className).map((r) => [...r.cells].map((c) => c.textContent.trim()).join(" | ")).join("\n")`)
	for _, want := range []string{"≠changed | n | 1 N | 12345678901234567890123456789012345678 N", "≠changed | m.x | 1 S | 2 S", "same | m.y | same S | same S", script + ` S`} {
		if !strings.Contains(got, want) {
			t.Errorf("the change is shown as\n%s\nwithout %s", got, want)
		}
	}
	if _, err := s.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("Jobs"), Key: item{"id": text("a")}}); err != nil {
		t.Fatal(err)
	}
	count := `const n = (k) => document.querySelectorAll(".feed .event" + (k ? "." + k : "")).length; `
	b.run(count + `await t.until(() => n("remove") === 1, "the removal"); if (n() !== 3) throw new Error("there are " + n() + " rows");
		await t.click(".kinds label", "insert"); await t.until(() => n() === 2, "no insertion"); await t.click(".kinds label", "insert");
		await t.fill("[data-search]", "SAME"); await t.until(() => n() === 3, "rows with a text");
		await t.fill("[data-search]", "n=1234"); await t.until(() => n() === 2, "rows with a number"); await t.fill("[data-search]", "");
		await t.fill('[placeholder="Key contains"]', "b"); await t.until(() => n() === 0, "no row with the key"); await t.has("No record matches"); await t.fill('[placeholder="Key contains"]', "");`)

	// A pause keeps the position, also while shards are replaced, and with the keyboard.
	b.run(`document.activeElement.blur();`)
	b.keys("p")
	b.run(`await t.has("paused");`)
	for i := range 25 {
		s.put(t, "Jobs", item{"id": text(fmt.Sprintf("b%02d", i))})
		b.run(`await t.rest(); await t.rest(); await t.rest(); await t.rest();`)
	}
	b.run(`if (document.body.innerText.includes("b00")) throw new Error("a paused stream goes on"); document.activeElement.blur();`)
	b.keys("p")
	b.run(`await t.has("b24"); await t.has("28 records read");`)
	// From the oldest on, everything is there again, and in the order of each item.
	b.run(count + `await t.fill("select", "TRIM_HORIZON"); await t.has("28 records read"); await t.fill('[placeholder="Key contains"]', "a"); await t.until(() => n() === 3, "three changes");
		const order = t.all(".feed .event").map((e) => e.textContent).join(" "); if (order !== "remove modify insert") throw new Error(order);
		await t.fill('[placeholder="Key contains"]', "");`)
	b.run(`await t.fill("select", "TIME"); await t.has("Choose a time"); const at = new Date(Date.now() + 3600e3); at.setMinutes(at.getMinutes() - at.getTimezoneOffset());
		await t.fill("input[type=datetime-local]", at.toISOString().slice(0, 19)); await t.has("28 older ones were read and left out");`)
	b.run(`document.activeElement.blur(); await t.fill("select", "TRIM_HORIZON"); await t.has("28 records read"); document.querySelector(".feed").focus();`)
	b.keys(kb.ArrowDown)
	b.keys("\r")
	b.run(`await t.el(".feed tr.detail");`)

	// The newest thousand are kept.
	for i := range 41 {
		var batch []types.WriteRequest
		for n := range 25 {
			batch = append(batch, types.WriteRequest{PutRequest: &types.PutRequest{Item: item{"id": text(fmt.Sprintf("c%d-%d", i, n))}}})
		}
		if _, err := s.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"Jobs": batch}}); err != nil {
			t.Fatal(err)
		}
	}
	b.run(`await t.has("the newest 1,000 are kept"); const n = document.querySelectorAll(".feed tbody > tr").length; if (n > 201) throw new Error(n + " rows are drawn");
		await t.click("button", "Clear"); await t.has("The stream has no records");`)
}

// A trigger shows what it does. Dead letters are replayed, one or all, if changes are on.
func TestTriggers(t *testing.T) {
	t.Parallel()
	endpoint := newReceiver(t, http.StatusBadRequest)
	none := 0
	s := serve(t, func(o *stator.Options) {
		o.Triggers = []stator.Trigger{{Name: "mail", Table: "Users", URL: endpoint.URL + "/secret", MaxRetries: &none, BatchSize: 1, DeadLetter: filepath.Join(t.TempDir(), "mail.jsonl")}}
	})
	b := s.open(t, "#/now/triggers")
	b.run(`await t.has("no stream");`)
	s.create(t, "Users", "id S")
	s.stream(t, "Users")
	for i := range 3 {
		s.put(t, "Users", item{"id": text(fmt.Sprintf("u%d", i)), "name": text(script)})
	}
	b.run(`await t.until(() => t.all(".figures dd.bad", "3").length, "three dead letters"); await t.has("the endpoint answered 400"); if (document.body.innerText.includes("secret")) throw new Error("the path of the endpoint is shown");
		await t.click("a", "Dead letters"); await t.until(() => t.all(".feed .opener").length === 3, "three rows"); await t.click(".opener"); await t.has("onerror=");
		const replay = await t.el(".detail button", "Replay"); if (!replay.disabled) throw new Error("a replay is possible while changes are off");
		await t.write();`)
	endpoint.answer(http.StatusOK)
	b.run(`await t.click(".detail button", "Replay"); await t.has("1 record was replayed"); await t.until(() => t.all(".feed .opener").length === 2, "two rows");`)
	if got := endpoint.accepted(); strings.Count(got, `"eventID"`) != 1 {
		t.Errorf("the endpoint has %s", got)
	}
	endpoint.answer(http.StatusTeapot)
	b.run(`await t.click("button", "Replay all"); await t.click("dialog button.primary", "Replay all"); await t.has("2 were rejected: the endpoint answered 418"); await t.until(() => t.all(".feed .opener").length === 2, "two rows");`)
	endpoint.answer(http.StatusOK)
	b.run(`document.activeElement.blur();`)
	b.keys("r")
	b.run(`await t.click("dialog button.primary", "Replay all"); await t.has("2 records were replayed"); await t.has("No dead letters");`)
	got := endpoint.accepted()
	for i := range 3 {
		if !strings.Contains(got, fmt.Sprintf(`"u%d"`, i)) {
			t.Errorf("u%d was not replayed: %s", i, got)
		}
	}
}

// A console that only reads shows dead letters, and its server rejects a replay.
func TestReplayNeedsChanges(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *stator.Options) { o.Console = stator.ConsoleRead })
	b := s.open(t, "#/now/triggers")
	b.run(`await t.has("This server runs without triggers");`)
	if got := b.run(`const reply = await fetch(new URL("api", location.href.split("#")[0]), { method: "POST", headers: { "X-Stator-Console": "write", "X-Amz-Target": "Stator.ReplayDeadLetters" }, body: '{"TriggerName":"mail","All":true}' }); return reply.status + (await reply.json()).__type`); got != "403ConsoleReadOnly" {
		t.Errorf("a replay is answered with %s", got)
	}
}

// What is due and what comes next is shown for each table with a time to live.
func TestExpiry(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *stator.Options) { o.ExpiryInterval = time.Hour })
	b := s.open(t, "#/now/expiry")
	b.run(`await t.has("No table has a time to live");`)
	s.create(t, "Sessions", "id S")
	s.expire(t, "Sessions", "ttl")
	now := time.Now().Unix()
	for i, at := range []int64{now - 30, now - 10, now + 3600, (now + 60) * 1000} {
		s.put(t, "Sessions", item{"id": text(fmt.Sprintf("s%d%s", i, script)), "ttl": number(fmt.Sprint(at))})
	}
	b.run(`await t.go("#/tables"); await t.go("#/now/expiry"); await t.until(() => t.all(".feed td.number", "2").length, "two that are due"); await t.has("last sweep");
		await t.click(".opener"); const due = await t.until(() => { const d = t.all(".detail section")[0]; return d.innerText.includes("s0") && d.innerText.includes("s1") && d; }, "the due items");
		if (due.innerText.includes("s2")) throw new Error("what comes next is due");
		await t.until(() => t.all(".detail section")[1].innerText.includes("s2") && /in (59 min|1 h)/.test(t.all(".detail section")[1].innerText), "what comes next"); await t.has("not in milliseconds");`)
}

// Jobs that wait, run and have ended are listed, with their progress.
func TestJobs(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *stator.Options) { o.NoBackground, o.ScrubRate, o.BackupEvery = true, 100, time.Hour })
	b := s.open(t, "#/now/jobs")
	b.run(`await t.has("Nothing is running"); await t.has("Verification of stored data"); await t.has("Scheduled backups");`)
	s.orders(t, 5)
	if _, err := s.CreateBackup(t.Context(), &dynamodb.CreateBackupInput{TableName: aws.String("Orders"), BackupName: aws.String("nightly")}); err != nil {
		t.Fatal(err)
	}
	b.run(`await t.has("by-status"); await t.has("waiting"); await t.el("progress[aria-label='Progress of index build of Orders']"); await t.has("nightly"); await t.has("creating");`)
	// A part that is done is drawn as such.
	b.run(`const send = window.fetch; window.fetch = async (url, o) => o?.headers?.["X-Amz-Target"] !== "Stator.ListJobs" ? send(url, o) : new Response(JSON.stringify({ Jobs: [
			{ JobType: "CREATE_INDEX", Status: "RUNNING", TableName: "Orders", IndexName: "by-status", Progress: 0.427, Items: 427000, ExpectedItems: 1000000 }] }));
		await t.has("42 %"); await t.has("about 427,000 of 1,000,000 items"); if (document.querySelector("progress").value !== 0.427) throw new Error("the bar");`)
}

// Against an endpoint that lacks an operation, the page says so, and shows what there is.
func TestNowOfOtherEndpoints(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *stator.Options) { o.NoBackground = true })
	s.orders(t, 5)
	s.expire(t, "Orders", "until")
	b := s.open(t, "#/tables")
	b.run(`const send = window.fetch; window.fetch = async (url, o) => /^Stator|Streams|Import|Export/.test(o?.headers?.["X-Amz-Target"] ?? "")
			? new Response(JSON.stringify({ __type: "com.amazonaws#UnknownOperationException" }), { status: 400 }) : send(url, o);
		await t.go("#/now/streams"); await t.has("does not have DynamoDB Streams");
		await t.go("#/now/triggers"); await t.has("does not have triggers");
		await t.go("#/now/expiry"); await t.has("and not what is due"); await t.has("until");
		await t.go("#/now/jobs"); await t.has("by-status"); await t.has("does not have imports, exports, the progress of index builds and restores");`)
}

// A view that reads every two seconds does not repeat what was denied as often: the server writes each denial down, and
// explains the last 500. A permission that is granted counts as soon as the view is opened again.
func TestDeniedJobs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	access, err := stator.OpenAccess(writeAccess(t, dir, map[string][]string{"ada": {"dynamodb:List*"}}))
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(o *stator.Options) { o.Access = access })
	b := s.open(t, "")
	b.run(`await t.fill("input[name=accessKey]", "ADAKEY"); await t.fill("input[name=secret]", "ada-secret-0123456789"); await t.click("button", "Sign in"); await t.has("No tables yet");
		window.sent = {}; const send = window.fetch;
		window.fetch = (to, how) => { const target = how?.headers?.["X-Amz-Target"]; sent[target] = (sent[target] ?? 0) + 1; return send(to, how); };
		await t.go("#/now/jobs"); await t.until(() => sent["DynamoDB_20120810.ListBackups"] === 4, "what is allowed is read again"); await t.has("not authorized to perform: stator:ListJobs");
		if (sent["Stator.ListJobs"] !== 1) throw new Error("what is denied was sent " + sent["Stator.ListJobs"] + " times");`)
	writeAccess(t, dir, map[string][]string{"ada": {"dynamodb:List*", "stator:ListJobs"}})
	if _, err := access.Reload(); err != nil {
		t.Fatal(err)
	}
	b.run(`await t.go("#/tables"); await t.has("No tables yet"); await t.go("#/now/jobs"); await t.has("Nothing is running"); await t.until(() => sent["Stator.ListJobs"] > 2, "what is allowed now is read again");
		if (document.body.innerText.includes("not authorized")) throw new Error(document.body.innerText);`)
}
