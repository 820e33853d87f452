package downloads_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/downloader"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/meter"
	"github.com/stator-db/stator/apps/downloads/poller"
	"github.com/stator-db/stator/apps/downloads/queue"
	"github.com/stator-db/stator/apps/downloads/upstream/stand"
	"github.com/stator-db/stator/apps/internal/hometest"
)

var errKilled = errors.New("killed")

// life is a poller that ends at one of its steps, before or after the step.
type life struct {
	mutex  sync.Mutex
	left   int
	after  bool
	cancel context.CancelFunc
}

func (l *life) step(do func() error) error {
	l.mutex.Lock()
	if l.left == 0 {
		l.mutex.Unlock()
		return errKilled
	}
	l.left--
	last := l.left == 0
	l.mutex.Unlock()
	if !last {
		return do()
	}
	if l.after {
		_ = do()
	}
	l.cancel()
	return errKilled
}

// desk is the environment of a poller without downloaders: sending a message
// completes its file.
type desk struct {
	*rig
	mutex sync.Mutex
	sent  map[string]int
}

func (d *desk) send(ctx context.Context, id string) error {
	d.mutex.Lock()
	d.sent[id]++
	d.mutex.Unlock()
	j, err := d.Jobs.Claim(context.WithoutCancel(ctx), id, "desk")
	if errors.Is(err, ledger.ErrLost) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.Jobs.Complete(context.WithoutCancel(ctx), j)
}

func (d *desk) poller(db *dynamodb.Client, send func(context.Context, string) error) *poller.Poller {
	p := *d.Keeper.Poller
	p.Jobs, p.Batches, p.Send = &ledger.Jobs{DB: db, Now: time.Now}, &ledger.Batches{DB: db, Now: time.Now}, send
	p.Sweeper = &poller.Sweeper{Jobs: p.Jobs, Send: send, Log: slog.New(slog.DiscardHandler), Meter: meter.New(prometheus.NewRegistry(), func() {}),
		Lease: time.Minute, Resend: time.Minute, MaxTries: 5, Volatile: true}
	return &p
}

// lives drives a batch with a poller that ends at its n-th step and another one that
// continues. It returns how often each file's message was sent, and whether the first
// poller completed.
func (d *desk) lives(t *testing.T, n int, after bool, spoil func(any)) (b *ledger.Batch, sent map[string]int, over bool) {
	t.Helper()
	d.sent = make(map[string]int)
	id, err := d.Keeper.Trigger(t.Context(), d.date)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := &life{left: n, after: after, cancel: cancel}
	db := meddle(d.Home.DB, func(in any, next func() error) error {
		spoil(in)
		return l.step(next)
	})
	first := d.poller(db, func(ctx context.Context, id string) error { return l.step(func() error { return d.send(ctx, id) }) })
	_, err = first.Run(ctx, id)
	second := d.poller(meddle(d.Home.DB, func(in any, next func() error) error { spoil(in); return next() }), d.send)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := second.Run(t.Context(), id); err != nil {
			t.Errorf("the second poller: %v", err)
		}
	}()
	<-done
	return d.end(id), d.sent, err == nil
}

// After a poller is killed at any of its steps, another one continues where it ended,
// and queues nothing twice.
func TestPollerKilledAnywhere(t *testing.T) {
	d := &desk{rig: open(t, func(_ *downloads.Options, u *stand.Options) { u.Files = 3 })}
	day := time.Now().UTC()
	for _, after := range []bool{false, true} {
		over := false
		for n := 1; !over; n++ {
			day = day.AddDate(0, 0, -1)
			d.date = day.Format(time.DateOnly)
			var b *ledger.Batch
			var sent map[string]int
			b, sent, over = d.lives(t, n, after, func(any) {})
			want := d.ids(3)
			if b.Status != ledger.Completed || !slices.Equal(b.ExpectedFiles, want) || !slices.Equal(b.CompletedFiles, want) {
				t.Errorf("killed at step %d (done: %t) the batch is %+v", n, after, b)
			}
			if got := slices.Sorted(maps.Keys(sent)); !slices.Equal(got, want) || sent[want[0]]+sent[want[1]]+sent[want[2]] != 3 {
				t.Errorf("killed at step %d (done: %t) the messages are %v", n, after, sent)
			}
			if over && n < 10 {
				t.Errorf("a poller has %d steps: not all were counted", n)
			}
		}
	}
}

