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

// formatVersion is the version of what is stored in a cluster: of the engine's own records,
// and of the values of the database, which have checksums since version 2. A process does
// not open a cluster that a newer version has written to, or that an older one still uses.
const formatVersion = 2

// membership is the set of processes that use the same cluster and prefix, and the part of
// this process in it. Each process has a record that it renews with every heartbeat, and
// that is its lease: a process that has not renewed it in time neither reads nor commits.
type membership struct {
	e *Engine

	mu            sync.Mutex
	id            uint64                    // in the order of joining
	until         time.Time                 // until when this process may read
	untilTS       uint64                    // the last timestamp at which it may begin to commit
	renewed       chan struct{}             // closed and replaced with every renewal
	lastSent      uint64                    // the last message that was sent
	lastSeen      uint64                    // the last message that was handled here
	firstKept     uint64                    // all messages before it were deleted
	leads         bool                      // no other process is older
	stale         bool                      // it was removed, and its handler was not yet called with nil
	others        map[uint64]observedMember // the other processes
	groups        []string                  // that this process attends
	prompt        bool                      // it looks for messages more often than with its heartbeats
	attended      map[string]bool           // the groups that others attend
	attendedAt    uint64                    // the timestamp of attended
	lost          func()                    // may be nil
	handle        func(context.Context, []byte) error
	subscribed    chan struct{} // closed when handle is set
	wakeHeartbeat chan struct{}
	wakeDelivery  chan struct{}
	sending       chan struct{} // has an element while this process appends a message
}

// memberRecord is the record of a process that all others read. The names in JSON are those
// of format 1.
type memberRecord struct {
	Host     string `json:"host"`
	Format   int    `json:"format"`
	Renewed  uint64 `json:"renewed"` // timestamp of the last heartbeat
	Lease    int64  `json:"lease"`   // in milliseconds
	Floor    uint64 `json:"floor"`   // no Update with a smaller timestamp can still commit
	Snapshot uint64 `json:"view"`    // the timestamp of the oldest open snapshot
	LastSeen uint64 `json:"heard"`   // the last message handled

	Groups []string `json:"groups,omitempty"` // see store.Fleet
}

// observedMember is the record of another process, and since when it is unchanged by the
// clock of this process: clocks of different processes are not compared.
type observedMember struct {
	memberRecord
	since time.Time
}

var (
	errLapsed  = errors.New("the lease of this process has expired")
	errRemoved = errors.New("the record of this process was removed")
)

// The names of the engine's own records in the cluster. They are part of format 1.
const (
	nameFormat   = "format"
	nameLast     = "last member"
	nameMembers  = "member/"
	nameLastSent = "said"
	nameMessage  = "message/"
)

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func (e *Engine) memberKey(id uint64) []byte { return append(e.own(nameMembers), number(id)...) }

func (e *Engine) messageKey(n uint64) []byte { return append(e.own(nameMessage), number(n)...) }

