package browser

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)


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
		const seen = new Set(), read = () => t.cells().forEach((c) => seen.add(c.join())), scroll = async () => { const g = document.querySelector(".grid"); for (g.scrollTop = 0; ; g.scrollTop += 200) { await t.rest(); read(); if (g.scrollTop + g.clientHeight >= g.scrollHeight - 1) return; } };
		await scroll(); await t.click("button", "Next"); await t.has("page 2"); await t.rows(25); await scroll(); await t.click("button", "Next"); await t.has("page 3"); await t.rows(4); await scroll();
		await t.click("button", "Previous"); await t.has("page 2"); await t.rows(25); await t.click("button", "Previous"); await t.has("page 1"); await t.rows(25);
		return seen.size;`)
	if got != "54" {
		t.Errorf("the pages have %s items, want 54", got)
	}
	b.run(`await t.write(); await t.click(".grid button.link"); await t.el("dialog .parts"); await t.fill('dialog [aria-label="Value of name"]', "y"); await t.click("dialog .save", "Save"); await t.has("Saved,");`)
}
