package migrate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stator-db/stator/internal/model/apply"
)

// ErrBusy is returned when another process runs the migration.
var ErrBusy = errors.New("another process runs this migration")

// errLost is the cause of the end of a process whose lease has ended.
var errLost = errors.New("the lease of this process has ended; another process may run the migration now")

// acquire makes this process the owner if there is none. It returns ErrBusy if
// another process has a lease, which may have ended.
func (s *stateStore) acquire(ctx context.Context) error {
	return s.own(ctx, "attribute_exists(id) AND (attribute_not_exists(#o) OR #o = :me OR #u = :zero)", map[string]any{":zero": stringMap{"N": "0"}})
}

// takeOver makes this process the owner, unless the owner has renewed its lease.
func (s *stateStore) takeOver(ctx context.Context, st *State) error {
	return s.own(ctx, "#o = :was AND #u = :seen", map[string]any{":was": text(st.Owner), ":seen": millis(st.Until)})
}

// renew renews the lease of this process.
func (s *stateStore) renew(ctx context.Context) error {
	return s.own(ctx, "#o = :me", map[string]any{})
}

func (s *stateStore) own(ctx context.Context, condition string, values map[string]any) error {
	values[":me"], values[":until"] = text(s.owner), millis(s.now().Add(s.lease))
	values[":lease"] = stringMap{"N": strconv.FormatInt(s.lease.Milliseconds(), 10)}
	err := s.update(ctx, "SET #o = :me, #u = :until, #l = :lease", condition, values, stringMap{"#o": "owner", "#u": "until", "#l": "lease"})
	if isFault(err, "ConditionalCheckFailedException") {
		return ErrBusy
	}
	return err
}

// release gives the lease back.
func (s *stateStore) release(ctx context.Context) error {
	err := s.update(ctx, "SET #u = :zero", "#o = :me", map[string]any{":me": text(s.owner), ":zero": stringMap{"N": "0"}}, stringMap{"#o": "owner", "#u": "until"})
	if isFault(err, "ConditionalCheckFailedException") {
		return nil
	}
	return err
}

// leaseWatch finds out whether the owner of a migration renews its lease. It does
// not compare the clocks of two machines: a lease has ended if it did not change
// for its whole length, measured by this process.
type leaseWatch struct {
	owner   string
	until   time.Time
	since   time.Time
	renewed bool
}

// ended reports whether a lease has ended, or was given back.
func (w *leaseWatch) ended(st *State) bool {
	if st.Owner == "" || st.Until.UnixMilli() == 0 {
		return true
	}
	if w.owner != st.Owner || !w.until.Equal(st.Until) {
		*w = leaseWatch{owner: st.Owner, until: st.Until, since: time.Now(), renewed: w.owner != ""}
		return false
	}
	return time.Since(w.since) >= st.Lease
}

// ownership describes how this process became the owner of a migration.
type ownership struct {
	since   time.Time // just before it did
	request string    // the ID of the request that was stored before
}

// own makes this process the owner. While another process is the owner, own
// waits until that process has executed the request, or does not renew its
// lease. If there is no goal to wait for, it returns ErrBusy when the other
// process is alive.
func (m *Migrator) own(ctx context.Context, q Request) (owned ownership, done bool, err error) {
	var w leaseWatch
	for {
		st, err := m.store.load(ctx)
		if err != nil {
			return owned, false, err
		}
		if st == nil {
			return owned, false, errors.New("the state of the migration was deleted")
		}
		if owned = (ownership{since: time.Now(), request: st.Request.ID}); st.Owner == m.options.Owner || w.ended(st) {
			if st.Owner == "" || st.Owner == m.options.Owner || st.Until.UnixMilli() == 0 {
				err = m.store.acquire(ctx)
			} else {
				err = m.store.takeOver(ctx, st)
			}
			if !errors.Is(err, ErrBusy) {
				return owned, false, err
			}
			continue
		}
		if done, err := q.outcome(st); done {
			return owned, true, err
		}
		if q.Goal == "" && w.renewed {
			return owned, false, ErrBusy
		}
		if err := apply.Sleep(ctx, m.options.Poll); err != nil {
			return owned, false, err
		}
	}
}

// renew renews the lease until the context ends. It returns errLost when a
// quarter of the lease is left, whether or not a request has a reply: another
// process may begin after the whole lease.
func (r *phaseRun) renew(ctx context.Context) error {
	lease, last := r.m.options.Lease, r.owned.since
	for wait := lease / 4; ; {
		if err := apply.Sleep(ctx, wait); err != nil {
			return err
		}
		started := time.Now()
		limited, cancel := context.WithDeadline(ctx, last.Add(lease*3/4))
		err := r.store.renew(limited)
		ended := limited.Err() != nil
		cancel()
		switch {
		case err == nil:
			last, wait = started, lease/4
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrBusy):
			return errLost
		case ended:
			return fmt.Errorf("%w: %w", errLost, err)
		default:
			wait = lease / 16
		}
	}
}
