package browser

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// Tables are listed, created with indexes, changed and deleted.
func TestTables(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(t, "Devices", "id N")
	b := s.open(t, "")
	b.run(`await t.has("Devices"); await t.has("ACTIVE");
		if (t.all("[data-key=n]")[0].disabled !== true) throw new Error("changes are on at the start");
		await t.write(); await t.click("button", "Create table");
		await t.fill("input[name=tableName]", "Orders");
		await t.fill("dialog .columns input", "customer"); await t.fill("dialog .columns input", "placed", 1);
		await t.click("button", "Add index");
		await t.fill("dialog fieldset input", "by-status"); await t.fill("dialog fieldset input", "status", 1);
		await t.fill("dialog fieldset select", "KEYS_ONLY", 1);
		await t.click("dialog button.primary", "Create table");
		await t.has("No items match"); await t.go("#/table/Orders/settings"); await t.has("keys only");`)
	in := &dynamodb.DescribeTableInput{TableName: aws.String("Orders")}
	d, err := s.DescribeTable(t.Context(), in)
	if err != nil || len(d.Table.GlobalSecondaryIndexes) != 1 || *d.Table.GlobalSecondaryIndexes[0].KeySchema[0].AttributeName != "status" {
		t.Fatalf("the table is %+v, %v", d, err)
	}
	b.run(`await t.click("button", "Create index"); await t.fill("dialog input", "by-total"); await t.fill("dialog input", "total", 1); await t.fill("dialog select", "N", 1);
		await t.click("dialog button.primary", "Create index"); await t.until(() => t.all("tr", "by-total").some((r) => r.innerText.includes("ACTIVE")), "by-total");
		await t.click("tr button.danger", "Delete"); await t.fill("dialog .confirm", "by-status"); await t.click("dialog button.danger", "Delete");
		await t.until(() => t.all("tr", "by-status").length === 0, "by-status to go");
		await t.fill("section input.mono", "expires"); await t.click("section button", "Switch on"); await t.has("Items expire at the time in expires");
		await t.click("label input[type=checkbox]:not([role])"); await t.has("The stream is on.");
		await t.fill("section select", "PROVISIONED"); await t.fill("section input[type=number]", "7"); await t.click("section button", "Change"); await t.has("The capacity is changed.");`)
	if d, err = s.DescribeTable(t.Context(), in); err != nil || *d.Table.ProvisionedThroughput.ReadCapacityUnits != 7 || !*d.Table.StreamSpecification.StreamEnabled || len(d.Table.GlobalSecondaryIndexes) != 1 {
		t.Fatalf("the table is %+v, %v", d.Table, err)
	}
	b.run(`await t.click("section button.danger", "Delete table");
		if (!(await t.el("dialog button.danger")).disabled) throw new Error("the name is not asked for");
		await t.fill("dialog .confirm", "Orders"); await t.click("dialog button.danger", "Delete");
		await t.until(() => t.all("td a", "Devices").length === 1 && t.all("td a", "Orders").length === 0, "Orders to go");`)
}

