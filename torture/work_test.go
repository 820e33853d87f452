package torture

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	workers    = 64
	workerKeys = 16
)

// version is the content of an item: a unique number, and how many times it
// was updated since it was put. The zero value is no item.
type version struct{ v, n int }

// state is the items of one worker, by their sort keys.
type state map[int]version

func (s state) with(c change) state {
	s = maps.Clone(s)
	for key, after := range c.after {
		if s[key] = after; after == (version{}) {
			delete(s, key)
		}
	}
	return s
}

// change is a request and the items after it: all of them if it is atomic,
// and otherwise any part.
type change struct {
	operation string
	body      object
	after     map[int]version
	whole     bool
}

// worker is a client that changes items of its own, one request after
// another, and knows what each must be.
type worker struct {
	door
	*rand.Rand
	name string

	mu      sync.Mutex
	base    state
	changes []change // since base; all but the last were acknowledged
	is      state    // after these
	acked   int
	last    int // version
	faults  []string
}

// crew makes workers, each with a different name.
func crew(n int, seed uint64) []*worker {
	all := make([]*worker, n)
	for i := range all {
		all[i] = &worker{Rand: rand.New(rand.NewPCG(seed, uint64(1+i))), name: "w" + strconv.Itoa(i), base: state{}, is: state{}}
	}
	return all
}

// work runs all workers until each has met an error, and until has returned.
func work(all []*worker, d door, until func()) {
	var running sync.WaitGroup
	for _, w := range all {
		w.door = d
		running.Go(func() {
			for w.step() {
			}
		})
	}
	until()
	running.Wait()
}

// createWork creates the table of the workers: an index of each kind, a
// stream, and point-in-time recovery.
func createWork(t testing.TB, d door) {
	t.Helper()
	d.must(t, "CreateTable", object{
		"TableName": "Work", "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": []object{{"AttributeName": "p", "AttributeType": "S"}, {"AttributeName": "k", "AttributeType": "N"},
			{"AttributeName": "owner", "AttributeType": "S"}, {"AttributeName": "v", "AttributeType": "N"}},
		"KeySchema": []object{{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "k", "KeyType": "RANGE"}},
		"GlobalSecondaryIndexes": []object{
			{"IndexName": "byOwner", "Projection": object{"ProjectionType": "ALL"},
				"KeySchema": []object{{"AttributeName": "owner", "KeyType": "HASH"}, {"AttributeName": "v", "KeyType": "RANGE"}}},
			{"IndexName": "byVersion", "Projection": object{"ProjectionType": "KEYS_ONLY"},
				"KeySchema": []object{{"AttributeName": "v", "KeyType": "HASH"}}},
		},
		"LocalSecondaryIndexes": []object{{"IndexName": "inOrder", "Projection": object{"ProjectionType": "KEYS_ONLY"},
			"KeySchema": []object{{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "v", "KeyType": "RANGE"}}}},
		"StreamSpecification": object{"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"},
	}, nil)
}

// step sends one request; it returns false if that failed.
func (w *worker) step() bool {
	if w.IntN(6) == 0 {
		return w.look()
	}
	c := w.next()
	w.mu.Lock()
	w.changes = append(w.changes, c)
	w.mu.Unlock()
	err := w.call(c.operation, c.body, nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.acked++
		w.is = w.is.with(c)
		return true
	}
	var r *errorReply
	if errors.As(err, &r) && r.status < 500 {
		// No other worker has these items, so no condition can fail.
		w.faults = append(w.faults, fmt.Sprintf("%s: %s of %v is rejected: %v", w.name, c.operation, c.after, err))
	}
	return false
}

// next generates a change.
func (w *worker) next() change {
	now := w.now()
	keys := w.Perm(workerKeys)
	switch w.IntN(8) {
	case 0, 1:
		body, after := w.put(keys[0])
		return change{"PutItem", body, map[int]version{keys[0]: after}, true}
	case 2, 3:
		body, after := w.update(keys[0], now[keys[0]])
		return change{"UpdateItem", body, map[int]version{keys[0]: after}, true}
	case 4:
		return change{"DeleteItem", w.target(keys[0]), map[int]version{keys[0]: {}}, true}
	case 5:
		c := change{operation: "BatchWriteItem", after: map[int]version{}}
		var puts []object
		for _, key := range keys[:5] {
			body, after := w.put(key)
			puts = append(puts, object{"PutRequest": object{"Item": body["Item"]}})
			c.after[key] = after
		}
		c.body = object{"RequestItems": object{"Work": puts}}
		return c
	}
	c := change{operation: "TransactWriteItems", after: map[int]version{keys[3]: {}}, whole: true}
	put, after := w.put(keys[0])
	c.after[keys[0]] = after
	actions := []object{{"Put": put}, {"Delete": w.target(keys[3])}}
	for _, key := range keys[1:3] {
		update, after := w.update(key, now[key])
		actions = append(actions, object{"Update": update})
		c.after[key] = after
	}
	c.body = object{"TransactItems": actions, "ClientRequestToken": fmt.Sprintf("%s-%d", w.name, w.last)}
	return c
}

