package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/stator-db/stator/internal/data/item"
)

// lateWrites finds writes of the application to tables that it does not use: the
// old ones after a switch, the new ones before it and after a rollback. The
// migration itself writes there too, so a change counts only if the two sides
// differ, and still differ after the other tables were followed.
type lateWrites struct {
	mutex    sync.Mutex
	suspects map[string]*lateSuspect
}

// lateSuspect is an item that differs from that of the other side.
type lateSuspect struct {
	m     *mapping // to the other side
	table string
	key   item.Item
	image item.Item // before the change
	other item.Item // when it was last compared
}

// maxSuspects bounds the items that are compared again.
const maxSuspects = 10_000

// open returns the present suspects.
func (l *lateWrites) open() []*lateSuspect {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Collect(maps.Values(l.suspects))
}

func (l *lateWrites) add(s *lateSuspect) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.suspects == nil {
		l.suspects = make(map[string]*lateSuspect)
	}
	if len(l.suspects) < maxSuspects {
		l.suspects[sourceID(s.table, s.key)] = s
	}
}

// remove removes a suspect, unless another change has replaced it.
func (l *lateWrites) remove(s *lateSuspect) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if id := sourceID(s.table, s.key); l.suspects[id] == s {
		delete(l.suspects, id)
	}
}

func (l *lateWrites) clear() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	clear(l.suspects)
}

// suspect compares the items of records with those of the other side.
func (r *phaseRun) suspect(ctx context.Context, m *mapping, table string, records []changeRecord) error {
	return parallel(ctx, r.forward.workers, len(records), func(ctx context.Context, i int) error {
		s := &lateSuspect{m: m, table: table, key: records[i].keys, image: records[i].old}
		equal, err := r.compareLate(ctx, s)
		if err == nil && !equal {
			r.late.add(s)
		}
		return err
	})
}

// compareLate reports whether an item is equal to that of the other side.
func (r *phaseRun) compareLate(ctx context.Context, s *lateSuspect) (equal bool, err error) {
	is, units, err := r.m.c.get(ctx, s.table, s.key)
	r.forward.read.count(units)
	if err != nil {
		return false, err
	}
	image := is
	if is == nil {
		if image = s.image; image == nil {
			image = s.key
		}
	}
	p, err := s.m.placeKey(s.table, image)
	if err != nil {
		return errors.Is(err, errIgnored), nil // otherwise the application wrote an item that is not in the model
	}
	s.other, units, err = r.m.c.get(ctx, p.table, p.key)
	r.forward.read.count(units)
	switch {
	case err != nil:
		return false, err
	case is == nil && s.other == nil:
		return true, nil
	case is == nil:
		from, err := s.m.back.placeKey(p.table, s.other)
		return err == nil && !(from.table == s.table && from.key.Equal(s.key)), nil
	}
	want, err := s.m.place(s.table, is)
	return err == nil && want.item.Equal(s.other), nil
}

// findLate compares suspects again, after the streams were read to their ends,
// and stores those that are late writes.
func (r *phaseRun) findLate(ctx context.Context, all []*lateSuspect) error {
	found := r.state.Late
	for _, s := range all {
		before := s.other
		equal, err := r.compareLate(ctx, s)
		if err != nil {
			return err
		}
		if !equal && !before.Equal(s.other) {
			continue // the other item has changed: this one may follow
		}
		r.late.remove(s)
		if !equal {
			r.addLate(s)
		}
	}
	if r.state.Late > found {
		return r.save(ctx)
	}
	return nil
}

// settleLate waits until there are no suspects. Nothing is written any more.
func (r *phaseRun) settleLate(ctx context.Context) error {
	for all := r.late.open(); len(all) > 0; all = r.late.open() {
		if err := r.followers.waitRounds(ctx); err != nil {
			return err
		}
		if err := r.findLate(ctx, all); err != nil {
			return err
		}
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
