package migrate_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/migrate"
)

const oldPairs = `
tables: {pairs: {key: {partition: a, sort: b}}}
entities:
  pair: {attributes: {a: S, b: S, note: S}}
patterns: [{name: get, get: pair, given: [a, b], rate: 1/s}]
`

const newPairs = `
tables: {pairs2: {key: {partition: PK}}}
entities:
  pair: {keys: {PK: "{a}#{b}"}, attributes: {a: S, b: S, note: S}}
patterns: [{name: get, get: pair, given: [a, b], rate: 1/s}]
`

func (g *rig) put(table string, a stringItem) {
	g.Helper()
	g.send("PutItem", map[string]any{"TableName": table, "Item": a.json()})
}

// Two items whose values contain the separator have one new key. That is a
// collision, also while changes are followed, and never replaces one of them.
func TestMigrateCollisionOfAmbiguousKeys(t *testing.T) {
	first, second := stringItem{"a": "x#y", "b": "z", "note": "1"}, stringItem{"a": "x", "b": "y#z", "note": "2"}
	var collision *migrate.CollisionError
	t.Run("backfill", func(t *testing.T) {
		g := newRig(t, oldPairs, newPairs)
		g.put("pairs", first)
		g.put("pairs", second)
		if _, err := g.migrator().Run(t.Context(), migrate.Ready); !errors.As(err, &collision) {
			t.Errorf("the run ends with %v", err)
		}
	})
	t.Run("ready", func(t *testing.T) {
		g := newRig(t, oldPairs, newPairs)
		g.put("pairs", first)
		g.do(migrate.Ready)
		g.put("pairs", second)
		if st, err := g.migrator().Run(t.Context(), migrate.Switched); !errors.As(err, &collision) || st.Phase != migrate.Ready {
			t.Errorf("phase %s, %v", st.Phase, err)
		}
	})
	t.Run("delete", func(t *testing.T) {
		g := newRig(t, oldPairs, newPairs)
		g.put("pairs", first)
		g.do(migrate.Ready)
		g.send("DeleteItem", map[string]any{"TableName": "pairs", "Key": first.pick("a", "b")})
		g.put("pairs", second)
		g.do(migrate.Switched)
		g.wantItems("pairs2", []stringItem{{"PK": "x#y#z", "a": "x", "b": "y#z", "note": "2"}})
	})
}

// An item that lacks a stored attribute, whose value its key contains, follows
// the changes and the delete of its new item after the switch.
func TestMigrateFollowsItemsWithoutAStoredAttribute(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	for _, order := range []string{"1", "2"} {
		g.put("orders", stringItem{"PK": "C#c", "SK": "O#" + order, "region": "r"})
	}
	g.do(migrate.Ready)
	g.do(migrate.Switched)
	one := stringItem{"region": "r", "SK": "c/1", "customer": "c", "order": "1"}
	g.wantItems("orders2", []stringItem{one, {"region": "r", "SK": "c/2", "customer": "c", "order": "2"}})
	one["note"] = "changed"
	g.put("orders2", one)
	g.send("DeleteItem", map[string]any{"TableName": "orders2", "Key": stringItem{"region": "r", "SK": "c/2"}.json()})
	g.rollBack()
	g.wantItems("orders", []stringItem{{"PK": "C#c", "SK": "O#1", "region": "r", "customer": "c", "order": "1", "note": "changed"}})
}

