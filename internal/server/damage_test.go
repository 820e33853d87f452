package server_test

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// damagedEngine reports damage.
type damagedEngine struct {
	store.Engine
	damage store.Damage
}

func (e damagedEngine) Damage() store.Damage { return e.damage }

// Damage that the engine has found is shown by /healthz, which stays 200 as other data is
// served, and by /metrics. The control has none.
func TestDamageIsShown(t *testing.T) {
	engine, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	for _, c := range []struct {
		damage          store.Damage
		health, metrics string
	}{
		{store.Damage{}, "ok\n", "\nstator_damaged_files 0\n"},
		{store.Damage{Files: 2, Compactions: 7}, "ok\nstored data is corrupt, found in 2 files: restore it from a backup\n", "\nstator_damaged_compactions_total 7\n"},
	} {
		d, err := db.Open(t.Context(), damagedEngine{engine, c.damage}, db.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h := server.New(ops.New(ops.Parts{DB: d}), slog.New(slog.DiscardHandler), 0)
		for path, want := range map[string]string{"/healthz": c.health, "/metrics": c.metrics} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			if w.Code != 200 || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s with %+v: %d %s", path, c.damage, w.Code, w.Body)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
