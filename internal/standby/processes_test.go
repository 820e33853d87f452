package standby

import (
	"errors"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// The process of a standby that was started last is answered. An earlier one is refused, unless the
// later one is gone; another standby without the slot is no later one.
func TestProcessesOfAStandby(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		e, err := pebble.Open(pebble.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s := newTestSource(e)
		have := askCopy(t, s, "standby", "first")
		stale := have
		stale.Slot = "standby.removed"
		for _, c := range []struct {
			name    string
			process string
			have    state
			after   time.Duration
			want    string
		}{
			{"the process that has copied", "first", have, 0, ""},
			{"a process of another version", "", have, 0, ""},
			{"another standby, whose slot is gone", "other", stale, 0, codeNoSlot},
			{"the process that has copied, still", "first", have, 0, ""},
			{"a later process", "second", have, 0, ""},
			{"the earlier process", "first", have, 0, codeBusy},
			{"the earlier process, which needs a copy", "first", stale, 0, codeBusy},
			{"the later process, still", "second", have, 59 * time.Second, ""},
			{"the earlier process when the later one is gone", "first", have, busyTime, ""},
			{"the later process, which is now the earlier one", "second", have, 0, codeBusy},
		} {
			time.Sleep(c.after)
			_, err := askChanges(t, s, c.have, c.process)
			refused := new(refusal)
			if errors.As(err, &refused); refused.Code != c.want {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
		}
		r := ask(t, s.Copy, copyRequest{Format: format, Standby: "standby", Process: "second"})
		if _, _, err := r.next(); err == nil {
			t.Error("a copy is sent to the earlier process")
		}
	})
}
