package browser

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/tablemodel"
)

// ordersModel is a model of the table that busy makes. No pattern of it matches scans.
const ordersModel = `model: 1
name: Orders
description: Orders of customers, by time and by status
tables:
  Orders:
    key: {partition: customer, sort: placed}
    billing: provisioned
    read: {units: 100}
    write: {units: 8}
    indexes:
      by-status: {partition: status, sort: placed, projection: ALL, read: {units: 50}, write: {units: 100}}
  Carts:
    key: {partition: id}
entities:
  order:
    table: Orders
    attributes:
      customer: {size: 6, distinct: 400, example: c-0017}
      placed: {format: iso8601}
      status: {values: [open, paid, shipped]}
      total: {type: N, example: 49.95}
      lines: {size: 1100, example: "2 x sku-17"}
    growth: 2000/day
  cart:
    table: Carts
    attributes:
      id: {format: uuid}
      lines: {type: L, count: 3, size: 60}
    count: 5000
patterns:
  - {name: orders of a customer, query: order, given: [customer], matches: 5, rate: 40/min}
  - {name: one order, get: order, given: [customer, placed], consistent: true, rate: 30/min}
  - {name: orders by status, query: order, index: by-status, given: [status], matches: 10, rate: 2/min}
  - {name: place an order, put: order, replaces: true, rate: 20/min, peak: 5/s}
  - {name: cart by id, get: cart, given: [id], rate: 5/s}
`

// busyServer is a server with traffic in its last hour.
type busyServer struct {
	*server
	units struct{ read, write float64 } // that requests to Orders itself have consumed
}

// quietly sends a request whose reply may be a fault.
func (s *server) quietly(t *testing.T, target, body string) (reply map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil {
		err = json.Unmarshal(text, &reply)
	}
	if err != nil {
		t.Fatalf("%s: %s, %v", target, text, err)
	}
	return reply
}

const dynamo = "DynamoDB_20120810."

// busyMinutes is how long the traffic of a busyServer lasts. It is in the last hour for the eight minutes
// that a test may take on a busy machine.
const busyMinutes = 52

