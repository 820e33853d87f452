package standby

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// openSource opens the data of a server.
func openSource(t *testing.T, o pebble.Options) *Source {
	t.Helper()
	e, err := pebble.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return newTestSource(e)
}

func newTestSource(e *pebble.Engine) *Source {
	return &Source{Engine: e, Database: func(context.Context) (string, error) { return "id", nil }}
}

// put commits a value.
func put(t *testing.T, s *Source, key string) {
	t.Helper()
	if err := s.Engine.Update(t.Context(), nil, func(tx store.Tx) error {
		tx.Set([]byte(key), []byte("v"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// ask sends a request to a server, and returns the reader of its reply.
func ask(t *testing.T, answer func(context.Context, []byte, io.Writer) error, request any) *messageReader {
	t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	var reply bytes.Buffer
	if err := answer(t.Context(), body, &reply); err != nil {
		t.Fatal(err)
	}
	return &messageReader{bufio.NewReader(&reply)}
}

// askChanges is a step of a process of a standby: it asks for the changes that follow its state, and returns the
// state with them.
func askChanges(t *testing.T, s *Source, have state, process string) (state, error) {
	t.Helper()
	r := ask(t, s.Changes, have.changesRequest(process))
	changes, end, err := readChanges(r, have.Position)
	if err != nil {
		return have, err
	}
	return have.after(changes, end), nil
}

// askCopy returns the state of a standby with a copy.
func askCopy(t *testing.T, s *Source, standby, process string) state {
	t.Helper()
	r := ask(t, s.Copy, copyRequest{Format: format, Standby: standby, Process: process})
	var begin copyBegin
	if err := r.nextJSON(messageBegin, &begin); err != nil {
		t.Fatal(err)
	}
	return state{Format: format, Standby: standby, Slot: begin.Slot, Database: begin.Database, Run: begin.Run, Position: begin.Start}
}

// A server with an older state of its data does not send changes to a standby that has later ones,
// also if the clock was set back, so that the stamps of an hour are of one window. The control is
// the state that the standby has last read from.
func TestOlderStateWithASlowClock(t *testing.T) {
	now := time.Now()
	disk := vfs.NewCrashableMem()
	o := pebble.Options{FS: disk, Dir: "d", Now: func() time.Time { return now }}
	s := openSource(t, o)
	put(t, s, "while the clock is ahead")
	now = now.Add(-time.Hour)
	have := askCopy(t, s, "standby", "process")
	step := func() {
		t.Helper()
		var err error
		if have, err = askChanges(t, s, have, "process"); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "before")
	step()
	older := disk.CrashClone(vfs.CrashCloneCfg{})
	for i := range 30 {
		now = now.Add(time.Minute)
		put(t, s, fmt.Sprint(i))
		step()
	}
	newest := disk.CrashClone(vfs.CrashCloneCfg{})
	for name, disk := range map[string]*vfs.MemFS{"older": older, "newest": newest} {
		o.FS = disk
		s := openSource(t, o)
		put(t, s, "after")
		_, err := askChanges(t, s, have, "process")
		refused := new(refusal)
		if is := errors.As(err, &refused) && refused.Code == codeOtherHistory; is != (name == "older") {
			t.Errorf("the server with the %s state answers %v", name, err)
		}
	}
}
