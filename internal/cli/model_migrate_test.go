package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const migrateOld = `
model: 1
tables: {orders: {key: {partition: customer, sort: order}}}
entities:
  order: {attributes: {customer: S, order: S, day: S}}
patterns:
  - {name: put order, put: order, rate: 10/s}
  - {name: orders of a day, scan: order, where: {day: Monday}, rate: 1/h}
`

const migrateNew = `
model: 1
tables: {shop: {key: {partition: PK, sort: SK}}}
entities:
  order: {keys: {PK: "DAY#{day}", SK: "{customer}#{order}"}, attributes: {customer: S, order: S, day: S}}
patterns:
  - {name: put order, put: order, rate: 10/s}
  - {name: orders of a day, query: order, given: [day], rate: 1/h}
`

// The commands lead a migration from the plan to the end, over HTTP.
func TestModelMigrate(t *testing.T) {
	endpoint := serving(t)
	dir := t.TempDir()
	oldFile, newFile := filepath.Join(dir, "old.model.yaml"), filepath.Join(dir, "new.model.yaml")
	for file, text := range map[string]string{oldFile: migrateOld, newFile: migrateNew} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, out, errs := runStator(t, "model", "apply", oldFile, "--endpoint", endpoint, "--yes"); code != 0 {
		t.Fatalf("apply: %s%s", out, errs)
	}
	e := clientOf(endpoint, "us-east-1")
	for _, order := range []string{"1", "2", "3"} {
		it := map[string]any{"customer": map[string]string{"S": "c"}, "order": map[string]string{"S": order}, "day": map[string]string{"S": "Monday"}}
		if _, err := e.Send(t.Context(), "PutItem", map[string]any{"TableName": "orders", "Item": it}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		command string
		code    int
		want    string
	}{
		{"status", 1, "has not begun"},
		{"switch --confirm", 1, "has not begun"},
		{"plan --write-units 1 --read-units 10", 0, "order   3      copied  orders (customer {customer}, order {order})  shop (PK DAY#{day}, SK {customer}#{order})"},
		{"plan", 0, "orders of a day  Scan of orders     Query of shop"},
		{"run --until-ready --unmatched sometimes", 2, "must be stop or copy"},
		{"plan --streams-endpoint http://127.0.0.1:1", 1, "--streams-endpoint"},
		{"run --until-ready --segments 0", 2, "between 1 and 1,000,000"},
		{"run --until-ready --lease 20ms", 2, "must be a second or more"},
		{"run --until-ready", 0, "3 old items with the checksum"},
		{"status", 0, "phase    ready since"},
		{"run --verify --json", 0, `"phase": "ready"`},
		{"drop --yes", 1, "can be dropped when it is switched"},
		{"rollback --confirm", 1, "nothing to roll back"},
		{"switch", 1, "add --confirm"},
		{"switch --confirm --quiet 50ms", 0, "the application may write to the new tables"},
		{"abort --yes", 1, "roll back first"},
		{"run --until-ready", 0, "phase    switched since"}, // only rollback rolls back
		{"run --verify", 1, "the migration is switched"},
		{"abort --yes", 1, "roll back first"},
		{"rollback --confirm --quiet 50ms", 0, "the application may write to the old tables"},
		{"switch --confirm --quiet 50ms", 1, "it can be switched when it is ready"},
		{"run --until-ready", 0, "phase    ready since"},
		{"switch --confirm --quiet 50ms", 0, "phase    switched since"},
		{"drop", 1, "add --yes"},
		{"drop --yes", 1, "the old tables stay for 24h"},
		{"drop --yes --window 0s", 0, "phase    dropped since"},
		{"abort --yes", 1, "the migration is dropped"},
	} {
		words := strings.Fields(c.command)
		args := append([]string{"model", "migrate", words[0], oldFile, newFile, "--endpoint", endpoint}, words[1:]...)
		code, out, errs := runStator(t, args...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit code %d\n%s%s", c.command, code, out, errs)
		}
	}
}