// busy makes a server whose clock has passed busyMinutes with traffic: an even load, a hot key, scans, and too many writes.
func busy(t *testing.T) *busyServer {
	t.Helper()
	var behind atomic.Int64
	behind.Store(int64(busyMinutes * time.Minute))
	file := filepath.Join(t.TempDir(), "orders.model.yaml")
	if err := os.WriteFile(file, []byte(ordersModel), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &busyServer{server: serve(t, func(o *stator.Options) {
		o.Now = func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) }
		o.Throttle, o.ConsoleModels = true, tablemodel.Console(file)
	})}
	s.quietly(t, dynamo+"CreateTable", `{"TableName":"Orders","ProvisionedThroughput":{"ReadCapacityUnits":100,"WriteCapacityUnits":8},
		"AttributeDefinitions":[{"AttributeName":"customer","AttributeType":"S"},{"AttributeName":"placed","AttributeType":"S"},{"AttributeName":"status","AttributeType":"S"}],
		"KeySchema":[{"AttributeName":"customer","KeyType":"HASH"},{"AttributeName":"placed","KeyType":"RANGE"}],
		"WarmThroughput":{"ReadUnitsPerSecond":12000,"WriteUnitsPerSecond":4000},
		"GlobalSecondaryIndexes":[{"IndexName":"by-status","KeySchema":[{"AttributeName":"status","KeyType":"HASH"},{"AttributeName":"placed","KeyType":"RANGE"}],"Projection":{"ProjectionType":"ALL"},"ProvisionedThroughput":{"ReadCapacityUnits":50,"WriteCapacityUnits":100}}]}`)
	s.create(t, "Carts", "id S")
	s.quietly(t, dynamo+"UpdateContributorInsights", `{"TableName":"Orders","ContributorInsightsAction":"ENABLE"}`)
	const seed = 11
	random := rand.New(rand.NewPCG(seed, 0))
	count := func(reply map[string]any) {
		consumed, _ := reply["ConsumedCapacity"].(map[string]any)
		table, _ := consumed["Table"].(map[string]any)
		read, _ := table["ReadCapacityUnits"].(float64)
		write, _ := table["WriteCapacityUnits"].(float64)
		if both, ok := table["CapacityUnits"].(float64); ok && read+write == 0 {
			read = both
		}
		s.units.read, s.units.write = s.units.read+read, s.units.write+write
	}
	lines := strings.Repeat("2 x sku-17, ", 90)
	var keys []string
	put := func(n int) {
		for range n {
			customer, placed := fmt.Sprintf("c-%04d", random.IntN(400)), fmt.Sprintf("2026-11-18T%02d:%02d:%02dZ", random.IntN(24), random.IntN(60), random.IntN(60))
			reply := s.quietly(t, dynamo+"PutItem", fmt.Sprintf(`{"TableName":"Orders","ReturnConsumedCapacity":"INDEXES","Item":{"customer":{"S":%q},"placed":{"S":%q},"status":{"S":%q},"total":{"N":"49.95"},"lines":{"S":%q}}}`,
				customer, placed, []string{"open", "paid", "shipped"}[random.IntN(3)], lines))
			if c, ok := reply["ConsumedCapacity"].(map[string]any); ok {
				table, _ := c["Table"].(map[string]any)
				units, _ := table["CapacityUnits"].(float64)
				s.units.write += units
				keys = append(keys, fmt.Sprintf(`{"customer":{"S":%q},"placed":{"S":%q}}`, customer, placed))
			}
		}
	}
	for minute := range busyMinutes {
		put(12)
		for range 16 {
			count(s.quietly(t, dynamo+"GetItem", `{"TableName":"Orders","ReturnConsumedCapacity":"INDEXES","ConsistentRead":true,"Key":`+keys[random.IntN(len(keys))]+`}`))
		}
		query := func(customer string) {
			count(s.quietly(t, dynamo+"Query", fmt.Sprintf(`{"TableName":"Orders","ReturnConsumedCapacity":"INDEXES","KeyConditionExpression":"customer = :c","ExpressionAttributeValues":{":c":{"S":%q}}}`, customer)))
		}
		for range 4 {
			query(fmt.Sprintf("c-%04d", random.IntN(400)))
		}
		if minute > 20 && minute < 40 {
			for range 18 {
				query("c-0017")
			}
		}
		if minute%20 == 9 {
			count(s.quietly(t, dynamo+"Scan", `{"TableName":"Orders","ReturnConsumedCapacity":"INDEXES"}`))
		}
		if minute == 48 {
			// All units are consumed, also those that were saved, by one large item.
			s.quietly(t, dynamo+"PutItem", `{"TableName":"Carts","Item":{"id":{"S":"c1"}}}`)
			for range 16 {
				reply := s.quietly(t, dynamo+"PutItem", fmt.Sprintf(`{"TableName":"Orders","ReturnConsumedCapacity":"INDEXES","Item":{"customer":{"S":"c-0099"},"placed":{"S":"2026"},"lines":{"S":%q}}}`, strings.Repeat("x", 390_000)))
				if c, ok := reply["ConsumedCapacity"].(map[string]any); ok {
					table, _ := c["Table"].(map[string]any)
					units, _ := table["CapacityUnits"].(float64)
					s.units.write += units
				}
			}
		}
		behind.Add(-int64(time.Minute))
		s.quietly(t, "Stator.GetHeat", `{"TableName":"Orders"}`) // ends the minute
	}
	return s
}

