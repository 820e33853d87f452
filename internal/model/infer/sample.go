package infer

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/exchange"
	"github.com/stator-db/stator/internal/protocol/wire"
)

const (
	// maxItems is the most items of a table that a sample holds, and maxItemBytes how large
	// they are together.
	maxItems     = 20_000
	maxItemBytes = 128 << 20
	// maxSegments is the most parts of the key space that are read in turn.
	maxSegments = 64
	// segmentUnits is how much of the budget makes one more segment worthwhile.
	segmentUnits = 4
	// unitBytes is how much an eventually consistent read returns for one unit.
	unitBytes = 8 << 10
)

// Reservoir is a random sample of bounded size of a stream of items.
type Reservoir struct {
	Items []item.Item
	Seen  int64
	rand  *rand.Rand
	bytes int // of Items
	most  int // items that it may hold; fewer than maxItems once they are too large

	maxBytes    int   // of Items
	maxDocument int64 // bytes of a document of a file

	reader wire.ItemReader
	line   []byte
}

// NewReservoir makes an empty sample.
func NewReservoir(seed uint64) *Reservoir {
	return &Reservoir{rand: rand.New(rand.NewPCG(seed, 1)), most: maxItems, maxBytes: maxItemBytes, maxDocument: maxDocument}
}

// Add adds an item, or drops it, so that all items have the same chance.
func (s *Reservoir) Add(it item.Item) {
	s.Seen++
	if len(s.Items) < s.most {
		s.Items = append(s.Items, it)
		s.bytes += len(it)
	} else if at := s.rand.Int64N(s.Seen); at < int64(s.most) {
		s.bytes += len(it) - len(s.Items[at])
		s.Items[at] = it
	}
	for s.bytes > s.maxBytes && len(s.Items) > 1 {
		s.drop()
	}
}

// drop drops one item at random, and from then on the sample holds no more than are left.
func (s *Reservoir) drop() {
	last := len(s.Items) - 1
	at := s.rand.IntN(len(s.Items))
	s.bytes -= len(s.Items[at])
	s.Items[at], s.Items[last] = s.Items[last], nil
	s.Items = s.Items[:last]
	s.most = last
}

// addText adds an item as the API writes it, and returns its size.
func (s *Reservoir) addText(text []byte) (size int, err error) {
	s.line = append(append(append(s.line[:0], `{"Item":`...), text...), '}')
	it, err := s.reader.Member(s.line, "Item")
	if err != nil {
		return 0, err
	}
	s.Add(slices.Clone(it))
	return it.Size(), nil
}

// Options say what is read from a server.
type Options struct {
	Tables   []string // names; all tables if there are none
	Units    float64  // read units that all tables may use together
	Endpoint string   // the name of the server in messages
	Seed     uint64

	// Progress is called after each page.
	Progress func(table string, items int, units float64)
}

// ReadServer describes the tables of a server and reads a sample of each. It
// stops at the budget of units; only the last page of a table may exceed it.
func ReadServer(ctx context.Context, send apply.Send, o Options) ([]*TableSample, error) {
	design, err := exchange.ReadServer(ctx, send, o.Endpoint, func(int, int) {})
	if err != nil {
		return nil, err
	}
	var samples []*TableSample
	for _, name := range o.Tables {
		if !slices.ContainsFunc(design.Tables, func(t *exchange.Table) bool { return t.Name == name }) {
			return nil, fmt.Errorf("%s has no table %s", o.Endpoint, name)
		}
	}
	for _, t := range design.Tables {
		if len(o.Tables) == 0 || slices.Contains(o.Tables, t.Name) {
			samples = append(samples, &TableSample{Table: t})
		}
	}
	left := o.Units
	for i, s := range samples {
		// What a small table leaves over is used for those after it.
		x := &tableScan{send: send, sample: s, budget: left / float64(len(samples)-i), options: &o, reservoir: NewReservoir(o.Seed)}
		if err := x.run(ctx); err != nil {
			return nil, fmt.Errorf("cannot read the table %s of %s: %w", s.Table.Name, o.Endpoint, err)
		}
		left -= s.Units
	}
	return samples, nil
}

// tableScan reads a sample of one table, page by page, each from another
// segment.
type tableScan struct {
	send      apply.Send
	sample    *TableSample
	budget    float64
	options   *Options
	reservoir *Reservoir
	bytes     int64
}

func (x *tableScan) run(ctx context.Context) error {
	var described struct {
		Table struct{ ItemCount, TableSizeBytes int64 }
	}
	name := x.sample.Table.Name
	if err := x.send.Ask(ctx, "DescribeTable", map[string]any{"TableName": name}, &described); err != nil {
		return err
	}
	average := int64(1024)
	if t := described.Table; t.ItemCount > 0 {
		average = max(1, t.TableSizeBytes/t.ItemCount)
	}
	segments := max(1, min(maxSegments, int(x.budget/segmentUnits)))
	open := make([]map[string]any, segments)
	for i := range open {
		open[i] = map[string]any{"TableName": name, "Segment": i, "TotalSegments": segments, "ReturnConsumedCapacity": "TOTAL"}
	}
	for len(open) > 0 && x.sample.Units < x.budget {
		var next []map[string]any
		for i, request := range open {
			left := x.budget - x.sample.Units
			if left <= 0 {
				next = append(next, open[i:]...)
				break
			}
			if x.reservoir.Seen > 0 {
				average = max(1, x.bytes/x.reservoir.Seen)
			}
			// The segments share what is left.
			request["Limit"] = max(1, int64(left/float64(len(open)-i)*unitBytes)/average)
			more, err := x.page(ctx, request)
			if err != nil {
				return err
			}
			if more {
				next = append(next, request)
			}
		}
		open = next
	}
	s := x.sample
	s.Items = x.reservoir.Items
	s.Complete = len(open) == 0 && x.reservoir.Seen == int64(len(s.Items))
	s.Count = max(described.Table.ItemCount, x.reservoir.Seen)
	if len(open) == 0 {
		s.Count = x.reservoir.Seen
	}
	return nil
}

// page reads one page and reports whether there are more.
func (x *tableScan) page(ctx context.Context, request map[string]any) (more bool, err error) {
	var reply struct {
		Items            []json.RawMessage
		LastEvaluatedKey json.RawMessage
		ConsumedCapacity struct{ CapacityUnits float64 }
	}
	if err := x.send.Ask(ctx, "Scan", request, &reply); err != nil {
		return false, err
	}
	bytes := 0
	for _, text := range reply.Items {
		size, err := x.reservoir.addText(text)
		if err != nil {
			return false, fmt.Errorf("an item of the reply: %w", err)
		}
		bytes += size
	}
	x.bytes += int64(bytes)
	// A server that reports no capacity is charged by the bytes.
	x.sample.Units += max(reply.ConsumedCapacity.CapacityUnits, float64(bytes)/unitBytes, 0.5)
	if x.options.Progress != nil {
		x.options.Progress(x.sample.Table.Name, int(x.reservoir.Seen), x.sample.Units)
	}
	request["ExclusiveStartKey"] = reply.LastEvaluatedKey
	return reply.LastEvaluatedKey != nil, nil
}
