package table

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// group commits concurrent transactions in one request, since most of the cost of
// a small transaction is the request. No transaction waits for others to arrive:
// while a few requests are in flight, arriving transactions are collected. Each
// gets its own result, and one whose conditions fail does not affect the others.
type group struct {
	mutex   sync.Mutex
	waiting []*change
	senders int
}

const (
	maxSenders     = 3
	maxGroupWrites = 60      // of the 100 that a transaction may have
	maxGroupBytes  = 2 << 20 // of the 4 MB
)

// change is one transaction: writes that are applied together or not at all.
type change struct {
	writes []types.TransactWriteItem
	bytes  int
	done   chan outcome
}

// outcome has the reasons why conditions failed, or an error, or neither.
type outcome struct {
	reasons []types.CancellationReason
	err     error
}

// transact applies writes atomically. If a condition fails it returns the reasons.
// When the context ends, transact returns, but the writes may still be applied.
func (t *Table) transact(ctx context.Context, writes []types.TransactWriteItem) ([]types.CancellationReason, error) {
	c := &change{writes: writes, done: make(chan outcome, 1)}
	for _, w := range writes {
		c.bytes += sizeOf(w)
	}
	g := &t.group
	g.mutex.Lock()
	g.waiting = append(g.waiting, c)
	if g.senders < maxSenders {
		g.senders++
		go t.send()
	}
	g.mutex.Unlock()
	select {
	case o := <-c.done:
		return o.reasons, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// send sends pending changes until there are none.
func (t *Table) send() {
	for {
		changes := t.group.take()
		if changes == nil {
			return
		}
		// A timeout of its own: the callers' contexts may end one by one.
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		t.sendAll(ctx, changes)
		cancel()
	}
}

// take takes changes that fit in one request: no two of them write the same item.
// If there are none, the sender ends.
func (g *group) take() (taken []*change) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if len(g.waiting) == 0 {
		g.senders--
		return nil
	}
	touched := make(map[string]bool)
	writes, bytes := 0, 0
	left := g.waiting[:0]
	for i, c := range g.waiting {
		if writes+len(c.writes) > maxGroupWrites || bytes+c.bytes > maxGroupBytes && taken != nil {
			left = append(left, g.waiting[i:]...)
			break
		}
		if touches(c, touched) {
			left = append(left, c)
			continue
		}
		for _, w := range c.writes {
			touched[keyOf(w)] = true
		}
		writes, bytes = writes+len(c.writes), bytes+c.bytes
		taken = append(taken, c)
	}
	clear(g.waiting[len(left):])
	g.waiting = left
	return taken
}

func touches(c *change, touched map[string]bool) bool {
	for _, w := range c.writes {
		if touched[keyOf(w)] {
			return true
		}
	}
	return false
}

// sendAll sends changes as one transaction. Changes whose conditions fail get the
// reasons, and the rest is sent again without them. If the transaction conflicts
// with another, each change is sent alone.
func (t *Table) sendAll(ctx context.Context, changes []*change) {
	for len(changes) > 0 {
		reasons, err := t.request(ctx, changes)
		var refused smithy.APIError
		if errors.As(err, &refused) && refused.ErrorFault() == smithy.FaultClient && len(changes) > 1 {
			t.eachAlone(ctx, changes) // one of them is invalid, the rest is not
			return
		}
		if err != nil || reasons == nil {
			for _, c := range changes {
				c.done <- outcome{err: err}
			}
			return
		}
		var others []*change
		for _, c := range changes {
			own := reasons[:len(c.writes)]
			reasons = reasons[len(c.writes):]
			if anyFailed(own) {
				c.done <- outcome{reasons: own}
			} else {
				others = append(others, c)
			}
		}
		if len(others) == len(changes) { // no condition failed: a conflict with another transaction
			t.eachAlone(ctx, changes)
			return
		}
		changes = others
	}
}

func (t *Table) eachAlone(ctx context.Context, changes []*change) {
	for _, c := range changes {
		c.done <- t.alone(ctx, c)
	}
}

// alone sends one change, and retries while it conflicts with others.
func (t *Table) alone(ctx context.Context, c *change) outcome {
	for wait := 5 * time.Millisecond; ; wait *= 2 {
		reasons, err := t.request(ctx, []*change{c})
		if err != nil || reasons == nil || anyFailed(reasons) {
			return outcome{reasons, err}
		}
		if wait > 500*time.Millisecond {
			return outcome{err: fmt.Errorf("write to table %s: too many conflicts with other writes to the same items", Name)}
		}
		select {
		case <-ctx.Done():
			return outcome{err: ctx.Err()}
		case <-time.After(wait/2 + rand.N(wait)):
		}
	}
}

func (t *Table) request(ctx context.Context, changes []*change) ([]types.CancellationReason, error) {
	var writes []types.TransactWriteItem
	for _, c := range changes {
		writes = append(writes, c.writes...)
	}
	_, err := t.DB.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
	var cancelled *types.TransactionCanceledException
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &cancelled) && len(cancelled.CancellationReasons) == len(writes):
		return cancelled.CancellationReasons, nil
	}
	return nil, fmt.Errorf("write to table %s: %w", Name, err)
}

func anyFailed(reasons []types.CancellationReason) bool {
	for _, r := range reasons {
		if failed(r) {
			return true
		}
	}
	return false
}

func failed(r types.CancellationReason) bool {
	return aws.ToString(r.Code) == "ConditionalCheckFailed"
}

// keyOf returns the key by which items are compared.
func keyOf(w types.TransactWriteItem) string {
	var i item
	switch {
	case w.Put != nil:
		i = w.Put.Item
	case w.Update != nil:
		i = w.Update.Key
	case w.Delete != nil:
		i = w.Delete.Key
	}
	f := of(i)
	return f("PK") + " " + f("SK")
}

// sizeOf returns the approximate size of a write.
func sizeOf(w types.TransactWriteItem) int {
	n := 500
	if w.Put != nil {
		for _, v := range w.Put.Item {
			if s, ok := v.(*types.AttributeValueMemberS); ok {
				n += len(s.Value)
			}
		}
	}
	return n
}
