package migrate_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model/migrate"
)

// The stored phase is the one that a switch reports, whether or not the request
// that stores it was executed before its reply was lost.
func TestMigrateSwitchReportsWhatIsStored(t *testing.T) {
	for _, c := range []struct {
		name     string
		executed bool
		want     migrate.Phase
	}{
		{"not executed", false, migrate.Ready},
		{"executed", true, migrate.Switched},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, oldOrders, newOrders)
			orderWriter(g).fill(20)
			g.do(migrate.Ready)
			lost := false
			send := func(ctx context.Context, operation string, body any) ([]byte, error) {
				text, _ := json.Marshal(body)
				if operation == "UpdateItem" && !lost && strings.Contains(string(text), `\"phase\":\"switched\"`) {
					lost = true
					if c.executed {
						_, _ = g.e.Send(ctx, operation, body)
					}
					return nil, errors.New("no answer")
				}
				return g.e.Send(ctx, operation, body)
			}
			st, err := migrate.New(send, g.e.SendStreams, g.old, g.new, g.options).Run(t.Context(), migrate.Switched)
			if !lost || (err == nil) != (c.want == migrate.Switched) || st.Phase != c.want {
				t.Errorf("the command returns phase %s, %v", st.Phase, err)
			}
			if st, err := g.migrator().Status(t.Context()); err != nil || st.Phase != c.want {
				t.Errorf("phase %s is stored, %v", st.Phase, err)
			}
		})
	}
}

// After a rollback the verification keeps items of entities that only the new
// model has.
func TestMigrateVerifiesAfterRollback(t *testing.T) {
	g := newRig(t, oldShop, newShop)
	g.do(migrate.Ready)
	g.do(migrate.Switched)
	coupon := stringItem{"PK": "COUPON#1", "SK": "COUPON", "code": "1"}
	g.send("PutItem", map[string]any{"TableName": "shop", "Item": coupon.json()})
	g.rollBack()
	for _, repair := range []bool{false, true} {
		g.options.Verify, g.options.Repair = true, repair
		if st := g.do(migrate.Ready); st.Verified.Kept != 1 || st.Verified.Repaired != 0 {
			t.Errorf("%+v", st.Verified)
		}
	}
	g.wantItems("shop", []stringItem{coupon})
}
