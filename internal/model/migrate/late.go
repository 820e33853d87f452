package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

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
	gone  *placement // of the item before the change, if it is known
	other item.Item  // when it was last compared
	since time.Time  // when the other item was first seen as it is

	changes int // of the other item
}

// maxSuspects bounds the items that are compared again. Further ones count as
// late at once.
const maxSuspects = 10_000

// open returns the present suspects.
func (l *lateWrites) open() []*lateSuspect {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Collect(maps.Values(l.suspects))
}

// stillOpen returns those of some suspects that are not resolved or replaced.
func (l *lateWrites) stillOpen(all []*lateSuspect) []*lateSuspect {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.DeleteFunc(all, func(s *lateSuspect) bool {
		return l.suspects[sourceID(s.table, s.key)] != s || s.changes >= maxTries
	})
}

// suspect compares the items of records with those of the other side. It stores
// the suspects, since the position of the follower is stored afterwards.
func (r *phaseRun) suspect(ctx context.Context, m *mapping, table string, records []changeRecord) error {
	return parallel(ctx, r.forward.workers, len(records), func(ctx context.Context, i int) error {
		c := records[i]
		s := &lateSuspect{m: m, table: table, key: c.keys, since: time.Now()}
		if image := c.old; !c.inserted {
			if image == nil {
				image = c.keys // the stream has no old images
			}
			s.gone, _ = m.placeKey(table, image)
		}
		equal, err := r.compareLate(ctx, s)
		if err != nil || equal {
			return err
		}
		return r.addSuspect(ctx, s)
	})
}

// compareLate reports whether an item is equal to that of the other side.
func (r *phaseRun) compareLate(ctx context.Context, s *lateSuspect) (equal bool, err error) {
	is, units, err := r.m.c.get(ctx, s.table, s.key)
	r.forward.read.count(units)
	if err != nil {
		return false, err
	}
	p := s.gone
	if is != nil {
		p, err = s.m.placeKey(s.table, is)
		if err != nil {
			return errors.Is(err, errIgnored), nil // otherwise the application wrote an item that is not in the model
		}
	} else if p == nil {
		return true, nil // the record of the delete follows, or the item had no placement
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

// storedSuspect is a suspect in the table of states.
type storedSuspect struct {
	Table     string
	Key       itemJSON
	GoneTable string    `json:",omitempty"`
	GoneKey   *itemJSON `json:",omitempty"`
}

func (s *lateSuspect) part() string {
	return fmt.Sprintf("%s%x", lateKind, sha256.Sum256([]byte(sourceID(s.table, s.key))))
}

// addSuspect stores a suspect.
func (r *phaseRun) addSuspect(ctx context.Context, s *lateSuspect) error {
	stored := storedSuspect{Table: s.table, Key: itemJSON{s.key}}
	if s.gone != nil {
		stored.GoneTable, stored.GoneKey = s.gone.table, &itemJSON{s.gone.key}
	}
	data, err := json.Marshal(stored)
	if err != nil {
		return err
	}
	r.late.mutex.Lock()
	defer r.late.mutex.Unlock()
	if len(r.late.suspects) >= maxSuspects {
		r.addLate(s)
		return r.save(ctx)
	}
	if err := r.store.setPosition(ctx, s.part(), string(data)); err != nil {
		return err
	}
	r.late.suspects[sourceID(s.table, s.key)] = s
	return nil
}

// resolve removes a suspect, unless another change has replaced it.
func (r *phaseRun) resolve(ctx context.Context, s *lateSuspect) error {
	r.late.mutex.Lock()
	defer r.late.mutex.Unlock()
	id := sourceID(s.table, s.key)
	if r.late.suspects[id] != s {
		return nil
	}
	if err := r.store.removePosition(ctx, s.part()); err != nil {
		return err
	}
	delete(r.late.suspects, id)
	return nil
}

// loadSuspects reads the suspects that an earlier process stored.
func (r *phaseRun) loadSuspects(ctx context.Context, m *mapping) error {
	r.late.mutex.Lock()
	defer r.late.mutex.Unlock()
	if r.late.suspects != nil {
		return nil
	}
	all, err := r.store.positions(ctx, lateKind)
	if err != nil {
		return err
	}
	r.late.suspects = make(map[string]*lateSuspect)
	for _, data := range all {
		var stored storedSuspect
		if err := json.Unmarshal([]byte(data), &stored); err != nil {
			return fmt.Errorf("decode a late write: %w", err)
		}
		s := &lateSuspect{m: m, table: stored.Table, key: stored.Key.Item, since: time.Now()}
		if stored.GoneKey != nil {
			s.gone = &placement{table: stored.GoneTable, key: stored.GoneKey.Item}
		}
		r.late.suspects[sourceID(s.table, s.key)] = s
	}
	return nil
}

// forgetSuspects removes all suspects, before a switch or a rollback.
func (r *phaseRun) forgetSuspects(ctx context.Context) error {
	r.late.mutex.Lock()
	defer r.late.mutex.Unlock()
	clear(r.late.suspects)
	return r.store.clear(ctx, lateKind)
}

// findLate compares suspects again, after the streams were read to their ends,
// and stores those that are late writes.
func (r *phaseRun) findLate(ctx context.Context, all []*lateSuspect) error {
	for _, s := range all {
		before := s.other
		equal, err := r.compareLate(ctx, s)
		if err != nil {
			return err
		}
		if !equal && !before.Equal(s.other) {
			s.since = time.Now()
			s.changes++
		}
		if !equal && time.Since(s.since) < r.m.options.Delay {
			continue // the record of a change of the other item may follow
		}
		if !equal {
			r.addLate(s)
			if err := r.save(ctx); err != nil {
				return err
			}
		}
		if err := r.resolve(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// settleLate decides which of the present suspects are late writes. A suspect
// whose other item changes each time is none: that item replaces it.
func (r *phaseRun) settleLate(ctx context.Context) error {
	all := r.late.open()
	for len(all) > 0 {
		if err := r.followers.waitRounds(ctx); err != nil {
			return err
		}
		if err := r.findLate(ctx, all); err != nil {
			return err
		}
		all = r.late.stillOpen(all)
	}
	return nil
}

// maxLateKeys is how many keys of late writes a state has.
const maxLateKeys = 10

// addLate counts a late write, once if a process was killed in between.
func (r *phaseRun) addLate(s *lateSuspect) {
	key := shorten(fmt.Sprintf("%s of table %s", keyText(s.key), s.table))
	r.set(func(st *State) {
		if slices.Contains(st.LateKeys, key) {
			return
		}
		st.Late++
		if len(st.LateKeys) < maxLateKeys {
			st.LateKeys = append(st.LateKeys, key)
		}
	})
}
