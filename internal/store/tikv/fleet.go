package tikv

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"github.com/stator-db/stator/internal/store"
)

// formatVersion is the number of the format of what we keep in a cluster. A
// process refuses a cluster that a newer one has written to.
const formatVersion = 1

// fleet is the processes that use the same cluster and prefix, of which this is
// one. Each has a record that it writes anew at every beat, and that is its
// lease: who has not renewed it for so long neither reads nor commits.
type fleet struct {
	e *Engine

	mu       sync.Mutex
	id       uint64              // in the order of joining
	until    time.Time           // up to when this process may read
	untilTS  uint64              // up to which timestamp it may begin to commit
	renewed  chan struct{}       // closed and made anew with every renewal
	said     uint64              // the last message there is
	heard    uint64              // the last that was heard here
	leads    bool                // no other is older
	stale    bool                // it was given up, and has not heard what it missed
	seen     map[uint64]sighting // the others' records
	hear     func(context.Context, []byte) error
	hearing  chan struct{} // closed when hear is set
	wakeBeat chan struct{}
	wakeHear chan struct{}
}

// record is what each process tells the others.
type record struct {
	Host    string `json:"host"`
	Format  int    `json:"format"`
	Renewed uint64 `json:"renewed"` // timestamp of the last beat
	Lease   int64  `json:"lease"`   // in milliseconds
	Floor   uint64 `json:"floor"`   // no Update with a smaller timestamp can still commit
	View    uint64 `json:"view"`    // the oldest timestamp that is still read
	Heard   uint64 `json:"heard"`   // the last message heard
}

// sighting is a record and since when it is as it is, by our own clock: clocks
// of others are not compared.
type sighting struct {
	record
	since time.Time
}

var (
	errLapsed = errors.New("the lease of this process is over")
	errGone   = errors.New("the record of this process is gone")
)

// The fleet's records in the cluster.
const (
	nameFormat  = "format"
	nameLast    = "last member"
	nameMembers = "member/"
	nameSaid    = "said"
	nameMessage = "message/"
)

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func (e *Engine) memberKey(id uint64) []byte { return append(e.own(nameMembers), number(id)...) }

func (e *Engine) messageKey(n uint64) []byte { return append(e.own(nameMessage), number(n)...) }