// The builder makes the request that it shows, says whether it is a scan and what it has cost, and pages by keys.
func TestQueries(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.orders(t, 240)
	b := s.open(t, "#/table/Orders/items")
	b.run(`await t.rows(100); await t.has("Scan"); await t.has("1.5 units");
		const first = t.cells()[0].join();
		await t.click("button", "Next"); await t.has("page 2"); await t.rows(100);
		if (t.cells()[0].join() === first) throw new Error("the second page is the first");
		await t.click("button", "Next"); await t.rows(40);
		await t.click("button", "Previous"); await t.has("page 2"); await t.click("button", "First page"); await t.has("page 1");
		if (t.cells()[0].join() !== first) throw new Error("the first page is another");`)
	query := func(steps string) (shown struct {
		Operation string
		Input     map[string]any
		Rows      int
	}) {
		t.Helper()
		text := b.run(`await t.click("button", "Clear"); ` + steps + `
			await t.click("button.primary", "Run"); await t.until(() => !t.all("button", "Stop").length);
			if (!t.all("pre.request").length) await t.click("[data-key=e]");
			const input = JSON.parse((await t.el("pre.request")).textContent);
			return JSON.stringify({ Operation: t.all(".badge.query, .badge.scan")[0].textContent, Input: input, Rows: Number(document.querySelector(".grid table").getAttribute("aria-rowcount")) - 1 });`)
		if err := json.Unmarshal([]byte(text), &shown); err != nil {
			t.Fatal(err)
		}
		return shown
	}
	if got := query(`await t.fill(".scalar", "c-001"); await t.fill(".builder select", "begins with", 1); await t.fill(".scalar", "2026-02", 1);`); got.Operation != "Query" || got.Rows == 0 || got.Rows > 10 {
		t.Errorf("the query is %+v", got)
	}
	if got := query(`await t.fill(".builder select", "by-status"); await t.fill(".scalar", "paid"); await t.fill(".builder select", "between", 1); await t.fill(".scalar", "20", 1); await t.fill(".scalar", "30", 2);`); got.Operation != "Query" || got.Input["IndexName"] != "by-status" || got.Rows == 0 || got.Rows > 40 {
		t.Errorf("the query of the index is %+v", got)
	}
	// Each test of a filter finds the same items as the SDK does.
	for _, c := range []struct{ path, op, kind, a, b, filter string }{
		{"name", "=", "S", "Ada", "", "#n = :a"},
		{"name", "<>", "S", "Ada", "", "#n <> :a"},
		{"total", "<", "N", "50", "", "#n < :a"},
		{"total", "<=", "N", "50", "", "#n <= :a"},
		{"total", ">", "N", "50", "", "#n > :a"},
		{"total", ">=", "N", "50", "", "#n >= :a"},
		{"total", "between", "N", "20", "40", "#n BETWEEN :a AND :b"},
		{"name", "in", "S", "Ada, Grace", "", "#n IN (:a, :b)"},
		{"name", "begins with", "S", "E", "", "begins_with(#n, :a)"},
		{"tags", "contains", "S", "gift", "", "contains(#n, :a)"},
		{"tags", "does not contain", "S", "gift", "", "NOT contains(#n, :a)"},
		{"name", "exists", "", "", "", "attribute_exists(#n)"},
		{"name", "does not exist", "", "", "", "attribute_not_exists(#n)"},
		{"tags", "has type", "", "SS", "", "attribute_type(#n, :a)"},
		{"name", "size >", "", "5", "", "size(#n) > :a"},
		{"lines[0].sku", "=", "S", "sku-7", "", "#n[0].sku = :a"},
	} {
		in := &dynamodb.ScanInput{TableName: aws.String("Orders"), FilterExpression: &c.filter, ExpressionAttributeNames: map[string]string{"#n": strings.Split(c.path, "[")[0]}, ExpressionAttributeValues: item{}}
		value := text
		if c.kind == "N" || strings.HasPrefix(c.op, "size") {
			value = number
		}
		if c.a != "" {
			in.ExpressionAttributeValues[":a"] = value(strings.Split(c.a, ", ")[0])
		}
		if c.b != "" {
			in.ExpressionAttributeValues[":b"] = value(c.b)
		}
		if c.op == "in" {
			in.ExpressionAttributeValues[":b"] = text("Grace")
		}
		if len(in.ExpressionAttributeValues) == 0 {
			in.ExpressionAttributeValues = nil
		}
		want, err := s.Scan(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		steps := fmt.Sprintf(`await t.click("button", "Add filter"); await t.fill(".filter input", %q); await t.fill(".filter select", %q); `, c.path, c.op)
		switch {
		case c.op == "has type":
			steps += fmt.Sprintf(`await t.fill(".filter select", %q, 1); `, c.a)
		case c.kind != "":
			steps += fmt.Sprintf(`await t.fill(".filter select", %q, 1); `, c.kind)
			fallthrough
		default:
			if c.a != "" {
				steps += fmt.Sprintf(`await t.fill(".filter input", %q, 1); `, c.a)
			}
			if c.b != "" {
				steps += fmt.Sprintf(`await t.fill(".filter input", %q, 2); `, c.b)
			}
		}
		if got := query(steps + `document.querySelector(".options").open = true; await t.fill(".options select", "500");`); got.Rows != int(want.Count) || got.Operation != "Scan" {
			t.Errorf("%s %s %s finds %d items, want %d: %v", c.path, c.op, c.a, got.Rows, want.Count, got.Input)
		}
	}
	// What cannot be sent is said, and an empty page is not shown as the end.
	b.run(`await t.click("button", "Clear"); await t.fill(".scalar", "2026", 1); await t.has("A sort key needs the partition key");
		await t.click("button", "Clear"); await t.click("button", "Add filter"); await t.fill(".filter input", "total"); await t.fill(".filter select", "N", 1); await t.fill(".filter input", "12x", 1); await t.has("This is not a number.");`)
}

// every has all types, with values that other consoles change.
func every() item {
	nested := &types.AttributeValueMemberM{Value: item{"a b": text("a space"), "deep": &types.AttributeValueMemberL{Value: []types.AttributeValue{number("-1E-130"), &types.AttributeValueMemberNULL{Value: true}, &types.AttributeValueMemberB{Value: []byte{0, 255}}}}}}
	return item{
		"id": text("<script>document.title='x'</script>"), "sort": &types.AttributeValueMemberB{Value: []byte{1, 0, 255}},
		"marker": text("every-type"), "empty": text(""), "n38": number("12345678901234567890123456789012345678"), "small": number("0.1000000000000000055511151231257827021"), "big": number("9.9999999999999999999999999999999999999E+125"),
		"bin": &types.AttributeValueMemberB{Value: []byte("\x00\x80\xff")}, "yes": &types.AttributeValueMemberBOOL{Value: true}, "nothing": &types.AttributeValueMemberNULL{Value: true},
		"ss": &types.AttributeValueMemberSS{Value: []string{"b", "a", ""}}, "ns": &types.AttributeValueMemberNS{Value: []string{"3", "-1.5", "12345678901234567890123456789012345678"}}, "bs": &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2, 3}}},
		"__proto__": text("p"), "a.b": nested, "lines": text("one\ntwo\r\nthree\u2028"), "html": text("<img src=x onerror=\"document.title='x'\">"),
	}
}

