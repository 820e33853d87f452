package db

import (
	"errors"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// A damaged token record is reported to a request that uses the token, and is
// kept when it is due: without it, the transaction could be executed again. It
// does not keep other tokens from being removed.
func TestDamagedTokenIsReportedAndKept(t *testing.T) {
	for name, damaged := range map[string][]byte{
		"unknown format": {77, '{', '}'},
		"no content":     {1},
		"no JSON":        []byte("\x01{\"at\":"),
		"no digest":      []byte("\x01" + `{"at":"2026-11-16T00:00:00Z","request":"","sizes":[1]}`),
		"no time":        []byte("\x01{}"),
	} {
		t.Run(name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				engine := newEngine(t, pebble.InMemory())
				d := newDB(t, engine, Options{})
				create(t, d, orders("Orders"))
				bad, good := testToken("bad", "x"), testToken("good", "x")
				for _, token := range []*Token{bad, good} {
					if _, err := d.Transact(t.Context(), token, addOne("a")); err != nil {
						t.Fatal(err)
					}
				}
				writeRaw(t, d, func(tx store.Tx) { tx.Set(keyspace.Token(bad.digest()), damaged) })
				if _, err := d.Transact(t.Context(), bad, addOne("a")); !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("a transaction with the damaged token returns %v", err)
				}
				time.Sleep(TokenRetention + time.Minute/2) // not yet removed by the background work
				if err := d.removeTokens(t.Context()); !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("removal returns %v", err)
				}
				values, err := engine.Get(t.Context(), store.Strong, keyspace.Token(bad.digest()), keyspace.Token(good.digest()))
				if err != nil {
					t.Fatal(err)
				}
				if string(values[0]) != string(damaged) || values[1] != nil {
					t.Errorf("the damaged record is %q, the other %q", values[0], values[1])
				}
				if n := countStored(t, engine, []byte{keyspace.TokenDue(time.Now(), nil)[0]}, []byte{keyspace.TokenDue(time.Now(), nil)[0] + 1}); n != 1 {
					t.Errorf("%d due entries are left, want that of the damaged record", n)
				}
			})
		})
	}
}