// With a stream that has no old images, deletes are followed by the key alone. An
// item whose key does not tell its new key is refused.
func TestMigrateWithAStreamOfKeys(t *testing.T) {
	for _, view := range []string{"KEYS_ONLY", "NEW_IMAGE"} {
		t.Run(view, func(t *testing.T) {
			old := strings.NewReplacer("pairs2", "pairs").Replace(newPairs)
			g := newRig(t, old, strings.NewReplacer("pairs", "pairs2").Replace(oldPairs))
			g.send("UpdateTable", map[string]any{"TableName": "pairs", "StreamSpecification": map[string]any{"StreamEnabled": true, "StreamViewType": view}})
			clear, ambiguous := stringItem{"PK": "x#y", "a": "x", "b": "y"}, stringItem{"PK": "x#y#z", "a": "x#y", "b": "z"}
			g.put("pairs", clear)
			g.put("pairs", ambiguous)
			if plan, err := g.migrator().Plan(t.Context(), model.DefaultPrices(), 0); err != nil || len(plan.Faults) != 1 || !strings.Contains(plan.Faults[0], "old images") {
				t.Errorf("the faults of the plan are %q, %v", plan.Faults, err)
			}
			var unmatched *migrate.UnmatchedError
			if _, err := g.migrator().Run(t.Context(), migrate.Ready); !errors.As(err, &unmatched) || !strings.Contains(err.Error(), "old images") {
				t.Fatalf("the run ends with %v", err)
			}
			g.send("DeleteItem", map[string]any{"TableName": "pairs", "Key": ambiguous.pick("PK")})
			g.do(migrate.Ready)
			g.wantItems("pairs2", []stringItem{{"a": "x", "b": "y"}})
			g.send("DeleteItem", map[string]any{"TableName": "pairs", "Key": clear.pick("PK")})
			g.do(migrate.Switched)
			g.wantItems("pairs2", nil)
		})
	}
}

// An item that would lose an attribute, in the new table or after a rollback,
// stops the run and the plan.
func TestMigrateKeepsAllAttributes(t *testing.T) {
	users := func(table, key, stored string) string {
		return `
tables: {` + table + `: {key: {partition: id}` + key + `}}
entities:
  user: {` + stored + `state: {values: [ON, OFF]}}}
patterns: [{name: get, get: user, given: [id], rate: 1/s}]
`
	}
	oldUsers := users("users", "", "attributes: {id: S, email: S, name: S, ")
	index := func(key string) string {
		return users("users2", ", indexes: {byEmail: {partition: GSI}}", "keys: {GSI: "+key+"}, attributes: {id: S, email: {stored: false}, name: {stored: false}, ")
	}
	for _, c := range []struct {
		name, old, new string
		item           stringItem
		lost           string
	}{
		{"not stored, in an index key that this item does not have", oldUsers, index(`{template: "E#{email}#{name}", when: {state: ON}}`),
			stringItem{"id": "1", "email": "e", "name": "n", "state": "OFF"}, "email"},
		{"not stored, in an index key that can be read in two ways", oldUsers, index(`"E#{email}#{name}"`),
			stringItem{"id": "1", "email": "e#1", "name": "n"}, "email"},
		{"not stored, and read from the index key", oldUsers, index(`"E#{email}#{name}"`),
			stringItem{"id": "1", "email": "e", "name": "n"}, ""},
		{"undeclared, with the name of a new key", oldPairs, newPairs,
			stringItem{"a": "1", "b": "2", "PK": "of the application"}, "PK"},
		{"undeclared, with the name and the value of a new key", oldPairs, newPairs,
			stringItem{"a": "1", "b": "2", "PK": "1#2"}, "PK"},
		{"undeclared", oldPairs, newPairs, stringItem{"a": "1", "b": "2", "other": "x"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, c.old, c.new)
			from, to := g.old.Tables[0].Name, g.new.Tables[0].Name
			g.put(from, c.item)
			plan, err := g.migrator().Plan(t.Context(), model.DefaultPrices(), 0)
			if err != nil || (len(plan.Faults) > 0) != (c.lost != "") {
				t.Errorf("the faults of the plan are %q, %v", plan.Faults, err)
			}
			if c.lost != "" {
				if _, err := g.migrator().Run(t.Context(), migrate.Ready); err == nil || !strings.Contains(err.Error(), "attribute "+c.lost+" would be lost") {
					t.Errorf("the run ends with %v, the new items are %s", err, g.all(to))
				}
				return
			}
			g.do(migrate.Ready)
			g.do(migrate.Switched)
			key := map[string]any{"id": map[string]string{"S": "1"}}
			if to == "pairs2" {
				key = stringItem{"PK": "1#2"}.json()
			}
			g.send("UpdateItem", map[string]any{"TableName": to, "Key": key, "UpdateExpression": "SET extra = :n", "ExpressionAttributeValues": stringItem{":n": "m"}.json()})
			g.rollBack()
			c.item["extra"] = "m"
			g.wantItems(from, []stringItem{c.item})
		})
	}
}

