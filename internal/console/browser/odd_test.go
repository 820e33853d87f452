package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// wide returns an item with more attributes than a condition may have operators for.
func wide(attributes int) item {
	i := item{"id": text("wide"), "__proto__": text("p"), "bin": &types.AttributeValueMemberB{Value: []byte{0, 255}}}
	for n := range attributes {
		i[fmt.Sprintf("a%04d", n)] = &types.AttributeValueMemberL{Value: []types.AttributeValue{number(fmt.Sprint(n)), &types.AttributeValueMemberNULL{Value: true}}}
	}
	return i
}

// An item with hundreds of attributes is changed and deleted like any other, and nobody's change is overwritten.
func TestWideItems(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(t, "Wide", "id S")
	s.put(t, "Wide", wide(160))
	b := s.open(t, "#/table/Wide/items")
	const key = `{"id":{"S":"wide"}}`
	b.run(`await t.rows(1); await t.write(); await t.click(".grid button.link"); await t.click("dialog button", "DynamoDB JSON");
		const item = JSON.parse((await t.el("dialog textarea")).value); for (let n = 0; n < 151; n++) item["a" + String(n).padStart(4, "0")] = { S: "new " + n }; delete item.a0159; item.bin.B = "AQ=="; item.added = { BOOL: true };
		await t.fill("dialog textarea", JSON.stringify(item));`)
	theirs := wide(160)
	theirs["a0007"] = text("theirs")
	s.put(t, "Wide", theirs)
	b.run(`await t.click("dialog .save", "Save"); await t.has("Somebody has changed this item"); await t.has("theirs");`)
	if got := s.get(t, "Wide", key); strings.Contains(got, "new 1") {
		t.Errorf("the change of somebody else is overwritten: %s", got)
	}
	b.run(`await t.click("dialog button", "Put my changes on theirs"); await t.el("dialog .parts"); await t.click("dialog .save", "Save"); await t.has("Saved,");`)
	want := wide(160)
	for n := range 151 {
		want[fmt.Sprintf("a%04d", n)] = text(fmt.Sprintf("new %d", n))
	}
	delete(want, "a0159")
	want["bin"], want["added"] = &types.AttributeValueMemberB{Value: []byte{1}}, &types.AttributeValueMemberBOOL{Value: true}
	saved := s.get(t, "Wide", key)
	s.put(t, "Wide", want)
	if got := s.get(t, "Wide", key); saved != got {
		t.Errorf("the saved item is\n%s\nwant\n%s", saved, got)
	}
	b.run(`await t.until(() => !t.all("dialog").length); await t.click("[data-key=r]"); await t.until(() => !t.all("button", "Stop").length); await t.click(".grid button.link"); await t.el("dialog .parts"); await t.click("dialog button.danger", "Delete");`)
	want["a0155"] = text("theirs")
	s.put(t, "Wide", want)
	b.run(`await t.click("dialog button.danger", "Delete"); await t.has("Somebody has changed this item"); await t.click("dialog button", "Discard mine"); await t.el("dialog .parts");
		await t.click("dialog button.danger", "Delete"); await t.click("dialog button.danger", "Delete"); await t.has("Deleted,"); await t.rows(0);`)
}

