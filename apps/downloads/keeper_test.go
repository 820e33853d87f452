package downloads_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/upstream/stand"
)

// A scheduled batch whose creation has no reply, so that the SDK sends the request again, is
// driven to its end; so is a triggered one, once.
func TestBatchReplyLost(t *testing.T) {
	r := open(t, func(o *downloads.Options, u *stand.Options) { o.Schedule, u.Files = "00:00", 3 })
	var lost atomic.Int64
	r.Batches.DB = meddle(r.Home.DB, func(in any, next func() error) error {
		if p, ok := in.(*dynamodb.PutItemInput); ok && *p.TableName == ledger.BatchesTable {
			lost.Add(1)
			_ = next()
		}
		return next()
	})
	r.Keeper.Check = 20 * time.Millisecond
	r.start()
	r.exists(ledger.ScheduledID(r.date))
	r.until(ledger.ScheduledID(r.date), ledger.Completed)
	r.batch()
	if found, err := r.Batches.OfDay(t.Context(), r.date, ""); err != nil || len(found) != 2 || lost.Load() != 2 {
		t.Errorf("the day has %d batches after %d requests, %v", len(found), lost.Load(), err)
	}
}

// exists waits until a batch exists.
func (r *rig) exists(id string) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		_, err := r.Batches.Get(r.t.Context(), id)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			r.t.Fatal(err)
		}
	}
}

// The scheduled batch of a poller that died after it had created it is driven by a second
// poller, which was running before.
func TestSecondPollerDrives(t *testing.T) {
	var passed atomic.Int64
	midnight := time.Now().UTC().Truncate(24 * time.Hour)
	now := func() time.Time { return midnight.Add(6*time.Hour + time.Duration(passed.Load())) }
	r := open(t, func(o *downloads.Options, u *stand.Options) {
		o.Schedule, o.Timeout, o.Now, u.Files = "06:30", 3*time.Hour, now, 2
	})
	r.Keeper.Check = 20 * time.Millisecond
	r.start()
	yesterday := midnight.AddDate(0, 0, -1).Format(time.DateOnly)
	r.exists(ledger.ScheduledID(yesterday))
	r.until(ledger.ScheduledID(yesterday), ledger.Completed)
	first := &ledger.Batches{DB: r.Home.DB, Now: now}
	if _, err := first.Create(t.Context(), ledger.ScheduledID(r.date), r.date); err != nil {
		t.Fatal(err)
	}
	passed.Store(int64(time.Hour))
	r.until(ledger.ScheduledID(r.date), ledger.Completed)
}
