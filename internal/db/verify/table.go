package verify

import (
	"errors"
	"slices"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

// tableState is a table as a snapshot shows it.
type tableState struct {
	*schema.Table // nil if there is no such table

	// inFlux is set while a restore or an import fills the table, and while the
	// items of a dropped one are removed: parts of it may be missing.
	inFlux bool

	// dropped is set for a table of which only the changes are kept.
	dropped bool
}

// index returns the index of an id, or nil.
func (s tableState) index(id uint16) *schema.Index {
	i := slices.IndexFunc(s.Indexes, func(x schema.Index) bool { return x.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Indexes[i]
}

// table returns the state of the table of an id, in the snapshot of the part.
func (p *part) table(id uint32) (tableState, error) {
	if s, ok := p.tables[id]; ok {
		return s, nil
	}
	s, err := p.readTable(id)
	if err == nil {
		p.tables[id] = s
	}
	return s, err
}

func (p *part) readTable(id uint32) (tableState, error) {
	if name, ok := p.w.names[id]; ok {
		if t, err := p.described(keyspace.Catalog(name)); err != nil || t != nil && t.ID == id {
			return tableState{Table: t, inFlux: t != nil && t.Restored.Running}, err
		}
	}
	// It was created, or dropped, since the walk has read the catalog.
	if err := p.listTables(); err != nil {
		return tableState{}, err
	}
	if s, ok := p.tables[id]; ok {
		return s, nil
	}
	marker, err := p.snap.Get(p.ctx, keyspace.Dropped(id))
	if err != nil {
		return tableState{}, err
	}
	t, err := p.described(keyspace.DroppedStreams(id))
	return tableState{Table: t, inFlux: marker[0] != nil, dropped: true}, err
}

// described returns the description at a key, or nil if there is none that can
// be decoded.
func (p *part) described(key []byte) (*schema.Table, error) {
	values, err := p.snap.Get(p.ctx, key)
	if errors.Is(err, store.ErrCorrupt) || err == nil && values[0] == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t, err := codec.DecodeTable(values[0])
	if err != nil {
		return nil, nil
	}
	return t, nil
}

// listTables reads the whole catalog, once for each part.
func (p *part) listTables() error {
	if p.listed {
		return nil
	}
	p.listed = true
	start, end := keyspace.CatalogSpan()
	for pair, err := range p.snap.Scan(p.ctx, store.Range{Start: start, End: end}) {
		if errors.Is(err, store.ErrCorrupt) {
			return nil // reported where the walk reads the catalog
		}
		if err != nil {
			return err
		}
		if t, err := codec.DecodeTable(pair.Value); err == nil {
			p.w.names[t.ID] = t.Name
			p.tables[t.ID] = tableState{Table: t, inFlux: t.Restored.Running}
		}
	}
	return nil
}

// checkTable checks the description of a table in the catalog.
func (p *part) checkTable(key, value []byte) error {
	t, err := codec.DecodeTable(value)
	if err != nil {
		p.fault(KindCatalog, "", key, "table %q: %v", key[1:], err)
		return nil
	}
	switch other, known := p.w.names[t.ID]; {
	case t.Name != string(key[1:]):
		p.fault(KindCatalog, t.Name, key, "the description of table %q is stored under the name %q", t.Name, key[1:])
		return nil
	case known && other != t.Name && p.exists(other, t.ID):
		p.fault(KindCatalog, t.Name, key, "tables %q and %q have the same id %d", other, t.Name, t.ID)
		return nil
	}
	p.w.names[t.ID] = t.Name
	p.w.reports.of(t.Name)
	if fault := descriptionFault(t); fault != "" {
		p.fault(KindCatalog, t.Name, key, "the description of table %q %s", t.Name, fault)
	}
	return p.checkLastID(t, key)
}

// exists reports whether the table of a name has an id, in the snapshot.
func (p *part) exists(name string, id uint32) bool {
	t, err := p.described(keyspace.Catalog(name))
	return err == nil && t != nil && t.ID == id
}

// descriptionFault says what is wrong with a description, or is empty.
func descriptionFault(t *schema.Table) string {
	if len(t.Key.Partition) == 0 {
		return "has no partition key"
	}
	ids, names := make(map[uint16]bool), make(map[string]bool)
	for _, x := range t.Indexes {
		if x.ID == 0 || ids[x.ID] || names[x.Name] || len(x.Key.Partition) == 0 {
			return "has two indexes of one id or name, or one without a key: " + x.Name
		}
		ids[x.ID], names[x.Name] = true, true
	}
	return ""
}

// checkLastID checks that no later table gets the id of a table.
func (p *part) checkLastID(t *schema.Table, key []byte) error {
	last, ok, err := p.get(keyspace.Meta(metaLastTable))
	if !ok || err != nil {
		return err
	}
	if len(last) == 4 && number(last) < uint64(t.ID) {
		p.fault(KindCatalog, t.Name, key, "table %q has the id %d, but the last id given is %d", t.Name, t.ID, number(last))
	}
	if last == nil {
		p.fault(KindCatalog, t.Name, key, "the last id given to a table is not recorded")
	}
	return nil
}

// checkDropped checks the description of a dropped table whose streams can be
// read.
func (p *part) checkDropped(id uint32, key, value []byte) {
	t, err := codec.DecodeTable(value)
	switch {
	case err != nil:
		p.fault(KindCatalog, "", key, "dropped table %d: %v", id, err)
	case t.ID != id || len(t.Streams) == 0:
		p.fault(KindCatalog, t.Name, key, "the description of dropped table %d has the id %d and %d streams", id, t.ID, len(t.Streams))
	}
}

// compareCounts compares the saved counts of a table with those of the walk.
func (p *part) compareCounts(t *schema.Table, saved map[uint16]codec.Count) error {
	p.w.compared[t.ID] = true
	actual := p.w.actual[t.ID]
	ids := []uint16{0}
	for _, x := range t.Indexes {
		if x.State == "" {
			ids = append(ids, x.ID)
		}
	}
	for _, id := range ids {
		is, has := saved[id], actual[id]
		if is == has {
			continue
		}
		if p.w.o.Recount == nil && p.w.o.Online {
			continue
		}
		if p.w.o.Recount != nil {
			var err error
			is, has, err = p.w.o.Recount(p.ctx, t.Name, id)
			if errors.Is(err, store.ErrCorrupt) {
				continue // reported where the walk reads it
			}
			if err != nil {
				return err
			}
		}
		if is != has {
			p.note(KindCount, t.Name, keyspace.ItemCount(t.ID), "%s is saved with %d items of %d bytes, but has %d of %d: a crash can leave a count off by the writes of a second",
				countName(t, id), is.Items, is.Bytes, has.Items, has.Bytes)
		}
	}
	return nil
}

func countName(t *schema.Table, id uint16) string {
	if x := (tableState{Table: t}).index(id); x != nil {
		return "the count of index " + x.Name
	}
	return "the item count"
}

// compareMissing compares the counts of tables that have no saved counts.
func (w *Walk) compareMissing(p *part) error {
	for id := range w.names {
		s, err := p.table(id)
		if err != nil {
			return err
		}
		if s.Table == nil || s.dropped || s.inFlux || w.compared[id] {
			continue
		}
		if err := p.compareCounts(s.Table, nil); err != nil {
			return err
		}
	}
	return nil
}
