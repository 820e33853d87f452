package standby

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
	"github.com/stator-db/stator/internal/virtualtime"
)

// silent is a server that never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// openSilent opens the standby of a server that never answers.
func openSilent(t *testing.T, dir string) *Follower {
	t.Helper()
	return openFollower(t, dir, silent{})
}

func openFollower(t *testing.T, dir string, server http.RoundTripper) *Follower {
	t.Helper()
	f, err := Open(t.Context(), optionsFor(dir, server))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func optionsFor(dir string, server http.RoundTripper) Options {
	return Options{
		Of: "http://127.0.0.1:1", Engine: pebble.Options{Dir: dir}, Client: &http.Client{Transport: server},
		Sign: func(*http.Request, []byte) error { return nil }, Log: slog.New(slog.DiscardHandler),
	}
}

// A promotion that fails leaves a standby that follows.
func TestFailedPromotion(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	writeDir(t, dir, "id")
	f := openSilent(t, dir)
	if err := f.engine.Close(); err != nil { // so that the promotion cannot be stored
		t.Fatal(err)
	}
	if _, err := f.Promote(); err == nil || errors.Is(err, ErrNoCopy) {
		t.Fatalf("Promote: %v", err)
	}
	select {
	case <-f.done:
		t.Error("it does not follow any more")
	default:
	}
	_ = f.Close() // its engine is closed
}

// Until its server has answered, a standby is not said to follow it.
func TestNotFollowingUntilAnAnswer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	writeDir(t, dir, "id")
	f := openSilent(t, dir)
	if s := f.Status(); s.State != Disconnected || s.Error != errNotHeard.Error() {
		t.Errorf("the status is %+v", s)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// interrupted is a server whose copies end early.
type interrupted struct{ copies chan time.Time }

func (s interrupted) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case s.copies <- time.Now():
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	var b bytes.Buffer
	w := newMessageWriter(&b)
	w.json(messageBegin, copyBegin{Slot: "slot", Database: "id", Start: 7})
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(&b)}, w.flush()
}