// The map shows what requests have consumed, to the unit, and is used with the keyboard alone.
func (s *busyServer) testHeatMap(t *testing.T) {
	b := s.open(t, "#/heat/Orders")
	b.run(`await t.has("Units by hash range"); await t.until(() => document.querySelector(".heat-map")?.width > 300, "the map");`)
	// The legend prints the scale, and the map has colours, borders and marks.
	legend := b.run(`return (await t.el(".heat-legend")).innerText.replaceAll("\n", " ")`)
	for _, want := range []string{"a second", "throttled requests", "3,000 read and 1,000 write"} {
		if !strings.Contains(legend, want) {
			t.Errorf("the legend is %q, without %q", legend, want)
		}
	}
	if colors := b.run(`const c = document.querySelector(".heat-map"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, seen = new Set();
		for (let i = 0; i < d.length; i += 4) seen.add(d[i] >> 4 << 8 | d[i + 1] >> 4 << 4 | d[i + 2] >> 4);
		return seen.size;`); number64(t, colors) < 8 {
		t.Errorf("the map has %s colours", colors)
	}
	// The legend has the colours of the theme: its cold end is light in one, and dark in the other.
	for _, theme := range []string{"dark", "light"} {
		cold := b.run(`await t.until(() => { if (document.documentElement.dataset.theme === $1) return true; t.all('[aria-label*="heme"]')[0].click(); return false; }, "the theme"); await t.rest();
			return document.querySelector(".scale canvas").getContext("2d").getImageData(2, 5, 1, 1).data[0];`, theme)
		if light := number64(t, cold) > 128; light != (theme == "light") {
			t.Errorf("in the %s theme the cold end of the legend has %s of red", theme, cold)
		}
	}
	sums := func() (read, write, throttled float64) {
		text := b.run(`document.querySelectorAll("details").forEach((d) => (d.open = true)); await t.rest();
			return JSON.stringify([...document.querySelectorAll(".heat-table tbody tr")].map((r) => [2, 3, 4].map((i) => Number(r.cells[i].innerText.replaceAll(",", "")))));`)
		var rows [][3]float64
		if err := json.Unmarshal([]byte(text), &rows); err != nil || len(rows) != 4 {
			t.Fatalf("the table has %s, %v", text, err)
		}
		for _, r := range rows {
			read, write, throttled = read+r[0], write+r[1], throttled+r[2]
		}
		return read, write, throttled
	}
	read, write, throttled := sums()
	if math.Abs(read-s.units.read) > 2+0.005*s.units.read || math.Abs(write-s.units.write) > 2+0.005*s.units.write || throttled == 0 { // three digits are shown
		t.Errorf("the table has %v read and %v write units and %v throttles; requests have consumed %+v", read, write, throttled, s.units)
	}
	b.run(`document.querySelectorAll("details").forEach((d) => (d.open = false)); document.querySelector(".heat-map").focus();`)
	b.keys("h")
	hottest := b.run(`return (await t.until(() => document.querySelector(".heat-text strong") && document.querySelector(".heat-text").innerText))`)
	if !strings.Contains(hottest, "read units (") || !strings.Contains(hottest, "partition") {
		t.Errorf("the hottest cell is %q", hottest)
	}
	for _, key := range []string{"ArrowLeft", "ArrowDown", "ArrowRight", "ArrowUp", "Home", "End"} {
		was := b.run(`return document.querySelector(".heat-text").innerText`)
		b.run(`document.querySelector(".heat-map").dispatchEvent(new KeyboardEvent("keydown", { key: $1, bubbles: true, cancelable: true })); await t.rest();`, key)
		if is := b.run(`return document.querySelector(".heat-text").innerText`); is == was && key != "End" {
			t.Errorf("after %s the text still is %q", key, is)
		}
	}
	b.keys("\r")
	b.run(`await t.until(() => document.querySelector("select[aria-label=Zoom]").value !== "", "a zoom");`)
	b.keys("\u001b")
	b.run(`await t.until(() => document.querySelector("select[aria-label=Zoom]").value === "", "no zoom");
		await t.fill("select[aria-label=Units]", "write"); await t.has("write units a second"); await t.fill("select[aria-label=Scale]", "limit"); await t.until(() => document.querySelector(".heat-legend").innerText.includes("1,000\n") || document.querySelector(".scale-ticks").innerText.includes("1,000"), "the limit");
		document.activeElement.blur();`)
	// The pointer shows what the keyboard shows.
	at := b.run(`const r = document.querySelector(".heat-map").getBoundingClientRect(); return JSON.stringify([r.left + r.width / 2, r.top + r.height / 2])`)
	var place [2]float64
	if err := json.Unmarshal([]byte(at), &place); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(b.ctx, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, place[0], place[1])); err != nil {
		t.Fatal(err)
	}
	b.run(`await t.until(() => document.querySelector(".heat-text strong"), "the cell under the pointer");`)
	// Keys, the index, and other times.
	b.run(`await t.until(() => t.all(".keys-table tbody tr").length >= 5, "the keys"); if (!t.all(".keys-table tr", "c-0017")[0].innerText.includes("of a partition")) throw new Error("no share");
		await t.has("Throttled most");
		await t.fill("select[aria-label=Index]", "by-status"); await t.has("Keys of this index are not counted"); await t.write(); await t.click("button", "Count keys"); await t.has("Keys are counted from now on.");
		await t.until(() => document.querySelector(".heat-map"), "the map of the index"); await t.click(".segments button", "7 d"); await t.until(() => location.hash.includes("7"), "7 days"); await t.has("Units by hash range");`)
}