// Text is edited as it is typed and stored: a field keeps the focus while its text grows, and line ends stay.
func TestTextIsExact(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(t, "Notes", "id S")
	s.put(t, "Notes", item{"id": text("1"), "title": text("t"), "unix": text("a\nb"), "dos": text("a\r\nb"), "mixed": text("a\r\nb\nc\rd"), "old": text("a\rb")})
	b := s.open(t, "#/table/Notes/items")
	long := strings.Repeat("0123456789", 10)
	b.run(`await t.rows(1); await t.write(); await t.click(".grid button.link"); const e = await t.el('dialog [aria-label="Value of title"]'); e.focus(); e.select();`)
	b.keys(long)
	b.run(`for (const [name, value] of [["unix", "a\nb\nc"], ["dos", "a\nb\nc"]]) await t.fill('dialog [aria-label="Value of ' + name + '"]', value);
		for (const name of ["mixed", "old"]) if (!(await t.el('dialog [aria-label="Value of ' + name + '"]')).readOnly) throw new Error(name + " can be edited in a field, which changes its line ends");
		await t.click("dialog .save", "Save"); await t.has("Saved,");`)
	want := `{"Item":{"dos":{"S":"a\r\nb\r\nc"},"id":{"S":"1"},"mixed":{"S":"a\r\nb\nc\rd"},"old":{"S":"a\rb"},"title":{"S":"` + long + `"},"unix":{"S":"a\nb\nc"}}}`
	if got := s.get(t, "Notes", `{"id":{"S":"1"}}`); !sameJSON(got, want) {
		t.Errorf("the item is %s\nwant %s", got, want)
	}
}

// The units of requests that are sent at the same time are all counted.
func TestUnitsOfBulkChanges(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(t, "Notes", "id S")
	b := s.open(t, "#/table/Notes/items")
	b.run(`await t.rows(0); await t.write(); document.querySelector(".menu").open = true; await t.click(".entries button", "Import");
		await t.fill("dialog textarea", Array.from({ length: 60 }, (_, i) => '{"Item":{"id":{"S":"' + i + '"}}}').join("\n")); await t.click("dialog .start", "Import 60 items"); await t.has("60 written, 0 skipped because they exist, 60 units."); await t.click("dialog button", "Close"); await t.rows(60);
		await t.fill(".grid thead input[type=checkbox]", true); document.querySelector(".menu").open = true; await t.click(".entries button", "Edit 60 selected"); await t.fill("dialog .path", "note"); await t.fill("dialog .scalar", "x"); await t.fill("dialog .confirm", "60");
		await t.click("dialog .start"); await t.has("60 changed, 0 skipped because they did not match any more, 60 units.");`)
}

// Items that have left an index since they were counted are not changed, also without a filter.
func TestBulkOfAnIndex(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.orders(t, 12)
	b := s.open(t, "#/table/Orders/items")
	b.run(`await t.rows(12); await t.write(); await t.fill(".builder select", "by-status"); await t.click("button.primary", "Run"); await t.until(() => t.all(".grid th", "status").some((e) => e.textContent.includes("key")), "the index"); await t.rows(12);
		document.querySelector(".menu").open = true; await t.click(".entries button", "Delete all matching"); await t.has("12 matching items"); await t.click("summary", "Request for the first item"); await t.fill("dialog .confirm", "12");`)
	// What the dialog makes of an item that has left the index: the request of the preview has its condition.
	shown := b.run(`return (await t.el("dialog pre.request")).textContent;`)
	for _, name := range []string{"status", "total"} {
		if !strings.Contains(shown, fmt.Sprintf(`: %q`, name)) {
			t.Errorf("the condition does not test %s: %s", name, shown)
		}
	}
	b.run(`await t.click("dialog .start"); await t.has("12 deleted, 0 skipped");`)
}

// A statement has values of items. It stays in the tab, and is gone when the person signs out.
func TestStatementsAreForgotten(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(t, "Notes", "id S")
	b := s.open(t, "#/partiql")
	if got := b.run(`await t.fill("textarea", "SELECT * FROM \"Notes\" WHERE id = 'private'"); await t.click("button.primary", "Run"); await t.has("units"); return JSON.stringify({ ...localStorage });`); strings.Contains(got, "private") {
		t.Errorf("what other tabs and later users of the browser see: %s", got)
	}
	b.run(`await t.go("#/tables"); await t.has("Notes"); await t.go("#/partiql"); await t.until(() => t.all("textarea")[0].value.includes("private"), "the statement");`)
}