// stored returns the stored form of the item with the marker in a data folder.
func stored(t *testing.T, dir, marker string) []byte {
	t.Helper()
	e, err := pebble.Open(pebble.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	view, err := e.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	var found [][]byte
	for pair, err := range view.Scan(t.Context(), store.Range{End: bytes.Repeat([]byte{255}, 64)}) {
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(pair.Value, []byte(marker)) {
			found = append(found, bytes.Clone(pair.Value))
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d stored values have the marker", len(found))
	}
	return found[0]
}

// An item with every type that is edited and saved is stored as an SDK would have written it.
func TestEditorIsExact(t *testing.T) {
	t.Parallel()
	bySDK, byConsole := t.TempDir(), t.TempDir()
	in := func(dir string) func(*stator.Options) { return func(o *stator.Options) { o.Dir, o.ScrubRate = dir, 0 } }
	before, after := every(), every()
	// Each type is changed once: some by typing, some by another type or member.
	before["n38"], before["bin"], before["yes"], before["empty"] = number("1"), &types.AttributeValueMemberB{Value: []byte("old")}, &types.AttributeValueMemberBOOL{Value: false}, text("full")
	before["ss"], before["nothing"] = &types.AttributeValueMemberSS{Value: []string{"b", "a", "c"}}, text("something")
	delete(before, "small")
	delete(before, "ns")

	a := serve(t, in(bySDK))
	a.create(t, "Every", "id S", "sort B")
	a.put(t, "Every", after)
	want := a.get(t, "Every", `{"id":{"S":"<script>document.title='x'</script>"},"sort":{"B":"AQD/"}}`)
	a.stop()

	s := serve(t, in(byConsole))
	s.create(t, "Every", "id S", "sort B")
	s.put(t, "Every", before)
	b := s.open(t, "#/table/Every/items")
	b.run(`await t.rows(1); await t.write(); await t.click(".grid button.link"); await t.el("dialog .parts");
		if ((await t.el("dialog .primary.save")).textContent !== "No changes") throw new Error("an item that was only opened would be changed");
		const value = async (name, v) => { const i = t.all("dialog input.name").findIndex((e) => e.value === name); const line = t.all("dialog input.name")[i].closest(".line"); const field = line.querySelector(".grow input, .grow textarea, select.grow"); field.value = v; field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input", { bubbles: true })); await t.rest(); };
		const type = async (name, v) => { const line = t.all("dialog input.name").find((e) => e.value === name).closest(".line"); const field = line.querySelector("select"); field.value = v; field.dispatchEvent(new Event("change", { bubbles: true })); await t.rest(); };
		const add = async (name, kind) => { t.all("dialog button.add", "Add attribute").at(-1).click(); await t.rest(); const field = t.all("dialog input.name").at(-1); field.value = name; field.dispatchEvent(new Event("input", { bubbles: true })); await t.rest(); await type(name, kind); };
		await value("n38", "123456789012345678901234567890123456789"); await t.has("39 significant digits");
		await value("n38", "12345678901234567890123456789012345678");
		await value("bin", "@"); await t.has("This is not base64"); await value("bin", "AID/");
		await value("yes", "true"); await value("empty", ""); await type("nothing", "NULL");
		const set = t.all("dialog input.name").find((e) => e.value === "ss").closest(".part").querySelectorAll(".parts .value");
		const member = [...set].find((e) => e.value === "c"); member.value = ""; member.dispatchEvent(new Event("input", { bubbles: true })); await t.rest();
		await add("small", "N"); await value("small", "0.1000000000000000055511151231257827021");
		await add("ns", "NS");
		for (const n of ["3", "-1.5", "12345678901234567890123456789012345678"]) {
			const part = t.all("dialog input.name").find((e) => e.value === "ns").closest(".part");
			const fields = part.querySelectorAll(".parts .value"); const field = fields[fields.length - 1];
			if (field.value !== "") { [...part.querySelectorAll("button.add")].at(-1).click(); await t.rest(); }
			const last = [...part.querySelectorAll(".parts .value")].at(-1); last.value = n; last.dispatchEvent(new Event("input", { bubbles: true })); await t.rest();
		}
		await t.click("dialog .save", "Save"); await t.has("Saved,");
		if (document.title !== "stator console") throw new Error("a value was run");`)
	if got := s.get(t, "Every", `{"id":{"S":"<script>document.title='x'</script>"},"sort":{"B":"AQD/"}}`); got != want {
		t.Errorf("the item is\n%s\nwant\n%s", got, want)
	}
	s.stop()
	if got, want := stored(t, byConsole, "every-type"), stored(t, bySDK, "every-type"); !bytes.Equal(got, want) {
		t.Errorf("the stored bytes are\n%q\nwant\n%q", got, want)
	}
}

// An item that somebody else has changed is not overwritten; changes of other attributes are kept.
func TestConflicts(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(t, "Notes", "id S")
	s.put(t, "Notes", item{"id": text("1"), "title": text("old"), "body": text("text")})
	b := s.open(t, "#/table/Notes/items")
	b.run(`await t.rows(1); await t.write(); await t.click(".grid button.link"); await t.el("dialog .parts");
		await t.fill('dialog [aria-label="Value of title"]', "mine");`)
	s.put(t, "Notes", item{"id": text("1"), "title": text("theirs"), "body": text("text"), "more": number("1")})
	b.run(`await t.click("dialog .save", "Save"); await t.has("Somebody has changed this item"); await t.has("theirs");`)
	if got := s.get(t, "Notes", `{"id":{"S":"1"}}`); !strings.Contains(got, "theirs") {
		t.Errorf("the change of somebody else is overwritten: %s", got)
	}
	b.run(`await t.click("dialog button", "Put my changes on theirs"); await t.el("dialog .parts"); await t.click("dialog .save", "Save"); await t.has("Saved,");`)
	if got := s.get(t, "Notes", `{"id":{"S":"1"}}`); !strings.Contains(got, "mine") || !strings.Contains(got, "more") {
		t.Errorf("the item is %s", got)
	}
	// A new item does not replace one, and an item that was deleted is not made again.
	b.run(`await t.click("button", "New item"); await t.fill('dialog [aria-label="Value of id"]', "1"); await t.click("dialog .save", "Save"); await t.has("An item with this key exists already"); await t.click("dialog button", "Close");
		await t.rows(1); await t.click(".grid button.link"); await t.el("dialog .parts"); await t.fill('dialog [aria-label="Value of title"]', "again");`)
	if _, err := s.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("Notes"), Key: item{"id": text("1")}}); err != nil {
		t.Fatal(err)
	}
	b.run(`await t.click("dialog .save", "Save"); await t.has("Somebody has deleted this item"); await t.click("dialog button", "Close"); await t.rows(0);
		await t.click("button", "New item"); await t.fill('dialog [aria-label="Value of id"]', "2"); await t.click("dialog .save", "Save"); await t.has("Saved,"); await t.rows(1);
		await t.click(".grid button.link"); await t.click("dialog button", "DynamoDB JSON"); await t.fill("dialog textarea", '{"id":{"S":"2"},"n":{"N":"1x"}}'); await t.has("n: This is not a number.");
		await t.fill("dialog textarea", '{"id":{"S":"2"},"n":{"N":"1"}}'); await t.click("dialog .save", "Save"); await t.until(() => !t.all("dialog").length);
		await t.click(".grid button.link"); await t.click("dialog button.danger", "Delete"); await t.click("dialog button.danger", "Delete"); await t.has("Deleted,"); await t.rows(0);`)
}