// join adds this process to the members.
func join(ctx context.Context, e *Engine) (*membership, error) {
	m := &membership{
		e: e, renewed: make(chan struct{}), others: make(map[uint64]observedMember),
		subscribed: make(chan struct{}), wakeHeartbeat: make(chan struct{}, 1), wakeDelivery: make(chan struct{}, 1),
		sending: make(chan struct{}, 1),
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	began := time.Now()
	start, err := m.register(ctx)
	if err != nil {
		return nil, err
	}
	// A process that has attended a group before this one was registered may not have waited
	// for it.
	if err := m.readGroups(ctx); err != nil {
		return nil, err
	}
	m.renew(began, start)
	return m, nil
}

// register writes the first record of this process, under a new id, and returns its
// timestamp.
func (m *membership) register(ctx context.Context) (start uint64, err error) {
	var id, lastSent uint64
	err = m.e.transact(ctx, func(txn *transaction.KVTxn) error {
		start = txn.StartTS()
		values, err := m.e.readOwn(ctx, start, nameFormat, nameLast, nameLastSent)
		if err != nil {
			return err
		}
		if err := checkFormat(values[0], m.e.o.Prefix); err != nil {
			return err
		}
		id, lastSent = decodeNumber(values[1])+1, decodeNumber(values[2])
		if decodeNumber(values[0]) < formatVersion {
			if err := m.raiseFormat(ctx, txn); err != nil {
				return err
			}
		}
		if err := txn.Set(m.e.own(nameLast), number(id)); err != nil {
			return err
		}
		return txn.Set(m.e.memberKey(id), m.record(start, lastSent).encode())
	})
	if err != nil {
		return 0, fmt.Errorf("join the servers of this cluster: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id, m.lastSent, m.lastSeen = id, lastSent, lastSent
	return start, nil
}

// raiseFormat records that the cluster has the present format, so that no process of an
// older version can join. It returns an OlderServerError if there is one.
func (m *membership) raiseFormat(ctx context.Context, txn *transaction.KVTxn) error {
	members, err := m.e.members(ctx, txn.StartTS())
	if err != nil {
		return err
	}
	for id, r := range members {
		if r.Format >= formatVersion {
			continue
		}
		if txn.StartTS() <= r.Renewed+oracle.ComposeTS(r.expiry().Milliseconds(), 0) {
			return &OlderServerError{r.Host, r.Format}
		}
		// Without its record it cannot renew its lease, but has to join again.
		if err := txn.Delete(m.e.memberKey(id)); err != nil {
			return err
		}
	}
	return txn.Set(m.e.own(nameFormat), number(formatVersion))
}

// OlderServerError is returned when a server that cannot read the present format uses the
// cluster.
type OlderServerError struct {
	Host   string
	Format int
}

func (e *OlderServerError) Error() string {
	return fmt.Sprintf("the server %s is of an older version, which knows formats up to %d and cannot read format %d: stop all servers of older versions first; "+
		"a server that was killed counts as running until its lease and %v are over", e.Host, e.Format, formatVersion, outcomeWindow)
}

// FormatError is returned when a newer version has written to the cluster.
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

// transact runs a transaction on the engine's own records. It retries after conflicts.
func (e *Engine) transact(ctx context.Context, fn func(*transaction.KVTxn) error) error {
	for i := range maxAttempts {
		requested := time.Now()
		start, err := e.now(ctx)
		if err != nil {
			return err
		}
		e.clock.observe(start, requested, time.Now())
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
		if err := sleepRandom(ctx, time.Millisecond<<min(i, 6)); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d attempts conflicted with other servers: %w", maxAttempts, store.ErrUnavailable)
}

// record returns the record of this process at a timestamp.
func (m *membership) record(now, lastSeen uint64) memberRecord {
	host, _ := os.Hostname()
	m.mu.Lock()
	groups := m.groups
	m.mu.Unlock()
	return memberRecord{
		Host:     fmt.Sprintf("%s/%d", host, os.Getpid()),
		Format:   formatVersion,
		Renewed:  now,
		Lease:    m.e.o.Lease.Milliseconds(),
		Floor:    m.e.inFlight.floor(now),
		Snapshot: m.e.snapshots.oldest(now),
		LastSeen: lastSeen,
		Groups:   groups,
	}
}

// expiry is how long after its last heartbeat the process is certainly dead.
func (r memberRecord) expiry() time.Duration {
	return time.Duration(r.Lease)*time.Millisecond + outcomeWindow
}

func (r memberRecord) encode() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("a member record cannot be written as JSON: %v", err))
	}
	return b
}

// run sends heartbeats until the context ends.
func (m *membership) run(ctx context.Context) {
	tick := time.NewTicker(m.e.o.Beat)
	defer tick.Stop()
	served := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-m.wakeHeartbeat:
		}
		err := m.heartbeat(ctx)
		if errors.Is(err, errRemoved) {
			err = m.rejoin(ctx)
		}
		if err == nil && m.isStale() {
			err = m.catchUp(ctx)
		}
		switch valid := m.leaseValid(ctx); {
		case ctx.Err() != nil:
		case served && !valid:
			m.e.log.Error("the cluster cannot be reached or is too slow: no request is served until it answers", "error", err)
			served = false
		case !served && valid:
			m.e.log.Info("the cluster can be reached again")
			served = true
		}
	}
}

// heartbeat renews the record of this process and reads those of the others.
func (m *membership) heartbeat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.e.o.Lease)
	defer cancel()
	m.mu.Lock()
	id := m.id
	m.mu.Unlock()
	began := time.Now()
	var start uint64
	var members map[uint64]memberRecord
	var sent []byte
	key := m.e.memberKey(id)
	err := m.e.transact(ctx, func(txn *transaction.KVTxn) (err error) {
		start = txn.StartTS()
		if members, err = m.e.members(ctx, start); err != nil {
			return err
		}
		values, err := m.e.readOwn(ctx, start, nameLastSent)
		if err != nil {
			return err
		}
		sent = values[0]
		if _, there := members[id]; !there {
			return errRemoved
		}
		m.mu.Lock()
		lastSeen := m.lastSeen
		m.mu.Unlock()
		return txn.Set(key, m.record(start, lastSeen).encode())
	})
	if err != nil {
		return err
	}
	m.observe(began, start, decodeNumber(sent), members)
	return m.expireMembers(ctx, start)
}

