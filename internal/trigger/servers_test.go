package trigger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/lead/leadtest"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// triggerServer is one of several servers that share a database.
type triggerServer struct {
	*leadtest.Server
	service  *ops.Service
	triggers *Set
	reads    atomic.Int64 // of the change log
}

// Horizon counts the reads of the change log, which begin with it.
func (m *triggerServer) Horizon(ctx context.Context) (store.Stamp, error) {
	m.reads.Add(1)
	return m.Server.Horizon(ctx)
}

// startServers opens two servers of one database with the same trigger. The first
// one leads and gets the requests of the test.
func startServers(t *testing.T, c Config) (w *triggerTest, a, b *triggerServer) {
	t.Helper()
	w = &triggerTest{T: t}
	storage := pebble.InMemory()
	storage.Now = w.now
	engine, err := pebble.Open(storage)
	if err != nil {
		t.Fatal(err)
	}
	servers := leadtest.New(engine)
	c.Name, c.Table, c.URL = "t", "Orders", "http://endpoint.invalid/hook"
	join := func(leads bool) *triggerServer {
		m := &triggerServer{Server: servers.Join()}
		m.Lead(leads)
		d, err := db.Open(t.Context(), m, db.Options{Clock: clock.Given(w.now)})
		if err != nil {
			t.Fatal(err)
		}
		m.service = ops.New(ops.Parts{DB: d})
		if w.service == nil {
			w.service = m.service
			w.create("Orders")
		}
		if m.triggers, err = Start(t.Context(), Options{Service: m.service, Log: w.log.Logger(), Transport: w}, c); err != nil {
			t.Fatal(err)
		}
		return m
	}
	a, b = join(true), join(false)
	t.Cleanup(func() {
		err := errors.Join(a.triggers.Close(), b.triggers.Close(), a.service.DB.Close(), b.service.DB.Close(), engine.Close())
		if err != nil {
			t.Error(err)
		}
	})
	return w, a, b
}

// putOn puts an item through a server.
func (w *triggerTest) putOn(m *triggerServer, id string, n int) {
	w.Helper()
	before := w.service
	w.service = m.service
	w.put(id, n)
	w.service = before
}

// A change is delivered once, whichever server it is made on, and a server that
// does not lead does not read the change log.
func TestOneServerDelivers(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		w, a, b := startServers(t, Config{})
		time.Sleep(time.Second)
		b.reads.Store(0)
		var want []string
		for n := range 30 {
			w.putOn([]*triggerServer{a, b}[n%2], "x", n)
			want = append(want, fmt.Sprint("x", n))
			time.Sleep(time.Duration(n) * 10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		w.expect(want...)
		if n := b.reads.Load(); n > 0 {
			t.Errorf("a server that does not lead read %d times", n)
		}
	})
}

// expectAll compares the accepted records of each item, without repetitions.
func (w *triggerTest) expectAll(want map[string][]string) {
	w.Helper()
	got := make(map[string][]string)
	for _, v := range w.accepted() {
		if id := v[:1]; !slices.Contains(got[id], v) {
			got[id] = append(got[id], v)
		}
	}
	for id, values := range want {
		if !slices.Equal(got[id], values) {
			w.Errorf("%s: %v was delivered, want %v", id, got[id], values)
		}
	}
}

// When the leader changes, no record is lost, the records of an item stay in order,
// and delivered records are not repeated later.
func TestDeliveryMovesToTheNextLeader(t *testing.T) {
	for _, c := range []struct {
		name string
		gap  time.Duration // without a leader
	}{{"at once", 0}, {"after a gap", 3 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				w, a, b := startServers(t, Config{BatchSize: 5, Parallelism: 2})
				w.takes = 70 * time.Millisecond // so that batches are in flight
				ids := []string{"p", "q", "r", "s"}
				want := make(map[string][]string)
				leader, other := a, b
				for n := range 200 {
					id := ids[n%len(ids)]
					w.putOn([]*triggerServer{a, b}[n%2], id, n)
					want[id] = append(want[id], fmt.Sprint(id, n))
					time.Sleep(23 * time.Millisecond)
					if n%50 == 49 {
						leader.Lead(false)
						time.Sleep(c.gap)
						other.Lead(true)
						leader, other = other, leader
					}
				}
				time.Sleep(time.Minute)
				w.expectAll(want)
				before := len(w.accepted())
				w.putOn(other, "z", 1)
				time.Sleep(time.Minute)
				if after := w.accepted()[before:]; !slices.Equal(after, []string{"z1"}) {
					t.Errorf("at the end %v was delivered", after)
				}
			})
		})
	}
}

// A server that no longer leads does not retry a batch; the next leader delivers all
// of it.
func TestBatchMovesToTheNextLeader(t *testing.T) {
	for after := 113 * time.Millisecond; after < 2*time.Second; after += 130 * time.Millisecond {
		virtualtime.Test(t, func(t *testing.T) {
			w, a, b := startServers(t, Config{})
			w.answers(func(delivery) (int, string) { return http.StatusServiceUnavailable, "" })
			w.putOn(b, "x", 1)
			w.putOn(b, "x", 2)
			time.Sleep(after)
			a.Lead(false)
			before := len(w.requests())
			time.Sleep(5 * time.Minute)
			if n := len(w.requests()); before == 0 || n != before {
				t.Errorf("there were %d requests, and %d more without a leader", before, n-before)
			}
			w.answers(nil)
			b.Lead(true)
			time.Sleep(time.Minute)
			w.expect("x1", "x2")
		})
	}
}

// When a server loses the lead and regains it before all loops have noticed, all
// slots are delivered.
func TestShortLossOfTheLead(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		began := time.Now()
		w, a, _ := startServers(t, Config{})
		w.takes = 37 * time.Millisecond // so that slots are read at different times
		ids := []string{"p", "q", "r", "s", "t", "u", "v", "w"}
		want := make(map[string][]string)
		put := func(id string, n int) {
			w.put(id, n)
			want[id] = append(want[id], fmt.Sprint(id, n))
		}
		for n := range 16 {
			// Package lead checks every half second; the loss is timed so that it
			// misses it.
			time.Sleep(time.Until(began.Add(time.Since(began).Truncate(time.Second) + time.Second)))
			put(ids[n%len(ids)], 10*n)
			time.Sleep(time.Duration(200+10*n) * time.Millisecond)
			a.Lead(false)
			time.Sleep(50 * time.Millisecond)
			a.Lead(true)
			time.Sleep(time.Second)
			for _, id := range ids {
				put(id, 10*n+1)
			}
			time.Sleep(5 * time.Second)
			w.expectAll(want)
		}
	})
}
