package db

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

// Description is a table as DescribeTable returns it.
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
		// While an index is being built, writes subtract entries that have not
		// been counted yet.
		counts[id] = Count{Items: max(0, c.Items), Bytes: max(0, c.Bytes)}
	}
	return Description{Table: t.Table, Status: d.status(t.Table), Counts: counts}
}

// changed describes a table as the caller has just stored it. The status is the
// stored state, even if that state is already over.
func (d *DB) changed(def *schema.Table) Description {
	t, ok := d.find(def.Name)
	if !ok || t.ID != def.ID {
		t = newTable(def) // it has been dropped since
	}
	desc := d.describe(t.with(def))
	desc.Status = def.State
	return desc
}

// Tables returns the sorted names of up to limit tables whose names follow
// after, and whether there are more.
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

// CreateTable creates a table and assigns its id and UUID.
func (d *DB) CreateTable(ctx context.Context, def schema.Table) (Description, error) {
	if !def.Restored.Running || def.UUID == "" { // a table that is being restored keeps its UUID
		def.UUID = NewUUID()
	}
	def.Created = d.Now()
	def.State, def.SettledAt = schema.Creating, def.Created.Add(d.lifeDelay)
	d.nameStreams(&def)
	stored := &def
	key, counter := keyspace.Catalog(def.Name), keyspace.Meta("last table id")
	err := d.update(ctx, [][]byte{key, counter}, func(tx store.Tx) error {
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

// taken returns the error for the name of an existing table, which stored
// describes.
func (d *DB) taken(stored []byte, name string) error {
	t, err := codec.DecodeTable(stored)
	if err != nil {
		return fmt.Errorf("table %s: %w", name, err)
	}
	if status := d.status(t); status == schema.Creating {
		return stillInUse(status, name)
	}
	return apierror.InUse("Table already exists: %s", name)
}

// UpdateTable changes a table's description. change modifies a copy whose state
// is UPDATING already, and may set it back to active if the change takes
// effect at once. It may be called more than once.
func (d *DB) UpdateTable(ctx context.Context, name string, change func(*schema.Table) error) (Description, error) {
	return d.alterRecorded(ctx, name, func(def *schema.Table) error {
		switch status := d.status(def); status {
		case schema.Active:
		case schema.Updating:
			return apierror.InUse("Attempt to change a resource which is still in use: Table IOPS are currently being updated. Table: %s", name)
		default:
			return stillInUse(status, name)
		}
		def.State, def.SettledAt = schema.Updating, d.Now().Add(d.delay)
		return change(def)
	})
}

// SetTags replaces a table's tags. The table's state does not change.
func (d *DB) SetTags(ctx context.Context, name string, change func([]schema.Tag) ([]schema.Tag, error)) error {
	_, err := d.alter(ctx, name, func(def *schema.Table) (err error) {
		def.Tags, err = change(slices.Clone(def.Tags))
		return err
	})
	return err
}

// SetPolicies replaces the resource policies of a table and its streams. The table's state
// does not change.
func (d *DB) SetPolicies(ctx context.Context, name string, change func(map[string]schema.ResourcePolicy) (map[string]schema.ResourcePolicy, error)) error {
	_, err := d.alter(ctx, name, func(def *schema.Table) (err error) {
		def.Policies, err = change(maps.Clone(def.Policies))
		return err
	})
	return err
}

// alter changes a table's description. When it returns, every write in flight,
// in any process, uses the new one. The returned status is the state that
// change has set. change modifies a copy and may be called more than once. The
// keys in remove are deleted in the same update.
func (d *DB) alter(ctx context.Context, name string, change func(*schema.Table) error, remove ...[]byte) (Description, error) {
	var stored *schema.Table
	key := keyspace.Catalog(name)
	err := d.update(store.Freeing(ctx), append([][]byte{key}, remove...), func(tx store.Tx) error {
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
		def.FollowPartitions()
		stored = def.Sealed(uint64(tx.Stamp()))
		tx.Set(key, codec.EncodeTable(stored))
		for _, old := range remove {
			tx.Delete(old)
		}
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

// alterRecorded is alter for changes that may begin the change log, by enabling
// a stream or recovery. It first sets Recording, and makes the change once all
// writes in flight record theirs, so that the log misses none. If another request
// has ended the recording in between, it begins again.
func (d *DB) alterRecorded(ctx context.Context, name string, change func(*schema.Table) error) (Description, error) {
	for {
		desc, id, err := d.beginRecording(ctx, name, change)
		if err != nil || id == "" {
			return desc, err
		}
		// A client that disconnects in between would leave the table recording
		// changes that nobody reads.
		ctx = context.WithoutCancel(ctx)
		if desc, err = d.endRecording(ctx, name, id, change); !errors.Is(err, errNotRecording) {
			return desc, err
		}
	}
}

// beginRecording makes a change, or, if the change log begins with it, only sets
// Recording and returns the id of the recording, which several requests may share.
// When it returns, all writes in flight record their changes.
func (d *DB) beginRecording(ctx context.Context, name string, change func(*schema.Table) error) (desc Description, id string, err error) {
	made := NewUUID()
	desc, err = d.alter(ctx, name, func(def *schema.Table) error {
		after := def.Clone()
		if err := change(after); err != nil {
			return err
		}
		if id = ""; !after.LogIsRead() || def.LogIsRead() {
			*def = *after
			def.Recording, def.RecordingID = false, "" // a crash may have left it
			return nil
		}
		if def.RecordingID == "" {
			def.Recording, def.RecordingID = true, made
		}
		id = def.RecordingID
		return nil
	})
	return desc, id, err
}

// errNotRecording is returned by endRecording when the recording has ended.
var errNotRecording = errors.New("the recording has ended")

// endRecording makes a change that begins the change log, and ends the recording,
// also if the change returns an error.
func (d *DB) endRecording(ctx context.Context, name, id string, change func(*schema.Table) error) (Description, error) {
	var failed error
	desc, err := d.alter(ctx, name, func(def *schema.Table) error {
		// If the log is read, another request that shared the recording has begun it.
		if def.RecordingID != id && !def.LogIsRead() {
			return errNotRecording
		}
		after := def.Clone()
		if failed = change(after); failed == nil {
			*def = *after
		}
		def.Recording, def.RecordingID = false, ""
		return nil
	})
	return desc, cmp.Or(err, failed)
}

// DeleteTable deletes a table. Its items are removed in the background.
func (d *DB) DeleteTable(ctx context.Context, name string) (Description, error) {
	desc, err := d.alter(ctx, name, func(def *schema.Table) error {
		switch status := d.status(def); status {
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
		if def.PolicyIsPending(d.Now()) {
			return apierror.InUse("Attempt to change a resource which is still in use: Table: %s has a pending resource-based policy update.", name)
		}
		def.State, def.SettledAt = schema.Deleting, d.Now().Add(d.lifeDelay)
		def.DisableStream(d.Now())
		return nil
	})
	if err != nil {
		return Description{}, err
	}
	if d.lifeDelay == 0 {
		err = d.dropDue(ctx)
	}
	d.drop.Signal()
	return desc, err
}

// stillInUse returns the error for a table that is being created or deleted.
func stillInUse(s schema.State, name string) error {
	doing := map[schema.State]string{schema.Creating: "created", schema.Deleting: "deleted"}
	return apierror.InUse("Attempt to change a resource which is still in use: Table is being %s: %s", doing[s], name)
}

// dropDue removes the tables that are due from the catalog, and marks them as
// dropped, so that removeItems removes their items.
func (d *DB) dropDue(ctx context.Context) error {
	for _, t := range d.all() {
		if !d.drops(t) {
			continue
		}
		key := keyspace.Catalog(t.Name)
		err := d.update(store.Freeing(ctx), [][]byte{key}, func(tx store.Tx) error {
			value, ok := tx.Get(key)
			if !ok {
				return nil // another process has dropped it
			}
			def, err := codec.DecodeTable(value)
			if err != nil {
				return fmt.Errorf("table %s: %w", t.Name, err)
			}
			if def.ID != t.ID {
				return nil
			}
			tx.Delete(key)
			tx.Set(keyspace.Dropped(t.ID), []byte{codec.FormatDropped})
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
