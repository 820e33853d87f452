package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
)

// loadPlan is everything that is prepared for a load: the runs of each pattern,
// with bodies as they are sent.
type loadPlan struct {
	model   *model.Model
	runs    [][]preparedRun // by pattern
	claimed map[uint64]bool
	seed    maphash.Seed
	next    int // the first run that no pattern has had
}

// preparedRun is one prepared run of a pattern.
type preparedRun struct {
	requests []preparedRequest
	keys     []string // the partitions that it touches
}

type preparedRequest struct {
	operation string
	body      json.RawMessage
	pages     int // how many are followed at most
}

// The most that is prepared for one pattern: runs that are repeated, and items
// that they find.
const (
	maxRepeated   = 1000
	maxFound      = 5000
	maxFoundBytes = 16 << 20
)

// The most that is prepared in all: runs and items, and the bytes of these.
const (
	maxPrepared      = 400_000
	maxPreparedBytes = 512 << 20
)

// prepare makes the runs that arrivals ask for, gives each arrival its own, and
// stores what the runs find. Who changes an item under a condition can do so
// once, so such a pattern gets another item each time. All others repeat their
// runs as often as the skew of their keys says.
func prepare(ctx context.Context, send apply.Send, m *model.Model, arrivals []arrival, chance *rand.Rand, progress func(done, all int)) (*loadPlan, error) {
	c := &loadPlan{model: m, runs: make([][]preparedRun, len(m.Patterns)), claimed: make(map[uint64]bool), seed: maphash.MakeSeed()}
	counts, wanted := make([]int, len(m.Patterns)), make([]int, len(m.Patterns))
	for _, a := range arrivals {
		counts[a.pattern]++
	}
	draws := make([]func() int, len(m.Patterns))
	prepared, bytes := 0, 0
	for i, p := range m.Patterns {
		if counts[i] == 0 {
			continue
		}
		plan := m.Plan(p)
		first, err := m.Scenario(plan, model.Generator{}, 0)
		if err != nil {
			return nil, err
		}
		size := 1
		for _, stored := range first.Before {
			size += stored.Item.Size()
		}
		n := counts[i]
		if runsOnce(plan) {
			draws[i] = drawEach()
		} else {
			share, distinct := skew(plan)
			n = min(n, distinct, maxRepeated, max(1, maxFound/max(1, len(first.Before))), max(1, maxFoundBytes/size))
			draws[i] = drawSkewed(n, share, chance)
		}
		prepared, bytes = prepared+n*(1+len(first.Before)), bytes+n*size
		if prepared > maxPrepared || bytes > maxPreparedBytes {
			return nil, fmt.Errorf("this needs more than %d items and runs, or more than %s of them: use a lower rate or a shorter time",
				maxPrepared, model.Bytes(maxPreparedBytes))
		}
		wanted[i] = n
	}
	var writes []batchEntry
	for i, p := range m.Patterns {
		made, err := c.makeRuns(m.Plan(p), wanted[i], &writes)
		if err != nil {
			return nil, err
		}
		c.runs[i] = made
		if progress != nil {
			progress(0, len(writes))
		}
	}
	for i := range arrivals {
		arrivals[i].run = draws[arrivals[i].pattern]()
	}
	return c, storeFixtures(ctx, send, writes, progress)
}

// drawEach draws every run once, in order.
func drawEach() func() int {
	used := 0
	return func() int { used++; return used - 1 }
}

// drawSkewed draws one of n runs, of which the first takes a share of its own; 0: all
// are alike.
func drawSkewed(n int, share float64, chance *rand.Rand) func() int {
	return func() int {
		switch {
		case n == 1 || share > 0 && chance.Float64() < share:
			return 0
		case share > 0:
			return 1 + chance.IntN(n-1)
		}
		return chance.IntN(n)
	}
}

// storeFixtures stores items, and tells how far it is.
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

