package commit

import (
	"bytes"
	"testing"

	"github.com/stator-db/stator/internal/store"
)

// The key of a window names it, and lies between the bounds of all windows.
func TestWindowKeys(t *testing.T) {
	lower, upper := WindowKeys()
	for _, w := range []Window{0, 1, 255, 1 << 40} {
		key := w.Key()
		if got := WindowOfKey(key); got != w {
			t.Errorf("the key of window %d names %d", w, got)
		}
		if bytes.Compare(key, lower) < 0 || bytes.Compare(key, upper) >= 0 {
			t.Errorf("the key %x is not between %x and %x", key, lower, upper)
		}
		if !IsWindow(key, []byte{1}) {
			t.Errorf("%x is not taken for a record of a window", key)
		}
	}
	key := Window(7).Key()
	for name, record := range map[string][2][]byte{
		"a short key":      {key[:9], {1}},
		"a long key":       {append(bytes.Clone(key), 0), {1}},
		"another kind":     {append([]byte{store.Reserved, 'v'}, key[2:]...), {1}},
		"a key of a table": {append([]byte{'i', 'w'}, key[2:]...), {1}},
		"no value":         {key, nil},
		"a long value":     {key, {1, 1}},
		"another value":    {key, {2}},
	} {
		if IsWindow(record[0], record[1]) {
			t.Errorf("%s is taken for a record of a window", name)
		}
	}
}

// The first stamp of a window has to carry its record, and those after it do not. Stamps
// after a crash are larger than all of the last window recorded.
func TestWindowsAreRecordedOnce(t *testing.T) {
	var w Windows
	w.Start(5)
	stamp := Window(6).firstStamp() + 3
	if current, last, due := w.Due(stamp); current != 6 || last != 5 || !due {
		t.Errorf("Due is %d, %d, %v, want 6, 5, true", current, last, due)
	}
	w.Recorded(stamp)
	if _, _, due := w.Due(stamp + 1); due {
		t.Error("a window is recorded twice")
	}
	w.Recorded(Window(4).firstStamp()) // its batch was durable later
	if bound := w.Bound(); WindowOf(bound-1) != 6 || WindowOf(bound) != 7 {
		t.Errorf("stamps begin again with %d, of window %d", bound, WindowOf(bound))
	}
}