// members returns the records of all processes at a timestamp.
func (e *Engine) members(ctx context.Context, ts uint64) (map[uint64]memberRecord, error) {
	start := e.own(nameMembers)
	found := make(map[uint64]memberRecord)
	at, err := e.at(ts).Iter(start, append(e.own(nameMembers), 0xff, 0xff))
	if err != nil {
		return nil, failure("read the records of the servers", err)
	}
	defer at.Close()
	for at.Valid() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var r memberRecord
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

// observe keeps the records that a heartbeat has read.
func (m *membership) observe(began time.Time, start, lastSent uint64, members map[uint64]memberRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.stale {
		m.renew(began, start)
	}
	m.leads = !m.stale
	for id, r := range members {
		if id < m.id {
			m.leads = false
		}
		if known, ok := m.others[id]; !ok || known.Renewed != r.Renewed {
			m.others[id] = observedMember{r, began}
		}
	}
	for id := range m.others {
		if _, there := members[id]; !there {
			delete(m.others, id)
		}
	}
	delete(m.others, m.id)
	m.observeGroups(start, members)
	if lastSent > m.lastSent {
		m.lastSent = lastSent
		wake(m.wakeDelivery)
	}
}

// renew extends the lease. The caller holds m.mu.
func (m *membership) renew(began time.Time, start uint64) {
	m.until = began.Add(m.e.o.Lease)
	m.untilTS = start + oracle.ComposeTS(m.e.o.Lease.Milliseconds(), 0)
	close(m.renewed)
	m.renewed = make(chan struct{})
}

// expireMembers removes the records of processes that are certainly dead: their lease has
// expired, and so has the time in which they could commit what they began in it.
func (m *membership) expireMembers(ctx context.Context, now uint64) error {
	var dead []uint64
	m.mu.Lock()
	for id, s := range m.others {
		expiry := s.expiry()
		if time.Since(s.since) > expiry && now > s.Renewed+oracle.ComposeTS(expiry.Milliseconds(), 0) {
			dead = append(dead, id)
		}
	}
	m.mu.Unlock()
	for _, id := range dead {
		var host string
		err := m.e.transact(ctx, func(txn *transaction.KVTxn) error {
			members, err := m.e.members(ctx, txn.StartTS())
			if err != nil {
				return err
			}
			m.mu.Lock()
			last := m.others[id].Renewed
			m.mu.Unlock()
			if r, there := members[id]; there && r.Renewed == last {
				host = r.Host
				if _, err := m.e.appendMessage(ctx, txn, messageLoss, nil); err != nil {
					return err
				}
				return txn.Delete(m.e.memberKey(id))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if host != "" {
			m.e.log.Warn("removed a dead server of the cluster", "server", host)
		}
	}
	return nil
}

// rejoin joins again after another process has removed this one.
func (m *membership) rejoin(ctx context.Context) error {
	m.e.log.Warn("the other servers removed this one: joining them again")
	m.mu.Lock()
	m.until, m.untilTS, m.leads, m.stale = time.Time{}, 0, false, true
	m.mu.Unlock()
	_, err := m.register(ctx)
	return err
}

func (m *membership) isStale() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stale
}

// catchUp calls the handler with nil, as any message may have been missed. After the next
// heartbeat this process serves again.
func (m *membership) catchUp(ctx context.Context) error {
	m.mu.Lock()
	handle := m.handle
	m.mu.Unlock()
	if handle != nil { // otherwise there is no state to refresh
		if err := handle(context.WithValue(ctx, rejoining{}, true), nil); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stale = false
	wake(m.wakeHeartbeat)
	return nil
}

// rejoining marks the context of a handler that reads while this process catches up.
type rejoining struct{}

// leaseValid reports whether this process may read now.
func (m *membership) leaseValid(ctx context.Context) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Before(m.until) || ctx.Value(rejoining{}) != nil
}

// waitLease waits until this process may read and write.
func (m *membership) waitLease(ctx context.Context) error {
	var timer *time.Timer
	for {
		m.mu.Lock()
		renewed := m.renewed
		m.mu.Unlock()
		if m.leaseValid(ctx) {
			return nil
		}
		if timer == nil {
			timer = time.NewTimer(callTimeout)
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

// CheckBySchemaVer rejects a commit beyond the lease. The client calls it before it commits
// at a timestamp.
func (m *membership) CheckBySchemaVer(ts uint64, _ transaction.SchemaVer) (*transaction.RelatedSchemaChange, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ts > m.untilTS {
		return nil, errLapsed
	}
	return nil, nil
}

// leave removes this process from the members.
func (m *membership) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), m.e.o.Lease)
	defer cancel()
	m.mu.Lock()
	key := m.e.memberKey(m.id)
	m.mu.Unlock()
	if err := m.e.transact(ctx, func(txn *transaction.KVTxn) error { return txn.Delete(key) }); err != nil {
		m.e.log.Warn("could not remove the record of this server: the others remove it when its lease has expired", "error", err)
	}
	return nil
}

// Leads reports whether this process is the oldest member.
func (e *Engine) Leads() bool {
	e.membership.mu.Lock()
	defer e.membership.mu.Unlock()
	return e.membership.leads && time.Now().Before(e.membership.until)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
