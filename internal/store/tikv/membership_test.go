package tikv_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/tikv"
	"github.com/stator-db/stator/internal/store/tikv/tikvtest"
)

// cuttable is a connection that a test can interrupt.
type cuttable struct {
	client.Client
	off atomic.Bool
}

func (c *cuttable) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	for c.off.Load() {
		select {
		case <-ctx.Done():
			return nil, tikvtest.ErrEnded
		case <-time.After(time.Millisecond):
		}
	}
	return c.Client.SendRequest(ctx, addr, req, timeout)
}

// openCut joins as a process whose connection can be interrupted.
func openCut(t *testing.T, m *tikvtest.Cluster, lease time.Duration) (*tikv.Engine, *cuttable) {
	t.Helper()
	c := &cuttable{Client: m.Client()}
	var o tikv.Options
	o.Lease, o.Log = lease, testLog(t)
	e := m.OpenOver(t, c, o)
	t.Cleanup(func() {
		c.off.Store(false)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e, c
}

func openOne(t *testing.T, m *tikvtest.Cluster) *tikv.Engine {
	t.Helper()
	e, _ := openCut(t, m, 0)
	return e
}

// messageLog records the messages that an engine delivers.
type messageLog struct {
	mu       sync.Mutex
	messages []string
}

func subscribe(e *tikv.Engine) *messageLog {
	var r messageLog
	e.Subscribe(func(_ context.Context, message []byte) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if message == nil {
			r.messages = append(r.messages, "nil")
		} else {
			r.messages = append(r.messages, string(message))
		}
		return nil
	})
	return &r
}

func (r *messageLog) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.messages)
}

func broadcast(t *testing.T, e *tikv.Engine, message string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := e.Broadcast(ctx, []byte(message)); err != nil {
		t.Fatal(err)
	}
}

func TestBroadcastReachesAll(t *testing.T) {
	m := tikvtest.New(t)
	a := openOne(t, m)
	b := openOne(t, m)
	atA, atB := subscribe(a), subscribe(b)
	broadcast(t, a, "one")
	if atA.all() != "[one]" || atB.all() != "[one]" {
		t.Errorf("the messages are %s and %s", atA.all(), atB.all())
	}
	broadcast(t, b, "two")
	if atA.all() != "[one two]" || atB.all() != "[one two]" {
		t.Errorf("the messages are %s and %s", atA.all(), atB.all())
	}
	// A process that joins later has missed nothing: it reads the current state.
	c := openOne(t, m)
	atC := subscribe(c)
	if err := a.DeleteMessages(context.Background()); err != nil {
		t.Fatal(err)
	}
	broadcast(t, a, "three")
	if atC.all() != "[three]" {
		t.Errorf("the messages of the third are %s", atC.all())
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after 20 s", what)
		}
	}
}

func TestOldestLeads(t *testing.T) {
	m := tikvtest.New(t)
	a := m.Open(t, tikv.Options{})
	b := openOne(t, m)
	eventually(t, "the first leads", a.Leads)
	if b.Leads() {
		t.Error("the second leads too")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second leads after it", b.Leads)
}

// A process without a connection is removed once none of its Updates can commit, and its
// handler is called with nil when it is back.
func TestMemberWithoutConnection(t *testing.T) {
	m := tikvtest.New(t)
	a, cable := openCut(t, m, 300*time.Millisecond)
	b, _ := openCut(t, m, 300*time.Millisecond)
	atA, atB := subscribe(a), subscribe(b)
	eventually(t, "the first leads", a.Leads)
	cable.off.Store(true)
	// The control: until then Broadcast waits for it.
	short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := b.Broadcast(short, []byte("early")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Broadcast returned %v without the other", err)
	}
	broadcast(t, b, "late")
	if atB.all() != "[early late]" || atA.all() != "[]" {
		t.Errorf("the messages are %s and %s", atA.all(), atB.all())
	}
	if a.Leads() {
		t.Error("a removed process leads")
	}
	eventually(t, "the other leads", b.Leads)
	for name, try := range map[string]func(context.Context) error{
		"reads":            func(ctx context.Context) error { _, err := a.Get(ctx, store.Strong, []byte("k")); return err },
		"takes a snapshot": func(ctx context.Context) error { _, err := a.Snapshot(ctx); return err },
		"writes": func(ctx context.Context) error {
			err := a.Update(ctx, nil, func(store.Tx) error { t.Error("it ran"); return nil })
			return err
		},
	} {
		soon, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		if err := try(soon); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a removed process %s: %v", name, err)
		}
		cancel()
	}
	cable.off.Store(false)
	if _, err := a.Get(context.Background(), store.Strong, []byte("k")); err != nil {
		t.Fatal(err)
	}
	if atA.all() != "[nil]" {
		t.Errorf("after it is back its messages are %s", atA.all())
	}
	broadcast(t, a, "again")
	if atA.all() != "[nil again]" || atB.all() != "[early late again]" {
		t.Errorf("the messages are %s and %s", atA.all(), atB.all())
	}
}

// The client rejects a commit after the lease.
func TestNoCommitAfterTheLease(t *testing.T) {
	e := openOne(t, tikvtest.New(t))
	if err := e.CommitAt(t.Context(), []byte("k"), []byte("1"), 1<<40); !errors.Is(err, store.ErrConflict) || !errors.Is(err, tikv.ErrLapsed) {
		t.Errorf("committed after the lease: %v", err)
	}
	if err := e.CommitAt(t.Context(), []byte("k"), []byte("1"), 0); err != nil { // the control
		t.Error(err)
	}
}

