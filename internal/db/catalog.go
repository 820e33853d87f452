package db

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// catalog is the tables as this process knows them: what the engine holds,
// read once.
type catalog struct {
	mu     sync.RWMutex
	tables map[string]*table

	// leaving are tables just dropped, by id: writes that began before may
	// still be under way.
	leaving map[uint32]*sync.RWMutex

	// ghosts are dropped tables whose streams can still be read, by id.
	ghosts map[uint32]*schema.Table
}

// table is one table in use. Its description is replaced, never changed.
type table struct {
	*schema.Table
	tally *tally

	// inUse is held for reading by writes, so that a table is not dropped
	// under one that would then leave an item behind.
	inUse *sync.RWMutex
}

func newTable(t *schema.Table) *table {
	return &table{Table: t, tally: newTally(), inUse: new(sync.RWMutex)}
}

// with is the same table under a new description.
func (t *table) with(def *schema.Table) *table {
	return &table{Table: def, tally: t.tally, inUse: t.inUse}
}

// load reads the catalog from the engine.
func (d *DB) load(ctx context.Context) error {
	d.catalog.tables = make(map[string]*table)
	d.catalog.leaving = make(map[uint32]*sync.RWMutex)
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snap.Close()
	start, end := keyspace.CatalogSpan()
	for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return err
		}
		def, err := decodeTable(pair.Value)
		if err != nil {
			return fmt.Errorf("table %s: %w", pair.Key[1:], err)
		}
		t := newTable(def)
		if err := t.tally.load(ctx, snap, def.ID); err != nil {
			return err
		}
		d.catalog.tables[def.Name] = t
	}
	return d.loadGhosts(ctx, snap)
}

// formatTable is the number of the format of a table's description.
const formatTable = 1

func encodeTable(t *schema.Table) []byte {
	b, err := json.Marshal(t)
	if err != nil {
		panic(fmt.Sprintf("table %s cannot be written as JSON: %v", t.Name, err))
	}
	return append([]byte{formatTable}, b...)
}

func decodeTable(value []byte) (*schema.Table, error) {
	if len(value) == 0 || value[0] != formatTable {
		return nil, fmt.Errorf("its description has an unknown format: %w", store.ErrCorrupt)
	}
	t := new(schema.Table)
	if err := json.Unmarshal(value[1:], t); err != nil {
		return nil, fmt.Errorf("its description: %w: %w", err, store.ErrCorrupt)
	}
	return t, nil
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

// Description is a table as DescribeTable tells it.
type Description struct {
	*schema.Table
	Status schema.State
	Counts map[uint16]Count // by index; 0 is the table
}

// Describe describes a table in any state.
func (d *DB) Describe(name string) (Description, error) {
	t, ok := d.find(name)
	if !ok {
		return Description{}, apierror.NoTableNamed(name)
	}
	return d.describe(t), nil
}

func (d *DB) describe(t *table) Description {
	counts := t.tally.counts()
	for id, c := range counts {
		// While an index is built, writes take away what is not there yet.
		counts[id] = Count{max(0, c.Items), max(0, c.Bytes)}
	}
	return Description{Table: t.Table, Status: t.Status(d.now()), Counts: counts}
}

// Tables are the names of up to limit tables after a name, and whether there
// are more.
func (d *DB) Tables(after string, limit int) (names []string, more bool) {
	d.catalog.mu.RLock()
	for name := range d.catalog.tables {
		if name > after {
			names = append(names, name)
		}
	}
	d.catalog.mu.RUnlock()
	slices.Sort(names)
	if len(names) > limit {
		return names[:limit], true
	}
	return names, false
}

// CreateTable makes a table of a description, and gives it its identity.
func (d *DB) CreateTable(ctx context.Context, def schema.Table) (Description, error) {
	d.catalog.mu.Lock()
	defer d.catalog.mu.Unlock()
	if t, ok := d.catalog.tables[def.Name]; ok {
		if status := t.Status(d.now()); status == schema.Creating {
			return Description{}, stillInUse(status, def.Name)
		}
		return Description{}, apierror.InUse("Table already exists: %s", def.Name)
	}
	def.UUID = newUUID()
	def.Created = d.now()
	def.State, def.SettledAt = schema.Creating, def.Created.Add(d.delay)
	d.nameStreams(&def)
	stored := &def
	key, counter := keyspace.Catalog(def.Name), keyspace.Meta("last table id")
	_, err := d.engine.Update(ctx, [][]byte{key, counter}, func(tx store.Tx) error {
		if _, ok := tx.Get(key); ok {
			return apierror.InUse("Table already exists: %s", def.Name)
		}
		def.ID = 1
		if last, ok := tx.Get(counter); ok {
			def.ID = binary.BigEndian.Uint32(last) + 1
		}
		stored = def.Sealed(uint64(tx.Stamp()))
		tx.Set(counter, binary.BigEndian.AppendUint32(nil, def.ID))
		tx.Set(key, encodeTable(stored))
		return nil
	})
	if err != nil {
		return Description{}, err
	}
	t := newTable(stored)
	d.catalog.tables[def.Name] = t
	told := d.describe(t)
	told.Status = schema.Creating
	return told, nil
}

// UpdateTable changes a table's description. change gets a copy to work on,
// already in the state of being updated; it may make that active again, for
// what takes effect at once.
func (d *DB) UpdateTable(ctx context.Context, name string, change func(*schema.Table) error) (Description, error) {
	return d.alterAlone(ctx, name, func(def *schema.Table) error {
		switch status := def.Status(d.now()); status {
		case schema.Active:
		case schema.Updating:
			return apierror.InUse("Attempt to change a resource which is still in use: Table IOPS are currently being updated. Table: %s", name)
		default:
			return stillInUse(status, name)
		}
		def.State, def.SettledAt = schema.Updating, d.now().Add(d.delay)
		return change(def)
	})
}

// SetTags replaces a table's tags, which does not touch its state.
func (d *DB) SetTags(ctx context.Context, name string, change func([]schema.Tag) ([]schema.Tag, error)) error {
	_, err := d.alter(ctx, name, func(def *schema.Table) (err error) {
		def.Tags, err = change(slices.Clone(def.Tags))
		return err
	})
	return err
}

// alter replaces a table's description by a changed copy, and tells its state
// as the change left it.
func (d *DB) alter(ctx context.Context, name string, change func(*schema.Table) error) (Description, error) {
	d.catalog.mu.Lock()
	defer d.catalog.mu.Unlock()
	t, ok := d.catalog.tables[name]
	if !ok {
		return Description{}, apierror.NoTableNamed(name)
	}
	def := new(schema.Table)
	*def = *t.Table
	def.Indexes = slices.Clone(def.Indexes)
	if err := change(def); err != nil {
		return Description{}, err
	}
	d.nameStreams(def)
	stored := def
	key := keyspace.Catalog(name)
	_, err := d.engine.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
		stored = def.Sealed(uint64(tx.Stamp()))
		tx.Set(key, encodeTable(stored))
		return nil
	})
	if err != nil {
		return Description{}, err
	}
	t = t.with(stored)
	d.catalog.tables[name] = t
	told := d.describe(t)
	told.Status = stored.State
	d.wakeBuilder()
	return told, nil
}

