package table

import (
	"errors"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/internal/hometest"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// taken stores a task that a worker has claimed.
func taken(t *testing.T, table *Table, worker string, slot int) (task.Task, Claim) {
	t.Helper()
	before := fresh(t, table)
	claim := Claim{Worker: worker, Task: before.ID, Queue: "q", Since: noon, Seq: 2, Slot: slot, Lease: time.Minute}
	now, err := table.Append(t.Context(), before, task.Event{Seq: 2, Type: task.Claimed, At: noon, Detail: task.Detail{Worker: worker, Slot: slot}}, With{Take: &claim})
	if err != nil {
		t.Fatal(err)
	}
	return now, claim
}

// A step is refused if the number, the status, the queue, the worker or the slot of the
// task is another one.
func TestStepsCompareTheTask(t *testing.T) {
	hometest.Unusual(t) // this table keeps tasks for ever
	table := open(t)
	now, claim := taken(t, table, "w", 1)
	done := func(change func(*task.Task)) error {
		before := task.Task{ID: now.ID, Queue: "q", Created: now.Created, Status: task.Processing, Worker: "w", Slot: 1, Seq: 2}
		change(&before)
		_, err := table.Append(t.Context(), before, task.Event{Seq: before.Seq + 1, Type: task.Done, At: noon, Detail: task.Detail{Worker: before.Worker}}, With{Drop: &claim, Unread: true})
		return err
	}
	changes := map[string]func(*task.Task){
		"number": func(b *task.Task) { b.Seq = 1 },
		"queue":  func(b *task.Task) { b.Queue = "p" },
		"worker": func(b *task.Task) { b.Worker = "v" },
		"slot":   func(b *task.Task) { b.Slot = 0 },
	}
	var moved *Moved
	for what, change := range changes {
		if err := done(change); !errors.As(err, &moved) {
			t.Errorf("with another %s it is completed: %v", what, err)
		}
	}
	if err := done(func(*task.Task) {}); err != nil {
		t.Fatal(err)
	}
	// The number of the event that completed the task, as if that were a claim.
	if err := done(func(b *task.Task) { b.Seq, b.Slot = 3, 0 }); !errors.As(err, &moved) {
		t.Errorf("in another status it is completed: %v", err)
	}
}

// A task is stored once: a second creation returns it as it is.
func TestCreationDoesNotReplace(t *testing.T) {
	table := open(t)
	now, _ := taken(t, table, "w", 0)
	again := now
	again.Status, again.Worker, again.Seq, again.Attempts = task.Pending, "", 1, 0
	stored, created, err := table.Create(t.Context(), again)
	if err != nil || created || stored.Status != task.Processing {
		t.Errorf("the second creation is %v of a task in %s, %v", created, stored.Status, err)
	}
}

// A key belongs to the first task until its second is over, even if the table has not
// deleted it yet.
func TestKeysBelongToOneTask(t *testing.T) {
	table := open(t)
	at := time.Now()
	reserve := func(id string, now time.Time) error {
		return table.Reserve(t.Context(), "k", id, "h", now, at.Unix()+100)
	}
	if err := errors.Join(reserve("a", at), reserve("a", at)); err != nil {
		t.Fatal(err)
	}
	var exists *Exists
	for _, later := range []time.Duration{0, 100 * time.Second} {
		if err := reserve("b", at.Add(later)); !errors.As(err, &exists) || exists.TaskID != "a" {
			t.Errorf("after %v the second task gets the key: %v", later, err)
		}
	}
	if err := reserve("b", at.Add(101*time.Second)); err != nil {
		t.Errorf("the key has expired and is refused: %v", err)
	}
}

// A slot is taken by one claim, and freed only for that: the second deletion of a slot
// does not free it for the next task.
func TestSlotsBelongToOneClaim(t *testing.T) {
	table := open(t)
	_, first := taken(t, table, "w", 1)
	other := fresh(t, table)
	claim := Claim{Worker: "w", Task: other.ID, Queue: "q", Since: noon, Seq: 2, Slot: 1, Lease: time.Minute}
	_, err := table.Append(t.Context(), other, task.Event{Seq: 2, Type: task.Claimed, At: noon, Detail: task.Detail{Worker: "w", Slot: 1}}, With{Take: &claim})
	if !errors.Is(err, ErrSlotTaken) {
		t.Errorf("a second claim takes the slot: %v", err)
	}
	if err := table.free(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	_, second := taken(t, table, "v", 1)
	for _, c := range []Claim{first, {Worker: "v", Task: second.Task, Queue: "q", Seq: 3, Slot: 1}, {Worker: "w", Task: second.Task, Queue: "q", Seq: 2, Slot: 1}} {
		if err := table.free(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for _, err := range table.Slots(t.Context(), "q") {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("%d slots are taken", n)
	}
}

// A claim that was marked as ended accepts no heartbeat, and is marked only if there was
// none.
func TestEndedClaims(t *testing.T) {
	table := open(t)
	now, claim := taken(t, table, "w", 0)
	if err := table.endBeats(t.Context(), &claim); err != nil {
		t.Fatal(err)
	}
	if ok, err := table.Beat(t.Context(), "w", now.ID, 2); ok || err != nil {
		t.Errorf("the heartbeat of an ended claim is %v, %v", ok, err)
	}
	claim.Beat = 1
	if err := table.endBeats(t.Context(), &claim); !errors.Is(err, ErrClaimGone) {
		t.Errorf("a claim with another number of heartbeats is ended: %v", err)
	}
}

// A worker that was seen again is not deleted.
func TestWorkersThatWereSeenAgain(t *testing.T) {
	table := open(t)
	for _, seen := range []time.Time{noon, noon.Add(time.Second)} {
		if err := table.NoteWorker(t.Context(), "w", seen); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (n int) {
		for range table.Workers(t.Context()) {
			n++
		}
		return n
	}
	for i, seen := range []time.Time{noon, noon.Add(time.Second)} {
		if err := table.ForgetWorker(t.Context(), task.Worker{ID: "w", Seen: seen}); err != nil {
			t.Fatal(err)
		}
		if n := count(); n != 1-i {
			t.Errorf("there are %d workers", n)
		}
	}
}
