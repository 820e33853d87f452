package db

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/store"
)

// SharedCache is the cache of a server that shares its data with others.
type SharedCache struct {
	// Coherent is a cache that must not return what a write of any server has replaced
	// which was answered before. Others learn of the writes through caches of the same
	// Cluster, within a second.
	Coherent bool
	Cluster  string

	Invalidate    func(keys [][]byte) // drops what depends on the items of these keys
	InvalidateAll func()
}

// The groups of servers that get announcements, and the topics of these. That of a cluster of
// caches is topicCluster and its name.
const (
	groupCoherent = "coherent"
	topicCoherent = "changed"
	topicCluster  = "cached/"
)

const (
	// announceTimeout is how long a write waits for the caches of other servers. One that
	// does not answer is removed before that.
	announceTimeout = time.Minute
	// announceRetry is the pause after an announcement that has failed.
	announceRetry = time.Second
	// announceSenders is how many announcements are delivered at the same time. Writes that
	// end meanwhile share the next one.
	announceSenders = 2
	// maxAnnouncedBytes bounds the keys of an announcement. With more, all entries are
	// dropped.
	maxAnnouncedBytes = 1 << 20

	// clusterDelay is how long writes for the caches of a cluster are collected, and
	// maxClusterBytes bounds their keys.
	clusterDelay    = 100 * time.Millisecond
	maxClusterBytes = 256 << 10

	// outcomeDelay is after what time an update with an unknown outcome has committed, or
	// never will.
	outcomeDelay = 5 * time.Second
)

// announcer tells the caches of all servers what this one writes, and drops what the others
// write from the cache of this one.
//
// A coherent cache is used from the time on at which every server knows of it. A server that
// knows of one announces the keys of a write after its commit and before its answer. So a
// read that begins after that finds no entry from before the commit: the entry was dropped,
// and a read that was in progress when the announcement arrived adds none.
type announcer struct {
	d      *DB
	fleet  store.Fleet
	server string
	own    *SharedCache // may be nil

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	valid  atomic.Bool // every server knows of the coherent cache of this one
	again  chan struct{}
	missed atomic.Uint64 // how often messages may have been missed

	mu      sync.Mutex
	closed  bool
	pending *announcement // of writes that wait for a sender; nil if none does
	senders int
	cluster *announcement // of writes through the cache, for those of the cluster; nil if there are none

	sent, posted, unposted atomic.Int64
}

// announcement is the keys of writes.
type announcement struct {
	all   bool
	keys  []byte // each with its length
	count int64
	done  chan struct{} // closed when all caches have handled it
}

func newAnnouncer(d *DB, fleet store.Fleet, own *SharedCache) *announcer {
	a := &announcer{d: d, fleet: fleet, server: NewUUID(), own: own, again: make(chan struct{}, 1)}
	a.ctx, a.stop = context.WithCancel(context.Background())
	return a
}

// start makes the cache of this server be told of the writes of others. The database
// handles messages already.
func (a *announcer) start() {
	if a.own == nil {
		return
	}
	group, topic := groupCoherent, topicCoherent
	if !a.own.Coherent {
		group = topicCluster + a.own.Cluster
		topic = group
	}
	a.d.Subscribe(topic, func(_ context.Context, payload string) error {
		if payload == "" {
			a.missedMessages()
			return nil
		}
		return a.handle(payload)
	})
	if a.own.Coherent {
		a.fleet.OnLoss(a.own.InvalidateAll)
	}
	a.work.Go(func() { a.attend(group) })
}

// missedMessages is called when writes of other servers may not have been announced to this
// one: it was removed from them.
func (a *announcer) missedMessages() {
	a.missed.Add(1)
	a.valid.Store(false)
	a.own.InvalidateAll()
	select {
	case a.again <- struct{}{}:
	default:
	}
}

// attend tells the other servers of the cache, until the database is closed.
func (a *announcer) attend(group string) {
	for {
		missed := a.missed.Load()
		err := a.fleet.Attend(a.ctx, group, a.own.Coherent)
		if err == nil && a.missed.Load() == missed {
			a.valid.Store(true)
			if a.missed.Load() != missed { // in between
				a.valid.Store(false)
			}
		}
		var retry <-chan time.Time
		if err != nil {
			if a.ctx.Err() == nil {
				a.d.log.Warn("the other servers could not be told of the cache of this one, which is not used: retrying", "error", err)
			}
			retry = time.After(announceRetry)
		}
		select {
		case <-a.ctx.Done():
			return
		case <-a.again:
		case <-retry:
		}
	}
}

