package db

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
)

// catalog is the tables as this process knows them. The engine holds them; who
// changes one there tells all processes, and they follow (follow.go).
type catalog struct {
	mu     sync.RWMutex
	tables map[string]*table

	// dropped are dropped tables whose streams can still be read, by id.
	dropped map[uint32]*schema.Table

	// unsettled are tables of which not all servers may know what has changed.
	unsettled map[string]*unsettled

	refreshing sync.Mutex // held by who brings the above up to date
}

// table is one table in use. Its description is replaced, never changed.
type table struct {
	*schema.Table
	counts *itemCounts

	// inUse is held for reading by writes, so that one can wait until all that
	// know an older description have ended.
	inUse *sync.RWMutex
}

func newTable(t *schema.Table) *table {
	return &table{Table: t, counts: newItemCounts(), inUse: new(sync.RWMutex)}
}

// with is the same table under a new description.
func (t *table) with(def *schema.Table) *table {
	return &table{Table: def, counts: t.counts, inUse: t.inUse}
}

// dropsAt tells whether a deleted table is to go at a moment.
func (t *table) dropsAt(now time.Time) bool {
	return t.State == schema.Deleting && !now.Before(t.SettledAt)
}

// find is the table of that name, whatever its state.
func (d *DB) find(name string) (*table, bool) {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	t, ok := d.catalog.tables[name]
	return t, ok
}

// use is the table of that name, if items can be read and written now.
func (d *DB) use(name string) (*table, error) {
	d.catalog.waitSettled(name)
	return d.useNow(name)
}

// useNow is use whether or not the table is settled.
func (d *DB) useNow(name string) (*table, error) {
	t, ok := d.find(name)
	if !ok || t.State == schema.Deleting || t.State == schema.Creating && t.Status(d.now()) == schema.Creating {
		return nil, apierror.NoTable()
	}
	return t, nil
}

// Table describes a table for the operations on items.
func (d *DB) Table(name string) (*schema.Table, error) {
	t, err := d.use(name)
	if err != nil {
		return nil, err
	}
	return t.Table, nil
}

// all are the tables as they are now.
func (d *DB) all() []*table {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	return slices.Collect(maps.Values(d.catalog.tables))
}

// newUUID makes a random (version 4) identity.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// put replaces the description of a table; nil takes it out. The catalog is
// locked.
func (c *catalog) put(name string, now *schema.Table) {
	was, known := c.tables[name]
	switch {
	case now == nil:
		delete(c.tables, name)
	case known && was.ID == now.ID:
		c.tables[name] = was.with(now)
	default:
		c.tables[name] = newTable(now)
	}
}

// unsettled is a table of which not all servers may know what has changed.
type unsettled struct {
	changes map[string]bool // their ids
	done    chan struct{}
}

func (c *catalog) beginChange(name, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.unsettled[name]
	if u == nil {
		u = &unsettled{make(map[string]bool), make(chan struct{})}
		c.unsettled[name] = u
	}
	u.changes[id] = true
}

func (c *catalog) endChange(name, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.unsettled[name]
	if u == nil {
		return
	}
	if delete(u.changes, id); len(u.changes) == 0 {
		close(u.done)
		delete(c.unsettled, name)
	}
}

func (c *catalog) endAllChanges() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, u := range c.unsettled {
		close(u.done)
		delete(c.unsettled, name)
	}
}

// settleTimeout is how long to wait for a change to settle. Only a server that
// ends between the two rounds leaves one that does not.
const settleTimeout = 10 * time.Second

// waitSettled waits until the table of a name is settled, or with "" all are.
func (c *catalog) waitSettled(name string) {
	for {
		c.mu.RLock()
		u := c.unsettled[name]
		if name == "" {
			for _, u = range c.unsettled {
				break
			}
		}
		c.mu.RUnlock()
		if u == nil {
			return
		}
		select {
		case <-u.done:
		case <-time.After(settleTimeout):
			c.mu.Lock()
			maps.DeleteFunc(c.unsettled, func(_ string, v *unsettled) bool { return v == u })
			c.mu.Unlock()
			return
		}
	}
}