// join makes this process one of the fleet.
func join(ctx context.Context, e *Engine) (*fleet, error) {
	f := &fleet{
		e: e, renewed: make(chan struct{}), seen: make(map[uint64]sighting),
		hearing: make(chan struct{}), wakeBeat: make(chan struct{}, 1), wakeHear: make(chan struct{}, 1),
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	start, err := f.enter(ctx)
	if err != nil {
		return nil, err
	}
	f.renew(began, start)
	return f, nil
}

// enter writes the first record of this process, under a new id, and tells its
// timestamp.
func (f *fleet) enter(ctx context.Context) (start uint64, err error) {
	var id, said uint64
	err = f.e.transact(ctx, func(txn *transaction.KVTxn) error {
		start = txn.StartTS()
		values, err := f.e.readOwn(ctx, start, nameFormat, nameLast, nameSaid)
		if err != nil {
			return err
		}
		if err := checkFormat(values[0], f.e.o.Prefix); err != nil {
			return err
		}
		id, said = decodeNumber(values[1])+1, decodeNumber(values[2])
		if values[0] == nil {
			if err := txn.Set(f.e.own(nameFormat), number(formatVersion)); err != nil {
				return err
			}
		}
		if err := txn.Set(f.e.own(nameLast), number(id)); err != nil {
			return err
		}
		return txn.Set(f.e.memberKey(id), f.record(start, said).encode())
	})
	if err != nil {
		return 0, fmt.Errorf("join the servers of this cluster: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id, f.said, f.heard = id, said, said
	return start, nil
}

// FormatError is the error of a cluster that a newer version writes to.
type FormatError struct {
	Prefix      string
	Found, Know uint64
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("the data under the prefix %s has format %d, and this version knows formats up to %d", e.Prefix, e.Found, e.Know)
}

func checkFormat(stored []byte, prefix string) error {
	if found := decodeNumber(stored); found > formatVersion {
		return &FormatError{prefix, found, formatVersion}
	}
	return nil
}

func decodeNumber(stored []byte) uint64 {
	if len(stored) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(stored)
}

func (e *Engine) readOwn(ctx context.Context, ts uint64, names ...string) ([][]byte, error) {
	keys := make([][]byte, len(names))
	for i, name := range names {
		keys[i] = append([]byte{store.Reserved}, name...)
	}
	return e.readAt(ctx, ts, keys)
}

// transact runs a transaction on the engine's own records, again and again
// while others are in its way.
func (e *Engine) transact(ctx context.Context, fn func(*transaction.KVTxn) error) error {
	for i := range attempts {
		start, err := e.now(ctx)
		if err != nil {
			return err
		}
		txn, err := e.begin(start)
		if err != nil {
			return err
		}
		if err := fn(txn); err != nil {
			return err
		}
		if txn.Len() == 0 {
			return nil
		}
		err = e.commit(ctx, txn)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		if err := pause(ctx, time.Millisecond<<min(i, 6)); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d attempts met others: %w", attempts, store.ErrUnavailable)
}

// record is what this process tells at a timestamp.
func (f *fleet) record(now, heard uint64) record {
	host, _ := os.Hostname()
	return record{
		Host:    fmt.Sprintf("%s/%d", host, os.Getpid()),
		Format:  formatVersion,
		Renewed: now,
		Lease:   f.e.o.Lease.Milliseconds(),
		Floor:   f.e.flights.floor(now),
		View:    f.e.views.oldest(now),
		Heard:   heard,
	}
}

func (r record) encode() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("a record of the fleet cannot be written as JSON: %v", err))
	}
	return b
}

// beat renews the record of this process until the context ends.
func (f *fleet) beat(ctx context.Context) {
	tick := time.NewTicker(f.e.o.Beat)
	defer tick.Stop()
	served := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-f.wakeBeat:
		}
		err := f.once(ctx)
		if errors.Is(err, errGone) {
			err = f.again(ctx)
		}
		if err == nil && f.isStale() {
			err = f.catchUp(ctx)
		}
		switch valid := f.valid(ctx); {
		case ctx.Err() != nil:
		case served && !valid:
			f.e.log.Error("the cluster cannot be reached, or is too slow: nothing is served until it can", "error", err)
			served = false
		case !served && valid:
			f.e.log.Info("the cluster can be reached again")
			served = true
		}
	}
}

// once is one beat.
func (f *fleet) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.e.o.Lease)
	defer cancel()
	f.mu.Lock()
	id, heard := f.id, f.heard
	f.mu.Unlock()
	began := time.Now()
	var start uint64
	var members map[uint64]record
	var said []byte
	key := f.e.memberKey(id)
	err := f.e.transact(ctx, func(txn *transaction.KVTxn) (err error) {
		start = txn.StartTS()
		if members, err = f.e.members(ctx, start); err != nil {
			return err
		}
		values, err := f.e.readOwn(ctx, start, nameSaid)
		if err != nil {
			return err
		}
		said = values[0]
		if _, there := members[id]; !there {
			return errGone
		}
		return txn.Set(key, f.record(start, heard).encode())
	})
	if err != nil {
		return err
	}
	f.note(began, start, decodeNumber(said), members)
	return f.bury(ctx, start)
}

// members are the records of the fleet at a timestamp.
func (e *Engine) members(ctx context.Context, ts uint64) (map[uint64]record, error) {
	start := e.own(nameMembers)
	found := make(map[uint64]record)
	at, err := e.at(ts).Iter(start, append(e.own(nameMembers), 0xff, 0xff))
	if err != nil {
		return nil, failure("read the records of the servers", err)
	}
	defer at.Close()
	for at.Valid() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var r record
		if err := json.Unmarshal(at.Value(), &r); err != nil || len(at.Key()) != len(start)+8 {
			return nil, fmt.Errorf("the record of a server: %w: %w", store.ErrCorrupt, err)
		}
		found[binary.BigEndian.Uint64(at.Key()[len(start):])] = r
		if err := at.Next(); err != nil {
			return nil, failure("read the records of the servers", err)
		}
	}
	return found, nil
}

// note keeps what a beat has shown.
func (f *fleet) note(began time.Time, start, said uint64, members map[uint64]record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.stale {
		f.renew(began, start)
	}
	f.leads = !f.stale
	for id, r := range members {
		if id < f.id {
			f.leads = false
		}
		if was, ok := f.seen[id]; !ok || was.Renewed != r.Renewed {
			f.seen[id] = sighting{r, began}
		}
	}
	for id := range f.seen {
		if _, there := members[id]; !there {
			delete(f.seen, id)
		}
	}
	delete(f.seen, f.id)
	if said > f.said {
		f.said = said
		wake(f.wakeHear)
	}
}