// An undeclared attribute with the name of a new key stops the plan and the run of a
// migration in place, before it is replaced.
func TestMigrateInPlaceKeepsAttributes(t *testing.T) {
	new := `
tables: {users: {key: {partition: id}, indexes: {byEmail: {partition: GSI}}}}
entities:
  user: {keys: {GSI: "EMAIL#{email}"}, attributes: {id: S, email: S}}
patterns: [{name: get, get: user, given: [id], rate: 1/s}]
`
	g := newRig(t, oldUsers, new)
	legacy, plain := stringItem{"id": "1", "email": "e", "GSI": "legacy-77"}, stringItem{"id": "2", "email": "f"}
	g.put("users", legacy)
	plan, err := g.migrator().Plan(t.Context(), model.DefaultPrices(), 0)
	if err != nil || len(plan.Faults) != 1 || !strings.Contains(plan.Faults[0], "attribute GSI would be lost") {
		t.Errorf("the faults of the plan are %q, %v", plan.Faults, err)
	}
	stops := func(goal migrate.Phase) {
		t.Helper()
		var unmatched *migrate.UnmatchedError
		if _, err := g.migrator().Run(t.Context(), goal); !errors.As(err, &unmatched) || !strings.Contains(err.Error(), "attribute GSI would be lost") {
			t.Errorf("the run ends with %v", err)
		}
	}
	stops(migrate.Ready)
	g.wantItems("users", []stringItem{legacy})
	g.send("DeleteItem", map[string]any{"TableName": "users", "Key": legacy.pick("id")})
	g.put("users", plain)
	g.do(migrate.Ready)
	plain["email"], plain["GSI"] = "new", "EMAIL#f"
	g.put("users", plain)
	plain["GSI"] = "EMAIL#new"
	g.do(migrate.Switched)
	g.wantItems("users", []stringItem{plain})
	g.put("users", legacy)
	stops(migrate.RolledBack)
	g.wantItems("users", []stringItem{legacy, plain})
}

// whenModel returns a model in which two attributes that items may not store decide
// which of them have the keys of an index.
func whenModel(table, key, source, index, extra string) string {
	return `
tables: {` + table + `: {key: {partition: PK}, indexes: {inbox: {partition: GSI1PK, sort: GSI1SK}` + index + `}}}
entities:
  doc:
    keys:
      PK: "` + key + `#{id}"
      GSI1PK: {template: "B#{batch}", when: {source: inbox, state: [OPEN, FAILED]}}
      GSI1SK: {template: "{at}#{place}", when: {source: inbox}}` + extra + `
    attributes:
      id: S
      batch: S
      at: S
      note: S
      place: {stored: false}
      state: {values: [OPEN, FAILED, DONE]}
      source: {values: [request, inbox]` + source + `}
patterns: [{name: get, get: doc, given: [id], rate: 1/s}]
`
}

