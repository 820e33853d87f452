package ledger_test

import (
	"regexp"
	"testing"

	"github.com/stator-db/stator/apps/downloads/ledger"
)

// The id of a batch is its date and eight hexadecimal digits: random ones, and for the
// scheduled batch of a day always the same.
func TestBatchIDs(t *testing.T) {
	form := regexp.MustCompile(`^batch-2026-02-28-[0-9a-f]{8}$`)
	a, b, scheduled := ledger.NewID(date), ledger.NewID(date), ledger.ScheduledID(date)
	for _, id := range []string{a, b, scheduled} {
		if !form.MatchString(id) {
			t.Errorf("the id of a batch is %s", id)
		}
	}
	if a == b || scheduled != ledger.ScheduledID(date) || scheduled == ledger.ScheduledID("2026-03-01") {
		t.Errorf("the ids are %s, %s and %s", a, b, scheduled)
	}
}