func TestHorizonIncludesAllProcesses(t *testing.T) {
	m := tikvtest.New(t)
	a := openOne(t, m)
	b := openOne(t, m)
	inside, leave := make(chan store.Stamp), make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		err := b.Update(context.Background(), [][]byte{[]byte("k")}, func(tx store.Tx) error {
			inside <- tx.Stamp()
			<-leave
			tx.Set([]byte("k"), []byte("1"))
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	stamp := <-inside
	for _, e := range []*tikv.Engine{a, b} {
		if h, err := e.Horizon(context.Background()); err != nil || h > stamp {
			t.Errorf("the horizon is %d, %v, larger than %d, which may still commit", h, err, stamp)
		}
	}
	close(leave)
	done.Wait()
	// On a busy machine the next heartbeat may be late.
	for deadline := time.Now().Add(30 * time.Second); ; {
		h, err := a.Horizon(context.Background())
		if err == nil && h > stamp {
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the horizon is %d, %v, although %d has committed", h, err, stamp)
		}
	}
}

func TestNewerFormatIsRejected(t *testing.T) {
	m := tikvtest.New(t)
	e := openOne(t, m)
	if err := e.SetFormat(t.Context(), tikv.FormatVersion+1); err != nil {
		t.Fatal(err)
	}
	_, err := m.TryOpen(m.Client(), tikv.Options{})
	var format *tikv.FormatError
	if !errors.As(err, &format) || format.Found != tikv.FormatVersion+1 {
		t.Errorf("opened a newer format: %v", err)
	}
}

// A cluster that servers of an older version use is not opened: they cannot read what this
// version writes. When they have ended, the cluster gets the present format, which they reject.
func TestOlderServersEndFirst(t *testing.T) {
	for _, c := range []struct {
		name     string
		format   int
		ago      time.Duration
		rejected bool
	}{
		{"an older server", tikv.FormatVersion - 1, 0, true},
		{"an older server that is dead", tikv.FormatVersion - 1, time.Hour, false},
		{"control: a server of this version", tikv.FormatVersion, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := tikvtest.New(t)
			e := openOne(t, m)
			if err := errors.Join(e.SetFormat(t.Context(), tikv.FormatVersion-1), e.AddMember(t.Context(), 1000, c.format, c.ago)); err != nil {
				t.Fatal(err)
			}
			opened, err := m.TryOpen(m.Client(), tikv.Options{})
			var older *tikv.OlderServerError
			if errors.As(err, &older) != c.rejected || (err != nil) != c.rejected {
				t.Errorf("got %v", err)
			}
			if err == nil {
				defer opened.Close()
			}
			format, err := e.StoredFormat(t.Context())
			if raised := format == tikv.FormatVersion; err != nil || raised == c.rejected {
				t.Errorf("the format is %d, %v", format, err)
			}
		})
	}
}

// Old versions are removed, except for those that an open snapshot shows.
func TestCollectVersions(t *testing.T) {
	m := tikvtest.New(t)
	e := openOne(t, m)
	ctx := context.Background()
	set := func(value string) {
		if err := e.Update(ctx, [][]byte{[]byte("k")}, func(tx store.Tx) error {
			tx.Set([]byte("k"), []byte(value))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	set("1")
	snapshot, err := e.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	set("2")
	time.Sleep(100 * time.Millisecond) // until a heartbeat has published the snapshot
	if err := e.CollectVersions(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if v, err := snapshot.Get(ctx, []byte("k")); err != nil || string(v[0]) != "1" {
		t.Errorf("the snapshot shows %q, %v", v, err)
	}
}

func TestParseAddress(t *testing.T) {
	for _, c := range []struct{ name, in, fault string }{
		{"three drivers", "tikv://a:1,b:2,c:3?prefix=p&followers=true&lease=9s&beat=50ms", ""},
		{"a driver without its port", "tikv://a", ""},
		{"TLS", "tikv://a?ca=x&cert=y&key=z", ""},
		{"no drivers", "tikv://", "no list of placement drivers"},
		{"another scheme", "http://a", "does not begin with tikv://"},
		{"a key without a certificate", "tikv://a?ca=x&key=z", "cert and key together"},
		{"an unknown parameter", "tikv://a?pefix=x", "unknown parameter pefix"},
		{"a lease without a unit", "tikv://a?lease=5", "not a duration"},
		{"a lease that is too short", "tikv://a?lease=500ms", "too short"},
		{"an empty prefix", "tikv://a?prefix=", "prefix"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := tikv.ParseAddress(c.in)
			if (c.fault == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("ParseAddress(%q): %v", c.in, err)
			}
		})
	}
}

// Recent reads return the same values when any replica may serve them.
func TestFollowerReads(t *testing.T) {
	var o tikv.Options
	o.Followers, o.Log = true, testLog(t)
	e := tikvtest.New(t).Open(t, o)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, keys := t.Context(), [][]byte{[]byte("a"), []byte("b")}
	if err := e.Update(ctx, keys, func(tx store.Tx) error {
		tx.Set(keys[0], []byte("1"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for n := range keys {
		values, err := e.Get(ctx, store.Recent, keys[:n+1]...)
		if err != nil || string(values[0]) != "1" || n == 1 && values[1] != nil {
			t.Errorf("%d keys: %q, %v", n+1, values, err)
		}
	}
}