// Index keys whose condition is on an attribute that is not stored are kept as they
// are, present or absent, in both directions.
func TestMigrateKeepsKeysWithUnknownConditions(t *testing.T) {
	for _, c := range []struct{ key, source string }{{"D", ", stored: false"}, {"E", ", stored: false"}, {"D", ""}} {
		key := c.key
		g := newRig(t, whenModel("docs", "D", ", stored: false", "", ""), whenModel("docs2", key, c.source, "", ""))
		inbox := stringItem{"PK": "D#1", "id": "1", "batch": "b", "at": "t", "state": "OPEN", "GSI1PK": "B#b", "GSI1SK": "t#7"}
		request := stringItem{"PK": "D#2", "id": "2", "batch": "b", "at": "t", "state": "OPEN"}
		done := stringItem{"PK": "D#3", "id": "3", "batch": "b", "at": "t", "state": "DONE", "GSI1SK": "t#9"}
		items := []stringItem{inbox, request, done}
		for _, it := range items {
			g.put("docs", it)
		}
		rename := func(key string) {
			for _, it := range items {
				it["PK"] = key + "#" + it["id"]
			}
		}
		g.do(migrate.Ready)
		request["note"] = "changed"
		g.put("docs", request)
		rename(key)
		g.do(migrate.Switched)
		g.wantItems("docs2", items)
		for _, it := range items {
			it["note"] = "changed again"
			g.put("docs2", it)
		}
		g.rollBack()
		rename("D")
		g.wantItems("docs", items)
	}
}

// A new key whose condition cannot be known of the items is a fault of the plan, and
// so is an old one that a rollback would need. One that the items store is read from
// them, whether or not the old model declares it.
func TestMigrateKeysWithUnknownConditions(t *testing.T) {
	index := ", second: {partition: GSI2}"
	key := `
      GSI2: {template: "S#{source}", when: {source: inbox}}`
	old := whenModel("docs", "D", ", stored: false", "", "")
	text, err := os.ReadFile("../../../apps/documents/documents.model.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, documents, _ := strings.Cut(string(text), "model: 1\n")
	for _, c := range []struct{ name, old, new, want string }{
		{"a new key, copied", old, whenModel("docs2", "D", ", stored: false", index, key), "GSI2 of entity doc in the new model depends on source, which the old model does not store"},
		{"a new key, in place", old, whenModel("docs", "D", ", stored: false", index, key), "GSI2 of entity doc in the new model depends on source, which the old model does not store"},
		{"another condition", old, strings.Replace(whenModel("docs2", "D", ", stored: false", "", ""), "source: inbox", "source: request", 1), "GSI1PK of entity doc in the new model depends on source"},
		{"another template", old, strings.Replace(whenModel("docs2", "D", ", stored: false", "", ""), "B#", "C#", 1), "GSI1PK of entity doc in the new model depends on source"},
		{"a key that a rollback needs", whenModel("docs", "D", "", index, key), whenModel("docs2", "D", ", stored: false", "", ""), "GSI2 of entity doc in the old model depends on source, which the new model does not store"},
		{"the same conditions, in a large model", documents, strings.Replace(documents, "  documents:\n", "  documents2:\n", 1), ""},
		{"stored from now on", old, whenModel("docs2", "D", "", "", ""), ""},
		{"the value is in the key", strings.ReplaceAll(old, "D#", "D#{source}#"), strings.ReplaceAll(whenModel("docs2", "D", ", stored: false", index, key), "D#", "D#{source}#"), ""},
		{"the value is in the key of an index that all items have", whenModel("docs", "D", ", stored: false", ", third: {partition: GSI3}", `
      GSI3: "S#{source}"`), whenModel("docs2", "D", ", stored: false", index+", third: {partition: GSI3}", key+`
      GSI3: "S#{source}"`), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			offline := func(context.Context, string, any) ([]byte, error) {
				return nil, &apierror.Error{Code: "ValidationException", Message: "offline", Status: 400}
			}
			plan, err := migrate.New(offline, offline, parse(t, c.old), parse(t, c.new), migrate.Options{}).Plan(t.Context(), nil, 0)
			if faults := strings.Join(plan.Faults, "; "); err != nil || !strings.Contains(faults, cmp.Or(c.want, "offline")) {
				t.Errorf("the faults of the plan are %q, %v", plan.Faults, err)
			}
		})
	}
}