// runsOnce tells whether a run can be played only once: it has a condition, or
// takes away what it needs.
func runsOnce(plan *model.Plan) bool {
	return slices.ContainsFunc(plan.Steps, func(s *model.Step) bool {
		return s.Action.Condition != "" || s.Action.Verb() == model.Delete
	})
}

// makeRuns makes runs of a plan which name no item that another pattern names.
func (c *loadPlan) makeRuns(plan *model.Plan, n int, writes *[]batchEntry) (made []preparedRun, err error) {
	run, step := c.next, 1
	for len(made) < n {
		scenario, err := c.model.Scenario(plan, model.Generator{}, run)
		if err != nil {
			return nil, err
		}
		p, items, keys, err := c.prepareRun(plan, scenario)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(keys, func(k uint64) bool { return c.claimed[k] }) {
			// Another pattern has taken a whole stretch of runs; it is soon
			// passed with longer steps.
			run += step
			if step *= 2; step > 1<<30 {
				return nil, fmt.Errorf("%q shares its few items with other patterns, so it cannot run %d times", plan.Pattern.Name, n)
			}
			continue
		}
		for _, k := range keys {
			c.claimed[k] = true
		}
		*writes = append(*writes, items...)
		made = append(made, p)
		run, step = run+1, 1
	}
	c.next = max(c.next, run)
	return made, nil
}

// prepareRun turns a scenario into what is sent, what is stored beforehand, and the
// keys of all items that either names.
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
		named, err := targetsOf(call.Operation, body)
		if err != nil {
			return preparedRun{}, nil, nil, err
		}
		p.keys = append(p.keys, c.touched(call, named)...)
		all = append(all, named...)
	}
	p.keys = append(p.keys, c.vacated(plan, before.written)...)
	for _, t := range all {
		table, _ := c.model.Table(t.table)
		keys = append(keys, maphash.String(c.seed, partition(t.table, "", table.Schema().Key.All(), t.attributes)))
	}
	return p, before.items, keys, nil
}

// touched are the partitions that a request goes to, in the table and in the
// indexes that it writes to.
func (c *loadPlan) touched(call model.Call, named []target) (keys []string) {
	if isPaged(call.Operation) {
		return c.queried(call)
	}
	for _, t := range named {
		table, _ := c.model.Table(t.table)
		s := table.Schema()
		keys = append(keys, partition(s.Name, "", s.Key.Partition, t.attributes))
		if !t.writes {
			continue
		}
		written := maps.Clone(t.attributes)
		maps.Copy(written, assigned(t.part))
		for i := range s.Indexes {
			if x := &s.Indexes[i]; x.Global {
				keys = appendPartition(keys, s.Name, x, written)
			}
		}
	}
	return keys
}

// vacated are the partitions of indexes that the items of an update or a delete
// leave, as far as the request changes those keys.
func (c *loadPlan) vacated(plan *model.Plan, before []target) (keys []string) {
	for i, s := range plan.Steps {
		verb := s.Action.Verb()
		if verb != model.Update && verb != model.Delete || i >= len(before) || len(plan.Steps) != len(before) {
			continue
		}
		t := before[i]
		for _, x := range s.Table.Indexes {
			if !x.Local && (verb == model.Delete || changesKey(plan, i, x.Schema().Key)) {
				keys = appendPartition(keys, t.table, x.Schema(), t.attributes)
			}
		}
	}
	return keys
}

// changesKey tells whether an update of a plan changes a key.
func changesKey(plan *model.Plan, step int, key schema.Key) bool {
	changed := Changed(plan, step)
	return slices.ContainsFunc(key.All(), func(a schema.Attribute) bool { return slices.Contains(changed, a.Name) })
}

var reference = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`#\w+`) })

