package downloads_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/upstream/stand"
)

// hook is called for each update of a job.
type hook func(next func() error) error

// twoFailed runs a batch of three files of which two fail. Later updates of jobs call the
// hook that is set.
func twoFailed(t *testing.T) (*rig, *ledger.Batch, *atomic.Pointer[hook]) {
	t.Helper()
	r := open(t, func(o *downloads.Options, u *stand.Options) { u.Files, o.Resend = 3, 100*time.Millisecond })
	var with atomic.Pointer[hook]
	r.Jobs.DB = meddle(r.Home.DB, func(in any, next func() error) error {
		if u, ok := in.(*dynamodb.UpdateItemInput); ok && *u.TableName == ledger.JobsTable {
			if h := with.Load(); h != nil {
				return (*h)(next)
			}
		}
		return next()
	})
	r.up.Fault("accounts", "forgedsum", 1)
	r.up.Fault("balances", "forgedsum", 1)
	r.start()
	b := r.batch()
	if b.Status != ledger.Failed || len(b.FailedFiles) != 2 {
		t.Fatalf("the batch is %+v", b)
	}
	return r, b, &with
}

// until waits until a batch has a status.
func (r *rig) until(id string, s ledger.Status) *ledger.Batch {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		b, err := r.Batches.Get(r.t.Context(), id)
		if err != nil {
			r.t.Fatal(err)
		}
		if b.Status == s {
			return b
		}
		if time.Now().After(end) {
			r.t.Fatalf("the batch is not %s, but %+v", s, b)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// untilJob waits until a file has a status.
func (r *rig) untilJob(entity string, s ledger.Status) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); r.job(entity).Status != s; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%s is not %s, but %+v", entity, s, r.job(entity))
		}
	}
}

// A requeue that is cut off after the first file, whose message is lost, leaves a file
// that its batch follows.
func TestRequeueCutOff(t *testing.T) {
	for what, cut := range map[string]func(cancel func(), next func() error) error{
		"the client goes away":   func(cancel func(), next func() error) error { err := next(); cancel(); return err },
		"the reply has an error": func(_ func(), next func() error) error { return errors.Join(next(), errKilled) },
	} {
		t.Run(what, func(t *testing.T) {
			r, first, with := twoFailed(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			once := hook(func(next func() error) error { with.Store(nil); return cut(cancel, next) })
			with.Store(&once)
			r.Keeper.Poller.Send = func(context.Context, string) error { return nil }
			if out, err := r.Requeue(ctx, downloads.Requeue{Batch: first.BatchID, Status: ledger.Failed}); err == nil {
				t.Errorf("a requeue that was cut off: %+v", out)
			}
			r.untilJob("accounts", ledger.Completed)
			b := r.until(first.BatchID, ledger.Failed)
			if len(b.FailedFiles) != 1 || len(b.CompletedFiles) != 2 {
				t.Errorf("the batch is %+v", b)
			}
		})
	}
}

// Files that were made available again by a process that was killed before the batch
// was reopened are downloaded after a restart, and their batch follows.
func TestRequeueKilled(t *testing.T) {
	r, first, _ := twoFailed(t)
	r.stop()
	for _, e := range []string{"accounts", "balances"} {
		if _, err := r.Jobs.Requeue(t.Context(), r.job(e), false); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	if b := r.until(first.BatchID, ledger.Completed); len(b.CompletedFiles) != 3 {
		t.Errorf("the batch is %+v", b)
	}
	r.holds(all(3)...)
}

// A requeue whose reply is lost, and which the SDK sends again, is not refused.
func TestRequeueReplyLost(t *testing.T) {
	r, first, with := twoFailed(t)
	r.Keeper.Poller.Send = func(context.Context, string) error { return nil }
	twice := hook(func(next func() error) error { _ = next(); return next() })
	with.Store(&twice)
	out, err := r.Requeue(t.Context(), downloads.Requeue{Batch: first.BatchID, Status: ledger.Failed})
	with.Store(nil)
	if err != nil || len(out.Files) != 2 || len(out.Refused) != 0 {
		t.Errorf("requeued are %+v, %v", out, err)
	}
	r.until(first.BatchID, ledger.Completed)
}
