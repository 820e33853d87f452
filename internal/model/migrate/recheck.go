package migrate

import (
	"context"
	"errors"

	"github.com/stator-db/stator/internal/data/item"
)

// read reads an item within the limit of the verification.
func (v *verifier) read(ctx context.Context, table string, key item.Item) (item.Item, error) {
	it, units, err := v.m.c.get(ctx, table, key)
	if err != nil {
		return nil, err
	}
	return it, v.forward.read.pay(ctx, units)
}

// compareSource compares a source item with its placement.
func (v *verifier) compareSource(ctx context.Context, table string, key item.Item) (readPair, error) {
	source, err := v.read(ctx, table, key)
	if err != nil || source == nil {
		return readPair{source: source, equal: true}, err
	}
	p, err := v.m.plan.forward.place(table, source)
	if err != nil {
		return readPair{}, err
	}
	is, err := v.read(ctx, p.table, p.key)
	if err != nil {
		return readPair{}, err
	}
	text := "is different"
	if is == nil {
		text = "is missing"
	}
	return readPair{source, is.Equal(p.item), "the new item " + keyText(p.key) + " of table " + p.table + " " + text}, nil
}

// checkOld compares a source item with its placement until the result is clear.
func (v *verifier) checkOld(ctx context.Context, table string, key item.Item) error {
	return v.check(ctx, &itemComparison{
		compare: func(ctx context.Context) (readPair, error) { return v.compareSource(ctx, table, key) },
		differs: func(ctx context.Context, last readPair) error {
			return v.difference(ctx, table, key, nil, "%s of table %s: %s", keyText(key), table, last.text)
		},
	})
}

// checkNew checks that a new item belongs to a source item.
func (v *verifier) checkNew(ctx context.Context, table string, it item.Item) error {
	back := v.m.plan.forward.back
	newKey := back.sources[table].Schema().Key.Of(it)
	source, err := back.placeKey(table, it)
	if err != nil {
		return v.difference(ctx, "", nil, nil, "%s of table %s comes from no source item: %v", keyText(newKey), table, err)
	}
	return v.check(ctx, &itemComparison{
		compare: func(ctx context.Context) (readPair, error) { return v.compareExtra(ctx, table, newKey) },
		differs: func(ctx context.Context, _ readPair) error {
			if v.repair {
				v.repaired(table, newKey)
				return v.forward.removeExtra(ctx, source, table, newKey)
			}
			return v.difference(ctx, "", nil, nil, "%s of table %s has no source item: %s of table %s", keyText(newKey), table, keyText(source.key), source.table)
		},
	})
}

// compareExtra reports whether a new item is absent, or is the placement of its
// source item.
func (v *verifier) compareExtra(ctx context.Context, table string, newKey item.Item) (readPair, error) {
	is, err := v.read(ctx, table, newKey)
	if err != nil || is == nil {
		return readPair{equal: true}, err
	}
	from, err := v.m.plan.forward.back.placeKey(table, is)
	if err != nil {
		return readPair{equal: errors.Is(err, errIgnored)}, nil
	}
	source, err := v.read(ctx, from.table, from.key)
	if err != nil || source == nil {
		return readPair{}, err
	}
	p, err := v.m.plan.forward.placeKey(from.table, source)
	return readPair{source: source, equal: err == nil && p.table == table && p.key.Equal(newKey)}, err
}

// removeExtra removes a new item, unless its source item has that key again.
func (k *copier) removeExtra(ctx context.Context, source *placement, table string, newKey item.Item) error {
	defer k.lock(sourceID(source.table, source.key))()
	current, _, err := k.c.get(ctx, source.table, source.key)
	if err != nil {
		return err
	}
	if current != nil {
		p, err := k.m.placeKey(source.table, current)
		if err != nil || p.table == table && p.key.Equal(newKey) {
			return err
		}
	}
	gone := &placement{table: table, key: newKey}
	is, from, err := k.occupant(ctx, gone)
	if err != nil || is == nil || from.table != source.table || !from.key.Equal(source.key) {
		return err
	}
	if from.entity != "" {
		gone.owner = k.m.named(from.table, from.entity).ownedAs(is)
	}
	return k.remove(ctx, source.table, source.key, gone)
}

// checkRewritten checks that an item of a table that keeps its key has the index
// keys of the new model.
func (v *verifier) checkRewritten(ctx context.Context, table string, it item.Item) error {
	plan := v.m.plan
	key := plan.forward.sources[table].Schema().Key.Of(it)
	first := it
	return v.check(ctx, &itemComparison{
		compare: func(ctx context.Context) (readPair, error) {
			it := first
			if it == nil {
				var err error
				if it, err = v.read(ctx, table, key); err != nil || it == nil {
					return readPair{equal: true}, err
				}
			}
			first = nil
			update, err := plan.indexKeys(table, it)
			return readPair{source: it, equal: err == nil && update == nil}, err
		},
		differs: func(ctx context.Context, last readPair) error {
			if v.repair {
				v.repaired(table, key)
				units, err := v.rewrite(ctx, table, last.source)
				return errors.Join(err, v.forward.write.pay(ctx, units))
			}
			return v.difference(ctx, "", nil, nil, "%s of table %s lacks an index key of the new model", keyText(key), table)
		},
	})
}

// dualReads reads a sample of the items on both sides, as readers would.
func (v *verifier) dualReads(ctx context.Context) error {
	return parallel(ctx, v.m.options.Workers, len(v.samples), func(ctx context.Context, i int) error {
		first, err := v.compareSource(ctx, v.tables[i], v.samples[i])
		if err != nil {
			return err
		}
		v.count(&v.result.DualReads)
		if first.equal {
			return nil
		}
		v.count(&v.result.DualDiffers)
		return v.checkOld(ctx, v.tables[i], v.samples[i])
	})
}
