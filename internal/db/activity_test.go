package db

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// The progress of an index build is read from what it has stored, by any server.
func TestActivityOfIndexBuild(t *testing.T) {
	seed := logSeed(t)
	const count = 10 * buildItems
	g := newGatedEngine(newEngine(t, pebble.InMemory()), 5)
	d := newDB(t, g, Options{})
	loadParts(t, d, rand.New(rand.NewPCG(seed, 0)), count)
	addIndex(t, d, lateIndex())
	<-g.reached
	found, err := d.Activities(t.Context())
	if err != nil || len(found) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	a := found[0]
	if a.Kind != CreatingIndex || a.Table != "Parts" || a.Index != "late" || a.Expected != count || a.Share < 0.1 || a.Share > 0.8 || a.Items != int64(a.Share*count) {
		t.Errorf("after 4 batches of about 10 the build is %+v", a)
	}
	g.release()
	waitIndexes(t, d)
	if found, err := d.Activities(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("after the build there is %+v, %v", found, err)
	}
}

// subordinate is an engine of a server that does not lead.
type subordinate struct{ store.Engine }

func (subordinate) Leads() bool { return false }

// A restore that no server has begun is expected to have the items of its source.
func TestActivityOfRestore(t *testing.T) {
	seed := logSeed(t)
	d := newDB(t, subordinate{newEngine(t, pebble.InMemory())}, Options{})
	loadParts(t, d, rand.New(rand.NewPCG(seed, 0)), 30)
	if _, err := d.SetRecovery(t.Context(), "Parts", 35); err != nil {
		t.Fatal(err)
	}
	if _, err := d.RestoreToSecond(t.Context(), "Parts", time.Time{}, sameSchema("Copy")); err != nil {
		t.Fatal(err)
	}
	if err := d.SetTimeToLive(t.Context(), "Parts", "ttl"); err != nil {
		t.Fatal(err)
	}
	found, err := d.Activities(t.Context())
	if err != nil || len(found) != 2 || found[0].Kind != RestoringTable || found[0].Table != "Copy" || found[0].Source.Table != "Parts" || found[0].Expected != 30 || found[0].Share != 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	if found[1].Kind != AddingExpiries || found[1].Table != "Parts" || found[1].Expected != 30 || found[1].Since.IsZero() {
		t.Errorf("%+v", found[1])
	}
	a := Activity{Items: 5}
	if a.Expect(20); a.Share != 0.25 {
		t.Errorf("5 of 20 items are %v", a.Share)
	}
}
