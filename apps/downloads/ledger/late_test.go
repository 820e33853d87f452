package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/downloads/ledger"
)

// Late files are added to a batch that timed out, and to no other.
func TestLateFilesOfABatch(t *testing.T) {
	b := start(t)
	ctx := t.Context()
	id := ledger.NewID(date)
	must(t, second(b.batches.Create(ctx, id, date)))
	late := func() error { return second(b.batches.Late(ctx, id, []string{"a"}, []string{"b"})) }
	refused := func(status ledger.Status) {
		t.Helper()
		if err := late(); !errors.Is(err, ledger.ErrLost) {
			t.Errorf("a batch that is %s gets late files: %v", status, err)
		}
	}
	refused(ledger.Initiated)
	must(t, second(b.batches.Expect(ctx, id, []string{"a", "b", "c"}, "")))
	refused(ledger.Queued)
	must(t, second(b.batches.Finish(ctx, id, ledger.Timeout, nil, nil, "late")))
	must(t, late())
	must(t, late()) // again, without an effect
	got, err := b.batches.Get(ctx, id)
	must(t, err)
	if got.Status != ledger.Timeout || !slices.Equal(got.CompletedFiles, []string{"a"}) || !slices.Equal(got.FailedFiles, []string{"b"}) || !slices.Equal(got.Outstanding(), []string{"c"}) {
		t.Errorf("the batch is %+v", got)
	}
}

// An entry of the upstream's list that was not accepted is missing, until a later batch of
// the day gets a list without it.
func TestAuditOfRefusedEntries(t *testing.T) {
	b := start(t)
	ctx := t.Context()
	refused := ledger.RefusedID("0123456789ab", date)
	batch := func(as ledger.Status, expected ...string) {
		t.Helper()
		b.now = b.now.Add(time.Second)
		id := ledger.NewID(date)
		must(t, second(b.batches.Create(ctx, id, date)))
		must(t, second(b.batches.Expect(ctx, id, expected, "")))
		received := slices.DeleteFunc(slices.Clone(expected), ledger.Refused)
		must(t, second(b.batches.Finish(ctx, id, as, received, nil, "")))
	}
	is := func(want string) {
		t.Helper()
		days, err := b.batches.Audit(ctx, b.jobs, date[:7], date)
		must(t, err)
		d := days[27]
		if got := fmt.Sprintf("%s %d/%d %v", d.Verdict, d.Received, d.Expected, d.Missing); got != want {
			t.Errorf("the day is %s, want %s", got, want)
		}
	}
	batch(ledger.Failed, "a", refused)
	is("incomplete 1/2 [" + refused + "]")
	batch(ledger.Timeout) // without a list
	is("incomplete 1/2 [" + refused + "]")
	batch(ledger.Failed, "a", refused)
	is("incomplete 1/2 [" + refused + "]")
	batch(ledger.Completed, "a", "b")
	is("complete 2/2 []")
}

// A claim that had a heartbeat since it was read is not released as dead; its owner can
// give it up, also without having seen the heartbeat.
func TestReleaseAfterAHeartbeat(t *testing.T) {
	b := start(t)
	ctx := t.Context()
	must(t, second(b.jobs.Queue(ctx, job("accounts", "b"))))
	j, err := b.jobs.Claim(ctx, "accounts-"+date, "mine")
	must(t, err)
	beaten := *j
	must(t, b.jobs.Beat(ctx, &beaten, 1))
	if err := b.jobs.Release(ctx, j); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("a live claim is released: %v", err)
	}
	must(t, b.jobs.GiveUp(ctx, j))
	j, err = b.jobs.Claim(ctx, j.FileID, "another")
	must(t, err)
	must(t, b.jobs.Release(ctx, j))
	got, err := b.jobs.Get(ctx, j.FileID)
	must(t, err)
	if got.Status != ledger.Available || got.HeartbeatAt != 0 {
		t.Errorf("the job is %+v", got)
	}
}