// Charts show units, throttles and latencies, and their values by key and as tables.
func (s *busyServer) testHeatCharts(t *testing.T) {
	b := s.open(t, "#/heat/Orders")
	b.run(`await t.has("99th percentile"); await t.until(() => t.all(".chart polyline").length >= 6, "lines");
		const labels = t.all(".chart svg").map((e) => e.getAttribute("aria-label")).join("\n");
		for (const want of ["Read units, a second: consumed", "provisioned up to", "Latency, median, milliseconds", "GetItem", "Throttled, requests"]) if (!labels.includes(want)) throw new Error("no " + want + " in " + labels);
		const svg = t.all(".chart svg")[0]; svg.focus(); svg.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true, cancelable: true })); await t.rest();
		await t.until(() => document.querySelector(".chart .legend strong"), "a value");
		t.all(".chart details")[0].open = true; await t.until(() => t.all(".chart tbody tr").length >= 50, "the table of a chart");`)
}

// The bill is what was consumed and provisioned at the prices of models, by table, index and pattern.
func (s *busyServer) testCost(t *testing.T) {
	b := s.open(t, "#/cost")
	b.run(`await t.until(() => t.all(".bill tbody tr").length === 3, "three lines"); await t.until(() => t.all(".bill-patterns tbody tr").length >= 4, "patterns");`)
	text := b.run(`return JSON.stringify(Object.fromEntries(t.all(".bill tbody tr").map((r) => [r.cells[0].innerText + "." + r.cells[1].innerText, [...r.cells].slice(2).map((c) => c.innerText)])))`)
	var lines map[string][]string
	if err := json.Unmarshal([]byte(text), &lines); err != nil {
		t.Fatal(err)
	}
	// 100 read units of $0.00013 and 8 write units of $0.00065 for an hour.
	if l := lines["Orders."]; len(l) < 5 || l[0] != "provisioned" || l[3] != "$0.02" || l[4] != "$13.29" {
		t.Errorf("Orders costs %v", l)
	}
	if l := lines["Orders.by-status"]; len(l) < 5 || l[4] != "$52.20" {
		t.Errorf("the index costs %v", l)
	}
	if l := lines["Carts."]; len(l) < 5 || l[0] != "on demand" || l[2] != "1" {
		t.Errorf("Carts costs %v", l)
	}
	patterns := b.run(`return t.all(".bill-patterns tbody tr").map((r) => r.innerText).join("\n")`)
	for _, want := range []string{"orders of a customer", "one order", "place an order", "no pattern: see drift"} {
		if !strings.Contains(patterns, want) {
			t.Errorf("the patterns are\n%s\nwithout %s", patterns, want)
		}
	}
}

