package migrate_test

import (
	"errors"
	"strings"
	"testing"

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
