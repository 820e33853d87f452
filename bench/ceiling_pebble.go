package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// A vault is Pebble without a server: the options, keys, values and latches
// that stator has, and nothing of DynamoDB. Its writes are synced.
type vault struct {
	db        *pebble.DB
	catalogue *catalogue
	stripes   [4096]sync.Mutex
}

// servePebble does the orders that it reads, a line of JSON each, and writes a
// line of JSON for each that is done.
func servePebble(folder string, in io.Reader, out io.Writer) error {
	options := &pebble.Options{
		Logger:                      silent{},
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                32 << 20,
		MemTableStopWritesThreshold: 4,
		CacheSize:                   1 << 30, // what stator takes on a machine of 16 GB and more
		CompactionConcurrencyRange:  func() (lower, upper int) { return 1, max(1, min(4, runtime.GOMAXPROCS(0)/2)) },
	}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		options.Levels[i].BlockSize = 8 << 10
		options.Levels[i].IndexBlockSize = 1 << 20
	}
	db, err := pebble.Open(folder, options)
	if err != nil {
		return err
	}
	v := &vault{db: db}
	orders, replies := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, db.Close())
		}
		if err := replies.Encode(v.do(&o)); err != nil {
			return errors.Join(err, db.Close())
		}
	}
}

// do does one order. Its errors are part of the outcome.
func (v *vault) do(o *order) *outcome {
	done := new(outcome)
	if v.catalogue == nil || v.catalogue.items != o.Items {
		v.catalogue = newCatalogue(o.Items, 0)
	}
	var err error
	if o.Run != nil {
		done.Sample, err = drive(context.Background(), *o.Run, func(_ context.Context, i int) (actor, error) {
			return v.hire(*o.Run, i)
		})
	} else {
		err = v.load(o.From, o.To)
	}
	if err != nil {
		done.Error = err.Error()
	}
	return done
}

// load writes items a thousand at a time.
func (v *vault) load(from, to int) error {
	const atOnce = 1000
	var key, value []byte
	for ; from < to; from += atOnce {
		b := v.db.NewBatch()
		for i := from; i < min(from+atOnce, to); i++ {
			key, value = appendVaultKey(key[:0], i), v.appendValue(value[:0], i, uint64(i))
			_ = b.Set(key, value, nil) // a batch in memory takes all
		}
		if err := b.Commit(pebble.Sync); err != nil {
			return err
		}
	}
	return nil
}

// appendVaultKey writes where item i lies: partitions by their hash, as in
// stator.
func appendVaultKey(b []byte, i int) []byte {
	return appendSort(appendVaultPartition(b, i/perPartition), i%perPartition)
}

func appendVaultPartition(b []byte, partition int) []byte {
	var name [10]byte
	p := appendPartition(name[:0], partition)
	return append(binary.BigEndian.AppendUint64(append(b, 'i'), xxhash.Sum64(p)), p...)
}

// appendValue writes the item: as many bytes as DynamoDB counts.
func (v *vault) appendValue(b []byte, i int, salt uint64) []byte {
	b = appendShop(appendSort(appendPartition(b, i/perPartition), i%perPartition), i%v.catalogue.shops())
	b = append(b, v.catalogue.cut(salt)...)
	return append(b, make([]byte, itemBytes-len(b))...)
}

// A clerk is an actor of the vault.
type clerk struct {
	*vault
	generator *generator
	rand      *rand.Rand
	work      func(*clerk) (int, error)
	keys      [][]byte
	values    [][]byte
	iter      *pebble.Iterator // of a scan
	buf       []byte
}

func (v *vault) hire(j job, i int) (actor, error) {
	c := &clerk{vault: v, generator: newGenerator(v.catalogue, j, i)}
	c.rand = c.generator.rand
	var ok bool
	if c.work, ok = vaultWork[j.Workload]; !ok {
		return nil, fmt.Errorf("no workload %s without a server", j.Workload)
	}
	for range perBatch {
		c.keys, c.values = append(c.keys, nil), append(c.values, nil)
	}
	return c, nil
}