// now returns the items after all acknowledged changes.
func (w *worker) now() state {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.is
}

var pad = strings.Repeat("p", 120)

func num(n int) object     { return object{"N": strconv.Itoa(n)} }
func text(s string) object { return object{"S": s} }

func (w *worker) target(key int) object {
	return object{"TableName": "Work", "Key": object{"p": text(w.name), "k": num(key)}}
}

func (w *worker) put(key int) (body object, after version) {
	w.last++
	return object{"TableName": "Work", "Item": object{
		"p": text(w.name), "k": num(key), "v": num(w.last), "owner": text(w.name), "pad": text(pad),
	}}, version{v: w.last}
}

// update increments a counter, so that an update that is applied twice is
// noticed.
func (w *worker) update(key int, before version) (body object, after version) {
	w.last++
	body = w.target(key)
	body["UpdateExpression"] = "SET v = :v, #owner = :owner ADD n :one"
	body["ExpressionAttributeNames"] = object{"#owner": "owner"}
	values := object{":v": num(w.last), ":owner": text(w.name), ":one": num(1)}
	body["ConditionExpression"] = "attribute_not_exists(v)"
	if before != (version{}) {
		body["ConditionExpression"], values[":old"] = "v = :old", num(before.v)
	}
	body["ExpressionAttributeValues"] = values
	return body, version{w.last, before.n + 1}
}

// look reads the worker's items and compares them.
func (w *worker) look() bool {
	s, how := w.now(), "the items are"
	got, err := w.read()
	if w.IntN(2) == 0 {
		how = "the index has"
		got, err = w.query(object{"IndexName": "byOwner", "KeyConditionExpression": "#owner = :p", "ExpressionAttributeNames": object{"#owner": "owner"}})
	}
	if err != nil {
		return false
	}
	if !maps.Equal(s, got) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.faults = append(w.faults, fmt.Sprintf("%s: %s %v, want %v", w.name, how, got, s))
	}
	return true
}

// read reads the worker's items.
func (w *worker) read() (state, error) {
	return w.query(object{"ConsistentRead": true, "KeyConditionExpression": "p = :p"})
}

func (w *worker) query(body object) (state, error) {
	body["TableName"], body["ExpressionAttributeValues"] = "Work", object{":p": text(w.name)}
	var reply struct{ Items []image }
	if err := w.call("Query", body, &reply); err != nil {
		return nil, err
	}
	found := state{}
	for _, it := range reply.Items {
		found[it.number("k")] = version{it.number("v"), it.number("n")}
	}
	return found, nil
}

// image is an item whose attributes are strings and numbers.
type image map[string]map[string]string

// number returns a number attribute, 0 if there is none.
func (i image) number(name string) int {
	n, _ := strconv.Atoi(i[name]["N"])
	return n
}

// expectation is what was acknowledged to a worker up to a moment, and what
// it has requested.
type expectation struct {
	base    state
	changes []change
	acked   int
}

// expectation returns a copy of the worker's state.
func (w *worker) expectation() expectation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return expectation{w.base, w.changes, w.acked}
}

// fits reports whether items are a possible state after a crash: all
// acknowledged changes, and any number of the requested ones after them. at
// is how many were applied.
func (t expectation) fits(found state) (at int, ok bool) {
	s := t.base
	for i, c := range t.changes {
		if i >= t.acked {
			if maps.Equal(s, found) {
				return i, true
			}
			if !c.whole && partly(s, c, found) {
				return i, true
			}
		}
		s = s.with(c)
	}
	return len(t.changes), maps.Equal(s, found)
}

