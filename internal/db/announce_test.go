package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// testFleet is an engine with other processes, which a test plays.
type testFleet struct {
	store.Engine

	mu        sync.Mutex
	attended  bool          // the groups, by another process
	block     chan struct{} // announcements wait until it is closed; nil: they do not
	fail      int           // how many announcements fail
	announced [][]byte
	posted    [][]byte
	unknown   bool // the outcome of an update
}

func (f *testFleet) Attend(context.Context, string, bool) error { return nil }
func (f *testFleet) Leased() bool                               { return true }
func (f *testFleet) OnLoss(func())                              {}

func (f *testFleet) Attended(string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.attended
}

func (f *testFleet) Announce(ctx context.Context, _ string, message []byte) error {
	f.mu.Lock()
	block, failed := f.block, f.fail > 0
	f.fail--
	f.mu.Unlock()
	if failed {
		return store.ErrUnavailable
	}
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.announced = append(f.announced, message)
	return nil
}

func (f *testFleet) Post(_ context.Context, message []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.posted = append(f.posted, message)
	return nil
}

func (f *testFleet) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	err := f.Engine.Update(ctx, keys, fn)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unknown && err == nil {
		return store.ErrUnknownOutcome
	}
	return err
}

// fleetTest is a database with another process.
func fleetTest(t *testing.T, own *SharedCache, test func(t *testing.T, f *testFleet, d *DB)) {
	virtualtime.Test(t, func(t *testing.T) {
		f := &testFleet{Engine: newEngine(t, pebble.InMemory()), attended: true}
		d := newDB(t, f, Options{SharedCache: own})
		create(t, d, orders("Orders"))
		f.mu.Lock()
		f.announced, f.posted = nil, nil
		f.mu.Unlock()
		test(t, f, d)
	})
}

func replace(id string) Write {
	return Write{Table: "Orders", Key: key(id, 1), Effect: Replace(key(id, 1))}
}

// announcements returns how often the key of an item was announced.
func (f *testFleet) announcements(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return has(f.announced, id)
}

// has counts the messages with the key of an item.
func has(messages [][]byte, id string) (n int) {
	for _, m := range messages {
		if bytes.Contains(m, []byte(id)) {
			n++
		}
	}
	return n
}