// vaultWork is what each workload is without a server.
var vaultWork = map[string]func(*clerk) (int, error){
	"put":      func(c *clerk) (int, error) { return c.write(c.generator.uniform()) },
	"update":   func(c *clerk) (int, error) { return c.write(c.generator.uniform()) },
	"get":      func(c *clerk) (int, error) { return c.get(c.generator.uniform()) },
	"get-zipf": func(c *clerk) (int, error) { return c.get(c.catalogue.zipf.item(c.rand)) },
	"query":    (*clerk).query,
	"batch":    (*clerk).batch,
	"transact": func(c *clerk) (int, error) { own := c.generator.own(); return c.write(own[:]...) },
	"scan":     (*clerk).scan,
	"mix": func(c *clerk) (int, error) {
		if c.rand.IntN(2) == 0 {
			return c.write(c.generator.uniform())
		}
		return c.get(c.generator.uniform())
	},
}

func (c *clerk) prepare() {}

func (c *clerk) act() (int, error) { return c.work(c) }

func (c *clerk) close() {
	if c.iter != nil {
		_ = c.iter.Close()
	}
}

// write replaces items at once, as stator does: latch, read what is there,
// apply, release, and then wait for the disk.
func (c *clerk) write(items ...int) (int, error) {
	latched := make([]int, 0, perBatch)
	for n, i := range items {
		c.keys[n] = appendVaultKey(c.keys[n][:0], i)
		c.values[n] = c.appendValue(c.values[n][:0], i, c.rand.Uint64())
		latched = append(latched, int(binary.BigEndian.Uint64(c.keys[n][1:])%uint64(len(c.stripes))))
	}
	slices.Sort(latched)
	latched = slices.Compact(latched)
	for _, s := range latched {
		c.stripes[s].Lock()
	}
	b := c.db.NewBatch()
	err := c.apply(b, len(items))
	for _, s := range latched {
		c.stripes[s].Unlock()
	}
	if err == nil {
		err = b.SyncWait()
	}
	return len(items), errors.Join(err, b.Close())
}

func (c *clerk) apply(b *pebble.Batch, n int) error {
	for i := range n {
		if err := c.look(c.keys[i]); err != nil {
			return err
		}
		if err := b.Set(c.keys[i], c.values[i], nil); err != nil {
			return err
		}
	}
	return c.db.ApplyNoSyncWait(b, pebble.Sync)
}

// batch is 25 writes side by side in one commit.
func (c *clerk) batch() (int, error) {
	apart := c.catalogue.items / perBatch
	first := c.rand.IntN(apart)
	items := make([]int, perBatch)
	for n := range items {
		items[n] = first + n*apart
	}
	return c.write(items...)
}

func (c *clerk) get(i int) (int, error) {
	c.keys[0] = appendVaultKey(c.keys[0][:0], i)
	return 1, c.look(c.keys[0])
}

func (c *clerk) look(key []byte) error {
	value, closer, err := c.db.Get(key)
	if err != nil {
		return fmt.Errorf("get %q: %w", key, err)
	}
	c.buf = append(c.buf[:0], value...)
	return closer.Close()
}

func (c *clerk) query() (int, error) {
	partition := c.generator.uniform() / perPartition
	lower := appendVaultPartition(c.keys[0][:0], partition)
	upper := append(append(c.keys[1][:0], lower...), 0xff)
	c.keys[0], c.keys[1] = lower, upper
	it, err := c.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return 0, err
	}
	n := 0
	c.buf = c.buf[:0]
	for ok := it.First(); ok; ok = it.Next() {
		c.buf = append(c.buf, it.Value()...)
		n++
	}
	if err := it.Close(); err != nil || n != perPartition {
		return 0, errors.Join(err, fmt.Errorf("a partition has %d items", n))
	}
	return n, nil
}

// scan reads the next 1 MB of the clerk's segment.
func (c *clerk) scan() (int, error) {
	if c.iter == nil {
		g := c.generator
		span := math.MaxUint64/uint64(g.connections) + 1 // 0 for one connection: all
		lower := binary.BigEndian.AppendUint64([]byte{'i'}, span*uint64(g.connection))
		upper := binary.BigEndian.AppendUint64([]byte{'i'}, span*uint64(g.connection+1))
		if g.connection == g.connections-1 {
			upper = []byte{'i' + 1}
		}
		var err error
		if c.iter, err = c.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper}); err != nil {
			return 0, err
		}
		c.iter.First()
	}
	n := 0
	c.buf = c.buf[:0]
	for ; c.iter.Valid() && n < (1<<20)/itemBytes; n++ {
		c.buf = append(c.buf, c.iter.Value()...)
		c.iter.Next()
	}
	if c.iter.Valid() {
		return n, nil
	}
	err := c.iter.Close()
	c.iter = nil
	return n, err
}

// silent has Pebble say nothing but its last words.
type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
