package db

import (
	"context"
	"iter"
	"sync"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
)

// Contents is the source of the items of a restored table.
type Contents struct {
	// Items returns the items, all of one moment. Each is valid until the next.
	Items func(context.Context) iter.Seq2[item.Item, error]

	Close func() error
}

// close closes the contents. They were only read, so its error is ignored.
func (c *Contents) close() { _ = c.Close() }

// restoreQueue tracks the restored tables that workers have claimed, and the
// contents of new tables that are already open.
type restoreQueue struct {
	mu      sync.Mutex
	claimed map[uint32]bool      // by table id
	offered map[string]*Contents // by the UUID of the table, because names are reused
	begun   map[string]bool      // UUIDs of the tables that requests of this server are creating
	wake    *clock.Wake

	// open opens the contents of a backup; nil without backups.
	open func(ctx context.Context, backup string) (*Contents, error)
}

func newRestoreQueue(wake *clock.Wake, open func(context.Context, string) (*Contents, error)) *restoreQueue {
	return &restoreQueue{claimed: make(map[uint32]bool), offered: make(map[string]*Contents), begun: make(map[string]bool), wake: wake, open: open}
}

// maxRestores is how many restores DynamoDB allows at once. Those that wait count: each
// may hold a view of the database.
const maxRestores = 50

// beginRestore counts the table of a restore, which is not in the catalog yet, until end is
// called. It returns a fault if too many restores are in progress.
func (d *DB) beginRestore(uuid string) (end func(), err error) {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	d.restores.mu.Lock()
	defer d.restores.mu.Unlock()
	running := len(d.restores.begun)
	for _, t := range d.catalog.tables {
		if t.Restored.Running && t.Restored.Import == "" && !d.restores.begun[t.UUID] {
			running++
		}
	}
	if running >= maxRestores {
		return nil, apierror.LimitExceeded("Too many restores are in progress. Wait until some of them are complete")
	}
	d.restores.begun[uuid] = true
	return func() {
		d.restores.mu.Lock()
		defer d.restores.mu.Unlock()
		delete(d.restores.begun, uuid)
	}, nil
}

// offer leaves the contents of a new table for the worker that will claim it.
func (r *restoreQueue) offer(uuid string, contents *Contents) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offered[uuid] = contents
}

// claim reserves a table for one worker, until release. It reports false if the
// table is already claimed.
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

// takeOffered returns the contents that were offered for a table, once, and nil
// after that.
func (r *restoreQueue) takeOffered(uuid string) *Contents {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.offered[uuid]
	delete(r.offered, uuid)
	return c
}

// releaseOffered closes the contents that were offered and never taken. They can
// be found again.
func (r *restoreQueue) releaseOffered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.offered {
		c.close()
	}
	clear(r.offered)
}
