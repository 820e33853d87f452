package downloads_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/upstream/stand"
)

// timedOut runs a batch of three files whose messages are lost, until it times out. Later
// messages are sent if the returned value is set.
func timedOut(t *testing.T) (*rig, *ledger.Batch, *atomic.Bool) {
	t.Helper()
	r := open(t, func(o *downloads.Options, u *stand.Options) {
		u.Files, o.Timeout, o.Lease, o.Resend = 3, 300*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	})
	var sends atomic.Bool
	send := r.Keeper.Poller.Send
	r.Keeper.Poller.Send = func(ctx context.Context, id string) error {
		if sends.Load() {
			return send(ctx, id)
		}
		return nil
	}
	r.Keeper.Poller.Sweeper.Send, r.Keeper.Poller.Sweeper.Volatile = r.Keeper.Poller.Send, false
	r.start()
	b := r.batch()
	if b.Status != ledger.Timeout || len(b.Outstanding()) != 3 {
		t.Fatalf("the batch is %+v", b)
	}
	return r, b, &sends
}

func (r *rig) claim(entity string) *ledger.Job {
	r.t.Helper()
	j, err := r.Jobs.Claim(r.t.Context(), ledger.FileID(entity, r.date), "another process")
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

// untilDone waits until a batch has recorded how many files completed and failed.
func (r *rig) untilDone(id string, completed, failed int) *ledger.Batch {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		b, err := r.Batches.Get(r.t.Context(), id)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(b.CompletedFiles) == completed && len(b.FailedFiles) == failed {
			return b
		}
		if time.Now().After(end) {
			r.t.Fatalf("the batch is %+v", b)
		}
	}
}

// Files of a batch that timed out are not orphaned: one that another process completes is
// added to the batch, one whose downloader died is released and sent, and one that is
// released at a shutdown is sent.
func TestLateFiles(t *testing.T) {
	r, b, sends := timedOut(t)
	if err := r.Jobs.Complete(t.Context(), r.claim("accounts")); err != nil {
		t.Fatal(err)
	}
	r.untilDone(b.BatchID, 1, 0)
	r.claim("balances") // and dies
	if err := r.Jobs.Release(t.Context(), r.claim("cards")); err != nil {
		t.Fatal(err)
	}
	sends.Store(true)
	if b = r.untilDone(b.BatchID, 3, 0); b.Status != ledger.Timeout || b.TimeoutAt == "" {
		t.Errorf("the batch is %+v", b)
	}
	// The records of files expire before those of batches.
	days, err := r.Batches.Audit(t.Context(), &ledger.Jobs{}, r.date[:7], r.date)
	if i := slices.IndexFunc(days, func(d ledger.Day) bool { return d.Date == r.date }); err != nil || days[i].Verdict != ledger.Whole {
		t.Errorf("the audit is %+v, %v", days, err)
	}
}

// Files that ended while no poller ran are added to the batch at the next start; also
// those that failed.
func TestLateFilesAfterARestart(t *testing.T) {
	r, b, _ := timedOut(t)
	r.stop()
	for _, e := range []string{"accounts", "balances"} {
		if err := r.Jobs.Complete(t.Context(), r.claim(e)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Jobs.Fail(t.Context(), r.claim("cards"), ledger.Failed, "the upstream failed"); err != nil {
		t.Fatal(err)
	}
	r.start()
	if b = r.untilDone(b.BatchID, 2, 1); b.Status != ledger.Timeout {
		t.Errorf("the batch is %+v", b)
	}
}

// A batch that is followed runs again when its files are queued again.
func TestRequeueOfLateFiles(t *testing.T) {
	r, b, sends := timedOut(t)
	sends.Store(true)
	out, err := r.Requeue(t.Context(), downloads.Requeue{Batch: b.BatchID, Status: ledger.Available})
	if err != nil || len(out.Files) != 3 || len(out.Batches) != 1 {
		t.Fatalf("requeued are %+v, %v", out, err)
	}
	if b = r.untilDone(b.BatchID, 3, 0); b.ReopenedAt == "" {
		t.Errorf("the batch is %+v", b)
	}
}

// A batch that begins while a process looks for those of earlier ones, and times out, is
// not taken for one of them: it is not reopened.
func TestYoungBatchIsNotResumed(t *testing.T) {
	r := open(t, func(o *downloads.Options, u *stand.Options) {
		u.Files, o.Timeout, o.Lease, o.Resend = 1, 200*time.Millisecond, 100*time.Millisecond, time.Hour
	})
	r.Keeper.Poller.Send = func(context.Context, string) error { return nil }
	r.Keeper.Poller.Sweeper.Send, r.Keeper.Poller.Sweeper.Volatile = r.Keeper.Poller.Send, false
	listed, timedOut, resumed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var queries atomic.Int64
	r.Jobs.DB = meddle(r.Home.DB, func(in any, next func() error) error {
		q, ok := in.(*dynamodb.QueryInput)
		if !ok || q.IndexName == nil {
			return next()
		}
		n := queries.Add(1)
		if n == 1 { // the batches of the day are listed
			close(listed)
			<-timedOut
		}
		err := next()
		if n == 2 { // the files of each of two states
			defer close(resumed)
		}
		return err
	})
	r.start()
	<-listed
	b := r.batch()
	close(timedOut)
	<-resumed
	if err := r.Jobs.Complete(t.Context(), r.claim("accounts")); err != nil {
		t.Fatal(err)
	}
	if b = r.untilDone(b.BatchID, 1, 0); b.Status != ledger.Timeout || b.ReopenedAt != "" {
		t.Errorf("the batch is %+v", b)
	}
}