// Many items are changed and deleted after a preview with their count.
func TestBulk(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.orders(t, 120)
	b := s.open(t, "#/table/Orders/items")
	b.run(`await t.rows(100); await t.write(); await t.click("button", "Add filter"); await t.fill(".filter input", "status"); await t.fill(".filter input", "open", 1); await t.click("button.primary", "Run"); await t.rows(34);
		document.querySelector(".menu").open = true; await t.click(".entries button", "Edit all matching");
		await t.has("40 matching items"); await t.fill("dialog .path", "checked.by"); await t.fill("dialog .scalar", "ada");
		if (!t.all("dialog .start")[0].disabled) throw new Error("the count is not asked for");
		await t.fill("dialog .path", "note"); await t.fill("dialog .confirm", "40"); await t.click("dialog .start"); await t.has("40 changed, 0 skipped"); await t.click("dialog button", "Close");`)
	count := func(filter string, values item) int32 {
		t.Helper()
		got, err := s.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("Orders"), FilterExpression: &filter, ExpressionAttributeNames: map[string]string{"#s": "status"}, ExpressionAttributeValues: values})
		if err != nil {
			t.Fatal(err)
		}
		return got.Count
	}
	if n := count("note = :v AND #s = :s", item{":v": text("ada"), ":s": text("open")}); n != 40 {
		t.Errorf("%d items are changed", n)
	}
	b.run(`await t.until(() => !t.all("dialog").length); document.querySelector(".menu").open = true; await t.click(".entries button", "Delete all matching"); await t.has("40 matching items");`)
	// Items that do not match any more when they are written are left alone.
	if _, err := s.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: aws.String("Orders"), Key: firstKey(t, s), UpdateExpression: aws.String("SET #s = :v"), ExpressionAttributeNames: map[string]string{"#s": "status"}, ExpressionAttributeValues: item{":v": text("paid")}}); err != nil {
		t.Fatal(err)
	}
	b.run(`await t.fill("dialog .confirm", "40"); await t.click("dialog .start"); await t.has("39 deleted"); await t.click("dialog button", "Close"); await t.rows(0);
		await t.click("button", "Clear"); await t.click("button.primary", "Run"); await t.rows(81);
		await t.fill(".grid tbody input[type=checkbox]", true); await t.fill(".grid tbody input[type=checkbox]", true, 1);
		document.querySelector(".menu").open = true; await t.click(".entries button", "Delete 2 selected"); await t.has("2 selected items"); await t.fill("dialog .confirm", "2"); await t.click("dialog .start"); await t.has("2 deleted"); await t.click("dialog button", "Close"); await t.rows(79);`)
	if n := count("attribute_exists(#s)", nil); n != 79 {
		t.Errorf("%d items are left", n)
	}
}

