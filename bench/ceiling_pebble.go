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

// rawPebble is Pebble without a server: stator's options, keys, values and
// latches, and nothing of DynamoDB. Writes are synced.
type rawPebble struct {
	db      *pebble.DB
	dataset *dataset
	stripes [4096]sync.Mutex
}

// servePebble executes the requests that it reads, one line of JSON each, and
// writes one line of JSON for each result.
func servePebble(folder string, in io.Reader, out io.Writer) error {
	options := &pebble.Options{
		Logger:                      silent{},
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                32 << 20,
		MemTableStopWritesThreshold: 4,
		CacheSize:                   1 << 30, // stator's default on a machine with 16 GB or more
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
	p := &rawPebble{db: db}
	requests, replies := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	for {
		var r pebbleRequest
		if err := requests.Decode(&r); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, db.Close())
		}
		if err := replies.Encode(p.do(&r)); err != nil {
			return errors.Join(err, db.Close())
		}
	}
}

// do executes one request. Errors are part of the result.
func (p *rawPebble) do(r *pebbleRequest) *pebbleResult {
	done := new(pebbleResult)
	if p.dataset == nil || p.dataset.items != r.Items {
		p.dataset = newDataset(r.Items, 0)
	}
	var err error
	if r.Run != nil {
		done.Sample, err = drive(context.Background(), *r.Run, func(_ context.Context, i int) (actor, error) {
			return p.newClient(*r.Run, i)
		})
	} else {
		err = p.load(r.From, r.To)
	}
	if err != nil {
		done.Error = err.Error()
	}
	return done
}

// load writes items in batches of a thousand.
func (p *rawPebble) load(from, to int) error {
	const atOnce = 1000
	var key, value []byte
	for ; from < to; from += atOnce {
		b := p.db.NewBatch()
		for i := from; i < min(from+atOnce, to); i++ {
			key, value = appendStoredKey(key[:0], i), p.appendValue(value[:0], i, uint64(i))
			_ = b.Set(key, value, nil) // cannot fail: the batch is in memory
		}
		if err := b.Commit(pebble.Sync); err != nil {
			return err
		}
	}
	return nil
}

// appendStoredKey appends the key of item i: the partition's hash first, as in
// stator.
func appendStoredKey(b []byte, i int) []byte {
	return appendSort(appendStoredPartition(b, i/perPartition), i%perPartition)
}

func appendStoredPartition(b []byte, partition int) []byte {
	var name [10]byte
	p := appendPartition(name[:0], partition)
	return append(binary.BigEndian.AppendUint64(append(b, 'i'), xxhash.Sum64(p)), p...)
}

// appendValue appends a value of as many bytes as DynamoDB counts for the item.
func (p *rawPebble) appendValue(b []byte, i int, salt uint64) []byte {
	b = appendShop(appendSort(appendPartition(b, i/perPartition), i%perPartition), i%p.dataset.shops())
	b = append(b, p.dataset.cut(salt)...)
	return append(b, make([]byte, itemBytes-len(b))...)
}

// client is an actor that uses rawPebble.
type client struct {
	*rawPebble
	generator *generator
	rand      *rand.Rand
	work      func(*client) (int, error)
	keys      [][]byte
	values    [][]byte
	iter      *pebble.Iterator // the open scan, or nil
	buf       []byte
}

func (p *rawPebble) newClient(j job, i int) (actor, error) {
	c := &client{rawPebble: p, generator: newGenerator(p.dataset, j, i)}
	c.rand = c.generator.rand
	var ok bool
	if c.work, ok = pebbleWorkloads[j.Workload]; !ok {
		return nil, fmt.Errorf("workload %s needs a server", j.Workload)
	}
	for range perBatch {
		c.keys, c.values = append(c.keys, nil), append(c.values, nil)
	}
	return c, nil
}

// pebbleWorkloads maps each workload to what it does without a server.
var pebbleWorkloads = map[string]func(*client) (int, error){
	"put":      func(c *client) (int, error) { return c.write(c.generator.uniform()) },
	"update":   func(c *client) (int, error) { return c.write(c.generator.uniform()) },
	"get":      func(c *client) (int, error) { return c.get(c.generator.uniform()) },
	"get-zipf": func(c *client) (int, error) { return c.get(c.dataset.zipf.item(c.rand)) },
	"query":    (*client).query,
	"batch":    (*client).batch,
	"transact": func(c *client) (int, error) { own := c.generator.own(); return c.write(own[:]...) },
	"scan":     (*client).scan,
	"mix": func(c *client) (int, error) {
		if c.rand.IntN(2) == 0 {
			return c.write(c.generator.uniform())
		}
		return c.get(c.generator.uniform())
	},
}

func (c *client) prepare() {}

func (c *client) act() (int, error) { return c.work(c) }

func (c *client) close() {
	if c.iter != nil {
		_ = c.iter.Close()
	}
}

// write replaces items in one commit, as stator does: latch, read the stored
// items, apply, release the latches, and then wait for the disk.
func (c *client) write(items ...int) (int, error) {
	latched := make([]int, 0, perBatch)
	for n, i := range items {
		c.keys[n] = appendStoredKey(c.keys[n][:0], i)
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

func (c *client) apply(b *pebble.Batch, n int) error {
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

// batch writes 25 items that are far apart, in one commit.
func (c *client) batch() (int, error) {
	apart := c.dataset.items / perBatch
	first := c.rand.IntN(apart)
	items := make([]int, perBatch)
	for n := range items {
		items[n] = first + n*apart
	}
	return c.write(items...)
}

func (c *client) get(i int) (int, error) {
	c.keys[0] = appendStoredKey(c.keys[0][:0], i)
	return 1, c.look(c.keys[0])
}

func (c *client) look(key []byte) error {
	value, closer, err := c.db.Get(key)
	if err != nil {
		return fmt.Errorf("get %q: %w", key, err)
	}
	c.buf = append(c.buf[:0], value...)
	return closer.Close()
}

func (c *client) query() (int, error) {
	partition := c.generator.uniform() / perPartition
	lower := appendStoredPartition(c.keys[0][:0], partition)
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

// scan reads the next 1 MB of the client's segment.
func (c *client) scan() (int, error) {
	if c.iter == nil {
		g := c.generator
		span := math.MaxUint64/uint64(g.connections) + 1 // overflows to 0 for one connection, which reads all
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

// silent is a Pebble logger that reports fatal errors only.
type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