// The copies of a standby that never succeeds become rare.
func TestCopiesBecomeRare(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		server := interrupted{make(chan time.Time)}
		dir := filepath.Join(t.TempDir(), "data")
		f := &Follower{o: optionsFor(dir, server), copied: -1}
		f.start(t.Context())
		var last time.Time
		var pause time.Duration
		for range 15 {
			now := <-server.copies
			if !last.IsZero() {
				if now.Sub(last) < pause {
					t.Errorf("a copy after %s follows one after %s", now.Sub(last), pause)
				}
				pause = now.Sub(last)
			}
			last = now
		}
		if pause < lastCopy || pause > lastCopy+2*lastRetry {
			t.Errorf("the last pause is %s", pause)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A standby that was started and has not heard from its server has what it had before, whatever
// the stamps of its server say: they may be ahead of the clock.
func TestLagAfterAStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	e, err := pebble.Open(pebble.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	position := store.StampAt(time.Now().Add(time.Hour))
	s := state{Format: format, Standby: "id", Position: position, Fresh: time.Now().Add(-time.Minute)}
	if err := errors.Join(e.Apply(t.Context(), nil, position, s.encode()), e.Close()); err != nil {
		t.Fatal(err)
	}
	f := openSilent(t, dir)
	if lag := f.Status().LagSeconds; lag < 60 {
		t.Errorf("it is said to be %.1f seconds behind, want at least a minute", lag)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// A standby whose clock was set back while it was stopped does not know how far it is behind, until it
// has heard from its server.
func TestLagAfterTheClockWasSetBack(t *testing.T) {
	for name, fresh := range map[string]time.Time{"in the future": time.Now().Add(time.Hour), "none": {}} {
		dir := filepath.Join(t.TempDir(), "data")
		e, err := pebble.Open(pebble.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		s := state{Format: format, Standby: "id", Database: "id", Slot: "new", Position: 7, Fresh: fresh}
		if err := errors.Join(e.Apply(t.Context(), nil, 7, s.encode()), e.Close()); err != nil {
			t.Fatal(err)
		}
		server := newScripted()
		f := openFollower(t, dir, server)
		<-server.copied
		if s := f.Status(); !s.LagUnknown || s.LagSeconds != 0 {
			t.Errorf("%s: before the server has answered, the status is %+v", name, s)
		}
		if m := string(metrics.Append(nil, f.Metrics()...)); !strings.Contains(m, "\nstator_standby_lag_seconds +Inf\n") {
			t.Errorf("%s: the metrics are %s", name, m)
		}
		close(server.send)
		for f.Status().Position != 10 {
			time.Sleep(time.Millisecond)
		}
		if s := f.Status(); s.LagUnknown || s.LagSeconds < 0 {
			t.Errorf("%s: the control: the status is %+v", name, s)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// scripted is a server that has no slot of the standby. Its copy needs changes, for which it
// waits.
type scripted struct {
	copied chan struct{} // closed when it is asked for these changes
	send   chan struct{} // closed to send them
	asked  atomic.Bool
	copies atomic.Int64
}

func newScripted() *scripted {
	return &scripted{copied: make(chan struct{}), send: make(chan struct{})}
}

func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	var in changesRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := newMessageWriter(&b)
	switch {
	case r.Header.Get("X-Amz-Target") == TargetCopy:
		s.copies.Add(1)
		w.json(messageBegin, copyBegin{Slot: "new", Database: "id", Start: 7})
		w.json(messageEnd, copyEnd{Consistent: 9})
	case in.Slot != "new":
		w.json(messageRefused, refusal{codeNoSlot, "there is no slot"})
	default:
		if s.asked.CompareAndSwap(false, true) {
			close(s.copied)
		}
		select {
		case <-s.send:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		w.json(messageEnd, changesEnd{Next: 10, Horizon: 10, Newest: 10})
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(&b)}, w.flush()
}

// A new copy replaces the old one only when it can be promoted itself.
func TestOldCopyIsKeptUntilTheNewOneIsConsistent(t *testing.T) {
	for _, catchesUp := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "data")
		writeDir(t, dir, "id")
		server := newScripted()
		f := openFollower(t, dir, server)
		<-server.copied
		want := ""
		if catchesUp {
			want = "new"
			close(server.send)
			for f.Status().Position != 10 {
				time.Sleep(time.Millisecond)
			}
		}
		e, err := f.Promote()
		if err != nil {
			t.Fatalf("catches up %v: %v", catchesUp, err)
		}
		if f.state.Slot != want {
			t.Errorf("catches up %v: the copy of slot %q is promoted", catchesUp, f.state.Slot)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The status is reported while the disk does not answer.
func TestStatusDoesNotWait(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	writeDir(t, dir, "id")
	var blocks atomic.Bool
	blocked, release := make(chan struct{}, 100), make(chan struct{})
	fs := disktest.Inject(vfs.Default, func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) && blocks.Load() {
			select {
			case blocked <- struct{}{}:
			default:
			}
			<-release
		}
		return nil
	})
	o := optionsFor(dir, silent{})
	o.Engine.FS = fs
	f, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	blocks.Store(true)
	promoted := make(chan error)
	go func() {
		e, err := f.Promote()
		if err == nil {
			err = e.Close()
		}
		promoted <- err
	}()
	<-blocked
	if s := f.Status(); s.State != Disconnected {
		t.Errorf("the status is %+v", s)
	}
	blocks.Store(false)
	close(release)
	if err := <-promoted; err != nil {
		t.Error(err)
	}
}

// The stamps of a copy continue those of the server, whatever the clock of the standby says.
func TestCopyHasTheStampsOfItsServer(t *testing.T) {
	server := newScripted()
	close(server.send)
	f := openFollower(t, filepath.Join(t.TempDir(), "data"), server)
	for f.Status().Position != 10 {
		time.Sleep(time.Millisecond)
	}
	e, err := f.Promote()
	if err != nil {
		t.Fatal(err)
	}
	h, err := e.Horizon(t.Context())
	if err != nil || h.Time().Sub(store.Stamp(10).Time()) > time.Minute {
		t.Errorf("after the stamp 10 the next is %d, %s, %v", h, h.Time(), err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
