package migrate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stator-db/stator/internal/model/migrate"
)

// withStream gives the old table a stream that has records before the migration
// begins.
func (g *rig) withStream(w *writer, records int) {
	g.Helper()
	g.send("UpdateTable", map[string]any{"TableName": w.table, "StreamSpecification": map[string]any{"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"}})
	for i := range records {
		a := w.stored[i%len(w.stored)]
		a["note"] = fmt.Sprint("before ", i)
		g.put(w.table, a)
	}
}

// The records that a stream has before the migration begins are not followed.
func TestMigratePassesOverOldRecords(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(20)
	g.withStream(w, 300)
	if st := g.do(migrate.Ready); st.Counts.Records != 0 {
		t.Errorf("%d records were read", st.Counts.Records)
	}
	g.wantItems("orders2", w.mapped(toNewOrder))
	a := w.stored[1]
	a["note"] = "changed"
	g.put("orders", a)
	g.do(migrate.Switched)
	g.wantItems("orders2", w.mapped(toNewOrder))
}

// No change is lost if the migration begins with a stream that has records, while
// the application writes and processes are killed.
func TestMigrateBeginsWithAnOldStream(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(300)
	g.withStream(w, 300)
	g.whileWriting(300, func() {
		r := rand.New(rand.NewPCG(g.seed, 7))
		for range 12 {
			g.runKilled(migrate.Ready, 10+r.Int64N(400), r)
		}
		g.Logf("%d kills more", g.killRepeatedly(migrate.Ready))
	}, w)
	g.do(migrate.Switched)
	g.wantItems("orders2", w.mapped(toNewOrder))
}
