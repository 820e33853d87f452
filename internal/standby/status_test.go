package standby

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// The lag counts the time in which the standby's machine was suspended, in which the monotonic clock
// stands still and the wall clock does not. It does not become smaller if the wall clock is set back.
func TestLagAfterSuspend(t *testing.T) {
	fresh := time.Now()
	for _, c := range []struct {
		name            string
		wall, monotonic time.Duration
		want            time.Duration
	}{
		{"neither suspended nor set", time.Minute, time.Minute, time.Minute},
		{"suspended", time.Hour, time.Second, time.Hour},
		{"the wall clock is set back", -time.Hour, time.Minute, time.Minute},
	} {
		now := withWall(t, fresh.Add(c.monotonic), c.wall-c.monotonic)
		if now.Sub(fresh) != c.monotonic || now.Round(0).Sub(fresh.Round(0)) != c.wall {
			t.Fatal("the representation of times has changed")
		}
		if seconds, unknown := lagSince(fresh, now); unknown || seconds != c.want.Seconds() {
			t.Errorf("%s: the standby is said to be %.0f seconds behind (unknown %v), want %s", c.name, seconds, unknown, c.want)
		}
	}
}

// withWall returns a time whose reading of the wall clock differs by whole seconds, with the same
// reading of the monotonic clock. Package time has no function for it.
func withWall(t *testing.T, at time.Time, by time.Duration) time.Time {
	t.Helper()
	const nanosecondBits = 30 // below the seconds of the wall clock
	*(*uint64)(unsafe.Pointer(&at)) += uint64(by/time.Second) << nanosecondBits
	return at
}

// While a standby that has lost its slot copies everything again, it is not said to follow, until the
// copy has replaced the old one.
func TestStatusDuringAnotherCopy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	writeDir(t, dir, "id")
	server := newScripted()
	f := openFollower(t, dir, server)
	<-server.copied // the copy needs changes, for which it waits
	if s := f.Status(); s.State != Disconnected || !strings.Contains(s.Error, errCopiesAgain.Error()) {
		t.Errorf("during the copy the status is %+v", s)
	}
	close(server.send)
	awaitState(t, f, Following)
	if s := f.Status(); s.Error != "" || s.Position != 10 {
		t.Errorf("after the copy the status is %+v", s)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
