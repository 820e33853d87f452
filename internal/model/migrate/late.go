package migrate

import (
	"context"
	"fmt"
	"sync"

	"github.com/stator-db/stator/internal/data/item"
)

// lateWrites finds writes of the application to the old tables after a switch.
// The migration itself writes there too, so a change counts only if the two
// sides differ, and still differ after the new tables were followed.
type lateWrites struct {
	mutex    sync.Mutex
	suspects map[string]*lateSuspect
}

// lateSuspect is an old item that differs from the new one.
type lateSuspect struct {
	table string
	key   item.Item
	image item.Item // before the change
	new   item.Item // when it was last compared
}

// maxSuspects bounds the items that are compared again.
const maxSuspects = 10_000

// suspect compares the items of records of an old table with the new ones.
func (r *phaseRun) suspect(ctx context.Context, table string, records []changeRecord) error {
	return parallel(ctx, r.backward.workers, len(records), func(ctx context.Context, i int) error {
		s := &lateSuspect{table: table, key: records[i].keys, image: records[i].old}
		equal, err := r.compareLate(ctx, s)
		if err != nil || equal {
			return err
		}
		r.late.mutex.Lock()
		defer r.late.mutex.Unlock()
		if r.late.suspects == nil {
			r.late.suspects = make(map[string]*lateSuspect)
		}
		if len(r.late.suspects) < maxSuspects {
			r.late.suspects[sourceID(table, s.key)] = s
		}
		return nil
	})
}

// compareLate reports whether an old item is equal to the new one.
func (r *phaseRun) compareLate(ctx context.Context, s *lateSuspect) (equal bool, err error) {
	old, units, err := r.m.c.get(ctx, s.table, s.key)
	r.forward.read.count(units)
	if err != nil {
		return false, err
	}
	image := old
	if old == nil {
		if image = s.image; image == nil {
			image = s.key
		}
	}
	m := r.m.plan.forward
	p, err := m.placeKey(s.table, image)
	if err != nil {
		return false, nil // the application wrote an item that is not in the model
	}
	s.new, units, err = r.m.c.get(ctx, p.table, p.key)
	r.forward.read.count(units)
	switch {
	case err != nil:
		return false, err
	case old == nil && s.new == nil:
		return true, nil
	case old == nil:
		from, err := m.back.placeKey(p.table, s.new)
		return err == nil && !(from.table == s.table && from.key.Equal(s.key)), nil
	}
	want, err := m.place(s.table, old)
	return err == nil && want.item.Equal(s.new), nil
}

// findLate compares the suspects again, after the streams were read to their
// ends, and stores those that are late writes.
func (r *phaseRun) findLate(ctx context.Context) error {
	r.late.mutex.Lock()
	var all []*lateSuspect
	for _, s := range r.late.suspects {
		all = append(all, s)
	}
	r.late.mutex.Unlock()
	found := r.state.Late
	for _, s := range all {
		before := s.new
		equal, err := r.compareLate(ctx, s)
		if err != nil {
			return err
		}
		if !equal && !before.Equal(s.new) {
			continue // the new item has changed: the old one may follow
		}
		r.late.mutex.Lock()
		delete(r.late.suspects, sourceID(s.table, s.key))
		r.late.mutex.Unlock()
		if !equal {
			r.addLate(s)
		}
	}
	if r.state.Late > found {
		return r.save(ctx)
	}
	return nil
}

// maxLateKeys is how many keys of late writes a state has.
const maxLateKeys = 10

func (r *phaseRun) addLate(s *lateSuspect) {
	r.set(func(st *State) {
		st.Late++
		if len(st.LateKeys) < maxLateKeys {
			st.LateKeys = append(st.LateKeys, fmt.Sprintf("%s of table %s", keyText(s.key), s.table))
		}
	})
}