// A model is checked, priced and heated as it is edited and with another traffic; requests are compared with it.
func (s *busyServer) testModel(t *testing.T) {
	b := s.open(t, "#/model")
	tile := func(i int) string {
		return b.run(fmt.Sprintf(`return t.all(".tile .tile-value")[%d].innerText`, i))
	}
	b.run(`await t.has("orders.model.yaml"); await t.until(() => t.all(".tile").length === 5, "tiles"); await t.has("Orders of customers, by time and by status");`)
	if got := tile(0); got != "5 of 5" {
		t.Errorf("%s patterns are served", got)
	}
	reads := tile(2)
	b.run(`await t.fill("input.times", "10"); await t.until(() => t.all(".tile .delta").length >= 2, "the change");`)
	if a, b := number64(t, reads), number64(t, tile(2)); math.Abs(b-10*a) > 0.1*a {
		t.Errorf("ten times the traffic reads %v units, once %v", b, a)
	}
	b.run(`await t.click("button", "As declared"); await t.until(() => t.all(".tile .delta").length === 0, "the declared traffic");
		await t.fill('input[aria-label="Rate of place an order"]', "many"); await t.until(() => document.querySelector('input[aria-label="Rate of place an order"][aria-invalid=true]'), "an invalid rate");
		await t.fill('input[aria-label="Rate of place an order"]', "2000/s"); await t.until(() => t.all(".tile .delta").length >= 1, "the rate"); await t.until(() => Number(t.all(".tile .tile-value")[3].innerText.replaceAll(",", "")) >= 2000, "the writes"); await t.until(() => t.all(".tile.tone-bad .tile-label", "fault").length === 1, "the number of faults");
		await t.click("button", "Play"); await t.has("requests are throttled"); await t.has("give table Orders");
		await t.click("button.link", "one order"); await t.until(() => t.all("tr.detail pre", "ConsistentRead").length === 1, "the request");`)
	// The single-table view, by entity and by index.
	b.run(`await t.until(() => t.all(".single .entity-cell", "order").length >= 2, "rows"); await t.click(".segments button", "by-status"); await t.has("orders by status");`)
	// Drift.
	b.run(`await t.until(() => t.all(".drift-patterns tbody tr").length === 5, "the patterns"); await t.until(() => t.all(".strays tr", "Scan · Orders").length === 1, "the scans");
		if (!t.all(".drift-patterns tr", "cart by id")[0].innerText.includes("never requested")) throw new Error("carts were read");
		if (!/ok|shared/.test(t.all(".drift-patterns tr", "orders of a customer")[0].innerText)) throw new Error(t.all(".drift-patterns tr", "orders of a customer")[0].innerText);`)
	// The text, and another file.
	b.run(`await t.click("button", "Edit text"); await t.fill("dialog textarea", "model: 1\ntables: {abc: 1}"); await t.click("dialog button.primary", "Check"); await t.has("The text is no model yet"); await t.has("line 2");
		await t.choose("input[type=file]", "other.model.yaml", $1); await t.has("other.model.yaml"); await t.until(() => t.all(".tile .tile-value")[0]?.innerText === "5 of 5", "the other model");
		await t.click("button", "Read the file again").catch(() => {});`, strings.Replace(ordersModel, "name: Orders", "name: Other", 1))
	if got := b.run(`return document.querySelector("h1").innerText`); got != "Other" {
		t.Errorf("the title is %q", got)
	}
}

// parcelsModel is a model with a status machine and a load that differs over a day.
const parcelsModel = `model: 1
name: Parcels
tables:
  Parcels:
    key: {partition: office, sort: id}
entities:
  parcel:
    table: Parcels
    attributes:
      office: {size: 4, distinct: 20, example: K-07}
      id: {format: uuid}
      status: {values: [packed, sent, delivered, returned]}
    count: 5000
machines:
  parcel:
    description: A parcel that came back is sent again.
    entity: parcel
    attribute: status
    initial: packed
    transitions:
      - {from: packed, to: sent}
      - {from: sent, to: delivered}
      - {from: sent, to: returned}
      - {from: returned, to: sent}
patterns:
  - {name: pack, put: parcel, condition: attribute_not_exists(id), rate: 20/s, peak: 400/s}
  - {name: one parcel, get: parcel, given: [office, id], rate: 1/s, peak: 300/s}
  - {name: send, update: parcel, given: [office, id], from: {status: packed}, set: {status: sent}, condition: "#status = :was", values: {":was": packed}, rate: 1/min}
  - {name: deliver, update: parcel, given: [office, id], from: {status: sent}, set: {status: delivered}, condition: "#status = :was", values: {":was": sent}, rate: 1/min}
  - {name: take back, update: parcel, given: [office, id], from: {status: sent}, set: {status: returned}, condition: "#status = :was", values: {":was": sent}, rate: 1/min}
  - {name: send again, update: parcel, given: [office, id], from: {status: returned}, set: {status: sent}, condition: "#status = :was", values: {":was": returned}, rate: 1/min}
`

