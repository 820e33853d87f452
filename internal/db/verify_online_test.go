package db

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// A database that is written to, and whose tables are changed meanwhile, has no
// findings. The control: a divergence that is planted meanwhile is found.
func TestVerifyWhileWriting(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	d := agedDB(t, rand.New(rand.NewPCG(seed, 0)))
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for n := range 2 {
		r := rand.New(rand.NewPCG(seed, uint64(n+1)))
		writers.Go(func() {
			for ctx.Err() == nil {
				age(t, d, r, "Orders", "Plain")
			}
		})
	}
	writers.Go(func() { changeTables(ctx, t, d) })
	defer writers.Wait()
	defer stop()
	for i := range 4 {
		if found := verifyInParts(t, d, 50+i*100); len(found) > 0 {
			t.Errorf("pass %d: %d findings, the first: %+v", i, len(found), found[0])
		}
	}
	table := tableOf(t, d, "Orders")
	planted := fullItem("planted", 1)
	writeRaw(t, d, func(tx store.Tx) { tx.Set(keyspace.Item(nil, table, planted), codec.EncodeItem(planted)) })
	if found := verifyInParts(t, d, 50); len(found) == 0 {
		t.Error("an item that was planted without its index entries is not found")
	}
}

// changeTables creates and drops tables, and enables and disables what reads the
// changes of one, until the context ends.
func changeTables(ctx context.Context, t *testing.T, d *DB) {
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprint("Short", i)
		create(t, d, orders(name))
		if _, err := d.SetRecovery(t.Context(), name, 1+i%2); err != nil {
			t.Error(err)
		}
		for n := range 20 {
			put(t, d, name, fullItem(fmt.Sprint(n), i))
		}
		days := 7 * (i % 2)
		if _, err := d.SetRecovery(t.Context(), "Plain", days); err != nil {
			t.Error(err)
		}
		if _, err := d.DeleteTable(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
}

// A bit that flips in a table file is found, wherever it is: what Verify passes
// can be read, and is what was written.
func TestVerifyFindsFlippedBits(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	files := closedFolder(t, dir)
	before := flipAndVerify(t, dir, "", 0)
	if before.faults > 0 {
		t.Fatalf("%d faults are found in the folder as it was closed", before.faults)
	}
	found := 0
	const flips = 12
	for range flips {
		name := files[r.IntN(len(files))]
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		bit := r.Int64N(8 * info.Size())
		after := flipAndVerify(t, dir, name, bit)
		if after.faults > 0 {
			found++
		} else if !bytes.Equal(after.content, before.content) {
			t.Errorf("bit %d of %s is flipped and changes the data, but Verify finds nothing", bit, name)
		}
	}
	if found < flips/2 {
		t.Errorf("%d of %d flipped bits are found", found, flips)
	}
	t.Logf("%d of %d flipped bits are found, the others change nothing that is read", found, flips)
}

// closedFolder fills a folder, most of it with change records, and returns the
// names of its tables' files.
func closedFolder(t *testing.T, dir string) (files []string) {
	t.Helper()
	engine, err := pebble.Open(pebble.Options{Dir: dir, Durability: pebble.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.Context(), engine, Options{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, d, orders("Orders"))
	if _, err := d.UpdateTable(t.Context(), "Orders", func(t *schema.Table) error {
		t.State = ""
		t.EnableStream("NEW_AND_OLD_IMAGES", d.Now())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for version := range 4 {
		for i := range 150 {
			put(t, d, "Orders", fullItem(fmt.Sprint(i), 1).With("version", num(version)))
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(entries) == 0 {
		t.Fatalf("the folder has no table files: %v", err)
	}
	for _, e := range entries {
		files = append(files, filepath.Base(e))
	}
	return files
}

// folderState is what is found in a folder, and all keys and values in it.
type folderState struct {
	faults  int64
	content []byte
}

// flipAndVerify verifies a copy of a folder in which one bit of a file is
// flipped. A folder that cannot be opened counts as a fault.
func flipAndVerify(t *testing.T, dir, file string, bit int64) (s folderState) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if file != "" {
		b, err := os.ReadFile(filepath.Join(copied, file))
		if err != nil {
			t.Fatal(err)
		}
		b[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(filepath.Join(copied, file), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	engine, err := pebble.Open(pebble.Options{Dir: copied, Durability: pebble.Relaxed})
	if err != nil {
		return folderState{faults: 1}
	}
	defer engine.Close()
	d, err := Open(t.Context(), engine, Options{})
	if err != nil {
		return folderState{faults: 1}
	}
	defer func() { _ = d.Close() }()
	for _, r := range verifyAll(t, d) {
		s.faults += r.Faults
	}
	if s.faults == 0 {
		s.content = allKeys(t, engine)
	}
	return s
}

// allKeys returns all keys and values, except the counts, which every start may
// save.
func allKeys(t *testing.T, engine store.Engine) (content []byte) {
	t.Helper()
	snap, err := engine.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	for pair, err := range snap.Scan(t.Context(), store.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if pair.Key[0] != keyspace.KindItemCount {
			content = fmt.Appendf(content, "%x=%x\n", pair.Key, pair.Value)
		}
	}
	return content
}
