package documents

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/table"
)

// panicking is an extractor with a bug that some files show.
type panicking struct{ extract.Extractor }

func (p panicking) Extract(ctx context.Context, f extract.File, e extract.Extraction) (extract.Result, error) {
	if f.Name == "poison.txt" {
		panic("the bug")
	}
	return p.Extractor.Extract(ctx, f, e)
}

// A document whose extraction panics fails, with its stack in the log; the others of its
// batch are read, and the process lives on. Otherwise the document would end it at each
// start.
func TestPanicOfAnExtractor(t *testing.T) {
	now := new(clock)
	var log strings.Builder
	s := start(t, func(o *Options) {
		o.Now, o.Home.Now = now.Now, now.Now
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	s.Machine.Attempts, s.Machine.AtOnce = 2, 1
	s.Machine.Extractors["builtin"] = panicking{s.Machine.Extractors["builtin"]}
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	for _, name := range []string{"good.txt", "poison.txt"} {
		s.drop(inbox(c, project, workflow, "files")+name, []byte("Invoice number: NW-1001\nDate: 2026-11-07\nCustomer: Initech\nTotal: EUR 12.50\n"))
	}
	for range 3 {
		s.passes()
		now.Pass(time.Hour)
	}
	for _, d := range s.documentsOf(s.batchOf(inboxBatch(c, project, workflow, "files"))) {
		want := table.Succeeded
		if d.Name == "poison.txt" {
			want = table.Failed
		}
		if d.Status != want || strings.Contains(d.Reason, "the bug") || d.Unreadable {
			t.Errorf("%s is %s: %s", d.Name, d.Status, d.Reason)
		}
	}
	for _, part := range []string{"level=ERROR", "the bug", "panicking.Extract"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log has no %q: %s", part, log.String())
		}
	}
}