// partly reports whether each item is either as before, or as after the
// change.
func partly(before state, c change, found state) bool {
	after := before.with(c)
	for key := range workerKeys {
		if found[key] != before[key] && found[key] != after[key] {
			return false
		}
	}
	return true
}

// settle compares the server's items after a crash with what was acknowledged
// to the worker, and continues from there. A transaction without an answer is
// sent again, and must be applied once.
func (w *worker) settle(t testing.TB, d door) {
	t.Helper()
	w.door = d
	found, err := w.read()
	if err != nil {
		t.Fatalf("%s: %v", w.name, err)
	}
	expected := w.expectation()
	at, ok := expected.fits(found)
	if !ok {
		w.faults = append(w.faults, fmt.Sprintf("%s has %v, after %s", w.name, found, expected))
	}
	w.base, w.is, w.changes, w.acked = found, found, nil, 0
	if !ok || len(expected.changes) == expected.acked {
		return
	}
	pending := expected.changes[len(expected.changes)-1]
	if pending.operation != "TransactWriteItems" || at < len(expected.changes)-1 { // or earlier ones are lost too
		return
	}
	if err := d.call(pending.operation, pending.body, nil); err != nil {
		w.faults = append(w.faults, fmt.Sprintf("%s: a transaction that is sent again (it was applied: %v) is rejected: %v", w.name, at == len(expected.changes), err))
		return
	}
	if at < len(expected.changes) {
		w.base = w.base.with(pending)
		w.is = w.base
	}
	if found, err := w.read(); err != nil || !maps.Equal(found, w.base) {
		w.faults = append(w.faults, fmt.Sprintf("%s has %v (%v) after a transaction that was sent again, want %v", w.name, found, err, w.base))
	}
}

func (t expectation) String() string {
	s := t.base
	for _, c := range t.changes[:t.acked] {
		s = s.with(c)
	}
	out := fmt.Sprintf("%d changes, the last of them acknowledged as %v", t.acked, s)
	for _, c := range t.changes[t.acked:] {
		out += fmt.Sprintf(", and then %s %v", c.operation, c.after)
	}
	return out
}

// itemsAcked returns how many items were written by acknowledged requests.
func itemsAcked(all []*worker) (items int) {
	for _, w := range all {
		for _, c := range w.changes[:w.acked] {
			items += len(c.after)
		}
	}
	return items
}

// settleAll settles all workers, and collects their faults.
func settleAll(t testing.TB, all []*worker, d door) (acked int, faults []string) {
	t.Helper()
	for _, w := range all {
		acked += w.acked
		w.settle(t, d)
		faults = append(faults, w.faults...)
		w.faults = nil
	}
	return acked, faults
}

// The checks find the faults that they are for.
func TestChecksOfWorkersFindFaults(t *testing.T) {
	one, two := version{v: 1}, version{v: 2}
	put := change{after: map[int]version{0: one}, whole: true}
	transaction := change{after: map[int]version{0: two, 1: two, 2: {}}, whole: true}
	batch := change{after: map[int]version{0: two, 1: two}}
	base := state{2: one}
	for _, c := range []struct {
		name     string
		expected expectation
		found    state
		ok       bool
	}{
		{"everything exists", expectation{base, []change{put}, 1}, state{0: one, 2: one}, true},
		{"an acknowledged write is lost", expectation{base, []change{put}, 1}, state{2: one}, false},
		{"an item that was not changed is lost", expectation{base, []change{put}, 1}, state{0: one}, false},
		{"a write without an answer was applied", expectation{base, []change{put}, 0}, state{0: one, 2: one}, true},
		{"or was not", expectation{base, []change{put}, 0}, state{2: one}, true},
		{"a value that was never written", expectation{base, []change{put}, 0}, state{0: two, 2: one}, false},
		{"a transaction was applied", expectation{base, []change{put, transaction}, 1}, state{0: two, 1: two}, true},
		{"or was not", expectation{base, []change{put, transaction}, 1}, state{0: one, 2: one}, true},
		{"or in part", expectation{base, []change{put, transaction}, 1}, state{0: two, 1: two, 2: one}, false},
		{"a batch was applied in part", expectation{base, []change{put, batch}, 1}, state{0: one, 1: two, 2: one}, true},
		{"an update was applied twice", expectation{base, []change{put}, 1}, state{0: {1, 1}, 2: one}, false},
	} {
		if _, ok := c.expected.fits(c.found); ok != c.ok {
			t.Errorf("%s: %v", c.name, ok)
		}
	}
}
