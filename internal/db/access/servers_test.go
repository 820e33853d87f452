package access

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/lead/leadtest"
	"github.com/stator-db/stator/internal/protocol/principals"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// dyingServer is an engine whose process dies, or loses its connection, between a change and its broadcast.
type dyingServer struct {
	*leadtest.Server
	dies bool
}

var errDied = errors.New("the server died")

func (s *dyingServer) Broadcast(ctx context.Context, message []byte) error {
	if s.dies {
		return errDied
	}
	return s.Server.Broadcast(ctx, message)
}

// openServers opens two servers that share a database, with the engine of the first.
func openServers(t *testing.T) (first, second *Store, engine *dyingServer) {
	t.Helper()
	return openServersOn(t, func(s *leadtest.Server) store.Engine { return s })
}

// openServersOn is openServers with another engine of the second.
func openServersOn(t *testing.T, other func(*leadtest.Server) store.Engine) (first, second *Store, engine *dyingServer) {
	t.Helper()
	shared, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
	})
	fleet := leadtest.New(shared)
	engine = &dyingServer{Server: fleet.Join()}
	engine.Lead(true)
	open := func(d *db.DB, err error) *Store {
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		s, err := Open(Options{DatabaseKeys: true, DatabasePolicies: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Attach(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		return s
	}
	o := db.Options{Clock: clock.Given(time.Now)}
	first = open(db.Open(t.Context(), engine, o))
	second = open(db.Open(t.Context(), other(fleet.Join()), o))
	if _, err := first.CreateKey(t.Context(), "arn:aws:iam::000000000000:root", "", anybody); err != nil { // the last one cannot be revoked
		t.Fatal(err)
	}
	return first, second, engine
}

func anybody(*principals.Identity) bool { return true }

func (s *Store) accepts(accessKey string) bool {
	return s.verifier.Keys().Find([]byte(accessKey)) != nil
}

// A change whose broadcast has failed is used by all servers when it is repeated, though there is
// nothing to change any more.
func TestRepeatedChangeIsBroadcast(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		first, second, engine := openServers(t)
		const alice = "arn:aws:iam::000000000000:user/alice"
		k, err := first.CreateKey(t.Context(), alice, "", anybody)
		if err != nil {
			t.Fatal(err)
		}
		put := func(s *Store, expected *string) error {
			_, err := s.PutPrincipal(t.Context(), principals.Definition{ARN: alice}, expected, anybody)
			return err
		}
		none := NoPrincipal
		for _, c := range []struct {
			name   string
			change func(*Store) error
			used   func(*Store) bool
			want   string // the code of the error of the repetition
		}{
			{"a principal", func(s *Store) error { return put(s, &none) }, func(s *Store) bool { _, _, err := s.Principal(alice); return err == nil }, "RevisionMismatchException"},
			{"a principal that is deleted", func(s *Store) error { return s.DeletePrincipal(t.Context(), alice, nil, anybody) }, func(s *Store) bool { _, _, err := s.Principal(alice); return err != nil }, "ResourceNotFoundException"},
			{"a key that is revoked", func(s *Store) error { return s.DeleteKey(t.Context(), k.AccessKey, anybody) }, func(s *Store) bool { return !s.accepts(k.AccessKey) }, "ResourceNotFoundException"},
		} {
			engine.dies = true
			if err := c.change(first); !errors.Is(err, errDied) || c.used(second) {
				t.Fatalf("%s, the control: %v, the second server uses it: %v", c.name, err, c.used(second))
			}
			engine.dies = false
			var fault *apierror.Error
			if err := c.change(first); !errors.As(err, &fault) || fault.Code != c.want {
				t.Errorf("%s, repeated: %v, want %s", c.name, err, c.want)
			}
			if !c.used(first) || !c.used(second) {
				t.Errorf("%s, repeated: the servers use it: %v, %v", c.name, c.used(first), c.used(second))
			}
		}
	})
}

// A change of a server that dies before it has notified the others is used by them within a minute. Nothing is
// replaced while nothing changes, as connections would authenticate again.
func TestUnannouncedChangeIsUsed(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		first, second, engine := openServers(t)
		k, err := first.CreateKey(t.Context(), "", "", anybody)
		if err != nil {
			t.Fatal(err)
		}
		before := second.verifier.Keys()
		time.Sleep(5 * time.Minute)
		if second.verifier.Keys() != before {
			t.Error("the keys are replaced by the same")
		}
		engine.dies = true
		if err := first.DeleteKey(t.Context(), k.AccessKey, anybody); !errors.Is(err, errDied) || !second.accepts(k.AccessKey) {
			t.Fatalf("the control: %v, the second server accepts the key: %v", err, second.accepts(k.AccessKey))
		}
		time.Sleep(time.Minute + time.Second)
		if second.accepts(k.AccessKey) {
			t.Error("the second server accepts a key after a minute that was revoked")
		}
	})
}

// cutOffServer is an engine on a cluster whose process has lost its lease while cut is not nil: reads wait until
// cut is closed, but for those of the handler with which it catches up.
type cutOffServer struct {
	*leadtest.Server
	cut     atomic.Pointer[chan struct{}]
	waiting atomic.Int32 // reads
}

// catchingUp marks the context of that handler.
type catchingUp struct{}

func (s *cutOffServer) Leased() bool                                   { return s.cut.Load() == nil }
func (s *cutOffServer) Attend(context.Context, string, bool) error     { return nil }
func (s *cutOffServer) Attended(string) bool                           { return false }
func (s *cutOffServer) Announce(context.Context, string, []byte) error { return nil }
func (s *cutOffServer) Post(context.Context, []byte) error             { return nil }
func (s *cutOffServer) OnLoss(func())                                  {}

func (s *cutOffServer) Get(ctx context.Context, c store.Consistency, keys ...[]byte) ([][]byte, error) {
	if cut := s.cut.Load(); cut != nil && ctx.Value(catchingUp{}) == nil {
		s.waiting.Add(1)
		defer s.waiting.Add(-1)
		select {
		case <-*cut:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.Server.Get(ctx, c, keys...)
}

// A server that has lost its lease gets it back when it has caught up, which the reading of every minute, which waits for
// the lease, must not delay.
func TestCatchUpDuringTheReadingOfEveryMinute(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		engine := &cutOffServer{}
		first, second, _ := openServersOn(t, func(s *leadtest.Server) store.Engine {
			engine.Server = s
			return engine
		})
		k, err := first.CreateKey(t.Context(), "", "", anybody)
		if err != nil {
			t.Fatal(err)
		}
		cut := make(chan struct{})
		engine.cut.Store(&cut)
		for engine.waiting.Load() == 0 {
			time.Sleep(time.Second)
		}
		if !second.loading.TryLock() {
			t.Fatal("the reading of every minute waits for the lease while the server cannot catch up")
		}
		second.loading.Unlock()
		if err := engine.Miss(context.WithValue(t.Context(), catchingUp{}, true)); err != nil {
			t.Error(err)
		}
		engine.cut.Store(nil)
		close(cut)
		if !second.accepts(k.AccessKey) {
			t.Error("a key is lost")
		}
	})
}
