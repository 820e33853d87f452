package ops

import (
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/protocol/api"
)

// An incremental export begins when all changes are kept, not earlier in that second;
// a full export of that second is of its end.
func TestEarliestExport(t *testing.T) {
	since := time.Date(2026, 11, 16, 12, 0, 0, 7e8, time.UTC)
	second := since.Truncate(time.Second)
	for _, c := range []struct {
		name      string
		days      int
		now, from time.Time
		ok        bool
	}{
		{"since recovery was enabled", 35, since.Add(time.Hour), since, true},
		{"earlier in that second", 35, since.Add(time.Hour), second, false},
		{"since the window begins", 1, since.AddDate(0, 0, 5), since.AddDate(0, 0, 4), true},
		{"earlier in the first second of the window", 1, since.AddDate(0, 0, 5), second.AddDate(0, 0, 4), false},
	} {
		kept := history.Runs(nil).KeptFrom(schema.Recovery{Enabled: true, Since: since, Days: c.days}, c.now)
		in := &api.ExportTableToPointInTime{IncrementalExportSpecification: &api.IncrementalExportSpecification{ExportFromTime: api.TimeOf(c.from)}}
		if _, err := exportOf(in, kept, c.now); (err == nil) != c.ok {
			t.Errorf("changes %s: %v", c.name, err)
		}
		full := &api.ExportTableToPointInTime{ExportTime: api.TimeOf(c.from)}
		e, err := exportOf(full, kept, c.now)
		if err != nil || e.End.Before(kept) {
			t.Errorf("the table %s: %+v, %v", c.name, e, err)
		}
	}
}
