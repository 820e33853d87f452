package statortest_test

import (
	"testing"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/statortest"
)

// The assertions are about the forks of a test, and not about the database of the test that it is a part of.
func TestAssertionsOfForks(t *testing.T) {
	base, err := stator.Open(t.Context(), stator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	createTable(t, statortest.Client(base))
	if err := put(t.Context(), statortest.Client(base), "Orders", "0", nil); err != nil {
		t.Fatal(err)
	}
	other := statortest.Start(t)
	createTable(t, other)
	t.Run("part", func(t *testing.T) {
		r := &recordingTest{TB: t}
		statortest.Fork(r, base)
		statortest.NoScans(r)
		statortest.Budget(r, 1)
		scan(t, other, "Orders")
		fails(t, r.end())
		client := statortest.Fork(r, base)
		statortest.NoScans(r)
		statortest.Budget(r, 1)
		scan(t, client, "Orders")
		for range 2 {
			if err := put(t.Context(), client, "Orders", "1", nil); err != nil {
				t.Fatal(err)
			}
		}
		fails(t, r.end(), []string{"(read 2.0, write 2.0), and the budget is 1.0"}, []string{"there are scans", "Scan of Orders"})
	})
}
