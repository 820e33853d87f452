package main

import (
	"context"
	"crypto/rsa"
	"log/slog"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/seal"
	upstreamstand "github.com/stator-db/stator/apps/downloads/upstream/stand"
	"github.com/stator-db/stator/apps/internal/command"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// The model has the requests that the program sends, all of them, and their units: after
// days with every kind of event and each command, `stator model drift` finds nothing.
func TestDrift(t *testing.T) {
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	stator := filepath.Join(t.TempDir(), "stator")
	if out, err := exec.Command("go", "build", "-o", stator, "github.com/stator-db/stator/cmd/stator").CombinedOutput(); err != nil {
		t.Skipf("the stator command cannot be built: %v\n%s", err, out)
	}
	keyFile := filepath.Join(t.TempDir(), "key.pem")
	key, err := seal.MakeKey(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	s := traffic(t, key, keyFile)
	endpoint := "http://" + s.Home.Address
	out, err := exec.Command(stator, "model", "drift", "../../downloads.model.yaml", "--endpoint", endpoint).CombinedOutput()
	if err != nil {
		t.Errorf("the traffic differs from the model: %v\n%s", err, out)
	}
}

// The requests of the benchmark are those of the model: make drift compares them. A batch has
// the ten files of the document's day.
func TestTrafficOfBench(t *testing.T) {
	h := hometest.Start(t, downloads.Model)
	l, err := measure(t.Context(), h.DB, 10, 3)
	if err != nil {
		t.Fatal(err)
	}
	if l.GetUnits != 10 || l.LeftUnits != 1 || l.WholeUnits == 0 {
		t.Errorf("the units are %+v", l)
	}
}

// traffic runs a pipeline through all that can happen.
func traffic(t *testing.T, key *rsa.PrivateKey, keyFile string) *downloads.System {
	t.Helper()
	u := upstreamstand.New(upstreamstand.Options{Key: &key.PublicKey, Seed: "drift", Files: 10, Size: 40_000})
	upstream := httptest.NewServer(u)
	t.Cleanup(upstream.Close)
	o := downloads.Defaults()
	o.Upstream, o.KeyFile, o.Log = upstream.URL, keyFile, slog.New(slog.DiscardHandler)
	o.Home.DynamoDB = "127.0.0.1:0"
	o.Schedule, o.Every, o.Backoff, o.Lease, o.Stall, o.Resend = "00:00", 20*time.Millisecond, time.Millisecond, 300*time.Millisecond, time.Minute, 200*time.Millisecond
	s, err := downloads.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx := t.Context()
	until := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("waited in vain: %s", what)
			}
		}
	}
	ended := func(id string) func() bool {
		return func() bool { b, err := s.Batches.Get(ctx, id); return err == nil && b.Over() }
	}
	run := func(do func()) {
		running, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- s.Run(running, nil) }()
		do()
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	today := time.Now().UTC()
	date := func(back int) string { return today.AddDate(0, 0, -back).Format(time.DateOnly) }
	trigger := func(back int) string {
		t.Helper()
		id, err := s.Keeper.Trigger(ctx, date(back))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}

	// A day, with a file whose URL has expired, one that fails, and one that takes several
	// heartbeats. The failed one is queued again, and its batch follows.
	u.Fault("accounts", "expired", 1)
	u.Fault("cards", "forgedkey", 1)
	u.Fault("loans", "slow", 1)
	u.Pause = 30 * time.Millisecond
	run(func() {
		id := ledger.ScheduledID(date(0))
		until("the day's batch fails", ended(id))
		if out, code := execute(t, "requeue", "cards-"+date(0), "--server", server.URL); code != command.Done {
			t.Fatalf("requeue: %s", out)
		}
		until("the day's batch completes", func() bool { b, err := s.Batches.Get(ctx, id); return err == nil && b.Status == ledger.Completed })
		// Another batch takes over what failed in the first.
		u.Fault("fees", "forgedsum", 1)
		until("the next day fails", ended(trigger(1)))
		until("its second batch completes", ended(trigger(1)))
		// A large batch is checked by index.
		u.Day(date(2), 30)
		until("a large day completes", ended(trigger(2)))
		u.Day(date(6), 0)
		until("a day without files completes", ended(trigger(6)))
	})

	// A message that is lost, a claim that is dead, and a batch that times out.
	drop := s.Keeper.Poller.Send
	var sent atomic.Int64
	s.Keeper.Poller.Send = func(ctx context.Context, id string) error {
		if sent.Add(1) == 1 {
			return nil
		}
		return drop(ctx, id)
	}
	u.Day(date(3), 2)
	run(func() { until("a day with a lost message completes", ended(trigger(3))) })
	var dead atomic.Bool
	s.Keeper.Poller.Send = func(ctx context.Context, id string) error {
		if dead.Swap(true) {
			return drop(ctx, id)
		}
		_, err := s.Jobs.Claim(ctx, id, "dead")
		return err
	}
	u.Day(date(4), 1)
	run(func() { until("a day with a dead claim completes", ended(trigger(4))) })
	s.Keeper.Poller.Timeout = 100 * time.Millisecond
	s.Keeper.Poller.Send = func(context.Context, string) error { return nil }
	s.Keeper.Poller.Sweeper.Resend, s.Keeper.Poller.Sweeper.Volatile = time.Hour, false
	u.Day(date(7), 1)
	run(func() {
		id := trigger(7)
		until("another day times out", ended(id))
		j, err := s.Jobs.Claim(ctx, ledger.FileID(upstreamstand.Entity(0), date(7)), "slow")
		if err == nil {
			err = s.Jobs.Complete(ctx, j)
		}
		if err != nil {
			t.Fatal(err)
		}
		until("its batch has the late file", func() bool { b, err := s.Batches.Get(ctx, id); return err == nil && len(b.CompletedFiles) == 1 })
	})
	u.Day(date(5), 1)
	run(func() { until("a day times out", ended(trigger(5))) })
	// Its file is claimed by a downloader that is stopped, and by one that dies, and an
	// operator queues it again.
	for j, err := range s.Jobs.ByStatus(ctx, ledger.Available) {
		if err != nil {
			t.Fatal(err)
		}
		claimed, err := s.Jobs.Claim(ctx, j.FileID, "stopped")
		if err == nil {
			err = s.Jobs.GiveUp(ctx, claimed)
		}
		if err == nil {
			claimed, err = s.Jobs.Claim(ctx, j.FileID, "dead")
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Jobs.Requeue(ctx, claimed, false); err != nil {
			t.Fatal(err)
		}
	}

	for _, args := range [][]string{{"status", date(0), "--files"}, {"status", date(5), "--status", "timeout"}, {"files", ledger.ScheduledID(date(0)), "--status", "completed"},
		{"stuck", "--older", "0s", "--status", "available"}, {"counts"}, {"files", ledger.ScheduledID(date(0))}} {
		if out, code := execute(t, append(args, "--endpoint", "http://"+s.Home.Address)...); code != command.Done {
			t.Errorf("%v: %s", args, out)
		}
	}
	return s
}