// The control: without its condition a job would be written again, and its
// message sent twice.
func TestPollerKilledControl(t *testing.T) {
	d := &desk{rig: open(t, func(_ *downloads.Options, u *stand.Options) { u.Files = 3 })}
	d.Home.DB = hometest.Examine(d.Home.DB) // the program sends no such requests
	day, twice, over := time.Now().UTC(), 0, false
	for n := 1; !over; n++ {
		day = day.AddDate(0, 0, -1)
		d.date = day.Format(time.DateOnly)
		var sent map[string]int
		_, sent, over = d.lives(t, n, true, func(in any) {
			if put, ok := in.(*dynamodb.PutItemInput); ok && *put.TableName == ledger.JobsTable {
				put.ConditionExpression = nil
				put.ReturnValuesOnConditionCheckFailure = ""
			}
		})
		for _, n := range sent {
			if n > 1 {
				twice++
			}
		}
	}
	if twice == 0 {
		t.Error("the test does not find a message that is sent twice")
	}
}

// Two pollers that drive the same batch queue each file once.
func TestTwoPollers(t *testing.T) {
	d := &desk{rig: open(t, nil), sent: make(map[string]int)}
	id, err := d.Keeper.Trigger(t.Context(), d.date)
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			p := d.poller(d.Home.DB, d.send)
			p.Sweeper.Volatile = false // two processes have a broker between them
			if b, err := p.Run(t.Context(), id); err != nil || b.Status != ledger.Completed {
				t.Errorf("a poller ended with %+v, %v", b, err)
			}
		})
	}
	both.Wait()
	for id, n := range d.sent {
		if n != 1 {
			t.Errorf("%s was sent %d times", id, n)
		}
	}
	if len(d.sent) != 10 {
		t.Errorf("%d files were sent", len(d.sent))
	}
}

// downloaders runs two downloaders that receive every message three times, and
// counts the files that were started more than once.
func downloaders(t *testing.T, client func(*dynamodb.Client) *dynamodb.Client, spoil func(any)) (again int) {
	r := open(t, func(o *downloads.Options, u *stand.Options) { u.Files, u.Size = 40, 20_000 })
	for _, e := range all(40) {
		r.up.Fault(e, "slow", 3)
	}
	key, _ := rsaKey()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var works sync.WaitGroup
	defer works.Wait()
	defer stop()
	q, err := queue.Open(ctx, "mem://x", "mem://x")
	if err != nil {
		t.Fatal(err)
	}
	db := meddle(client(r.Home.DB), func(in any, next func() error) error { spoil(in); return next() })
	for range 2 {
		d := &downloader.Downloader{Jobs: &ledger.Jobs{DB: db, Now: time.Now}, Upstream: r.Keeper.Poller.Upstream, Queue: q, Bucket: r.Bucket, Key: key, HTTP: downloader.Client(4),
			Parallel: 4, MaxSize: 1 << 20, Lease: 30 * time.Second, Stall: time.Minute, Backoff: time.Millisecond, Attempts: 3,
			Log: slog.New(slog.DiscardHandler), Meter: meter.New(prometheus.NewRegistry(), func() {})}
		works.Go(func() { d.Run(ctx) })
	}
	p := *r.Keeper.Poller
	p.Send = func(ctx context.Context, id string) error {
		return errors.Join(q.Send(ctx, id), q.Send(ctx, id), q.Send(ctx, id))
	}
	id, err := r.Keeper.Trigger(ctx, r.date)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := p.Run(ctx, id); err != nil || b.Status != ledger.Completed {
		t.Errorf("the batch is %+v, %v", b, err)
	}
	r.holds(all(40)...)
	for _, id := range r.ids(40) {
		if c := r.up.Counts(id); c.Starts != 1 {
			again++
		}
	}
	return again
}

