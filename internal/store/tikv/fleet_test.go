package tikv_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/store/tikv"
	"github.com/stator-db/stator/internal/store/tikv/tikvtest"
)

func attend(t *testing.T, e *tikv.Engine, group string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.Attend(ctx, group, true); err != nil {
		t.Fatal(err)
	}
}

// When Attend returns, all processes know that the group is attended, and those that start
// later, until the process leaves.
func TestAttend(t *testing.T) {
	m := tikvtest.New(t)
	a, b := openOne(t, m), m.Open(t, tikv.Options{})
	subscribe(a)
	subscribe(b)
	if a.Attended("x") || b.Attended("x") {
		t.Error("a group is attended that no process attends")
	}
	attend(t, b, "x")
	if !a.Attended("x") || a.Attended("y") || b.Attended("x") {
		t.Errorf("attended are x %v, y %v; by others than itself %v", a.Attended("x"), a.Attended("y"), b.Attended("x"))
	}
	c := openOne(t, m)
	if !c.Attended("x") {
		t.Error("a process that joins later does not know of it")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nobody attends", func() bool { return !a.Attended("x") && !c.Attended("x") })
}

// Announce waits for the processes that attend its group, and not for others. The control is
// Broadcast, which waits for all.
func TestAnnounceWaitsForItsGroup(t *testing.T) {
	m := tikvtest.New(t)
	a, b := openOne(t, m), openOne(t, m)
	subscribe(a)
	atB := subscribe(b)
	attend(t, b, "x")
	openOne(t, m) // it handles no messages before it has subscribed
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, text := range []string{"one", "two"} {
		if err := a.Announce(ctx, "x", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if atB.all() != "[one two]" {
		t.Errorf("the messages are %s", atB.all())
	}
	if err := a.Post(ctx, []byte("three")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the third message arrives", func() bool { return atB.all() == "[one two three]" })
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := a.Broadcast(short, []byte("four")); err == nil {
		t.Error("Broadcast did not wait for a process without a handler")
	}
}

// The messages of a busy fleet are read and deleted in batches.
func TestManyMessages(t *testing.T) {
	m := tikvtest.New(t)
	a, b := openOne(t, m), openOne(t, m)
	subscribe(a)
	for range 200 {
		if err := a.Post(t.Context(), []byte("m")); err != nil {
			t.Fatal(err)
		}
	}
	atB := subscribe(b) // it has not handled any yet
	broadcast(t, a, "last")
	atB.mu.Lock()
	got := len(atB.messages)
	atB.mu.Unlock()
	if got != 201 {
		t.Errorf("%d messages arrived, want 201", got)
	}
}

// A process that dies makes the others call what OnLoss has set, and one that leaves does
// not.
func TestLoss(t *testing.T) {
	t.Parallel()
	m := tikvtest.New(t)
	a, cable := openCut(t, m, 300*time.Millisecond)
	b, _ := openCut(t, m, 300*time.Millisecond)
	c := m.Open(t, tikv.Options{})
	var lost atomic.Int64
	b.OnLoss(func() { lost.Add(1) })
	subscribe(a)
	subscribe(b)
	subscribe(c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	broadcast(t, b, "after the loss")
	if lost.Load() != 0 || !a.Leased() {
		t.Errorf("%d losses, leased %v", lost.Load(), a.Leased())
	}
	cable.off.Store(true)
	eventually(t, "the lease of the process expires", func() bool { return !a.Leased() })
	eventually(t, "it is found dead", func() bool { return lost.Load() == 1 })
}