// Binary keys, keys with 38 digits, and names that expressions reserve are paged through in an index, forwards and backwards.
func TestPagesOfAnIndex(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	in := &dynamodb.CreateTableInput{
		TableName: aws.String("Odd"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("a.b"), AttributeType: "B"}, {AttributeName: aws.String("#n"), AttributeType: "N"}, {AttributeName: aws.String("size"), AttributeType: "B"}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("a.b"), KeyType: "HASH"}, {AttributeName: aws.String("#n"), KeyType: "RANGE"}},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("by-size"), Projection: &types.Projection{ProjectionType: "KEYS_ONLY"},
			KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("size"), KeyType: "HASH"}, {AttributeName: aws.String("#n"), KeyType: "RANGE"}},
		}},
	}
	if _, err := s.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	for n := range 60 {
		s.put(t, "Odd", item{"a.b": &types.AttributeValueMemberB{Value: []byte{0, byte(n), 255}}, "#n": number(fmt.Sprintf("1234567890123456789012345678901234567%d", n%10)), "size": &types.AttributeValueMemberB{Value: []byte{255}}, "name": text("x")})
	}
	b := s.open(t, "#/table/Odd/items")
	got := b.run(`await t.rows(60); await t.fill(".builder select", "by-size"); await t.fill(".scalar", "/w=="); await t.fill(".builder select", ">", 1); await t.fill(".scalar", "12345678901234567890123456789012345670", 1);
		document.querySelector(".options").open = true; await t.fill(".options select", "25"); await t.click("button.primary", "Run"); await t.rows(25); await t.has("Query");
		const seen = new Set(), read = () => t.cells().forEach((c) => seen.add(c.join())), table = document.querySelector(".grid table");
		const scroll = async () => { const g = document.querySelector(".grid"), row = 33, count = Number(table.getAttribute("aria-rowcount")) - 1; for (g.scrollTop = 0; ; g.scrollTop += 200) {
			await t.until(() => { for (let i = Math.floor(g.scrollTop / row); i < Math.min(count, (g.scrollTop + g.clientHeight) / row); i++) if (!g.querySelector('[aria-rowindex="' + (i + 2) + '"]')) return false; return true; }, "the rows at " + g.scrollTop);
			read(); if (g.scrollTop + g.clientHeight >= g.scrollHeight - 1) return; } };
		await scroll(); await t.click("button", "Next"); await t.has("page 2"); await t.rows(25); await scroll();
		const drawn = new Promise((r) => new MutationObserver((_, o) => { if (table.getAttribute("aria-rowcount") === "5") { o.disconnect(); setTimeout(() => r(t.cells().length)); } }).observe(table, { attributes: true }));
		await t.click("button", "Next"); await t.has("page 3"); await t.rows(4); if (await drawn !== 4) throw new Error("a short page after one that was scrolled begins with " + await drawn + " rows"); await scroll();
		await t.click("button", "Previous"); await t.has("page 2"); await t.rows(25); await t.click("button", "Previous"); await t.has("page 1"); await t.rows(25);
		return seen.size;`)
	if got != "54" {
		t.Errorf("the pages have %s items, want 54", got)
	}
	b.run(`await t.write(); await t.click(".grid button.link"); await t.el("dialog .parts"); await t.fill('dialog [aria-label="Value of name"]', "y"); await t.click("dialog .save", "Save"); await t.has("Saved,");`)
}

// Sets as large as an item can have are compared while somebody waits.
func TestLargeSetsAreCompared(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(t, "Notes", "id S")
	b := s.open(t, "#/table/Notes/past/history")
	if got := b.run(`await t.el("form"); const find = (name) => performance.getEntriesByType("resource").map((e) => e.name).find((n) => n.endsWith("/" + name));
		const { diffOf } = await import(find("diff.js")), set = (from) => ({ set: { NS: Array.from({ length: 100_000 }, (_, i) => String(from + i)) } });
		return JSON.stringify(diffOf(set(0), set(1)));`); got != `[{"path":"set","part":"members","was":{"NS":["0"]},"is":{"NS":["100000"]}}]` {
		t.Errorf("the sets differ in %.200s", got)
	}
}