// The states of items and the load over a day are drawn as stator model doc draws them.
func TestDiagramsOfModels(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "parcels.model.yaml")
	if err := os.WriteFile(file, []byte(parcelsModel), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(o *stator.Options) { o.ConsoleModels = tablemodel.Console(file) })
	b := s.open(t, "#/model")
	got := b.run(`await t.until(() => document.querySelector(".machine svg"), "the machine"); const m = t.all(".machine")[0], states = [...m.querySelectorAll("svg text:not(.small)")].map((e) => e.textContent).sort().join(" ");
		return [states, m.querySelectorAll("path.arrow").length, [...m.querySelectorAll(".transitions tbody tr")].map((r) => [...r.cells].map((c) => c.innerText.trim()).filter(Boolean).join(" ")).join("; ")].join("\n")`)
	const want = "delivered packed returned sent\n5\n1 packed sent send; 2 sent delivered deliver; 3 sent returned take back; 4 returned sent send again"
	if got != want {
		t.Errorf("the machine has\n%s\nwant\n%s", got, want)
	}
	got = b.run(`await t.until(() => document.querySelector(".day polyline"), "a curve"); return t.all(".day text", ":00").length + " " + t.all(".day polyline").length + " " + t.all(".day-legend li")[0].innerText`)
	if !strings.HasPrefix(got, "9 1 {office} Parcels: ") || !strings.Contains(got, "at the peak") {
		t.Errorf("the day has %s", got)
	}
	s.checkPages(t, []consolePage{{"model-machine", "#/model", `await t.until(() => document.querySelector(".machine svg"), "the machine"); document.querySelector("#model-day").scrollIntoView();`}})
}

// Pages follow the clock of the server, which stands still in another week than that of the browser.
func TestClockOfTheServer(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{"behind": -9 * 24 * time.Hour, "ahead": 9 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(o *stator.Options) { o.TestClock = stator.NewTestClock(time.Now().Add(away)) })
			s.create(t, "Notes", "id S")
			for i := range 30 {
				s.put(t, "Notes", item{"id": text(fmt.Sprint(i))})
			}
			b := s.open(t, "#/heat/Notes")
			// 30 units of this minute, whatever the partitions are.
			got := b.run(`await t.until(() => document.querySelector(".heat-map")?.width > 300, "the map"); document.querySelectorAll("details").forEach((d) => (d.open = true)); await t.rest();
				return [...document.querySelectorAll(".heat-table tbody tr")].reduce((sum, r) => sum + Number(r.cells[3].innerText.replaceAll(",", "")), 0)`)
			if got != "30" {
				t.Errorf("the map has %s write units, want 30", got)
			}
		})
	}
}

func number64(t *testing.T, text string) (n float64) {
	t.Helper()
	if _, err := fmt.Sscan(strings.ReplaceAll(text, ",", ""), &n); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return n
}