func firstKey(t *testing.T, s *server) item {
	t.Helper()
	got, err := s.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("Orders"), FilterExpression: aws.String("#s = :v"), ExpressionAttributeNames: map[string]string{"#s": "status"}, ExpressionAttributeValues: item{":v": text("open")}})
	if err != nil {
		t.Fatal(err)
	}
	return item{"customer": got.Items[0]["customer"], "placed": got.Items[0]["placed"]}
}

// Items that are exported and imported are the same: exactly in DynamoDB JSON and CSV, but for sets and binary values in JSON.
func TestTransfer(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(t, "From", "id S", "sort B")
	s.put(t, "From", every())
	formula := item{"id": text("=1+1"), "sort": &types.AttributeValueMemberB{Value: []byte{1}}, "quote": text("a,\"b\"\n"), "guard": text("'=x"), "n": number("-5"), "name (N)": text("x"), "space": text(" ")}
	s.put(t, "From", formula)
	b := s.open(t, "#/table/From/items")
	for format, same := range map[string]bool{"dynamodb": true, "csv": true, "json": false} {
		to := "To-" + format
		s.create(t, to, "id S", "sort B")
		exported := b.run(`await t.go("#/table/From/items"); await t.rows(2); document.querySelector(".menu").open = true; await t.click(".entries button", "Export all matching"); await t.click("dialog input[value="+$1+"]");
			const text = await t.download(() => t.click("dialog .start")); await t.has("saved."); await t.click("dialog button", "Close"); return text;`, format)
		if format == "csv" && !strings.Contains(exported, "'=1+1") {
			t.Errorf("CSV has a formula: %s", exported)
		}
		b.run(`await t.go("#/table/" + $1 + "/items"); await t.rows(0); await t.write(); document.querySelector(".menu").open = true; await t.click(".entries button", "Import"); await t.choose("dialog input[type=file]", $4, $2);
			await t.has("2 items in " + $4); if (t.all("dialog input:checked")[0].value !== $3) throw new Error("the format is taken for " + t.all("dialog input:checked")[0].value);
			await t.click("dialog .start", "Import 2 items"); await t.has("2 written, 0 skipped"); await t.click("dialog button", "Close"); await t.rows(2);
			document.querySelector(".menu").open = true; await t.click(".entries button", "Import"); await t.choose("dialog input[type=file]", $4, $2); await t.click("dialog .start", "Import 2 items"); await t.has("0 written, 2 skipped"); await t.click("dialog button", "Close");
			document.querySelector(".menu").open = true; await t.click(".entries button", "Import"); await t.choose("dialog input[type=file]", $4, $2); await t.fill("dialog label input[type=checkbox]", true); await t.click("dialog .start", "Import 2 items"); await t.has("2 written, 0 skipped"); await t.click("dialog button", "Close");`, to, exported, format, map[bool]string{true: "items.csv", false: "items.json"}[format == "csv"])
		for _, want := range []item{every(), formula} {
			key := func(v types.AttributeValue) string {
				return base64.StdEncoding.EncodeToString(v.(*types.AttributeValueMemberB).Value)
			}(want["sort"])
			id, _ := json.Marshal(want["id"].(*types.AttributeValueMemberS).Value)
			at := fmt.Sprintf(`{"id":{"S":%s},"sort":{"B":%q}}`, id, key)
			a, b := s.get(t, "From", at), s.get(t, to, at)
			if same && a != b {
				t.Errorf("%s has\n%s\nwant\n%s", to, b, a)
			}
			if !strings.Contains(b, `"n38":{"N":"12345678901234567890123456789012345678"}`) && want["n38"] != nil {
				t.Errorf("%s has %s", to, b)
			}
		}
	}
}