// CacheIsValid reports whether a coherent cache of this server is told of all writes before
// they are answered.
func (d *DB) CacheIsValid() bool {
	a := d.announcer
	return a == nil || a.valid.Load() && a.fleet.Leased()
}

// changed announces the keys of a write that has ended with an error, or nil, and returns the
// error with which it is answered.
func (a *announcer) changed(ctx context.Context, keys [][]byte, err error) error {
	if len(keys) == 0 {
		return err
	}
	if errors.Is(err, store.ErrUnknownOutcome) {
		a.announceLater(keys)
		return err
	}
	if announced := a.announce(ctx, keys); announced != nil {
		return fmt.Errorf("a write is stored, but not known to the caches of all servers: %w: %w", store.ErrUnknownOutcome, announced)
	}
	return err
}

// announce returns when the coherent caches of all other servers have dropped what depends on
// some keys.
func (a *announcer) announce(ctx context.Context, keys [][]byte) error {
	if !a.fleet.Attended(groupCoherent) {
		return nil
	}
	done := a.add(keys)
	timeout := time.NewTimer(announceTimeout)
	defer timeout.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return store.ErrUnavailable
	case <-a.ctx.Done():
		return store.ErrClosed
	}
}

// announceLater announces the keys of a write that may still commit for a while. Nobody waits
// for that, as the write is answered with an error.
func (a *announcer) announceLater(keys [][]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.work.Go(func() {
		select {
		case <-a.ctx.Done():
		case <-time.After(outcomeDelay):
		}
		if a.own != nil && a.own.Coherent {
			a.own.Invalidate(keys)
		}
		if a.fleet.Attended(groupCoherent) {
			a.add(keys)
		}
	})
}

// add adds keys to the next announcement, and returns a channel that is closed when it was
// handled.
func (a *announcer) add(keys [][]byte) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending == nil {
		a.pending = &announcement{done: make(chan struct{})}
	}
	g := a.pending
	if g.all || !g.add(keys, maxAnnouncedBytes) {
		g.all, g.keys = true, nil
	}
	if a.senders < announceSenders && !a.closed {
		a.senders++
		a.work.Go(a.send)
	}
	return g.done
}

// send delivers announcements until none is pending.
func (a *announcer) send() {
	for {
		a.mu.Lock()
		g := a.pending
		a.pending = nil
		if g == nil {
			a.senders--
			a.mu.Unlock()
			return
		}
		a.mu.Unlock()
		if !a.deliver(g) {
			return
		}
	}
}

// deliver delivers an announcement, however long that takes: without it, a cache would return
// what was replaced until its time to live. It reports false if the database is closed.
func (a *announcer) deliver(g *announcement) bool {
	for a.fleet.Attended(groupCoherent) {
		err := a.fleet.Announce(a.ctx, groupCoherent, a.message(topicCoherent, g))
		if err == nil {
			a.sent.Add(1)
			break
		}
		if a.ctx.Err() != nil {
			a.putBack(g)
			return false
		}
		a.d.log.Warn("writes could not be announced to the caches of other servers: retrying", "error", err)
		select {
		case <-a.ctx.Done():
			a.putBack(g)
			return false
		case <-time.After(announceRetry):
		}
	}
	close(g.done)
	return true
}

// putBack makes an announcement pending that was not delivered.
func (a *announcer) putBack(g *announcement) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending != nil {
		g = &announcement{all: true, done: a.pending.done}
	}
	a.pending = g
}

// AnnounceWritten tells the caches of the cluster, soon, that items were written through the
// cache of this server. What cannot be sent is counted; those caches have it until the time
// to live.
func (d *DB) AnnounceWritten(keys [][]byte) {
	if a := d.announcer; a != nil && a.own != nil && !a.own.Coherent {
		a.written(keys)
	}
}

