package standby

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/stator-db/stator/internal/store"
)

// readReply reads a reply with changes from the stamp 5 on.
func readReply(b []byte) error {
	_, _, err := readChanges(&messageReader{bufio.NewReader(bytes.NewReader(b))}, 5)
	return err
}

// reply encodes changes with these stamps.
func reply(end changesEnd, stamps ...store.Stamp) []byte {
	var b bytes.Buffer
	w := newMessageWriter(&b)
	for _, s := range stamps {
		w.write(messageChange, append(binary.BigEndian.AppendUint64(nil, uint64(s)), "edits"...))
	}
	w.json(messageEnd, end)
	if err := w.flush(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// A reply that is damaged or truncated anywhere is rejected as a whole, and so is one
// whose changes are not all there or not in order.
func TestDamagedReplies(t *testing.T) {
	whole := reply(changesEnd{Changes: 3, Next: 20, Horizon: 20}, 5, 9, 11)
	if err := readReply(whole); err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		damaged := slices.Clone(whole)
		damaged[i] ^= 4
		if err := readReply(damaged); !errors.Is(err, errIncomplete) {
			t.Errorf("byte %d is damaged: %v", i, err)
		}
		if err := readReply(whole[:i]); !errors.Is(err, errIncomplete) {
			t.Errorf("truncated after %d bytes: %v", i, err)
		}
	}
	for name, b := range map[string][]byte{
		"a change is missing":     reply(changesEnd{Changes: 3, Next: 20, Horizon: 20}, 5, 11),
		"not in order":            reply(changesEnd{Changes: 3, Next: 20, Horizon: 20}, 5, 11, 9),
		"a change twice":          reply(changesEnd{Changes: 2, Next: 20, Horizon: 20}, 9, 9),
		"before the position":     reply(changesEnd{Changes: 1, Next: 20, Horizon: 20}, 4),
		"ends before its changes": reply(changesEnd{Changes: 1, Next: 9, Horizon: 20}, 9),
		"ends after the horizon":  reply(changesEnd{Changes: 1, Next: 21, Horizon: 20}, 9),
		"goes back":               reply(changesEnd{Next: 4, Horizon: 20}),
	} {
		if err := readReply(b); !errors.Is(err, errIncomplete) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A position that no time reaches is rejected: a promoted standby could not continue its stamps.
func TestPositionsBeyondTime(t *testing.T) {
	for text, into := range map[string]any{
		`{"start": 18446744073709551615}`:                                           new(copyBegin),
		`{"consistent": 9223372036854775809}`:                                       new(copyEnd),
		`{"next": 18446744073709551615, "horizon": 18446744073709551615}`:           new(changesEnd),
		`{"next": 1, "horizon": 18446744073709551615}`:                              new(changesEnd),
		`{"next": 1, "horizon": 1, "newest": 18446744073709551615, "run": "a run"}`: new(changesEnd),
	} {
		if err := decodeMessage([]byte(text), into); !errors.Is(err, errIncomplete) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := decodeMessage([]byte(`{"next": 9223372036854775807}`), new(changesEnd)); err != nil {
		t.Error(err)
	}
}