// Statements are completed, run, paged and measured.
func TestPartiQL(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.orders(t, 240)
	b := s.open(t, "#/partiql")
	b.run(`await t.fill("textarea", "SELECT * FROM Ord"); await t.has("Orders");`)
	b.keys("\t")
	got := b.run(`await t.until(() => t.all("textarea")[0].value.includes('"Orders"')); await t.fill("textarea", t.all("textarea")[0].value + 'WHERE cust'); await t.el("#completions li", "customer"); return t.all("textarea")[0].value;`)
	b.keys("\r")
	b.run(`await t.until(() => t.all("textarea")[0].value.includes('"customer"')); await t.fill("textarea", t.all("textarea")[0].value + "= 'c-001'"); await t.has("Query"); await t.click("button.primary", "Run"); await t.rows(35); await t.has("units");
		await t.fill("textarea", 'SELECT * FROM "Orders"'); await t.has("the whole table is read"); await t.click("button.primary", "Run"); await t.rows(100); await t.click("button", "Next"); await t.has("page 2"); await t.rows(100);
		await t.fill("textarea", "DELETE FROM \"Orders\" WHERE customer = 'x' AND placed = 'y'"); await t.click("button.primary", "Run"); await t.has("Changes are switched off");
		await t.write(); await t.fill("textarea", "INSERT INTO \"Orders\" VALUE {'customer': 'new', 'placed': 'now'}"); await t.click("button.primary", "Run"); await t.has("done");`)
	if !strings.HasPrefix(got, `SELECT * FROM "Orders" `) {
		t.Errorf("the completed statement is %q", got)
	}
	if got := s.get(t, "Orders", `{"customer":{"S":"new"},"placed":{"S":"now"}}`); !strings.Contains(got, "now") {
		t.Errorf("the item is %s", got)
	}
}