// A write is answered when its announcement was handled. Writes that end meanwhile share the
// next one.
func TestAnnouncementsAreShared(t *testing.T) {
	fleetTest(t, nil, func(t *testing.T, f *testFleet, d *DB) {
		f.block = make(chan struct{})
		const writes = 50
		done := make(chan error, writes)
		for i := range writes {
			go func() { _, err := d.Write(t.Context(), replace(fmt.Sprintf("order%02d", i))); done <- err }()
		}
		time.Sleep(time.Second)
		if len(done) > 0 {
			t.Errorf("%d writes are answered without the other server", len(done))
		}
		close(f.block)
		for range writes {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		f.mu.Lock()
		n := len(f.announced)
		f.mu.Unlock()
		if n == 0 || n > announceSenders+2 {
			t.Errorf("%d announcements of %d writes", n, writes)
		}
		for i := range writes {
			if id := fmt.Sprintf("order%02d", i); f.announcements(id) != 1 {
				t.Errorf("%s was announced %d times", id, f.announcements(id))
			}
		}
	})
}

// Nothing is announced for writes that change nothing, or if no other server has a cache.
func TestNothingIsAnnounced(t *testing.T) {
	fleetTest(t, nil, func(t *testing.T, f *testFleet, d *DB) {
		rejected := replace("rejected")
		rejected.If = func(item.Item) bool { return false }
		if _, err := d.Write(t.Context(), rejected); err == nil {
			t.Error("a write was not rejected")
		}
		f.attended = false
		if _, err := d.Write(t.Context(), replace("alone")); err != nil {
			t.Error(err)
		}
		if len(f.announced) > 0 {
			t.Errorf("%q were announced", f.announced)
		}
	})
}

// An announcement that fails is repeated, and the write waits for it: at most a minute, after
// which its outcome is reported as unknown. It is announced nevertheless.
func TestAnnouncementsAreRepeated(t *testing.T) {
	fleetTest(t, nil, func(t *testing.T, f *testFleet, d *DB) {
		f.fail = 3
		began := time.Now()
		if _, err := d.Write(t.Context(), replace("slow")); err != nil || time.Since(began) != 3*announceRetry || f.announcements("slow") != 1 {
			t.Errorf("after %v: %v, %d announcements", time.Since(began), err, f.announcements("slow"))
		}
		f.block = make(chan struct{})
		began = time.Now()
		if _, err := d.Write(t.Context(), replace("stuck")); !errors.Is(err, store.ErrUnknownOutcome) || time.Since(began) != announceTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		close(f.block)
		time.Sleep(time.Second)
		if f.announcements("stuck") != 1 {
			t.Error("it was not announced")
		}
	})
}

// A write that may be committed later is announced then, to the own cache too.
func TestUnknownOutcomeIsAnnounced(t *testing.T) {
	var mu sync.Mutex
	var dropped [][]byte
	own := &SharedCache{Coherent: true, InvalidateAll: func() {}, Invalidate: func(keys [][]byte) {
		mu.Lock()
		defer mu.Unlock()
		dropped = append(dropped, keys...)
	}}
	fleetTest(t, own, func(t *testing.T, f *testFleet, d *DB) {
		f.mu.Lock()
		f.unknown = true
		f.mu.Unlock()
		if _, err := d.Write(t.Context(), replace("unknown")); !errors.Is(err, store.ErrUnknownOutcome) {
			t.Error(err)
		}
		f.mu.Lock()
		f.unknown = false
		f.mu.Unlock()
		if f.announcements("unknown") != 0 {
			t.Error("it was announced while it could still commit")
		}
		time.Sleep(outcomeDelay + time.Second)
		mu.Lock()
		defer mu.Unlock()
		if f.announcements("unknown") != 1 || has(dropped, "unknown") != 1 {
			t.Errorf("%d announcements, %d to the own cache", f.announcements("unknown"), has(dropped, "unknown"))
		}
	})
}

// An announcement with too many keys drops all entries.
func TestLargeAnnouncement(t *testing.T) {
	all, some := 0, 0
	own := &SharedCache{Coherent: true, InvalidateAll: func() { all++ }, Invalidate: func(keys [][]byte) { some += len(keys) }}
	fleetTest(t, own, func(t *testing.T, _ *testFleet, d *DB) {
		a := d.announcer
		for _, keys := range []int{100, 100_000} {
			g := new(announcement)
			for range keys {
				if !g.add([][]byte{bytes.Repeat([]byte{7}, 40)}, maxAnnouncedBytes) {
					g.all, g.keys = true, nil
					break
				}
			}
			_, payload, _ := strings.Cut(string(a.message(topicCoherent, g)), "\x00")
			if err := a.handle(payload); err != nil {
				t.Error(err)
			}
		}
		if all != 1 || some != 100 {
			t.Errorf("all entries are dropped %d times, and those of %d keys", all, some)
		}
		_, payload, _ := strings.Cut(string(a.message(topicCoherent, &announcement{keys: []byte{9, 1}})), "\x00")
		for _, bad := range []string{payload, payload[:5]} {
			if err := a.handle(bad); err == nil {
				t.Errorf("the announcement %q is accepted", bad)
			}
		}
	})
}

// Writes through a cache are announced to the others of its cluster together, within a second,
// and those beyond the bound are counted. A server ignores its own.
func TestClusterAnnouncements(t *testing.T) {
	own := &SharedCache{Cluster: "c", InvalidateAll: func() {}, Invalidate: func(keys [][]byte) { t.Errorf("%q are dropped", keys) }}
	fleetTest(t, own, func(t *testing.T, f *testFleet, d *DB) {
		key := bytes.Repeat([]byte{1}, 1000)
		for range 300 {
			d.AnnounceWritten([][]byte{key})
		}
		time.Sleep(clusterDelay + time.Millisecond)
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.posted) != 1 || len(f.posted[0]) > maxClusterBytes+100 {
			t.Fatalf("%d messages", len(f.posted))
		}
		topic, payload, _ := strings.Cut(string(f.posted[0]), "\x00")
		if err := d.announcer.handle(payload); err != nil || topic != "cached/c" {
			t.Errorf("topic %s, %v", topic, err)
		}
		posted, unposted := d.announcer.posted.Load(), d.announcer.unposted.Load()
		if posted+unposted != 300 || unposted == 0 || posted < 200 {
			t.Errorf("%d were announced, %d were not", posted, unposted)
		}
	})
}