// Changed are the attributes that an update of a plan changes.
func Changed(plan *model.Plan, step int) (all []string) {
	body := plan.Requests[0].Body
	if parts, ok := body["TransactItems"].([]any); ok {
		body, _ = parts[step].(map[string]any)["Update"].(map[string]any)
	}
	names, _ := body["ExpressionAttributeNames"].(map[string]string)
	text, _ := body["UpdateExpression"].(string)
	for _, ref := range reference().FindAllString(text, -1) {
		if name := names[ref]; !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

var assignment = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(#\w+) = (:\w+)`) })

// assigned are the attributes that an expression says to be equal to a value.
func assigned(part map[string]any) map[string]any {
	names, _ := part["ExpressionAttributeNames"].(map[string]any)
	values, _ := part["ExpressionAttributeValues"].(map[string]any)
	all := make(map[string]any)
	for _, member := range []string{"UpdateExpression", "KeyConditionExpression"} {
		text, _ := part[member].(string)
		for _, m := range assignment().FindAllStringSubmatch(text, -1) {
			if name, ok := names[m[1]].(string); ok {
				all[name] = values[m[2]]
			}
		}
	}
	return all
}

// queried is the partition that a query reads; a scan reads them all.
func (c *loadPlan) queried(call model.Call) []string {
	text, err := json.Marshal(call.Body)
	if err != nil {
		return nil
	}
	var body map[string]any
	if json.Unmarshal(text, &body) != nil || call.Operation == "Scan" {
		return nil
	}
	name, _ := body["TableName"].(string)
	index, _ := body["IndexName"].(string)
	table, _ := c.model.Table(name)
	key := table.Schema().Key
	if x, ok := table.Index(index); ok {
		key = x.Schema().Key
	}
	return []string{partition(name, index, key.Partition, assigned(body))}
}

// appendPartition adds the partition of an index, if the item is in it.
func appendPartition(keys []string, table string, x *schema.Index, attributes map[string]any) []string {
	for _, a := range x.Key.Partition {
		if attributes[a.Name] == nil {
			return keys
		}
	}
	return append(keys, partition(table, x.Name, x.Key.Partition, attributes))
}

// partition is a key as text, with its table and index.
func partition(table, index string, key []schema.Attribute, attributes map[string]any) string {
	parts := []string{tableOrIndex{table, index}.String()}
	for _, a := range key {
		value, _ := attributes[a.Name].(map[string]any)
		for _, v := range value {
			text, _ := v.(string)
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, " ")
}

// skew is the share of the runs that the busiest partition takes, 0 when all
// are alike, and how many partitions there are. The attributes of a key mostly
// hang together (a project has one tenant), so the rarest value decides.
func skew(plan *model.Plan) (share float64, distinct int) {
	s := plan.Steps[0]
	key := s.Table.Schema().Key
	if s.Index != nil {
		key = s.Index.Schema().Key
	}
	share, distinct = 1, 1
	declared := false
	leaves := 0
	for _, a := range key.Partition {
		for _, f := range leafFields(s.Entity, a.Name) {
			if f.Attribute == nil || f.Attribute.Shards > 0 {
				continue
			}
			leaves++
			if h := hottestOf(s.Action, f); h > 0 {
				share, declared = min(share, h), true
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
	return share, distinct
}

// hottestOf is the share of the busiest value of an attribute, 0 if none is
// declared.
func hottestOf(a *model.Action, f *model.Field) float64 {
	for _, s := range a.Skew {
		if s.Name == f.Name {
			n, _ := strconv.ParseFloat(s.Value.Texts()[0], 64)
			return n
		}
	}
	return f.Attribute.Hottest
}

// distinctValues is how many values of an attribute occur, as far as it matters here.
func distinctValues(f *model.Field) int {
	switch a := f.Attribute; {
	case a.Distinct > 0:
		return int(min(float64(a.Distinct), maxRepeated))
	case len(a.Values) > 0:
		return len(a.Values)
	}
	return maxRepeated
}

var templateName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{([^{}]*)\}`) })

// leafFields are the attributes with values of their own that a field is made of.
func leafFields(e *model.Entity, name string) (all []*model.Field) {
	f, ok := e.Field(name)
	if !ok {
		return nil
	}
	if !f.Templated() {
		return []*model.Field{f}
	}
	for _, m := range templateName().FindAllStringSubmatch(f.Template(), -1) {
		all = append(all, leafFields(e, m[1])...)
	}
	return all
}