var (
	browsed       = flag.Int("items", 2_400, "items of the table that TestMemory browses")
	browsedPages  = flag.Int("pages", 20, "pages of 500 items that TestMemory reads")
	browsedFolder = flag.String("folder", "", "data folder of the server of TestMemory; in memory by default. A folder that has the table already is browsed as it is")
)

// A table is browsed without the memory of the browser growing: the grid has rows for the screen, and one page is kept.
func TestMemory(t *testing.T) {
	if *browsedFolder == "" {
		t.Parallel()
	}
	s := serve(t, func(o *stator.Options) { o.Dir = *browsedFolder })
	if _, err := s.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("Notes")}); err != nil {
		s.notes(t, *browsed)
	}
	b := s.openFor(t, "#/table/Notes/items", 2*time.Hour)
	if _, err := chromedp.Call(b.ctx, network.Disable, cdp.Empty{}); err != nil { // which keeps the replies, for whoever watches the tab
		t.Fatal(err)
	}
	measure := func() (bytes, rows float64) {
		t.Helper()
		if _, err := chromedp.Call(b.ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			t.Fatal(err)
		}
		text := b.run(`return performance.memory.usedJSHeapSize + " " + document.querySelectorAll(".grid tr").length;`)
		if _, err := fmt.Sscan(text, &bytes, &rows); err != nil {
			t.Fatal(err)
		}
		return bytes, rows
	}
	b.run(`(await t.el(".options")).open = true; await t.fill(".options select", "500"); await t.click("button.primary", "Run"); await t.rows(500);`)
	before, rows := measure()
	if rows > 80 {
		t.Errorf("the grid has %v rows", rows)
	}
	t.Logf("%d items; page 1: the heap of the page has %.1f MB, the browser %s", *browsed, before/1e6, browserMemory(b.ctx))
	most, step := before, max(1, *browsedPages/20)
	began := time.Now()
	for read, page := 0, 1; read < *browsedPages; {
		n := min(step, *browsedPages-read, (*browsed/500)-page) // up to the last page that is full
		if n <= 0 {
			b.run(`await t.click("button", "First page"); await t.until(() => t.all(".pager .hint").some((e) => e.textContent === "page 1"), "page 1");`)
			page = 1
			continue
		}
		b.run(`for (let page = $1; page < $2; page++) { (await t.until(() => t.all(".pager button", "Next").find((e) => !e.disabled), "enabled Next")).click(); const want = "page " + (page + 1).toLocaleString("en"); await t.until(() => t.all(".pager .hint").some((e) => e.textContent === want), want); await t.rows(500); }`, page, page+n)
		read, page = read+n, page+n
		heap, _ := measure()
		most = max(most, heap)
		if *browsedFolder != "" {
			t.Logf("page %d, %d pages read, %.0f ms a page: the heap of the page has %.1f MB, the browser %s", page, read, time.Since(began).Seconds()*1000/float64(read), heap/1e6, browserMemory(b.ctx))
		}
	}
	after, _ := measure()
	t.Logf("%d items: %.1f MB before %d pages of 500, %.1f MB after, %.1f MB at most; the browser %s", *browsed, before/1e6, *browsedPages, after/1e6, most/1e6, browserMemory(b.ctx))
	if after > before+20e6 {
		t.Errorf("the memory of the page grew from %v to %v bytes", before, after)
	}
	b.run(`await t.click("button", "Previous"); await t.rows(500); await t.click("button", "First page"); await t.has("page 1"); await t.rows(500);`)
}