// Without operations of a stator and of CloudWatch the pages say what the endpoint does not have; models need none.
func TestOtherEndpoints(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.orders(t, 24)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if target := r.Header.Get("X-Amz-Target"); strings.HasPrefix(target, "Stator.") || strings.HasPrefix(target, "Granite") || strings.Contains(target, "ContributorInsights") {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"com.amazonaws.dynamodb.v20120810#UnknownOperationException"}`)
			return
		}
		s.db.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	other := &server{url: web.URL, db: s.db}
	b := other.open(t, "#/heat/Orders")
	b.run(`await t.has("only a stator has a heat map"); await t.has("no Contributor Insights"); await t.has("no metrics of CloudWatch");
		await t.go("#/cost"); await t.has("from which the bill is made");
		await t.go("#/model"); await t.has("No model is open"); await t.choose("input[type=file]", "orders.model.yaml", $1); await t.has("5 of 5"); await t.has("does not count requests by shape");`, ordersModel)
}

// People whose policies do not allow the model are told so on the pages that show it; the bill of tables is there without it.
// The permission counts as soon as they come back.
func TestDeniedModels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "orders.model.yaml")
	if err := os.WriteFile(file, []byte(ordersModel), 0o600); err != nil {
		t.Fatal(err)
	}
	tables := []string{"dynamodb:*", "cloudwatch:*"}
	access, err := stator.OpenAccess(writeAccess(t, dir, map[string][]string{"ada": tables}))
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(o *stator.Options) { o.Access, o.ConsoleModels = access, tablemodel.Console(file) })
	const signIn = `await t.fill("input[name=accessKey]", "ADAKEY"); await t.fill("input[name=secret]", "ada-secret-0123456789"); await t.click("button", "Sign in"); `
	const create = `await t.write(); await t.click("button", "Create table"); await t.fill("input[name=tableName]", "Orders"); await t.fill("dialog .columns input", "customer"); await t.click("dialog button.primary", "Create table"); await t.has("No items match"); `
	const denied = `const model = async () => { await t.has("You may not see the model."); await t.has("user/ada is not authorized to perform: stator:GetModel"); if (t.all("input[type=file]").length || /Orders of customers|No model is open|one order/.test(document.body.innerText)) throw new Error(document.body.innerText); }; `
	b := s.open(t, "")
	b.run(signIn + create + denied + `await t.go("#/model"); await model(); if (t.all("button", "Edit text").length) throw new Error("there is a text to edit");
		await t.go("#/cost"); await t.until(() => t.all(".bill tbody tr").length === 1, "the bill of the table"); await model();
		await t.go("#/model"); await model(); if (t.all(".problem").length !== 1) throw new Error("the denial is shown twice");`)
	// The counts of requests have a permission of their own.
	reload := func(actions ...string) {
		writeAccess(t, dir, map[string][]string{"ada": append(actions, tables...)})
		if _, err := access.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	reload("stator:GetModel")
	b.run(`await t.go("#/cost"); await t.until(() => t.all(".bill tbody tr").length === 1, "the bill"); await t.has("not authorized to perform: stator:GetShapes"); if (document.body.innerText.includes("You may not see the model")) throw new Error("the model is still denied");
		await t.go("#/model"); await t.has("Orders of customers, by time and by status");`)
	reload("stator:GetModel", "stator:GetShapes")
	b.run(`await t.go("#/cost"); await t.until(() => t.all(".bill-patterns").length === 1, "patterns");`)
	// A model that is open is not computed any more when the permission is gone.
	b.run(`await t.go("#/model"); await t.has("Orders of customers, by time and by status");`)
	reload()
	b.run(`await t.fill("input.times", "10"); await t.has("You may not see the model."); await t.go("#/cost"); await t.until(() => t.all(".bill tbody tr").length === 1, "the bill"); await t.has("stator:GetShapes");`)
	s.checkPages(t, []consolePage{
		{"model-denied", "#/model", signIn + `await t.has("You may not see the model.");`},
		{"cost-denied", "#/cost", signIn + `await t.until(() => t.all(".bill tbody tr").length === 1, "the bill"); await t.has("You may not see the model.");`},
	})
}

// Tables that somebody may not describe are said to be missing in the bill.
func TestDeniedTables(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	access, err := stator.OpenAccess(writeAccess(t, dir, map[string][]string{"ada": {"*"}}))
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(o *stator.Options) { o.Access = access })
	b := s.open(t, "")
	b.run(`await t.fill("input[name=accessKey]", "ADAKEY"); await t.fill("input[name=secret]", "ada-secret-0123456789"); await t.click("button", "Sign in");
		await t.write(); await t.click("button", "Create table"); await t.fill("input[name=tableName]", "Orders"); await t.fill("dialog .columns input", "customer"); await t.click("dialog button.primary", "Create table"); await t.has("No items match");`)
	reload := func(actions ...string) {
		writeAccess(t, dir, map[string][]string{"ada": actions})
		if _, err := access.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	reload("dynamodb:ListTables", "cloudwatch:*")
	b.run(`await t.go("#/cost"); await t.has("1 table is not in the bill."); await t.has("not authorized to perform: dynamodb:DescribeTable"); if (document.body.innerText.includes("There are no tables")) throw new Error("there is a table");`)
	reload("dynamodb:ListTables", "dynamodb:DescribeTable", "cloudwatch:*")
	b.run(`await t.click("button", "Refresh"); await t.until(() => t.all(".bill tbody tr").length === 1, "the bill"); if (document.body.innerText.includes("not in the bill")) throw new Error(document.body.innerText);`)
}

// The metrics of the bill, which cost money on AWS, are read once for a visit, and not again when a model is opened.
func TestBillIsReadOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.orders(t, 10)
	b := s.open(t, "")
	b.run(`window.sent = 0; const send = window.fetch;
		window.fetch = (to, how) => { if (how?.headers?.["X-Amz-Target"]?.endsWith("GetMetricData")) sent++; return send(to, how); };
		await t.go("#/cost"); await t.until(() => t.all(".bill tbody tr").length === 2 && t.all("button", "Refresh").some((e) => !e.disabled), "the bill");
		await t.choose("input[type=file]", "orders.model.yaml", $1); await t.until(() => t.all(".bill-patterns").length === 1, "patterns"); await t.until(() => t.all("button", "Refresh").some((e) => !e.disabled), "the end");
		if (sent !== 1) throw new Error("metrics were read " + sent + " times");
		await t.click("button", "Refresh"); await t.until(() => sent === 2, "metrics of another time");`, ordersModel)
}

// Heat, costs and models are used on a server with an hour of traffic; their pages satisfy axe-core, fit a phone, and can be photographed.
func TestPagesOfInsights(t *testing.T) {
	t.Parallel()
	s := busy(t)
	for name, test := range map[string]func(*testing.T){"use the heat map": s.testHeatMap, "use charts": s.testHeatCharts, "use the bill": s.testCost, "use a model": s.testModel} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
	s.checkPages(t, []consolePage{
		{"heat", "#/heat/Orders", `await t.until(() => document.querySelector(".heat-map")?.width > 300, "the map"); await t.until(() => t.all(".chart polyline").length >= 6, "lines"); await t.until(() => t.all(".keys-table tbody tr").length >= 5, "keys");
			document.querySelector(".heat-map").focus(); document.querySelector(".heat-map").dispatchEvent(new KeyboardEvent("keydown", { key: "h", bubbles: true, cancelable: true }));`},
		{"heat-keys", "#/heat/Orders", `await t.until(() => t.all(".chart polyline").length >= 6, "lines"); await t.until(() => t.all(".keys-table tbody tr").length >= 5, "keys"); document.querySelector("#hot-keys").scrollIntoView();`},
		{"cost", "#/cost", `await t.until(() => t.all(".bill-patterns tbody tr").length >= 4, "patterns");`},
		{"model", "#/model", `await t.until(() => t.all(".strays tbody tr").length >= 1, "drift"); await t.fill("input.times", "40"); await t.until(() => t.all(".tile .delta").length >= 2, "the change");`},
		{"model-table", "#/model", `await t.until(() => t.all(".strays tbody tr").length >= 1, "drift"); await t.click("button", "Play"); await t.has("runs a second"); document.querySelector("#model-heat").scrollIntoView();`},
		{"model-drift", "#/model", `await t.until(() => t.all(".strays tbody tr").length >= 1, "drift"); document.querySelector("#drift").scrollIntoView();`},
	})
}
