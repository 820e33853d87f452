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

// Of two restores into one folder at once none takes what the other has made so
// far for its own.
func TestTwoRestoresAtOnce(t *testing.T) {
	s, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{"Carts", "Orders"} {
		id := []schema.Attribute{{Name: "id", Type: item.S}}
		if _, err := s.db.CreateTable(t.Context(), schema.Table{Name: name, Key: schema.Key{Partition: id}, Attributes: id}); err != nil {
			t.Fatal(err)
		}
	}
	var stream bytes.Buffer
	if err := s.backups.WriteAll(t.Context(), &stream); err != nil {
		t.Fatal(err)
	}
	from, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	if err := SaveBackup(t.Context(), &stream, from, func(TableBackup) {}); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}), make(chan error, 1)
	another := func() {
		first := true
		ended <- RestoreBackup(ctx, from, data, log, func(TableBackup) {
			if first {
				first = false
				close(begun)
				<-ctx.Done() // it takes long
			}
		})
	}
	told := 0
	err = RestoreBackup(t.Context(), from, data, log, func(TableBackup) {
		if told++; told < 2 {
			return
		}
		go another()
		select {
		case <-begun:
		case err := <-ended:
			ended <- err
		}
	})
	stop()
	if other := <-ended; err != nil || other == nil {
		t.Fatalf("the first ends with %v, the second with %v", err, other)
	}
	made, err := Open(t.Context(), Options{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	if names, _ := made.db.Tables("", 10); len(names) != 2 {
		t.Errorf("a restore that was complete has made %v", names)
	}
}