func (a *announcer) written(keys [][]byte) {
	if !a.fleet.Attended(topicCluster + a.own.Cluster) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	if a.cluster == nil {
		a.cluster = new(announcement)
		a.work.Go(a.post)
	}
	if !a.cluster.add(keys, maxClusterBytes) {
		a.unposted.Add(int64(len(keys)))
	}
}

// post sends what was written through the cache to the others of its cluster, after a short
// time. There is one at a time.
func (a *announcer) post() {
	select {
	case <-a.ctx.Done():
	case <-time.After(clusterDelay):
	}
	a.mu.Lock()
	g := a.cluster
	a.cluster = nil
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), announceTimeout)
	defer cancel()
	if err := a.fleet.Post(ctx, a.message(topicCluster+a.own.Cluster, g)); err != nil {
		a.unposted.Add(g.count)
		a.d.log.Warn("writes could not be announced to the other caches of the cluster, which have what was before until the time to live", "items", g.count, "error", err)
		return
	}
	a.posted.Add(g.count)
}

// add adds keys. It reports false if they do not fit.
func (g *announcement) add(keys [][]byte, limit int) bool {
	size := 0
	for _, k := range keys {
		size += len(k) + binary.MaxVarintLen32
	}
	if len(g.keys)+size > limit {
		return false
	}
	for _, k := range keys {
		g.keys = append(binary.AppendUvarint(g.keys, uint64(len(k))), k...)
	}
	g.count += int64(len(keys))
	return true
}

// message returns the message of an announcement: the server that sends it, whether all
// entries are dropped, and the keys.
func (a *announcer) message(topic string, g *announcement) []byte {
	m := append([]byte(topic+"\x00"), a.server...)
	if g.all {
		return append(m, 1)
	}
	return append(append(m, 0), g.keys...)
}

// handle drops what another server has written. What this server writes itself, it has
// dropped or replaced already, but a coherent cache may have got it again from a read that
// began before an update with an unknown outcome was committed.
func (a *announcer) handle(payload string) error {
	head := len(a.server) + 1
	if len(payload) < head {
		return fmt.Errorf("an announcement of a write has %d bytes", len(payload))
	}
	if !a.own.Coherent && payload[:head-1] == a.server {
		return nil
	}
	if payload[head-1] == 1 {
		a.own.InvalidateAll()
		return nil
	}
	var keys [][]byte
	for rest := []byte(payload[head:]); len(rest) > 0; {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n == 0 || n > uint64(len(rest)-size) {
			return errors.New("an announcement of writes is malformed")
		}
		keys, rest = append(keys, rest[size:size+int(n)]), rest[size+int(n):]
	}
	a.own.Invalidate(keys)
	return nil
}

// close sends what is pending, without waiting for the other servers.
func (a *announcer) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.stop()
	a.work.Wait()
	if a.pending == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), announceRetry)
	defer cancel()
	if err := a.fleet.Post(ctx, a.message(topicCoherent, a.pending)); err != nil {
		a.d.log.Warn("writes could not be announced to the caches of other servers", "error", err)
	}
}

// CacheMetrics returns the metrics of announcements to the caches of other servers, if there
// are any.
func (d *DB) CacheMetrics() []metrics.Metric {
	a := d.announcer
	if a == nil {
		return nil
	}
	counter := func(name, help string, v *atomic.Int64) metrics.Metric {
		return metrics.Metric{Name: name, Help: help, Type: metrics.Counter, Samples: metrics.Value(float64(v.Load()))}
	}
	all := []metrics.Metric{counter("stator_dax_cache_announcements_total", "Announcements of writes to coherent caches of other servers.", &a.sent)}
	if a.own == nil {
		return all
	}
	if a.own.Coherent {
		valid := 0.0
		if d.CacheIsValid() {
			valid = 1
		}
		return append(all, metrics.Metric{Name: "stator_dax_cache_valid", Help: "Whether the coherent cache is told of the writes of all servers. Otherwise it is not used.", Type: metrics.Gauge, Samples: metrics.Value(valid)})
	}
	return append(all,
		counter("stator_dax_cache_announced_items_total", "Items written through the cache that the other caches of the cluster were told of.", &a.posted),
		counter("stator_dax_cache_unannounced_items_total", "Such items that they were not told of, because there were too many or the storage did not answer.", &a.unposted))
}
