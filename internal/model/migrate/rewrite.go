package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model"
)

// rewrite sets the index keys of an item of a table that keeps its key, as the
// new model builds them, and returns the units of the write. The item may be out
// of date: the condition fails then, and the item is read again.
func (r *phaseRun) rewrite(ctx context.Context, table string, it item.Item) (units float64, err error) {
	key := r.m.plan.forward.sources[table].Schema().Key.Of(it)
	for range maxTries {
		update, err := r.m.plan.indexKeys(table, it)
		if err != nil || update == nil {
			return 0, err
		}
		body := map[string]any{"TableName": table, "Key": itemJSON{key}, "UpdateExpression": update.update}
		reply, err := r.m.c.write(ctx, "UpdateItem", body, update.cond)
		if err == nil {
			r.counts.copied.Add(1)
			return reply.units, nil
		}
		if !isFault(err, "ConditionalCheckFailedException") {
			return 0, fmt.Errorf("update %s of table %s: %w", keyText(key), table, err)
		}
		if it, units, err = r.m.c.get(ctx, table, key); err != nil || it == nil {
			return 0, err
		}
		r.forward.read.count(units)
	}
	return 0, nil // it has changed after it was read, so its next record leads here again
}

// rewriteChanged sets the index keys of items that the application changed. It
// does not wait for the limits of the backfill. Only the last record of an item
// matters, and its image is enough: a later change has a record of its own, and the
// update has conditions. The records of the migration's own updates cost nothing so.
func (r *phaseRun) rewriteChanged(ctx context.Context, table string, records []changeRecord) error {
	last := make(map[string]changeRecord)
	for _, c := range records {
		last[string(c.keys)] = c
	}
	changed := slices.Collect(maps.Values(last))
	return parallel(ctx, r.forward.workers, len(changed), func(ctx context.Context, i int) error {
		it := changed[i].new
		if it != nil {
			if _, err := r.m.plan.indexKeys(table, it); err != nil {
				it = nil // it may be out of date
			}
		}
		if it == nil {
			is, units, err := r.m.c.get(ctx, table, changed[i].keys)
			r.forward.read.count(units)
			if err != nil || is == nil {
				return err
			}
			it = is
		}
		units, err := r.rewrite(ctx, table, it)
		r.forward.write.count(units)
		return err
	})
}

// indexKeyUpdate is the update that an item needs.
type indexKeyUpdate struct {
	key, item             item.Item
	sets, removes, leaves []string
	update                string
	cond                  expression
}

// indexKeys returns the update of an item's index keys, nil if it needs none. A value
// that is replaced must be one that the template gives: another one is not of the
// migration, nor of an application that uses the new model.
func (p *Plan) indexKeys(table string, it item.Item) (*indexKeyUpdate, error) {
	place, err := p.forward.placeKey(table, it)
	if isUnmatched(err) && p.isNew(table, it) {
		return nil, nil
	}
	if err != nil || place.entity == "" {
		return nil, err
	}
	x := p.forward.named(table, place.entity)
	values, err := x.values(it)
	if err != nil {
		return nil, err
	}
	u := &indexKeyUpdate{key: p.forward.sources[table].Schema().Key.Of(it), item: it}
	for _, f := range x.to.Fields() {
		if !f.Templated() || !f.Stored || x.to.TableOf().Schema().Key.Has(f.Name) {
			continue
		}
		want, err := x.value(f, it, values)
		if err != nil {
			return nil, &UnmatchedError{table, u.key, err.Error()}
		}
		is, _ := it.Get(f.Name)
		_, declared := x.from.Field(f.Name)
		switch {
		case want != nil && (is == nil || !item.Equal(is, want)):
			u.sets = append(u.sets, u.cond.name(f.Name)+" = "+u.cond.value(want))
		case want == nil && is != nil && !declared:
			u.removes = append(u.removes, u.cond.name(f.Name))
		default:
			continue
		}
		if is != nil && !declared && !f.MayBe(is) {
			return nil, &UnmatchedError{table, u.key, attributeLost(f.Name).Error()}
		}
		u.dependOn(x.to, f)
	}
	if len(u.sets)+len(u.removes) == 0 {
		return nil, nil
	}
	u.finish()
	return u, nil
}

// isNew reports whether an item belongs to an entity of the new model only.
func (p *Plan) isNew(table string, it item.Item) bool {
	return slices.ContainsFunc(p.forward.back.ignored[table], func(e *model.Entity) bool {
		_, err := e.Values(it)
		return err == nil
	})
}

// dependOn adds a key and the attributes that it is built from.
func (u *indexKeyUpdate) dependOn(e *model.Entity, f *model.Field) {
	u.leaves = append(u.leaves, f.Name)
	for _, leaf := range e.Leaves(f.Name) {
		u.leaves = append(u.leaves, leaf.Name)
	}
	for _, w := range f.When() {
		u.leaves = append(u.leaves, w.Name)
	}
}

// finish makes the expressions: the item must exist, with the attributes that
// the keys were built from, and without those that it did not have.
func (u *indexKeyUpdate) finish() {
	var conds []string
	for name := range u.key.All() {
		conds = append(conds, "attribute_exists("+u.cond.name(name)+")")
	}
	slices.Sort(u.leaves)
	for _, name := range slices.Compact(u.leaves) {
		if v, ok := u.item.Get(name); ok {
			conds = append(conds, u.cond.name(name)+" = "+u.cond.value(v))
		} else {
			conds = append(conds, "attribute_not_exists("+u.cond.name(name)+")")
		}
	}
	if len(u.sets) > 0 {
		u.update = "SET " + strings.Join(u.sets, ", ")
	}
	if len(u.removes) > 0 {
		u.update += " REMOVE " + strings.Join(u.removes, ", ")
	}
	u.cond.text = strings.Join(conds, " AND ")
}