// Two downloaders never process one file.
func TestTwoDownloaders(t *testing.T) {
	if n := downloaders(t, func(db *dynamodb.Client) *dynamodb.Client { return db }, func(any) {}); n != 0 {
		t.Errorf("%d files were started more than once", n)
	}
}

// The control: without the claim's condition they do.
func TestTwoDownloadersControl(t *testing.T) {
	n := downloaders(t, hometest.Examine, func(in any) {
		if u, ok := in.(*dynamodb.UpdateItemInput); ok && strings.Contains(*u.UpdateExpression, "ADD") {
			u.ConditionExpression = aws.String("(" + *u.ConditionExpression + ") OR attribute_exists(FileID)")
		}
	})
	if n == 0 {
		t.Error("the test does not find a file that is processed twice")
	}
}

// yard is one job and a sweep in virtual time.
type yard struct {
	*rig
	wall, clock time.Time
	sweep       *poller.Sweeper
	sent        []string
}

func newYard(t *testing.T) *yard {
	y := &yard{wall: time.Now(), clock: time.Unix(0, 0)}
	y.rig = open(t, func(o *downloads.Options, _ *stand.Options) { o.Now = func() time.Time { return y.wall } })
	y.sweep = &poller.Sweeper{Jobs: y.Jobs, Log: slog.New(slog.DiscardHandler), Meter: meter.New(prometheus.NewRegistry(), func() {}),
		Send:  func(_ context.Context, id string) error { y.sent = append(y.sent, id); return nil },
		Lease: 30 * time.Second, Resend: 2 * time.Minute, MaxTries: 3, Clock: func() time.Time { return y.clock }}
	j := ledger.Job{FileID: ledger.FileID("a", y.date), BatchID: "b", Entity: "a", DownloadDate: y.date, SHA256: make([]byte, 32)}
	if _, err := y.Jobs.Queue(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	return y
}

// pass advances time in small steps, with a sweep at each.
func (y *yard) pass(d time.Duration, each func()) {
	y.t.Helper()
	for ; d > 0; d -= 5 * time.Second {
		y.wall, y.clock = y.wall.Add(5*time.Second), y.clock.Add(5*time.Second)
		if each != nil {
			each()
		}
		if err := y.sweep.Sweep(y.t.Context()); err != nil {
			y.t.Fatal(err)
		}
	}
}

func (y *yard) is(s ledger.Status, sent int) {
	y.t.Helper()
	if j := y.job("a"); j.Status != s || len(y.sent) != sent {
		y.t.Errorf("the job is %s (%s) and %d messages were sent, want %s and %d", j.Status, j.ErrorMessage, len(y.sent), s, sent)
	}
}

// A lost message is sent again, once in each interval.
func TestLostMessage(t *testing.T) {
	y := newYard(t)
	y.pass(115*time.Second, nil)
	y.is(ledger.Available, 0)
	y.pass(10*time.Second, nil)
	y.is(ledger.Available, 1)
	y.pass(110*time.Second, nil)
	y.is(ledger.Available, 1)
	y.pass(10*time.Second, nil)
	y.is(ledger.Available, 2)
	// If the queue was lost with the process, all messages are sent at once.
	y.sweep.Volatile = true
	y.sweep.Reset()
	y.pass(5*time.Second, nil)
	y.is(ledger.Available, 3)
}

// A claim with heartbeats is never released; a claim without them is released after
// the lease, and the file abandoned after too many lost claims.
func TestDeadDownloader(t *testing.T) {
	y := newYard(t)
	j, err := y.Jobs.Claim(t.Context(), ledger.FileID("a", y.date), "one")
	if err != nil {
		t.Fatal(err)
	}
	beat := func() {
		if err := y.Jobs.Beat(t.Context(), j, 0); err != nil {
			t.Fatal(err)
		}
	}
	y.pass(10*time.Minute, beat)
	y.is(ledger.Downloading, 0)
	y.pass(25*time.Second, nil)
	y.is(ledger.Downloading, 0)
	y.pass(15*time.Second, nil)
	y.is(ledger.Available, 1)
	// The downloader was still alive. It can do no harm.
	for _, err := range []error{y.Jobs.Beat(t.Context(), j, 0), y.Jobs.Complete(t.Context(), j)} {
		if !errors.Is(err, ledger.ErrLost) {
			t.Errorf("with a lost claim: %v", err)
		}
	}
	for i := 2; i <= 3; i++ {
		if _, err := y.Jobs.Claim(t.Context(), j.FileID, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		y.pass(40*time.Second, nil)
	}
	y.is(ledger.Error, 2)
	if j := y.job("a"); !strings.Contains(j.ErrorMessage, "3 downloaders claimed it") {
		t.Errorf("abandoned with %q", j.ErrorMessage)
	}
}

// A clock that jumps neither ends a live claim nor keeps a lost one, and loses no
// message.
func TestClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{48 * time.Hour, -48 * time.Hour} {
		y := newYard(t)
		j, err := y.Jobs.Claim(t.Context(), ledger.FileID("a", y.date), "one")
		if err != nil {
			t.Fatal(err)
		}
		y.pass(10*time.Second, nil)
		y.wall = y.wall.Add(jump)
		y.pass(10*time.Minute, func() {
			if err := y.Jobs.Beat(t.Context(), j, 0); err != nil {
				t.Fatalf("after a jump of %s: %v", jump, err)
			}
		})
		y.is(ledger.Downloading, 0)
		y.wall = y.wall.Add(-jump)
		y.pass(45*time.Second, nil)
		y.is(ledger.Available, 1)
		y.wall = y.wall.Add(-48 * time.Hour) // the job's time is in the future now
		y.pass(y.sweep.Resend+10*time.Second, nil)
		if len(y.sent) < 2 {
			t.Errorf("after a jump of %s the message is not sent again", jump)
		}
	}
	// The time of a running batch is measured by a timer, not by the clock.
	var wall sync.Map
	wall.Store("jump", time.Duration(0))
	r := start(t, func(o *downloads.Options, u *stand.Options) {
		u.Files = 3
		o.Now = func() time.Time { d, _ := wall.Load("jump"); return time.Now().Add(d.(time.Duration)) }
	})
	r.up.Fault("accounts", "slow", 10)
	id, err := r.Keeper.Trigger(t.Context(), r.date)
	if err != nil {
		t.Fatal(err)
	}
	for r.up.Counts(ledger.FileID("accounts", r.date)).Starts == 0 { // until it runs
		time.Sleep(time.Millisecond)
	}
	wall.Store("jump", 24*time.Hour)
	if b := r.end(id); b.Status != ledger.Completed {
		t.Errorf("after the clock jumped a day the batch is %+v", b)
	}
}

// An invalid job ends in error, and does not affect other jobs.
func TestBrokenRecords(t *testing.T) {
	r := open(t, nil)
	s := func(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
	n := func(v string) types.AttributeValue { return &types.AttributeValueMemberN{Value: v} }
	good := map[string]types.AttributeValue{"BatchID": s("b"), "Status": s("available"), "StatusUpdatedAt": n("1"), "DownloadDate": s(r.date), "Size": n("1"),
		"SHA256": &types.AttributeValueMemberB{Value: make([]byte, 32)}, "PresignedURL": s("http://127.0.0.1:1/"), "EncryptedAESKey": s("AAAA"), "EncodedAESIV": s("AAAA"), "TTL": n("9999999999")}
	for i, c := range []map[string]types.AttributeValue{
		{"Size": s("large")},
		{"SHA256": s("text")},
		{"SHA256": &types.AttributeValueMemberB{Value: []byte{1}}},
		{"DownloadDate": s("../../..")},
		{"Entity": s("../up")},
		{"Size": n("-1")},
		{"EncryptedAESKey": s("%%%")},
		{"Entity": s("another")},
	} {
		entity := fmt.Sprint("broken", i)
		item := maps.Clone(good)
		item["Entity"], item["FileID"] = s(entity), s(ledger.FileID(entity, r.date))
		maps.Copy(item, c)
		if _, err := hometest.Examine(r.Home.DB).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(ledger.JobsTable), Item: item}); err != nil {
			t.Fatal(err)
		}
	}
	runFor(t, r)
	for i := range 8 {
		if err := r.Queue.Send(t.Context(), ledger.FileID(fmt.Sprint("broken", i), r.date)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Queue.Send(t.Context(), "nobody-2026-02-28"); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		for {
			if j := r.job(fmt.Sprint("broken", i)); j.Status == ledger.Error && j.ErrorMessage != "" {
				t.Log(j.ErrorMessage)
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	if b := r.batch(); b.Status != ledger.Completed {
		t.Errorf("the day's batch is %+v", b)
	}
	r.holds(all(10)...)
}

// A downloader that is stopped releases its files, and the next one claims them.
func TestStop(t *testing.T) {
	r := start(t, func(o *downloads.Options, u *stand.Options) { u.Files, o.Stall = 1, time.Hour })
	r.up.Fault("accounts", "stalled", 1)
	id, err := r.Keeper.Trigger(t.Context(), r.date)
	if err != nil {
		t.Fatal(err)
	}
	for r.up.Counts(ledger.FileID("accounts", r.date)).Starts == 0 {
		time.Sleep(time.Millisecond)
	}
	r.stop()
	if j := r.job("accounts"); j.Status != ledger.Available {
		t.Fatalf("after a stop the job is %+v", j)
	}
	r.holds()
	runFor(t, r)
	if b := r.end(id); b.Status != ledger.Completed {
		t.Errorf("the batch is %+v", b)
	}
	r.holds("accounts")
}

// A requeued file is sent at once, its metadata are fetched again, since they may have
// been the cause of the failure, and its batch and the audit follow it.
func TestRequeued(t *testing.T) {
	r := start(t, func(o *downloads.Options, u *stand.Options) { u.Files, o.Resend = 3, time.Hour })
	r.up.Fault("accounts", "forgedsum", 1)
	r.up.Fault("balances", "forgedkey", 1)
	first := r.batch()
	if first.Status != ledger.Failed || len(first.FailedFiles) != 2 || first.ErrorMessage == "" {
		t.Fatalf("the batch is %+v", first)
	}
	out, err := r.Requeue(t.Context(), downloads.Requeue{Batch: first.BatchID, Status: ledger.Failed})
	if err != nil || len(out.Files) != 1 || out.Files[0].Status != ledger.Available || out.Files[0].Reason != "" || !slices.Equal(out.Batches, []string{first.BatchID}) {
		t.Fatalf("requeued are %+v, %v", out, err)
	}
	out, err = r.Requeue(t.Context(), downloads.Requeue{Files: []string{"balances-" + r.date, "nobody", "cards-" + r.date}})
	if err != nil || len(out.Files) != 1 || len(out.Refused) != 2 {
		t.Fatalf("requeued are %+v, %v", out, err)
	}
	b := r.end(first.BatchID)
	for b.Status == ledger.Failed { // the first file's batch may have ended before the second was requeued
		b = r.end(first.BatchID)
	}
	if b.Status != ledger.Completed || len(b.CompletedFiles) != 3 || b.FailedFiles != nil || b.ErrorMessage != "" || b.ReopenedAt == "" {
		t.Errorf("the batch is now %+v", b)
	}
	r.holds(all(3)...)
	days, err := r.Batches.Audit(t.Context(), r.Jobs, r.date[:7], r.date)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range days {
		if d.Date == r.date && (d.Verdict != ledger.Whole || d.Received != 3) {
			t.Errorf("the audit is %+v", d)
		}
	}
	if _, err := r.Jobs.Requeue(t.Context(), r.job("accounts"), false); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("a completed file is queued again: %v", err)
	}
}
