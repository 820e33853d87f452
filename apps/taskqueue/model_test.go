package taskqueue_test

import (
	"strings"
	"testing"

	"github.com/stator-db/stator/apps/internal/hometest"
	"github.com/stator-db/stator/apps/taskqueue"
	"github.com/stator-db/stator/tablemodel"
)

// The provisioned model registers auto scaling of the reads and writes of the table and of both indexes, and
// then matches the table.
func TestProvisioned(t *testing.T) {
	text, err := taskqueue.Provisioned(2000, 10000)
	if err != nil {
		t.Fatal(err)
	}
	m, err := tablemodel.Parse("taskqueue.model.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	db := hometest.Examine(hometest.Start(t, taskqueue.Model).DB)
	plan, err := tablemodel.Compare(t.Context(), db, m)
	if err != nil {
		t.Fatal(err)
	}
	var changes []string
	for _, c := range plan.Changes {
		changes = append(changes, c.Text)
	}
	want := []string{
		"switch to provisioned billing with 500 read and 2000 write units, 1 and 667 of the index GSI1, 1 and 20 of the index GSI2",
		"scale the reads between 500 and 10000 units", "keep the reads at 70 % of the units",
		"scale the writes between 2000 and 10000 units", "keep the writes at 70 % of the units",
		"scale the reads of the index GSI1 between 1 and 2500 units", "keep the reads of the index GSI1 at 70 % of the units",
		"scale the writes of the index GSI1 between 667 and 10000 units", "keep the writes of the index GSI1 at 70 % of the units",
		"scale the reads of the index GSI2 between 1 and 2500 units", "keep the reads of the index GSI2 at 70 % of the units",
		"scale the writes of the index GSI2 between 20 and 10000 units", "keep the writes of the index GSI2 at 70 % of the units",
	}
	if got := strings.Join(changes, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the changes are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if err := plan.Apply(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if plan, err = tablemodel.Compare(t.Context(), db, m); err != nil || len(plan.Changes) > 0 {
		t.Errorf("afterwards the plan is %+v, %v", plan, err)
	}
	for _, bounds := range [][2]int{{0, 10}, {-1, 10}, {11, 10}} {
		if _, err := taskqueue.Provisioned(bounds[0], bounds[1]); err == nil {
			t.Errorf("%v are bounds", bounds)
		}
	}
}