// An undeclared attribute of the items that the new model declares decides which of
// them get a new key, copied and in place.
func TestMigrateReadsUndeclaredConditions(t *testing.T) {
	old := `
tables: {tasks: {key: {partition: id}}}
entities:
  task: {attributes: {id: S, day: S}}
patterns: [{name: get, get: task, given: [id], rate: 1/s}]
`
	new := `
tables: {TABLE: {key: {partition: id}, indexes: {open: {partition: GSI}}}}
entities:
  task: {keys: {GSI: {template: "OPEN#{day}", when: {state: OPEN}}}, attributes: {id: S, day: S, state: {values: [OPEN, DONE]}}}
patterns: [{name: get, get: task, given: [id], rate: 1/s}]
`
	for _, table := range []string{"tasks", "tasks2"} {
		t.Run(table, func(t *testing.T) {
			g := newRig(t, old, strings.ReplaceAll(new, "TABLE", table))
			open, done, neither := stringItem{"id": "1", "day": "d", "state": "OPEN"}, stringItem{"id": "2", "day": "d", "state": "DONE"}, stringItem{"id": "3", "day": "d"}
			g.put("tasks", open)
			g.put("tasks", done)
			g.put("tasks", neither)
			g.do(migrate.Ready)
			open["GSI"] = "OPEN#d"
			g.wantItems(table, []stringItem{open, done, neither})
			open["state"] = "DONE"
			if table != "tasks" {
				delete(open, "GSI") // which the old application does not know
			}
			g.put("tasks", open)
			delete(open, "GSI")
			done["state"], neither["state"] = "OPEN", "OPEN"
			for _, it := range []stringItem{done, neither} {
				g.put("tasks", it)
				it["GSI"] = "OPEN#d"
			}
			g.do(migrate.Switched)
			g.wantItems(table, []stringItem{open, done, neither})
		})
	}
}

// An unmatched item whose key is one of the new model is not copied over the new
// item of another, in both directions.
func TestMigrateUnmatchedItemsDoNotCollide(t *testing.T) {
	old := `
tables: {tab: {key: {partition: PK}}}
entities:
  user: {keys: {PK: "USER#{id}"}, attributes: {id: S, note: S}}
patterns: [{name: get, get: user, given: [id], rate: 1/s}]
`
	new := strings.NewReplacer("{tab:", "{tab2:", "USER#", "U#").Replace(old)
	for _, odd := range []stringItem{{"PK": "U#1", "note": "odd"}, {"PK": "U#1", "id": "7"}} {
		g := newRig(t, old, new)
		g.options.Unmatched = migrate.CopyUnmatched
		g.put("tab", stringItem{"PK": "USER#1", "id": "1", "note": "user"})
		g.put("tab", stringItem{"PK": "OTHER#1"})
		g.do(migrate.Ready)
		g.put("tab", odd)
		var unmatched *migrate.UnmatchedError
		if st, err := g.migrator().Run(t.Context(), migrate.Switched); !errors.As(err, &unmatched) || st.Phase != migrate.Ready {
			t.Errorf("phase %s, %v", st.Phase, err)
		}
		want := []stringItem{{"PK": "U#1", "id": "1", "note": "user"}, {"PK": "OTHER#1"}}
		g.wantItems("tab2", want)

		// Nor does its delete remove the new item of another.
		g.send("DeleteItem", map[string]any{"TableName": "tab", "Key": odd.pick("PK")})
		g.do(migrate.Switched)
		g.wantItems("tab2", want)
		back := stringItem{"PK": "USER#1", "note": "odd"}
		g.put("tab2", back)
		if _, err := g.migrator().Run(t.Context(), migrate.RolledBack); !errors.As(err, &unmatched) {
			t.Errorf("the rollback ends with %v", err)
		}
		g.send("DeleteItem", map[string]any{"TableName": "tab2", "Key": back.pick("PK")})
		g.rollBack()
		g.wantItems("tab", []stringItem{{"PK": "USER#1", "id": "1", "note": "user"}, {"PK": "OTHER#1"}})
		g.do(migrate.Ready)
		g.wantItems("tab2", want)

		// That of an item that was copied as it is removes the copy.
		g.send("DeleteItem", map[string]any{"TableName": "tab", "Key": want[1].pick("PK")})
		g.do(migrate.Switched)
		g.wantItems("tab2", want[:1])
	}
}
