package prove

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
)

// loadPlan is everything that is prepared for a load: the runs of each pattern,
// with encoded bodies.
type loadPlan struct {
	model   *model.Model
	runs    [][]preparedRun // by pattern
	claimed map[uint64]bool
	seed    maphash.Seed
	next    int // the first run that no pattern uses
}

// preparedRun is one run of a pattern that is ready to be sent.
type preparedRun struct {
	requests []preparedRequest
	keys     []string // the partitions that it touches
}

type preparedRequest struct {
	operation string
	body      json.RawMessage
	pages     int // the most pages to read
}

// Limits of one pattern: runs that are repeated, and the items that they find.
const (
	maxRepeated   = 1000
	maxFound      = 5000
	maxFoundBytes = 16 << 20
)

// Limits of all patterns together: runs and items, and their bytes.
const (
	maxPrepared      = 400_000
	maxPreparedBytes = 512 << 20
)

// prepare makes the runs that arrivals ask for, assigns one to each arrival, and
// stores the items that the runs find. A conditional change of an item succeeds
// once, so a pattern with a condition gets another item for each arrival. All
// other patterns repeat their runs as the skew of their keys says.
func prepare(ctx context.Context, send apply.Send, m *model.Model, arrivals []arrival, chance *rand.Rand, progress func(done, all int)) (*loadPlan, error) {
	draws, wanted, err := planRuns(m, arrivals, chance)
	if err != nil {
		return nil, err
	}
	c := &loadPlan{model: m, runs: make([][]preparedRun, len(m.Patterns)), claimed: make(map[uint64]bool), seed: maphash.MakeSeed()}
	var writes []batchEntry
	for i, p := range m.Patterns {
		if c.runs[i], err = c.makeRuns(m.Plan(p), wanted[i], &writes); err != nil {
			return nil, err
		}
		if progress != nil {
			progress(0, len(writes))
		}
	}
	for i := range arrivals {
		arrivals[i].run = draws[arrivals[i].pattern]()
	}
	return c, storeFixtures(ctx, send, writes, progress)
}

// planRuns decides for each pattern how many runs to prepare and how an arrival
// draws one of them. It fails when that is too much to prepare.
func planRuns(m *model.Model, arrivals []arrival, chance *rand.Rand) (draws []func() int, wanted []int, err error) {
	counts := make([]int, len(m.Patterns))
	for _, a := range arrivals {
		counts[a.pattern]++
	}
	draws, wanted = make([]func() int, len(m.Patterns)), make([]int, len(m.Patterns))
	prepared, bytes := 0, 0
	for i, p := range m.Patterns {
		if counts[i] == 0 {
			continue
		}
		plan := m.Plan(p)
		first, err := m.Scenario(plan, model.Generator{}, 0)
		if err != nil {
			return nil, nil, err
		}
		size := 1
		for _, stored := range first.Before {
			size += stored.Item.Size()
		}
		n := counts[i]
		if RunsOnce(plan) {
			draws[i] = drawEach()
		} else {
			share, hot, distinct := skew(plan)
			n = min(n, distinct, maxRepeated, max(1, maxFound/max(1, len(first.Before))), max(1, maxFoundBytes/size))
			draws[i] = drawSkewed(n, share, hot, chance)
		}
		wanted[i] = n
		prepared, bytes = prepared+n*(1+len(first.Before)), bytes+n*size
		if prepared > maxPrepared || bytes > maxPreparedBytes {
			return nil, nil, fmt.Errorf("this needs more than %d items and runs, or more than %s of them: use a lower rate or a shorter time",
				maxPrepared, model.Bytes(maxPreparedBytes))
		}
	}
	return draws, wanted, nil
}

// drawEach draws every run once, in order.
func drawEach() func() int {
	used := 0
	return func() int { used++; return used - 1 }
}

// drawSkewed draws one of n runs. One of the first hot is drawn with probability
// share; if share is 0, all are equally likely.
func drawSkewed(n int, share float64, hot int, chance *rand.Rand) func() int {
	hot = min(hot, n)
	return func() int {
		switch {
		case share > 0 && (hot == n || chance.Float64() < share):
			return chance.IntN(hot)
		case share > 0:
			return hot + chance.IntN(n-hot)
		}
		return chance.IntN(n)
	}
}

