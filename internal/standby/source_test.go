package standby

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stator-db/stator/internal/store/pebble"
)

// The id of the database is read once, not with each request: the first time it is an Update.
func TestDatabaseIsReadOnce(t *testing.T) {
	e, err := pebble.Open(pebble.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	read := 0
	s := &Source{Engine: e, Database: func(context.Context) (string, error) {
		read++
		return "id", nil
	}}
	for range 3 {
		request, err := json.Marshal(changesRequest{Format: format, Slot: "none", Database: "id"})
		if err != nil {
			t.Fatal(err)
		}
		var reply bytes.Buffer
		if err := s.Changes(t.Context(), request, &reply); err != nil {
			t.Fatal(err)
		}
	}
	if read != 1 {
		t.Errorf("it was read %d times", read)
	}
}
