package stator

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// Of two restores into the same folder at the same time, neither takes over the
// unfinished folder of the other.
func TestTwoRestoresAtOnce(t *testing.T) {
	d, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"Carts", "Orders"} {
		id := []schema.Attribute{{Name: "id", Type: item.S}}
		if _, err := d.db.CreateTable(t.Context(), schema.Table{Name: name, Key: schema.Key{Partition: id}, Attributes: id}); err != nil {
			t.Fatal(err)
		}
	}
	var stream bytes.Buffer
	if err := d.backups.WriteAll(t.Context(), &stream); err != nil {
		t.Fatal(err)
	}
	from, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	if err := SaveBackup(t.Context(), &stream, from, func(TableBackup) {}); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(t.Context())
	started, ended := make(chan struct{}), make(chan error, 1)
	another := func() {
		first := true
		ended <- RestoreBackup(ctx, from, data, log, func(TableBackup) {
			if first {
				first = false
				close(started)
				<-ctx.Done() // a slow restore
			}
		})
	}
	tables := 0
	err = RestoreBackup(t.Context(), from, data, log, func(TableBackup) {
		if tables++; tables < 2 {
			return
		}
		go another()
		select {
		case <-started:
		case err := <-ended:
			ended <- err
		}
	})
	stop()
	if other := <-ended; err != nil || other == nil {
		t.Fatalf("the first restore returned %v, the second %v; want nil and an error", err, other)
	}
	restored, err := Open(t.Context(), Options{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	if names, _ := restored.db.Tables("", 10); len(names) != 2 {
		t.Errorf("the completed restore has the tables %v, want 2", names)
	}
}