// alterAlone is alter while no write to the table is under way, so that each
// knows the table either as it was or as it is, and a stream has all changes
// from one stamp up to another.
func (d *DB) alterAlone(ctx context.Context, name string, change func(*schema.Table) error) (Description, error) {
	for {
		t, ok := d.find(name)
		if !ok {
			return Description{}, apierror.NoTableNamed(name)
		}
		t.inUse.Lock()
		if now, ok := d.find(name); ok && now.inUse != t.inUse {
			t.inUse.Unlock()
			continue // another table has the name by now
		}
		defer t.inUse.Unlock()
		return d.alter(ctx, name, change)
	}
}

// DeleteTable removes a table. Its items go in the background.
func (d *DB) DeleteTable(ctx context.Context, name string) (Description, error) {
	told, err := d.alterAlone(ctx, name, func(def *schema.Table) error {
		switch status := def.Status(d.now()); status {
		case schema.Active:
		case schema.Updating:
			return apierror.InUse("Attempt to change a resource which is still in use: Table: %s is in the process of being updated.", name)
		default:
			return stillInUse(status, name)
		}
		if def.DeletionProtection {
			return apierror.Validation("Resource cannot be deleted as it is currently protected against deletion. " +
				"Disable deletion protection first.")
		}
		def.State, def.SettledAt = schema.Deleting, d.now().Add(d.delay)
		def.DisableStream(d.now())
		return nil
	})
	if err != nil {
		return Description{}, err
	}
	if d.delay == 0 {
		err = d.dropDue(ctx, d.now())
	}
	d.wakeDropper()
	return told, err
}

// stillInUse words a table that is being created or deleted.
func stillInUse(s schema.State, name string) error {
	doing := map[schema.State]string{schema.Creating: "created", schema.Deleting: "deleted"}
	return apierror.InUse("Attempt to change a resource which is still in use: Table is being %s: %s", doing[s], name)
}

// dropDue takes the tables out of the catalog whose time has come, and leaves
// notes that their items are to be removed.
func (d *DB) dropDue(ctx context.Context, now time.Time) error {
	d.catalog.mu.Lock()
	defer d.catalog.mu.Unlock()
	for name, t := range d.catalog.tables {
		if t.State != schema.Deleting || now.Before(t.SettledAt) {
			continue
		}
		key := keyspace.Catalog(name)
		haunts := len(t.Streams) > 0
		_, err := d.engine.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
			tx.Delete(key)
			tx.Delete(keyspace.Tally(t.ID))
			tx.Set(keyspace.Dropped(t.ID), []byte{formatTable})
			if haunts {
				tx.Set(keyspace.Ghost(t.ID), encodeTable(t.Table))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if haunts {
			d.catalog.ghosts[t.ID] = t.Table
		}
		delete(d.catalog.tables, name)
		d.catalog.leaving[t.ID] = t.inUse
	}
	return nil
}

// awaitWriters waits until no write to a dropped table is under way.
func (d *DB) awaitWriters(id uint32) {
	d.catalog.mu.Lock()
	inUse, ok := d.catalog.leaving[id]
	delete(d.catalog.leaving, id)
	d.catalog.mu.Unlock()
	if ok {
		inUse.Lock()
		defer inUse.Unlock()
	}
}

// newUUID makes a random (version 4) identity.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
