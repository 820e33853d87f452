package db

import (
	"testing"

	"github.com/stator-db/stator/internal/store/pebble"
)

// A checkpoint is found under its name after a restart.
func TestCheckpoints(t *testing.T) {
	engine := newEngine(t, pebble.InMemory())
	d := newDB(t, engine, Options{})
	for _, values := range []map[string][]byte{{"a": {1}, "b": {2}}, {"a": {3}}} {
		if err := d.SaveCheckpoints(t.Context(), values); err != nil {
			t.Fatal(err)
		}
	}
	again := newDB(t, engine, Options{})
	for name, want := range map[string]string{"a": "\x03", "b": "\x02", "c": ""} {
		if got, err := again.Checkpoint(t.Context(), name); err != nil || string(got) != want || (got == nil) != (want == "") {
			t.Errorf("Checkpoint(%s) = %x, %v, want %x", name, got, err, want)
		}
	}
}