// renew extends the lease. f.mu is held.
func (f *fleet) renew(began time.Time, start uint64) {
	f.until = began.Add(f.e.o.Lease)
	f.untilTS = start + oracle.ComposeTS(f.e.o.Lease.Milliseconds(), 0)
	close(f.renewed)
	f.renewed = make(chan struct{})
}

// bury removes the records of processes that are certainly gone: their lease
// is over, and so is the time in which they could commit what they began in it.
func (f *fleet) bury(ctx context.Context, now uint64) error {
	var dead []uint64
	f.mu.Lock()
	for id, s := range f.seen {
		grave := time.Duration(s.Lease)*time.Millisecond + outcomeWindow
		if time.Since(s.since) > grave && now > s.Renewed+oracle.ComposeTS(grave.Milliseconds(), 0) {
			dead = append(dead, id)
		}
	}
	f.mu.Unlock()
	for _, id := range dead {
		var host string
		err := f.e.transact(ctx, func(txn *transaction.KVTxn) error {
			members, err := f.e.members(ctx, txn.StartTS())
			if err != nil {
				return err
			}
			f.mu.Lock()
			last := f.seen[id].Renewed
			f.mu.Unlock()
			if r, there := members[id]; there && r.Renewed == last {
				host = r.Host
				return txn.Delete(f.e.memberKey(id))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if host != "" {
			f.e.log.Warn("a server of the cluster is gone", "server", host)
		}
	}
	return nil
}

// again joins anew after others have given this process up.
func (f *fleet) again(ctx context.Context) error {
	f.e.log.Warn("this server was given up by the others, and joins them again")
	f.mu.Lock()
	f.until, f.untilTS, f.leads, f.stale = time.Time{}, 0, false, true
	f.mu.Unlock()
	_, err := f.enter(ctx)
	return err
}

func (f *fleet) isStale() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stale
}

// catchUp has this process hear that it may have missed anything. The next beat
// lets it serve again.
func (f *fleet) catchUp(ctx context.Context) error {
	f.mu.Lock()
	hear := f.hear
	f.mu.Unlock()
	if hear != nil { // else nobody here knows anything yet
		if err := hear(context.WithValue(ctx, rejoining{}, true), nil); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = false
	wake(f.wakeBeat)
	return nil
}

// rejoining marks the context of who reads in order to serve again.
type rejoining struct{}

// valid tells whether this process may read now.
func (f *fleet) valid(ctx context.Context) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Before(f.until) || ctx.Value(rejoining{}) != nil
}

// await waits until this process may read and write.
func (f *fleet) await(ctx context.Context) error {
	var timer *time.Timer
	for {
		f.mu.Lock()
		renewed := f.renewed
		f.mu.Unlock()
		if f.valid(ctx) {
			return nil
		}
		if timer == nil {
			timer = time.NewTimer(patience)
			defer timer.Stop()
		}
		select {
		case <-renewed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w: %w", store.ErrUnavailable, errLapsed, ctx.Err())
		case <-timer.C:
			return fmt.Errorf("%w: %w", store.ErrUnavailable, errLapsed)
		}
	}
}

// CheckBySchemaVer refuses a commit beyond the lease. It is what the client
// asks before it commits at a timestamp.
func (f *fleet) CheckBySchemaVer(ts uint64, _ transaction.SchemaVer) (*transaction.RelatedSchemaChange, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ts > f.untilTS {
		return nil, errLapsed
	}
	return nil, nil
}

// leave takes this process out of the fleet.
func (f *fleet) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), f.e.o.Lease)
	defer cancel()
	f.mu.Lock()
	key := f.e.memberKey(f.id)
	f.mu.Unlock()
	if err := f.e.transact(ctx, func(txn *transaction.KVTxn) error { return txn.Delete(key) }); err != nil {
		f.e.log.Warn("could not tell the other servers that this one ends; they find out by themselves", "error", err)
	}
	return nil
}

// Leads tells whether this process is the oldest of the fleet.
func (e *Engine) Leads() bool {
	e.fleet.mu.Lock()
	defer e.fleet.mu.Unlock()
	return e.fleet.leads && time.Now().Before(e.fleet.until)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
