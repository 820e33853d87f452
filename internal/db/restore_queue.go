package db

import (
	"context"
	"iter"
	"sync"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/lead"
)

// Contents are the items that a restored table begins with.
type Contents struct {
	// Items returns the items of one moment. Each is valid until the next.
	Items func(context.Context) iter.Seq2[item.Item, error]

	Close func() error
}

// close releases the contents, which were only read.
func (c *Contents) close() { _ = c.Close() }

// restores are the tables whose items are being put in.
type restoreQueue struct {
	mu      sync.Mutex
	claimed map[uint32]bool
	offered map[string]*Contents // by UUID of the table: a name may be used again
	wake    lead.Wake

	// open finds the contents of a backup.
	open func(ctx context.Context, backup string) (*Contents, error)
}

func newRestoreQueue(open func(context.Context, string) (*Contents, error)) *restoreQueue {
	return &restoreQueue{claimed: make(map[uint32]bool), offered: make(map[string]*Contents), wake: lead.NewWake(), open: open}
}

// offer hands the contents of a new table over to who will fill it.
func (r *restoreQueue) offer(uuid string, contents *Contents) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offered[uuid] = contents
}

// take claims a table for one goroutine.
func (r *restoreQueue) claim(table uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.claimed[table] {
		return false
	}
	r.claimed[table] = true
	return true
}

func (r *restoreQueue) release(table uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.claimed, table)
}

// contents are those that were offered, once.
func (r *restoreQueue) takeOffered(uuid string) *Contents {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.offered[uuid]
	delete(r.offered, uuid)
	return c
}

// close releases what was offered and never claimed.
func (r *restoreQueue) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.offered {
		c.close()
	}
}
