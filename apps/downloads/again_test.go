package downloads_test

import (
	"cmp"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/upstream/stand"
)

// A batch that times out although a file was queued again long before, and completed, is not
// reopened because of that file.
func TestRequeueThatWasSeen(t *testing.T) {
	r := start(t, func(o *downloads.Options, u *stand.Options) {
		u.Files, o.Stall, o.Timeout = 2, time.Hour, 5*time.Second
	})
	r.up.Fault("accounts", "stalled", 1)
	r.up.Fault("balances", "forgedsum", 1)
	id, err := r.Keeper.Trigger(t.Context(), r.date)
	if err != nil {
		t.Fatal(err)
	}
	r.until(id, ledger.Queued)
	r.untilJob("balances", ledger.Failed)
	if out, err := r.Requeue(t.Context(), downloads.Requeue{Files: []string{ledger.FileID("balances", r.date)}}); err != nil || len(out.Files) != 1 {
		t.Fatalf("requeued are %+v, %v", out, err)
	}
	r.untilJob("balances", ledger.Completed)
	r.until(id, ledger.Timeout)
	time.Sleep(200 * time.Millisecond) // in which it would be reopened
	b, err := r.Batches.Get(t.Context(), id)
	if err != nil || b.Status != ledger.Timeout || b.ReopenedAt != "" {
		t.Errorf("the batch is %+v, %v", b, err)
	}
	if _, text := get(t, r.Handler(), "GET", "/metrics"); !strings.Contains(text, `downloads_batches_total{status="timeout"} 1`) {
		t.Error("the batch timed out more than once")
	}
}

// A batch that another poller ends as failed, because it read a file before that was queued
// again, is reopened when the file completes.
func TestEndedByAnotherPoller(t *testing.T) {
	r := open(t, nil)
	ctx := t.Context()
	file := ledger.Job{FileID: ledger.FileID("accounts", r.date), BatchID: ledger.ScheduledID(r.date), Entity: "accounts", DownloadDate: r.date}
	if _, err := r.Batches.Create(ctx, file.BatchID, r.date); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Jobs.Queue(ctx, file); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Batches.Expect(ctx, file.BatchID, []string{file.FileID}, ""); err != nil {
		t.Fatal(err)
	}
	var checks atomic.Int64
	r.Keeper.Poller.Checking = func(string) { checks.Add(1) }
	ended := make(chan error, 1)
	go func() { _, err := r.Keeper.Poller.Run(ctx, file.BatchID); ended <- err }()
	for checks.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if _, err := r.Batches.Finish(ctx, file.BatchID, ledger.Failed, nil, []string{file.FileID}, "1 of 1 files failed"); err != nil {
		t.Fatal(err)
	}
	if err := r.Jobs.Complete(ctx, r.claim("accounts")); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	b, err := r.Batches.Get(ctx, file.BatchID)
	if err != nil || b.Status != ledger.Completed || len(b.CompletedFiles) != 1 || len(b.FailedFiles) != 0 {
		t.Errorf("the batch is %+v, %v", b, err)
	}
}

// A downloader that is stopped releases its file although its last heartbeat, which was
// written, had no reply.
func TestStopAfterALostHeartbeat(t *testing.T) {
	r := open(t, func(o *downloads.Options, u *stand.Options) { u.Files, o.Stall, o.Lease = 1, time.Hour, 3*time.Second })
	var beats atomic.Int64
	r.Jobs.DB = meddle(r.Home.DB, func(in any, next func() error) error {
		u, ok := in.(*dynamodb.UpdateItemInput)
		if ok && *u.TableName == ledger.JobsTable && !strings.Contains(*u.UpdateExpression, "REMOVE") {
			return errors.Join(next(), errors.New("the connection is lost"), count(&beats))
		}
		return next()
	})
	r.start()
	r.up.Fault("accounts", "stalled", 1)
	if _, err := r.Keeper.Trigger(t.Context(), r.date); err != nil {
		t.Fatal(err)
	}
	for beats.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	r.stop()
	if j := r.job("accounts"); j.Status != ledger.Available || j.HeartbeatAt != 0 {
		t.Errorf("after a stop the job is %+v", j)
	}
}

func count(n *atomic.Int64) error { n.Add(1); return nil }

// The page of a day has the files that have not completed of all its batches, also if the
// last batch got no list.
func TestFilesOfEarlierBatchesAreShown(t *testing.T) {
	r := start(t, func(o *downloads.Options, u *stand.Options) { u.Files, o.Every = 3, 5*time.Millisecond })
	r.up.Fault("accounts", "forgedkey", 1)
	r.batch()
	r.up.Fault(r.date, "badjson", 1000)
	if b := r.batch(); b.Status != ledger.Failed || len(b.ExpectedFiles) != 0 {
		t.Fatalf("the second batch is %+v", b)
	}
	code, text := get(t, r.Handler(), "GET", "/?date="+r.date)
	if id := ledger.FileID("accounts", r.date); code != 200 || !strings.Contains(text, "/files/"+id) || !strings.Contains(text, "not wrapped for our RSA key") {
		t.Errorf("the page does not have %s: %d %s", id, code, text)
	}
}

// A write of a job whose reply is lost is repeated by the SDK, and has succeeded: its writer
// sends the message of the file, which nobody else would for minutes.
func TestWritesThatHadNoReply(t *testing.T) {
	r := open(t, nil)
	ctx := t.Context()
	r.Jobs.DB = meddle(r.Home.DB, func(in any, next func() error) error {
		switch in.(type) {
		case *dynamodb.PutItemInput, *dynamodb.UpdateItemInput:
			return cmp.Or(next(), next())
		}
		return next()
	})
	file := ledger.Job{FileID: ledger.FileID("accounts", r.date), BatchID: "one", Entity: "accounts", DownloadDate: r.date}
	if there, err := r.Jobs.Queue(ctx, file); there != nil || err != nil {
		t.Fatalf("a new job is there: %+v, %v", there, err)
	}
	if err := r.Jobs.Release(ctx, r.claim("accounts")); err != nil {
		t.Errorf("release: %v", err)
	}
	if err := r.Jobs.Fail(ctx, r.claim("accounts"), ledger.Failed, "a test"); err != nil {
		t.Fatal(err)
	}
	second := file
	second.BatchID = "two"
	if err := r.Jobs.TakeOver(ctx, r.job("accounts"), second); err != nil {
		t.Errorf("take over: %v", err)
	}
	if there, err := r.Jobs.Queue(ctx, second); there == nil || err != nil {
		t.Errorf("a job of another moment is not there: %v", err)
	}
}
