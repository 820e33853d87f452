package poller

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/meter"
	"github.com/stator-db/stator/apps/internal/home"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// A file that has been available for long and is requeued, and whose message is lost, is sent
// again after Resend, then twice as late each time; after a restart, within a part of the
// batch's time.
func TestResendAfterRequeue(t *testing.T) {
	begin := time.Date(2026, 2, 28, 6, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		what      string
		remember  bool
		first     time.Duration
		atLeast   int
		atMost    int
		available time.Duration
	}{
		{"in the same process", true, 2 * time.Minute, 7, 12, 20 * time.Hour},
		{"after a restart", false, 15 * time.Minute, 7, 8, 20 * time.Hour},
		{"that is fresh", true, 2 * time.Minute, 7, 12, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			now := begin
			h := hometest.StartWith(t, home.Options{Model: hometest.Model(t, "../downloads.model.yaml"), Now: func() time.Time { return begin }})
			jobs := &ledger.Jobs{DB: h.DB, Now: func() time.Time { return now }}
			id := ledger.FileID("a", "2026-02-28")
			if _, err := jobs.Queue(t.Context(), ledger.Job{FileID: id, BatchID: "batch", Entity: "a", DownloadDate: "2026-02-28"}); err != nil {
				t.Fatal(err)
			}
			read := func() *ledger.Job {
				j, err := jobs.Get(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				return j
			}
			now = now.Add(c.available)
			if _, err := jobs.Requeue(t.Context(), read(), false); err != nil {
				t.Fatal(err)
			}
			requeued := now
			var sent []time.Duration
			s := &Sweeper{Jobs: jobs, Log: slog.New(slog.DiscardHandler), Meter: meter.New(prometheus.NewRegistry(), func() {}),
				Lease: 30 * time.Second, Resend: 2 * time.Minute, MaxTries: 5, Timeout: 2 * time.Hour,
				Clock: func() time.Time { return now },
				Send:  func(context.Context, string) error { sent = append(sent, now.Sub(requeued)); return nil }}
			if c.remember {
				s.Sent(id)
			}
			for range 2 * 60 * 6 {
				now = now.Add(10 * time.Second)
				if err := s.Inspect(t.Context(), read()); err != nil {
					t.Fatal(err)
				}
			}
			if len(sent) < c.atLeast || len(sent) > c.atMost || sent[0] > c.first+10*time.Second {
				t.Errorf("the message is sent again after %v", sent)
			}
		})
	}
}