// storeFixtures stores items and reports progress.
func storeFixtures(ctx context.Context, send apply.Send, writes []batchEntry, progress func(done, all int)) error {
	all := len(writes)
	for part := range slices.Chunk(writes, 40*batchItems) {
		if err := writeBatches(ctx, send, part); err != nil {
			return err
		}
		writes = writes[len(part):]
		if progress != nil {
			progress(all-len(writes), all)
		}
	}
	return nil
}

// RunsOnce reports whether a run can be sent only once, because it has a
// condition or deletes the item that it needs.
func RunsOnce(plan *model.Plan) bool {
	return slices.ContainsFunc(plan.Steps, func(s *model.Step) bool {
		return s.Action.Condition != "" || s.Action.Verb() == model.Delete
	})
}

// makeRuns makes n runs of a plan that name no item that another pattern names.
func (c *loadPlan) makeRuns(plan *model.Plan, n int, writes *[]batchEntry) (made []preparedRun, err error) {
	run, step := c.next, 1
	own := make(map[uint64]int) // which run names an item
	for len(made) < n {
		scenario, err := c.model.Scenario(plan, model.Generator{Quantile: quantileOf(len(made))}, run)
		if err != nil {
			return nil, err
		}
		p, items, keys, err := c.prepareRun(plan, scenario)
		if err != nil {
			return nil, err
		}
		if at, ok := sameRun(own, keys); ok && !RunsOnce(plan) {
			// The values of its key are few: this one is repeated.
			made = append(made, made[at])
			run, step = run+1, 1
			continue
		}
		if slices.ContainsFunc(keys, func(k uint64) bool { return c.claimed[k] }) {
			// Another pattern has claimed a whole range of runs; longer steps
			// skip it quickly.
			run += step
			if step *= 2; step > 1<<30 {
				return nil, fmt.Errorf("%q shares its few items with other patterns, so it cannot run %d times", plan.Pattern.Name, n)
			}
			continue
		}
		for _, k := range keys {
			c.claimed[k], own[k] = true, len(made)
		}
		*writes = append(*writes, items...)
		made = append(made, p)
		run, step = run+1, 1
	}
	c.next = max(c.next, run)
	return made, nil
}

// quantileOf is the quantile of a mix for the i-th run. The multiples of the golden ratio
// spread evenly, however many there are.
func quantileOf(i int) float64 {
	_, f := math.Modf((float64(i) + 0.5) * math.Phi)
	return f
}

// sameRun returns the run that names the same items.
func sameRun(own map[uint64]int, keys []uint64) (at int, ok bool) {
	for i, k := range keys {
		run, claimed := own[k]
		if !claimed || i > 0 && run != at {
			return 0, false
		}
		at, ok = run, true
	}
	return at, ok
}

// prepareRun turns a scenario into the requests to send, the items to store
// beforehand, and hashes of the keys of all items that either names.
func (c *loadPlan) prepareRun(plan *model.Plan, scenario *model.Scenario) (p preparedRun, items []batchEntry, keys []uint64, err error) {
	var before fixtures
	for _, stored := range scenario.Before {
		before.addStored(stored)
	}
	all := before.written
	for _, call := range scenario.Calls {
		delete(call.Body, "ReturnConsumedCapacity")
		body, err := json.Marshal(call.Body)
		if err != nil {
			return preparedRun{}, nil, nil, err
		}
		r := preparedRequest{operation: call.Operation, body: body, pages: 1}
		if call.Follow {
			r.pages = max(1, call.Want.Pages)
		}
		p.requests = append(p.requests, r)
		for _, t := range call.Targets {
			p.keys = append(p.keys, c.touched(t)...)
			if !isPaged(call.Operation) {
				all = append(all, t)
			}
		}
	}
	p.keys = append(p.keys, c.vacated(plan, before.written)...)
	for _, t := range all {
		table, _ := c.model.Table(t.Table)
		keys = append(keys, maphash.String(c.seed, partition(t.Table, "", table.Schema().Key.All(), t.Item)))
	}
	return p, before.items, keys, nil
}

