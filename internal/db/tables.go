package db

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/data/throttle"
)

// catalog holds the tables as this process knows them. They are stored in the
// engine; the process that changes one broadcasts it, and all processes read
// it again (broadcast.go).
type catalog struct {
	mu     sync.RWMutex
	tables map[string]*table

	// dropped holds the dropped tables whose streams can still be read, by id.
	dropped map[uint32]*schema.Table

	// unsettled holds the tables with changes that some servers may not have
	// read yet, by name.
	unsettled map[string]*unsettled

	refreshing sync.Mutex // serializes refresh

	// attach sets the limits and the series of a table that is new or was changed, and
	// detach is called for the name of a table that was removed.
	attach func(*table)
	detach func(name string)
}

// table is one table in use. Its description is replaced, never changed.
type table struct {
	*schema.Table
	counts *itemCounts
	limits *throttle.Table // nil if requests are not throttled
	series *tableSeries
	rules  tableRules

	// created is set once a request has found that the creation is over, so that others need
	// not read the clock: the description says CREATING until it is changed.
	created atomic.Bool

	// inUse is held for reading by writes. To wait for the writes that use an
	// older description, lock it for writing.
	inUse *sync.RWMutex
}

func newTable(t *schema.Table) *table {
	return &table{Table: t, counts: newItemCounts(), inUse: new(sync.RWMutex)}
}

// with returns the same table with a new description.
func (t *table) with(def *schema.Table) *table {
	return &table{Table: def, counts: t.counts, limits: t.limits, series: t.series, rules: t.rules, inUse: t.inUse}
}

// drops reports whether the table is DELETING and due to be dropped.
func (d *DB) drops(t *table) bool {
	return t.State == schema.Deleting && t.SettlesIn(d.Now(), d.delay) == 0
}

// status returns the state of a table now.
func (d *DB) status(t *schema.Table) schema.State { return t.Status(d.Now(), d.delay) }

// find returns the table of a name, in any state.
func (d *DB) find(name string) (*table, bool) {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	t, ok := d.catalog.tables[name]
	return t, ok
}

// use returns the table of a name if its items can be read and written now. It
// waits until the table is settled.
func (d *DB) use(name string) (*table, error) {
	c := &d.catalog
	c.mu.RLock() // once: requests on other processors lock it too
	t, ok := c.tables[name]
	waits := len(c.unsettled) > 0 && c.unsettled[name] != nil
	c.mu.RUnlock()
	if waits {
		c.waitSettled(name)
		t, ok = d.find(name)
	}
	return d.usable(t, ok)
}

// useNow is use without waiting until the table is settled.
func (d *DB) useNow(name string) (*table, error) { return d.usable(d.find(name)) }

// usable returns a table that was found, if its items can be read and written now.
func (d *DB) usable(t *table, found bool) (*table, error) {
	if !found || t.State == schema.Deleting || t.State == schema.Creating && !d.isCreated(t) {
		return nil, apierror.NoTable()
	}
	return t, nil
}

// isCreated reports whether the creation of a table is over.
func (d *DB) isCreated(t *table) bool {
	if t.created.Load() {
		return true
	}
	created := d.status(t.Table) != schema.Creating
	if created {
		t.created.Store(true)
	}
	return created
}

// Table returns the description of a table whose items can be read and written
// now.
func (d *DB) Table(name string) (*schema.Table, error) {
	t, err := d.use(name)
	if err != nil {
		return nil, err
	}
	return t.Table, nil
}

// all returns the tables, in no order.
func (d *DB) all() []*table {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	return slices.Collect(maps.Values(d.catalog.tables))
}

// ProvisionedUnits is the sum of the provisioned units of all tables, as this
// process knows them.
func (d *DB) ProvisionedUnits() (sum schema.Throughput) {
	for _, t := range d.all() {
		units := t.ProvisionedUnits()
		sum.Read += units.Read
		sum.Write += units.Write
	}
	return sum
}

// NewUUID returns a random (version 4) UUID.
func NewUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// put replaces the description of a table; nil removes the table. The caller
// holds c.mu.
func (c *catalog) put(name string, now *schema.Table) {
	was, known := c.tables[name]
	switch {
	case now == nil:
		delete(c.tables, name)
		c.detach(name)
		return
	case known && was.ID == now.ID:
		c.tables[name] = was.with(now)
	default:
		c.tables[name] = newTable(now)
	}
	c.attach(c.tables[name])
}

// unsettled is a table with changes that some servers may not have read yet.
type unsettled struct {
	changes map[string]bool // ids of the changes
	done    chan struct{}   // closed when the last change has settled
}

// beginChange makes readers of a table wait until endChange is called for the
// change.
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

// endChange records that all servers have read a change.
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

// endAllChanges releases all waiting readers.
func (c *catalog) endAllChanges() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, u := range c.unsettled {
		close(u.done)
		delete(c.unsettled, name)
	}
}

// settleTimeout is how long to wait for a change to settle. A change never
// settles if the server that broadcasts it stops between the two rounds of
// broadcastStored.
const settleTimeout = 10 * time.Second

// waitSettled waits until a table has no unsettled changes, or, if name is "",
// until no table has. After settleTimeout it considers a table settled.
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
