package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator/apps/internal/hometest"
	"github.com/stator-db/stator/apps/internal/virtualtime"
	"github.com/stator-db/stator/apps/taskqueue"
	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// With provisioned units, those of the table and of its index follow the tasks: up within three
// minutes, and down to the minimum when there are none.
func TestUnitsFollowTheTasks(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		model, err := taskqueue.Provisioned(10, 100)
		if err != nil {
			t.Fatal(err)
		}
		h := hometest.Start(t, model)
		w := &world{T: t, home: h, table: &table.Table{DB: hometest.Examine(h.DB), Streams: h.Streams}}
		s, stop := w.serverUntil(Options{Poll: 250 * time.Millisecond}) // as on AWS
		defer stop()
		units := func() string {
			t.Helper()
			d, err := hometest.Examine(h.DB).DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(table.Name)})
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprint("table ", *d.Table.ProvisionedThroughput.WriteCapacityUnits)
			for _, x := range d.Table.GlobalSecondaryIndexes {
				text += fmt.Sprint(", ", *x.IndexName, " ", *x.ProvisionedThroughput.WriteCapacityUnits)
			}
			return text
		}
		// load runs this many tasks a second through their life for three minutes, from half a second after
		// a minute has begun.
		load := func(perSecond int) {
			t.Helper()
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + time.Second/2)))
			for range 180 {
				second := time.Now()
				for range perSecond {
					w.submit(s, "mail", task.Submission{Key: task.NewID(s.now())})
					c := w.claim(s, "mail", "worker")
					w.good(s.Complete(t.Context(), c.ID, "worker", c.Token, ""))
				}
				time.Sleep(time.Until(second.Add(time.Second)))
			}
		}
		expect := func(what, want string) {
			t.Helper()
			if got := units(); got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		expect("at first", "table 10, GSI1 4, GSI2 1")
		load(1) // 9 units of the table and 3 of GSI1, which are to be 70 % of theirs
		expect("at one task a second", "table 13, GSI1 5, GSI2 1")
		load(2)
		expect("at two", "table 26, GSI1 9, GSI2 1")
		stop()
		time.Sleep(20 * time.Minute)
		expect("idle", "table 10, GSI1 4, GSI2 1")
	})
}
