package verify

import (
	"bytes"
	"encoding/binary"

	"github.com/stator-db/stator/internal/data/index"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

// decode decodes an item that may be damaged anywhere.
func decode(value []byte) (item.Item, error) {
	it, err := codec.DecodeItem(value)
	if it != nil && err == nil {
		err = item.Check(it)
	}
	return it, err
}

// checkItemKey checks an item or an index entry.
func (p *part) checkItemKey(t tableState, key, value []byte) error {
	id := keyspace.IndexOf(key)
	x := t.index(id)
	if id != 0 && x == nil {
		p.fault(KindUnknown, t.Name, key, "the entry at %x belongs to index %d, which does not exist", key, id)
		return nil
	}
	if x != nil && x.State == schema.Deleting {
		return nil // its entries are being removed
	}
	it, err := decode(value)
	if err != nil {
		p.fault(KindItem, t.Name, key, "the value at %x is not an item: %v", key, err)
		return nil
	}
	p.size = int64(it.Size())
	if x != nil {
		return p.checkEntry(t.Table, x, key, it)
	}
	return p.checkItem(t.Table, key, it)
}

// checkItem checks that an item is stored at its key, and that it has its entry
// in each index, its expiry entry and the size of its collection.
func (p *part) checkItem(t *schema.Table, key []byte, it item.Item) error {
	if !t.Key.In(it) {
		p.fault(KindItem, t.Name, key, "the item at %x lacks the key attributes of its table", key)
		return nil
	}
	if at := keyspace.Item(nil, t, it); !bytes.Equal(at, key) {
		p.fault(KindItem, t.Name, key, "an item is stored at %x, but belongs at %x", key, at)
	}
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if x.State != "" {
			continue // it is being built or deleted, and not complete
		}
		if want, ok := index.Entry(t, x, it); ok {
			if p.addsUp(x) {
				p.w.sums.add(p.w.seed, t, x, want.Key, want.After)
				continue
			}
			if err := p.expectEntry(t, x, key, it, want); err != nil {
				return err
			}
		}
	}
	if err := p.expectExpiry(t, key, it); err != nil {
		return err
	}
	if t.HasLocal() {
		return p.expectCollection(t, key, it)
	}
	return nil
}

// expectEntry checks that an item has an index entry.
func (p *part) expectEntry(t *schema.Table, x *schema.Index, key []byte, it item.Item, want index.Edit) error {
	stored, ok, err := p.get(want.Key)
	if !ok || err != nil {
		return err
	}
	switch entry, err := codec.DecodeItem(stored); {
	case err != nil || entry == nil:
		p.fault(KindIndex, t.Name, key, "the item %s has no entry in index %s", item.Map(t.Key.Of(it)), x.Name)
	case !entry.Equal(want.After):
		p.fault(KindIndex, t.Name, key, "the entry of item %s in index %s differs from the item", item.Map(t.Key.Of(it)), x.Name)
	}
	return nil
}

// checkEntry checks that the item of an index entry exists and has that entry.
func (p *part) checkEntry(t *schema.Table, x *schema.Index, key []byte, entry item.Item) error {
	if p.addsUp(x) {
		p.w.sums.subtract(p.w.seed, t, x, key, entry)
		return nil
	}
	if !t.Key.In(entry) {
		p.fault(KindIndex, t.Name, key, "an entry of index %s lacks the key attributes of an item", x.Name)
		return nil
	}
	stored, ok, err := p.get(keyspace.Item(nil, t, entry))
	if !ok || err != nil {
		return err
	}
	it, err := decode(stored)
	if err != nil || it == nil {
		p.fault(KindIndex, t.Name, key, "an entry of index %s stands for the item %s, which does not exist", x.Name, item.Map(t.Key.Of(entry)))
		return nil
	}
	if want, ok := index.Entry(t, x, it); !ok || !bytes.Equal(want.Key, key) {
		p.fault(KindIndex, t.Name, key, "index %s has an entry of item %s which it should not have", x.Name, item.Map(t.Key.Of(it)))
	}
	return nil
}

// expectExpiry checks that an item that expires has its expiry entry.
func (p *part) expectExpiry(t *schema.Table, key []byte, it item.Item) error {
	at, expires := t.Expiry(it)
	if !expires || t.TimeToLive.Filling {
		return nil
	}
	entry, ok, err := p.get(keyspace.Expiry(t.ID, at, key))
	if ok && entry == nil && err == nil {
		p.fault(KindExpiry, t.Name, key, "the item %s expires at %d, but has no expiry entry", item.Map(t.Key.Of(it)), at)
	}
	return err
}

// checkExpiry checks that the item of an expiry entry exists and expires at that
// second.
func (p *part) checkExpiry(t *schema.Table, key, value []byte) error {
	if t.TimeToLive.Filling {
		return nil // older entries are being removed, and new ones added
	}
	if len(value) != 1 || value[0] != codec.FormatExpiry {
		p.fault(KindExpiry, t.Name, key, "the expiry entry at %x has an unknown format", key)
		return nil
	}
	at, own := keyspace.ExpiryOf(key)
	stored, ok, err := p.get(own)
	if !ok || err != nil {
		return err
	}
	it, err := decode(stored)
	if err != nil || it == nil {
		p.fault(KindExpiry, t.Name, key, "the expiry entry at %x is of an item that does not exist", key)
		return nil
	}
	if is, expires := t.Expiry(it); !expires || is != at {
		p.fault(KindExpiry, t.Name, key, "the item %s has an expiry entry for %d which it should not have", item.Map(t.Key.Of(it)), at)
	}
	return nil
}

// expectCollection checks that the size of an item's collection is recorded. The
// items of a collection follow each other, so that one lookup is enough.
func (p *part) expectCollection(t *schema.Table, key []byte, it item.Item) error {
	at := keyspace.Collection(t, it)
	if bytes.Equal(at, p.collection) {
		return nil
	}
	p.collection = at
	size, ok, err := p.get(at)
	if ok && size == nil && err == nil {
		p.fault(KindCollection, t.Name, key, "the collection at %x has items, but is not recorded", at)
	}
	return err
}

// checkCollection compares the recorded size of a collection with the size of
// its items and of their entries in local indexes.
func (p *part) checkCollection(t *schema.Table, key, value []byte) error {
	recorded := int64(-1)
	if len(value) == 8 {
		recorded = int64(binary.BigEndian.Uint64(value))
	}
	computed, err := p.sizeOf(keyspace.CollectionItems(key, 0))
	for i := 0; err == nil && i < len(t.Indexes); i++ {
		if x := &t.Indexes[i]; !x.Global && t.HasLocal() {
			var entries int64
			entries, err = p.sizeOf(keyspace.CollectionItems(key, x.ID))
			computed += entries
		}
	}
	if err == nil && recorded != computed {
		p.fault(KindCollection, t.Name, key, "the collection at %x is recorded with %d bytes, but has %d", key, recorded, computed)
	}
	return err
}

// sizeOf sums up the sizes of the items in a range.
func (p *part) sizeOf(start, end []byte) (sum int64, err error) {
	for pair, err := range p.snap.Scan(p.ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return 0, err
		}
		p.keys++
		if it, err := decode(pair.Value); err == nil {
			sum += int64(it.Size())
		}
	}
	return sum, nil
}
