package table

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/internal/hometest"
	"github.com/stator-db/stator/apps/taskqueue"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

func open(t *testing.T) *Table {
	t.Helper()
	h := hometest.Start(t, taskqueue.Model)
	table := &Table{DB: h.DB, Streams: h.Streams}
	t.Cleanup(func() {
		if err := table.Flush(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return table
}

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// fresh stores a new task.
func fresh(t *testing.T, table *Table) task.Task {
	t.Helper()
	e := task.Event{Seq: 1, Type: task.Submitted, At: noon, Detail: task.Detail{RunAt: noon, Until: noon, Born: &task.Born{Queue: "q", Type: "t", PayloadHash: task.HashOf([]byte("1"))}}}
	x, err := task.Task{ID: task.NewID(noon)}.After(e)
	if err != nil {
		t.Fatal(err)
	}
	x.Payload = []byte("1")
	if _, created, err := table.Create(t.Context(), x); !created || err != nil {
		t.Fatal(created, err)
	}
	return x
}

// A lease that a server believes expired is not ended if a heartbeat arrived in
// between. Without the condition on the heartbeats it is ended, which shows that
// the condition matters.
func TestHeartbeatsSaveLeases(t *testing.T) {
	table := open(t)
	for _, still := range []bool{true, false} {
		fresh := fresh(t, table)
		claim := Claim{Worker: "w", Task: fresh.ID, Queue: "q", Since: noon, Seq: 2, Lease: time.Minute}
		taken, err := table.Append(t.Context(), fresh, task.Event{Seq: 2, Type: task.Claimed, At: noon, Detail: task.Detail{Worker: "w"}}, With{Take: &claim})
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := table.Beat(t.Context(), "w", fresh.ID, 2); !ok || err != nil {
			t.Fatalf("the heartbeat is %v, %v", ok, err)
		}
		_, err = table.Append(t.Context(), taken, task.Event{Seq: 3, Type: task.Expired, At: noon}, With{Drop: &claim, Still: still})
		if still != errors.Is(err, ErrClaimGone) || !still && err != nil {
			t.Errorf("with the condition %v the end of the lease is %v", still, err)
		}
	}
}

// An event for a task that has changed meanwhile is not applied, and the error has
// the task's state.
func TestEventsThatComeTooLate(t *testing.T) {
	table := open(t)
	fresh := fresh(t, table)
	take := func(worker string) error {
		claim := Claim{Worker: worker, Task: fresh.ID, Queue: "q", Since: noon, Seq: 2, Lease: time.Minute}
		_, err := table.Append(t.Context(), fresh, task.Event{Seq: 2, Type: task.Claimed, At: noon, Detail: task.Detail{Worker: worker}}, With{Take: &claim})
		return err
	}
	if err := take("first"); err != nil {
		t.Fatal(err)
	}
	var moved *Moved
	if err := take("second"); !errors.As(err, &moved) || moved.Now == nil || moved.Now.Worker != "first" {
		t.Errorf("the second claim is %v", err)
	}
	if err := table.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := table.ClaimOf(t.Context(), Claim{Worker: "second", Task: fresh.ID, Seq: 2}); ok || err != nil {
		t.Errorf("the second worker has a claim: %v, %v", ok, err)
	}
	events, err := table.History(t.Context(), fresh.ID)
	if err != nil || len(events) != 2 || events[1].Worker != "first" {
		t.Errorf("the history is %+v, %v", events, err)
	}
	missing := fresh
	missing.ID = task.NewID(noon)
	if _, err := table.Append(t.Context(), missing, task.Event{Seq: 2, Type: task.CancelledByClient, At: noon}, With{}); !errors.As(err, &moved) || moved.Now != nil {
		t.Errorf("an event for a missing task returns %v", err)
	}
}
