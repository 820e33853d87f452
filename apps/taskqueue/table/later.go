package table

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

// later sends writes that no reply waits for, in batches: the events, which their
// tasks contain until then, and the deletions of claims that have ended. A crash
// loses what was not sent; the next reader of the task or the claim repairs it.
//
// No write waits for others to arrive: while the senders are busy, arriving writes
// are collected.
type later struct {
	mutex   sync.Mutex
	waiting []*laterWrite
	pending map[string]*laterWrite // by key, until they are durable
	senders int
}

const (
	maxLaterSenders = 2
	maxLaterBatch   = 25     // of BatchWriteItem
	maxLaterWrites  = 10_000 // that wait; further ones wait for space
	maxLaterWait    = 5 * time.Second
)

// laterWrite is one write.
type laterWrite struct {
	key     string
	request types.WriteRequest
	then    func()        // called when the write is durable; may be nil
	done    chan struct{} // closed after that
}

// write returns a write that has the same key and is not durable yet, or else adds
// this one. Writes of the same key have the same content.
func (l *later) write(ctx context.Context, t *Table, w *laterWrite) (*laterWrite, error) {
	w.done = make(chan struct{})
	l.mutex.Lock()
	if same := l.pending[w.key]; same != nil {
		l.mutex.Unlock()
		return same, nil
	}
	if l.pending == nil {
		l.pending = make(map[string]*laterWrite)
	}
	var before *laterWrite // until it is durable, there is no space
	if n := len(l.waiting); n >= maxLaterWrites {
		before = l.waiting[n-maxLaterWrites]
	}
	l.pending[w.key] = w
	l.waiting = append(l.waiting, w)
	if l.senders < maxLaterSenders {
		l.senders++
		go l.send(t)
	}
	l.mutex.Unlock()
	if before == nil {
		return w, nil
	}
	return w, before.wait(ctx)
}

// wait waits until the write is durable, but not for long: while the table cannot be
// written, requests fail.
func (w *laterWrite) wait(ctx context.Context) error {
	timeout := time.NewTimer(maxLaterWait)
	defer timeout.Stop()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return fmt.Errorf("an event is not written after %v: try again later", maxLaterWait)
	}
}

// find returns the write of a key that is not durable yet, or nil.
func (l *later) find(key string) *laterWrite {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.pending[key]
}

// flush waits until all writes are durable.
func (l *later) flush(ctx context.Context) error {
	for {
		l.mutex.Lock()
		var one *laterWrite
		for _, w := range l.pending {
			one = w
			break
		}
		l.mutex.Unlock()
		if one == nil {
			return nil
		}
		if err := one.wait(ctx); err != nil {
			return err
		}
	}
}

// send sends writes until there are none.
func (l *later) send(t *Table) {
	for {
		l.mutex.Lock()
		n := min(maxLaterBatch, len(l.waiting))
		batch := append([]*laterWrite(nil), l.waiting[:n]...)
		clear(l.waiting[:n])
		if l.waiting = l.waiting[n:]; n == 0 {
			l.waiting = nil
			l.senders--
		}
		l.mutex.Unlock()
		if n == 0 {
			return
		}
		if !l.sendAll(t, batch) {
			return
		}
		for _, w := range batch {
			if w.then != nil {
				w.then()
			}
		}
		l.mutex.Lock()
		for _, w := range batch {
			delete(l.pending, w.key)
			close(w.done)
		}
		l.mutex.Unlock()
	}
}

// sendAll sends a batch, and repeats what was not processed. It returns false when
// the table is closed.
func (l *later) sendAll(t *Table, batch []*laterWrite) bool {
	requests := make([]types.WriteRequest, len(batch))
	for i, w := range batch {
		requests[i] = w.request
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		out, err := t.DB.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{Name: requests}})
		cancel()
		if err == nil {
			if requests = out.UnprocessedItems[Name]; len(requests) == 0 {
				return true
			}
			err = fmt.Errorf("%d of %d writes were not processed", len(requests), len(batch))
		}
		if t.closed.Load() {
			return false
		}
		t.failed(fmt.Errorf("write events or delete claims, which is repeated: %w", err))
		time.Sleep(wait/2 + rand.N(wait))
	}
}

// writeEvent writes the item of an event later.
func (t *Table) writeEvent(ctx context.Context, id string, e *task.Event, then func()) (*laterWrite, error) {
	i, err := t.eventItem(id, e)
	if err != nil {
		return nil, err
	}
	seq := e.Seq
	return t.events.write(ctx, t, &laterWrite{
		key: eventName(id, seq), request: types.WriteRequest{PutRequest: &types.PutRequest{Item: i}},
		then: func() {
			t.durable.mark(id, seq)
			if then != nil {
				then()
			}
		},
	})
}

// deleteClaim deletes a claim later, without a condition. The task must have an event
// of the claim's number or a later one: then the key is never used again.
func (t *Table) deleteClaim(ctx context.Context, c *Claim) (*laterWrite, error) {
	return t.claims.write(ctx, t, &laterWrite{
		key: c.Worker + " " + c.sort(), request: types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: claimKey(c)}},
	})
}

// Ended waits until the event that ended a claim is written and the claim is
// deleted, so that its next heartbeat is refused.
func (t *Table) Ended(ctx context.Context, c *Claim) error {
	for _, w := range []func() *laterWrite{
		func() *laterWrite { return t.events.find(eventName(c.Task, c.Seq+1)) },
		func() *laterWrite { return t.claims.find(c.Worker + " " + c.sort()) },
	} {
		if w := w(); w != nil {
			if err := w.wait(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Flush waits until all events are written and all ended claims are deleted.
func (t *Table) Flush(ctx context.Context) error {
	if err := t.events.flush(ctx); err != nil {
		return err
	}
	return t.claims.flush(ctx)
}

// Close ends the repetition of writes that fail.
func (t *Table) Close() { t.closed.Store(true) }

func (t *Table) failed(err error) {
	if t.Failed != nil {
		t.Failed(err)
	}
}

// durable remembers for recent tasks which of their events are known to be in the
// table: those that this server wrote, and those that it read from the stream.
type durable struct {
	mutex    sync.Mutex
	new, old map[string]int
	waiting  map[string]chan struct{} // closed when a task is marked
}

const maxDurable = 100_000 // tasks in each of two maps

func (d *durable) mark(id string, seq int) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if len(d.new) >= maxDurable || d.new == nil {
		d.old, d.new = d.new, make(map[string]int)
	}
	if seq > d.new[id] && seq > d.old[id] {
		d.new[id] = seq
	}
	if c := d.waiting[id]; c != nil {
		close(c)
		delete(d.waiting, id)
	}
}

func (d *durable) has(id string, seq int) bool {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.new[id] >= seq || d.old[id] >= seq
}

// wait waits up to a time until an event is known to be in the table.
func (d *durable) wait(ctx context.Context, id string, seq int, most time.Duration) bool {
	timeout := time.NewTimer(most)
	defer timeout.Stop()
	for {
		d.mutex.Lock()
		if d.new[id] >= seq || d.old[id] >= seq {
			d.mutex.Unlock()
			return true
		}
		c := d.waiting[id]
		if c == nil {
			c = make(chan struct{})
			if d.waiting == nil {
				d.waiting = make(map[string]chan struct{})
			}
			d.waiting[id] = c
		}
		d.mutex.Unlock()
		select {
		case <-c:
			continue
		case <-ctx.Done():
		case <-timeout.C:
		}
		return false
	}
}
