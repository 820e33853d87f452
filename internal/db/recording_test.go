package db

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// recordingEngine holds back the second change of the description of Orders, and the
// updates of its items.
type recordingEngine struct {
	store.Engine
	items           atomic.Pointer[[]byte] // the prefix of their keys; nil before the test
	changes, stored atomic.Int32           // changes of the description
	writes          atomic.Int32
	second, write   chan struct{} // closed to continue
}

func (e *recordingEngine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	items := e.items.Load()
	switch {
	case items == nil:
	case bytes.Equal(keys[0], keyspace.Catalog("Orders")):
		if e.changes.Add(1) == 2 {
			<-e.second
		}
		err := e.Engine.Update(ctx, keys, fn)
		if err == nil {
			e.stored.Add(1)
		}
		return err
	case bytes.HasPrefix(keys[0], *items):
		e.writes.Add(1)
		<-e.write
	}
	return e.Engine.Update(ctx, keys, fn)
}

// recordingTest enables recovery, in two steps, while other requests run.
type recordingTest struct {
	*testing.T
	*DB
	engine   *recordingEngine
	requests int
	done     chan error
}

// begin starts a request, and waits until it has raised a counter.
func (w *recordingTest) begin(count *atomic.Int32, request func() error) {
	w.requests++
	w.raise(count, func() { go func() { w.done <- request() }() })
}

// raise calls fn and waits until a counter has been raised.
func (w *recordingTest) raise(count *atomic.Int32, fn func()) {
	before := count.Load()
	for fn(); count.Load() == before; {
		time.Sleep(time.Millisecond)
	}
}

// write starts a write. Its update waits.
func (w *recordingTest) write() {
	w.begin(&w.engine.writes, func() error {
		_, err := w.Write(w.Context(), Write{Table: "Orders", Key: key("a", 1), Effect: Replace(key("a", 1))})
		return err
	})
}

func (w *recordingTest) enableRecovery() {
	w.begin(&w.engine.stored, func() error { _, err := w.SetRecovery(w.Context(), "Orders", 1); return err })
}

// update changes the table in a way that takes effect at once.
func (w *recordingTest) update(change func(*schema.Table)) {
	w.begin(&w.engine.stored, func() error {
		_, err := w.UpdateTable(w.Context(), "Orders", func(def *schema.Table) error {
			def.State = ""
			change(def)
			return nil
		})
		return err
	})
}

// A stream or a recovery has every change from its start on, also if other requests
// change the table while it is enabled.
func TestChangesWhileRecordingBegins(t *testing.T) {
	for name, requests := range map[string]func(w *recordingTest){
		"no other request": func(w *recordingTest) {
			w.enableRecovery()
			w.write()
			w.raise(&w.engine.stored, func() { close(w.engine.second) })
		},
		"another change between the steps": func(w *recordingTest) {
			w.enableRecovery()
			w.update(func(def *schema.Table) { def.DeletionProtection = true })
			w.write()
			w.raise(&w.engine.stored, func() { close(w.engine.second) })
		},
		"a stream while writes do not record yet": func(w *recordingTest) {
			close(w.engine.second)
			w.write()
			w.enableRecovery()
			w.update(func(def *schema.Table) { def.EnableStream("KEYS_ONLY", w.Now()) })
		},
		"a stream between the steps": func(w *recordingTest) {
			w.enableRecovery()
			w.update(func(def *schema.Table) { def.EnableStream("KEYS_ONLY", w.Now()) })
			w.write()
			w.raise(&w.engine.stored, func() { close(w.engine.second) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &recordingTest{T: t, done: make(chan error, 3)}
			w.engine = &recordingEngine{Engine: newEngine(t, pebble.InMemory()), second: make(chan struct{}), write: make(chan struct{})}
			w.DB = newDB(t, w.engine, Options{})
			create(t, w.DB, ordersWithoutIndexes("Orders"))
			orders, _ := w.find("Orders")
			items, _ := keyspace.TableSpan(orders.ID)
			w.engine.items.Store(&items)
			requests(w)
			w.expectComplete()
		})
	}
}

// expectComplete lets the write commit, and expects it in the log of each reader that
// started before.
func (w *recordingTest) expectComplete() {
	w.Helper()
	before, err := w.Horizon(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	close(w.engine.write)
	for range w.requests {
		if err := <-w.done; err != nil {
			w.Error(err)
		}
	}
	t, _ := w.find("Orders")
	if !t.Recovery.Enabled || t.Recording || t.RecordingID != "" {
		w.Errorf("recovery %v, recording %v %s", t.Recovery.Enabled, t.Recording, t.RecordingID)
	}
	start, end := keyspace.ChangesSpan(t.ID)
	if countStored(w.T, w.engine, start, end) > 0 {
		return
	}
	if t.Recovery.Start < before {
		w.Error("recovery started before a write that it does not have")
	}
	if s, ok := t.Stream(); ok && s.Start < before {
		w.Error("a stream started before a write that it does not have")
	}
}
