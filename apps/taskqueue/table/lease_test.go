package table

import (
	"errors"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

// A lease that a server believes expired is not ended if a heartbeat arrived in
// between. Without the condition on the heartbeats it is ended, which shows that
// the condition matters.
func TestHeartbeatsSaveLeases(t *testing.T) {
	table := open(t)
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	for _, still := range []bool{true, false} {
		e := task.Event{Seq: 1, Type: task.Submitted, At: now, Detail: task.Detail{RunAt: now, Until: now, Born: &task.Born{Queue: "q", Type: "t", PayloadHash: task.HashOf([]byte("1"))}}}
		fresh, err := task.Task{ID: task.NewID(now)}.After(e)
		if err != nil {
			t.Fatal(err)
		}
		fresh.Payload = []byte("1")
		if err := table.Submit(t.Context(), fresh, e, "", 0, 0); err != nil {
			t.Fatal(err)
		}
		claim := Claim{Worker: "w", Task: fresh.ID, Queue: "q", Since: now, Seq: 2, Lease: time.Minute}
		taken, err := table.Append(t.Context(), fresh, task.Event{Seq: 2, Type: task.Claimed, At: now, Detail: task.Detail{Worker: "w"}}, 0, With{Take: &claim})
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := table.Beat(t.Context(), "w", fresh.ID, 2); !ok || err != nil {
			t.Fatalf("the heartbeat is %v, %v", ok, err)
		}
		_, err = table.Append(t.Context(), taken, task.Event{Seq: 3, Type: task.Expired, At: now}, 0, With{Drop: &claim, Still: still})
		if still != errors.Is(err, ErrClaimGone) || !still && err != nil {
			t.Errorf("with the condition %v the end of the lease is %v", still, err)
		}
	}
}

// An event for a task that has changed meanwhile is not applied, and the error has
// the task's state.
func TestEventsThatComeTooLate(t *testing.T) {
	table := open(t)
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	e := task.Event{Seq: 1, Type: task.Submitted, At: now, Detail: task.Detail{RunAt: now, Until: now, Born: &task.Born{Queue: "q", Type: "t"}}}
	fresh, err := task.Task{ID: task.NewID(now)}.After(e)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Submit(t.Context(), fresh, e, "", 0, 0); err != nil {
		t.Fatal(err)
	}
	take := func(worker string) error {
		claim := Claim{Worker: worker, Task: fresh.ID, Queue: "q", Since: now, Seq: 2, Lease: time.Minute}
		_, err := table.Append(t.Context(), fresh, task.Event{Seq: 2, Type: task.Claimed, At: now, Detail: task.Detail{Worker: worker}}, 0, With{Take: &claim})
		return err
	}
	if err := take("first"); err != nil {
		t.Fatal(err)
	}
	var moved *Moved
	if err := take("second"); !errors.As(err, &moved) || moved.Now == nil || moved.Now.Worker != "first" {
		t.Errorf("the second claim is %v", err)
	}
	if _, ok, err := table.ClaimOf(t.Context(), "second", fresh.ID); ok || err != nil {
		t.Errorf("the second worker has a claim: %v, %v", ok, err)
	}
	events, err := table.History(t.Context(), fresh.ID)
	if err != nil || len(events) != 2 || events[1].Worker != "first" {
		t.Errorf("the history is %+v, %v", events, err)
	}
	missing := fresh
	missing.ID = task.NewID(now)
	if _, err := table.Append(t.Context(), missing, task.Event{Seq: 2, Type: task.CancelledByClient, At: now}, 0, With{}); !errors.As(err, &moved) || moved.Now != nil {
		t.Errorf("an event for a missing task returns %v", err)
	}
}