// touched returns the partitions that a request accesses for a target, in the
// table and in the indexes that it writes to.
func (c *loadPlan) touched(t model.Target) []string {
	table, _ := c.model.Table(t.Table)
	s := table.Schema()
	if x, ok := table.Index(t.Index); ok {
		return []string{partition(t.Table, t.Index, x.Schema().Key.Partition, t.Item)}
	}
	keys := []string{partition(t.Table, "", s.Key.Partition, t.Item)}
	for i := range s.Indexes {
		if x := &s.Indexes[i]; x.Global && t.Writes {
			keys = appendPartition(keys, s.Name, x, t.Item)
		}
	}
	return keys
}

// vacated returns the index partitions that the items of an update or a delete
// leave because the request changes those keys.
func (c *loadPlan) vacated(plan *model.Plan, before []model.Target) (keys []string) {
	if len(plan.Steps) != len(before) {
		return nil
	}
	for i, s := range plan.Steps {
		verb := s.Action.Verb()
		if verb != model.Update && verb != model.Delete {
			continue
		}
		for _, x := range s.Table.Indexes {
			if !x.Local && (verb == model.Delete || changesKey(s, x.Schema().Key)) {
				keys = appendPartition(keys, before[i].Table, x.Schema(), before[i].Item)
			}
		}
	}
	return keys
}

// changesKey reports whether an update changes an attribute of a key.
func changesKey(s *model.Step, key schema.Key) bool {
	return slices.ContainsFunc(key.All(), func(a schema.Attribute) bool { return slices.Contains(s.Changed, a.Name) })
}

// appendPartition adds the partition of an index, if the item is in the index.
func appendPartition(keys []string, table string, x *schema.Index, it item.Item) []string {
	for _, a := range x.Key.Partition {
		if _, ok := it.Get(a.Name); !ok {
			return keys
		}
	}
	return append(keys, partition(table, x.Name, x.Key.Partition, it))
}

// partition is the key of an item as text, with the table and the index.
func partition(table, index string, key []schema.Attribute, it item.Item) string {
	parts := []string{tableOrIndex{table, index}.String()}
	for _, a := range key {
		if v, ok := it.Get(a.Name); ok {
			parts = append(parts, keyText(v))
		}
	}
	return strings.Join(parts, " ")
}

// keyText is the value of a key attribute as the API writes it.
func keyText(v item.Value) string {
	switch v.Type() {
	case item.N:
		return v.Number().String()
	case item.B:
		return base64.StdEncoding.EncodeToString(v.Bytes())
	}
	return string(v.Bytes())
}

// skew returns the share of the runs that go to the hot partitions, 0 if all are
// equally busy, how many are hot, and the number of partitions. The attributes of a key are
// mostly correlated (a project has one tenant), so the attribute with the
// smallest share decides.
func skew(plan *model.Plan) (share float64, hot, distinct int) {
	s := plan.Steps[0]
	key := s.Table.Schema().Key
	if s.Index != nil {
		key = s.Index.Schema().Key
	}
	share, hot, distinct = 1, 1, 1
	declared := false
	leaves := 0
	for _, a := range key.Partition {
		for _, f := range s.Entity.Leaves(a.Name) {
			if f.Attribute == nil || f.Attribute.Shards > 0 {
				continue
			}
			leaves++
			h := hottestOf(s.Action, f)
			if n := f.Attribute.HotValues(); h > 0 && (!declared || h/float64(n) < share/float64(hot)) {
				share, hot, declared = h, n, true
			}
			if h == 0 && len(f.Attribute.Mix) > 0 {
				distinct = maxRepeated // the runs have the values by their shares
				continue
			}
			distinct = max(distinct, distinctValues(f))
		}
	}
	if !declared {
		share = 0
	}
	if leaves == 0 {
		distinct = maxRepeated
	}
	return share, hot, distinct
}

// hottestOf is the declared share of the hot values of an attribute, 0 for
// none.
func hottestOf(a *model.Action, f *model.Field) float64 {
	for _, s := range a.Skew {
		if s.Name == f.Name {
			n, _ := strconv.ParseFloat(s.Value.Texts()[0], 64)
			return n
		}
	}
	return f.Attribute.Hottest
}

// distinctValues is how many distinct values of an attribute occur, at most
// maxRepeated unless they are listed.
func distinctValues(f *model.Field) int {
	switch a := f.Attribute; {
	case a.Distinct > 0:
		return int(min(float64(a.Distinct), maxRepeated))
	case len(a.Values) > 0:
		return len(a.Values)
	}
	return maxRepeated
}