// browserMemory tells how much memory all processes of the browser have together; shared pages are counted once. Other systems than Linux do not tell.
func browserMemory(ctx context.Context) string {
	process := chromedp.FromContext(ctx).Browser.Process()
	if process == nil {
		return "runs elsewhere"
	}
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		var pid, parent int
		var state string
		if _, err := fmt.Sscanf(string(text[:max(0, bytes.IndexByte(text, ' '))])+" "+string(text[bytes.LastIndexByte(text, ')')+1:]), "%d %s %d", &pid, &state, &parent); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	kB, found := 0, 0
	for of := []int{process.Pid}; len(of) > 0; {
		pid := of[0]
		of = append(of[1:], children[pid]...)
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			var n int
			if _, err := fmt.Sscanf(line, "Pss: %d kB", &n); err == nil {
				kB += n
				found++
			}
		}
	}
	if found == 0 {
		return "does not tell its memory"
	}
	return fmt.Sprintf("%.0f MB in %d processes", float64(kB)/1e3, found)
}

// notes makes a table with many small items, without a connection.
func (s *server) notes(t *testing.T, n int) {
	t.Helper()
	s.create(t, "Notes", "id S")
	var next atomic.Int64
	var loaders sync.WaitGroup
	for range 16 * runtime.GOMAXPROCS(0) { // most wait for the disk, if there is one
		loaders.Go(func() {
			for {
				var puts []string
				end := int(next.Add(25))
				for i := end - 25; i < min(n, end); i++ {
					puts = append(puts, fmt.Sprintf(`{"PutRequest":{"Item":{"id":{"S":"note-%08d"},"n":{"N":"%d"},"text":{"S":"note %d of a table that is browsed: %x"}}}}`, i, i, i, uint64(i)*0x9e3779b97f4a7c15))
				}
				if len(puts) == 0 || t.Failed() {
					return
				}
				r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", strings.NewReader(`{"RequestItems":{"Notes":[`+strings.Join(puts, ",")+`]}}`))
				r.Header.Set("X-Amz-Target", "DynamoDB_20120810.BatchWriteItem")
				r.Header.Set("Content-Type", "application/x-amz-json-1.0")
				r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
				r.Header.Set("X-Amz-Date", "20260101T000000Z")
				w := httptest.NewRecorder()
				if s.db.Handler().ServeHTTP(w, r); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "PutRequest") {
					t.Errorf("%d %s", w.Code, w.Body.String())
				}
			}
		})
	}
	loaders.Wait()
}
