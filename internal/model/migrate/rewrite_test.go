package migrate

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
)

// An update in place depends on all attributes that the keys are built from, also
// on those that the item lacks, and on the keys themselves.
func TestRewriteConditions(t *testing.T) {
	old := parseModel(t, `
tables: {tasks: {key: {partition: id}}}
entities:
  task: {attributes: {id: S, state: {values: [OPEN, DONE]}, day: S}}
patterns: [{name: get, get: task, given: [id], rate: 1/s}]
`)
	new := parseModel(t, `
tables: {tasks: {key: {partition: id}, indexes: {open: {partition: GSI}}}}
entities:
  task: {keys: {GSI: {template: "OPEN#{day}", when: {state: OPEN}}}, attributes: {id: S, state: {values: [OPEN, DONE]}, day: S}}
patterns: [{name: get, get: task, given: [id], rate: 1/s}]
`)
	plan := makePlan(old, new, StopUnmatched)
	for _, c := range []struct {
		name   string
		item   map[string]string
		update string
		want   string
		lost   bool
	}{
		{"a key that is missing", map[string]string{"id": "1", "state": "OPEN", "day": "d"}, "SET GSI = OPEN#d",
			"attribute_exists(id); attribute_not_exists(GSI); day = d; state = OPEN", false},
		{"a key that is out of date", map[string]string{"id": "1", "state": "OPEN", "day": "d", "GSI": "OPEN#x"}, "SET GSI = OPEN#d",
			"GSI = OPEN#x; attribute_exists(id); day = d; state = OPEN", false},
		{"a key of an empty value", map[string]string{"id": "1", "state": "OPEN", "day": "d", "GSI": "OPEN#"}, "SET GSI = OPEN#d",
			"GSI = OPEN#; attribute_exists(id); day = d; state = OPEN", false},
		{"a key that must not be there", map[string]string{"id": "1", "day": "d", "GSI": "OPEN#x"}, "REMOVE GSI",
			"GSI = OPEN#x; attribute_exists(id); attribute_not_exists(state); day = d", false},
		{"nothing to do", map[string]string{"id": "1", "day": "d"}, "", "", false},
		// The value is not one that the template gives: the migration has not written it.
		{"an attribute of the application, to be set", map[string]string{"id": "1", "state": "OPEN", "day": "d", "GSI": "x"}, "", "", true},
		{"an attribute of the application, to be removed", map[string]string{"id": "1", "day": "d", "GSI": "x"}, "", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			values := make(map[string]item.Value)
			for name, text := range c.item {
				values[name] = item.String(text)
			}
			u, err := plan.indexKeys("tasks", item.Make(values))
			if c.lost && isUnmatched(err) && strings.Contains(err.Error(), "attribute GSI would be lost") {
				return
			}
			if err != nil || c.lost {
				t.Fatal(u, err)
			}
			if u == nil {
				if c.want != "" {
					t.Error("there is no update")
				}
				return
			}
			conditions := strings.Split(show(&u.cond, u.cond.text), " AND ")
			slices.Sort(conditions)
			if got := strings.Join(conditions, "; "); got != c.want || strings.TrimSpace(show(&u.cond, u.update)) != c.update {
				t.Errorf("%s if %s, want %s if %s", show(&u.cond, u.update), got, c.update, c.want)
			}
		})
	}
}

// show replaces the placeholders of an expression.
func show(x *expression, text string) string {
	for _, ref := range slices.Sorted(maps.Keys(x.names)) {
		text = strings.ReplaceAll(text, ref, x.names[ref])
	}
	for _, ref := range slices.Sorted(maps.Keys(x.values)) {
		text = strings.ReplaceAll(text, ref, strings.Trim(strings.TrimPrefix(string(x.values[ref].(json.RawMessage)), `{"S":`), `"}`))
	}
	return text
}

// An item that the application changes at each attempt does not end the run: the
// record of its last change leads to another.
func TestRewriteOfAnItemThatChanges(t *testing.T) {
	r, user := limitedRun(t, indexedUsers)
	send, updates := r.m.c.tables, 0
	r.m.c.tables = func(ctx context.Context, operation string, body any) ([]byte, error) {
		if operation == "UpdateItem" {
			updates++
			return nil, &apierror.Error{Code: "ConditionalCheckFailedException", Status: 400}
		}
		return send(ctx, operation, body)
	}
	if err := r.rewriteChanged(t.Context(), "users", []changeRecord{{keys: user}}); err != nil || updates != maxTries {
		t.Errorf("%d updates, %v", updates, err)
	}
}

// An item is updated as its last record shows it, without being read. It is read if the
// record has no image, or one that cannot be mapped.
func TestRewriteFromImages(t *testing.T) {
	user := func(email, key string) item.Item {
		values := map[string]item.Value{"id": item.String("1")}
		for name, text := range map[string]string{"email": email, "GSI": key} {
			if text != "" {
				values[name] = item.String(text)
			}
		}
		return item.Make(values)
	}
	key := item.Make(map[string]item.Value{"id": item.String("1")})
	for _, c := range []struct {
		name          string
		images        []item.Item
		reads, writes int
	}{
		{"a change of the application", []item.Item{user("e", "")}, 0, 1},
		{"a change of the migration", []item.Item{user("e", "E#e")}, 0, 0},
		{"both, in one page", []item.Item{user("e", ""), user("e", "E#e")}, 0, 0},
		{"an image that cannot be mapped", []item.Item{user("", "")}, 1, 1},
		{"no image", []item.Item{nil}, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := limitedRun(t, indexedUsers)
			send, reads, writes := r.m.c.tables, 0, 0
			r.m.c.tables = func(ctx context.Context, operation string, body any) ([]byte, error) {
				switch operation {
				case "GetItem":
					reads++
				case "UpdateItem":
					writes++
				}
				return send(ctx, operation, body)
			}
			var records []changeRecord
			for _, image := range c.images {
				records = append(records, changeRecord{keys: key, new: image})
			}
			if err := r.rewriteChanged(t.Context(), "users", records); err != nil || reads != c.reads || writes != c.writes {
				t.Errorf("%d reads, %d writes, %v", reads, writes, err)
			}
		})
	}
}
