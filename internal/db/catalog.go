package db

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

// Description is a table as DescribeTable tells it.
type Description struct {
	*schema.Table
	Status schema.State
	Counts map[uint16]Count // by index; 0 is the table
}

// Describe describes a table in any state.
func (d *DB) Describe(name string) (Description, error) {
	d.catalog.waitSettled(name)
	t, ok := d.find(name)
	if !ok {
		return Description{}, apierror.NoTableNamed(name)
	}
	return d.describe(t), nil
}

func (d *DB) describe(t *table) Description {
	counts := t.counts.current()
	counts.keep(t.Table)
	for id, c := range counts {
		// While an index is built, writes take away what is not there yet.
		counts[id] = Count{max(0, c.Items), max(0, c.Bytes)}
	}
	return Description{Table: t.Table, Status: t.Status(d.now()), Counts: counts}
}

// changed describes a table as the caller has just stored it, in the state that
// it was given.
func (d *DB) changed(def *schema.Table) Description {
	t, ok := d.find(def.Name)
	if !ok || t.ID != def.ID {
		t = newTable(def) // it is gone already
	}
	desc := d.describe(t.with(def))
	desc.Status = def.State
	return desc
}

// Tables are the names of up to limit tables after a name, and whether there
// are more.
func (d *DB) Tables(after string, limit int) (names []string, more bool) {
	d.catalog.waitSettled("")
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
	if !def.Restored.Running || def.UUID == "" { // else it was given one already
		def.UUID = newUUID()
	}
	def.Created = d.now()
	def.State, def.SettledAt = schema.Creating, def.Created.Add(d.delay)
	d.nameStreams(&def)
	stored := &def
	key, counter := keyspace.Catalog(def.Name), keyspace.Meta("last table id")
	err := d.engine.Update(ctx, [][]byte{key, counter}, func(tx store.Tx) error {
		if taken, ok := tx.Get(key); ok {
			return d.taken(taken, def.Name)
		}
		def.ID = 1
		if last, ok := tx.Get(counter); ok {
			def.ID = binary.BigEndian.Uint32(last) + 1
		}
		stored = def.Sealed(uint64(tx.Stamp()))
		tx.Set(counter, binary.BigEndian.AppendUint32(nil, def.ID))
		tx.Set(key, codec.EncodeTable(stored))
		return nil
	})
	if err != nil {
		return Description{}, err
	}
	if err := d.broadcastStored(ctx, def.Name); err != nil {
		return Description{}, err
	}
	return d.changed(stored), nil
}

// taken words that a table of that name is there.
func (d *DB) taken(stored []byte, name string) error {
	t, err := codec.DecodeTable(stored)
	if err != nil {
		return fmt.Errorf("table %s: %w", name, err)
	}
	if status := t.Status(d.now()); status == schema.Creating {
		return stillInUse(status, name)
	}
	return apierror.InUse("Table already exists: %s", name)
}

// UpdateTable changes a table's description. change gets a copy to work on,
// already in the state of being updated; it may make that active again, for
// what takes effect at once.
func (d *DB) UpdateTable(ctx context.Context, name string, change func(*schema.Table) error) (Description, error) {
	return d.alterRecorded(ctx, name, func(def *schema.Table) error {
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

// alter changes a table's description, and returns when every write under way,
// in any process, knows it as it is now. It tells the table's state as the
// change left it. change gets a copy to work on and may run again.
func (d *DB) alter(ctx context.Context, name string, change func(*schema.Table) error) (Description, error) {
	var stored *schema.Table
	key := keyspace.Catalog(name)
	err := d.engine.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
		value, ok := tx.Get(key)
		if !ok {
			return apierror.NoTableNamed(name)
		}
		def, err := codec.DecodeTable(value)
		if err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
		if err := change(def); err != nil {
			return err
		}
		d.nameStreams(def)
		stored = def.Sealed(uint64(tx.Stamp()))
		tx.Set(key, codec.EncodeTable(stored))
		return nil
	})
	if err != nil {
		return Description{}, err
	}
	if err := d.broadcastStored(ctx, name); err != nil {
		return Description{}, err
	}
	return d.changed(stored), nil
}

// alterRecorded is alter for what may begin to look back at the changes. Then
// all writes record theirs before it begins, so that it misses none.
func (d *DB) alterRecorded(ctx context.Context, name string, change func(*schema.Table) error) (Description, error) {
	begins := false
	desc, err := d.alter(ctx, name, func(def *schema.Table) error {
		after := def.Clone()
		if err := change(after); err != nil {
			return err
		}
		if begins = after.Logs() && !def.Logs(); begins {
			def.Recording = true
		} else {
			*def = *after
		}
		return nil
	})
	if err != nil || !begins {
		return desc, err
	}
	return d.alter(ctx, name, func(def *schema.Table) error {
		def.Recording = false
		return change(def)
	})
}

// DeleteTable removes a table. Its items go in the background.
func (d *DB) DeleteTable(ctx context.Context, name string) (Description, error) {
	desc, err := d.alter(ctx, name, func(def *schema.Table) error {
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
	d.drop.Signal()
	return desc, err
}

// stillInUse words a table that is being created or deleted.
func stillInUse(s schema.State, name string) error {
	doing := map[schema.State]string{schema.Creating: "created", schema.Deleting: "deleted"}
	return apierror.InUse("Attempt to change a resource which is still in use: Table is being %s: %s", doing[s], name)
}

// dropDue takes the tables out of the catalog whose time has come, and leaves
// notes that their items are to be removed.
func (d *DB) dropDue(ctx context.Context, now time.Time) error {
	for _, t := range d.all() {
		if !t.dropsAt(now) {
			continue
		}
		key := keyspace.Catalog(t.Name)
		err := d.engine.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
			value, ok := tx.Get(key)
			if !ok {
				return nil // another process was faster
			}
			def, err := codec.DecodeTable(value)
			if err != nil {
				return fmt.Errorf("table %s: %w", t.Name, err)
			}
			if def.ID != t.ID {
				return nil
			}
			tx.Delete(key)
			tx.Set(keyspace.Dropped(t.ID), []byte{formatDropped})
			if len(def.Streams) > 0 {
				tx.Set(keyspace.DroppedStreams(t.ID), codec.EncodeTable(def))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := d.broadcastStored(ctx, t.Name); err != nil {
			return err
		}
	}
	return nil
}

// formatDropped is the format number of the record of a dropped table.
const formatDropped = 1
