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
	running sync.WaitGroup  // the senders
	ctx     context.Context // of their requests; nil before the first one
	cancel  func()
	closed  bool
	failing map[*laterWrite]time.Time // first writes of the batches that fail, since when
	why     error                     // the last error
}

const (
	maxLaterSenders = 2
	maxLaterBatch   = 25 // of BatchWriteItem
	maxLaterWait    = 5 * time.Second
	usualBacklog    = 10_000
)

// laterWrite is one write.
type laterWrite struct {
	key     string
	request types.WriteRequest
	then    []func()      // called when the write is durable
	done    chan struct{} // closed after that
}

// write adds a write. If a write of the same key is not durable yet, it has the same
// content, and write returns that one after it has added what follows this one.
func (l *later) write(t *Table, w *laterWrite) *laterWrite {
	w.done = make(chan struct{})
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if same := l.pending[w.key]; same != nil {
		same.then = append(same.then, w.then...)
		return same
	}
	if l.pending == nil {
		l.pending = make(map[string]*laterWrite)
	}
	l.pending[w.key] = w
	l.waiting = append(l.waiting, w)
	if l.senders < maxLaterSenders && !l.closed {
		if l.ctx == nil {
			l.ctx, l.cancel = context.WithCancel(context.Background())
		}
		l.senders++
		l.running.Go(func() { l.send(t) })
	}
	return w
}

// full returns a write to wait for if as many writes are not durable as may, and else nil.
func (l *later) full(most int) *laterWrite {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	over := len(l.pending) - most
	if over < 0 {
		return nil
	}
	if n := len(l.waiting); n > 0 {
		return l.waiting[min(over, n-1)]
	}
	for _, sending := range l.pending {
		return sending
	}
	return nil
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
			l.finish(w)
		}
	}
}

// finish calls what follows a write that is durable. More may be added meanwhile.
func (l *later) finish(w *laterWrite) {
	for {
		l.mutex.Lock()
		then := w.then
		w.then = nil
		if then == nil {
			delete(l.pending, w.key)
			close(w.done)
		}
		l.mutex.Unlock()
		if then == nil {
			return
		}
		for _, call := range then {
			call()
		}
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
		ctx, cancel := context.WithTimeout(l.ctx, 30*time.Second)
		out, err := t.DB.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{Name: requests}})
		cancel()
		if err == nil {
			if requests = out.UnprocessedItems[Name]; len(requests) == 0 {
				l.note(batch[0], nil)
				return true
			}
			err = fmt.Errorf("%d of %d writes were not processed", len(requests), len(batch))
		}
		if l.ctx.Err() != nil {
			return false
		}
		l.note(batch[0], err)
		t.failed(fmt.Errorf("write events or delete claims, which is repeated: %w", err))
		select {
		case <-l.ctx.Done():
		case <-time.After(wait/2 + rand.N(wait)):
		}
	}
}

// note records whether a batch fails, by its first write.
func (l *later) note(first *laterWrite, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	_, before := l.failing[first]
	switch {
	case err == nil:
		delete(l.failing, first)
		return
	case l.failing == nil:
		l.failing = make(map[*laterWrite]time.Time)
	}
	if l.why = err; !before {
		l.failing[first] = time.Now()
	}
}

// healthy returns an error if a batch has failed for some time.
func (l *later) healthy() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, since := range l.failing {
		if d := time.Since(since); d >= maxLaterWait {
			return fmt.Errorf("events or deletions of claims cannot be written since %v: %w", d.Truncate(time.Second), l.why)
		}
	}
	return nil
}

// close ends the senders.
func (l *later) close() {
	l.mutex.Lock()
	l.closed = true
	cancel := l.cancel
	l.mutex.Unlock()
	if cancel != nil {
		cancel()
	}
	l.running.Wait()
}

// writeEvent writes the item of an event later.
func (t *Table) writeEvent(id string, e *task.Event, then ...func()) *laterWrite {
	seq := e.Seq
	return t.events.write(t, &laterWrite{
		key: eventName(id, seq), request: types.WriteRequest{PutRequest: &types.PutRequest{Item: t.eventItem(id, e)}},
		then: append([]func(){func() { t.durable.mark(id, seq) }}, then...),
	})
}

// deleteClaim deletes a claim later, without a condition. The task must have an event
// of the claim's number or a later one: then the key is never used again.
func (t *Table) deleteClaim(c *Claim) {
	t.claims.write(t, &laterWrite{
		key: c.Worker + " " + c.sort(), request: types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: claimKey(c)}},
	})
}

// space waits for space for what a step writes later. A step calls it before it stores
// anything, so that it does not fail when its task is stored.
func (t *Table) space(ctx context.Context) error {
	for _, l := range []*later{&t.events, &t.claims} {
		if w := l.full(t.backlog()); w != nil {
			if err := w.wait(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Table) backlog() int {
	if t.Backlog == 0 {
		return usualBacklog
	}
	return t.Backlog
}

// Healthy returns an error if writes in the background have failed for some time.
func (t *Table) Healthy() error {
	if err := t.events.healthy(); err != nil {
		return err
	}
	return t.claims.healthy()
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

// Close ends the writes in the background; those that are not durable are lost. The
// next reader of their tasks or claims repairs that.
func (t *Table) Close() {
	t.events.close()
	t.claims.close()
}

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
