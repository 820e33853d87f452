package serialtest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stator-db/stator"
)

var registerOps = flag.Int("serial.operations", 16_000, "operations of the single-item check in one window")
var registerWindows = flag.Int("serial.windows", 1, "windows of the single-item check")

const (
	registerKeys    = 16
	registerClients = 64
	registerPatient = 60 * time.Second

	// How many operations on one item are in flight at once. The time of the
	// proof doubles with each.
	registerAtOnce = 8
)

// registerInput is the operation of a client on one item.
type registerInput struct {
	key  int
	kind string // get, put, insert, swap, update, delete, remove
	old  int    // the required value, for swap, update and remove
	new  int
}

// registerOutput is the reply: whether the condition held, and the value
// before. An item that does not exist is 0.
type registerOutput struct {
	value   int
	holds   bool
	unknown bool
}

// register is the model of one item: its value, and how an operation changes
// it.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := make([][]porcupine.Operation, registerKeys)
		for _, op := range history {
			key := op.Input.(registerInput).key
			byKey[key] = append(byKey[key], op)
		}
		return byKey
	},
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		now, a, got := state.(int), input.(registerInput), output.(registerOutput)
		holds, after := true, now
		switch a.kind {
		case "put":
			after = a.new
		case "delete":
			after = 0
		case "insert":
			holds, after = now == 0, a.new
		case "swap", "update":
			holds, after = now == a.old && now != 0, a.new
		case "remove":
			holds, after = now == a.old && now != 0, 0
		}
		if !holds {
			after = now
		}
		if got.unknown && a.new == 0 {
			return true, after // it is unknown whether its condition held
		}
		return got.holds == holds && (got.unknown || got.value == now), after
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// Operations on one item are linearisable: they take effect one after
// another, each between its request and its answer.
func TestSingleItems(t *testing.T) {
	seed := seedOf(t)
	operations := 0
	windows := runWindows(t, *registerWindows, func(t *testing.T, window int) {
		d, _ := subject(t, stator.Options{})
		began := time.Now()
		history := recordItems(t, d, seed+uint64(window), *registerOps)
		ran := time.Since(began)
		began = time.Now()
		result := porcupine.CheckOperationsTimeout(register, history, registerPatient)
		t.Logf("%d operations in %v; checked in %v", len(history), ran.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		if operations += len(history); result != porcupine.Ok {
			t.Errorf("the window %d is %s", window, result)
		}
	})
	t.Logf("ledger: %d operations, %d windows", operations, windows)
}

// The controls: a stale read and a wrong result of a condition are found.
func TestSingleItemsFindsPlantedFaults(t *testing.T) {
	seed := seedOf(t)
	_, d := open(t, stator.Options{})
	history := recordItems(t, d, seed, 3000)
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	plant := func(name string, at func(porcupine.Operation) bool, change func(*registerOutput)) {
		t.Run(name, func(t *testing.T) {
			// A planted fault may be a possible result of concurrent
			// operations, but not at several places.
			tries := 0
			for i := len(history) / 2; i < len(history) && tries < 5; i++ {
				if !at(history[i]) {
					continue
				}
				tries++
				broken := slices.Clone(history)
				got := broken[i].Output.(registerOutput)
				change(&got)
				broken[i].Output = got
				if porcupine.CheckOperationsTimeout(register, broken, registerPatient) == porcupine.Illegal {
					return
				}
			}
			t.Errorf("it is not found at %d places", tries)
		})
	}
	is := func(op porcupine.Operation, kind string) bool { return op.Input.(registerInput).kind == kind }
	readLater := func(put porcupine.Operation) func(porcupine.Operation) bool {
		return func(op porcupine.Operation) bool {
			return is(op, "get") && op.Input.(registerInput).key == put.Input.(registerInput).key
		}
	}
	first := slices.IndexFunc(history, func(op porcupine.Operation) bool {
		return is(op, "put") && slices.ContainsFunc(history[len(history)/2:], readLater(op))
	})
	plant("a read from before", readLater(history[first]),
		func(got *registerOutput) { got.value = history[first].Input.(registerInput).new })
	plant("a read of what never was", func(op porcupine.Operation) bool { return is(op, "get") }, func(got *registerOutput) { got.value = math.MaxInt32 })
	plant("a swap that did not happen", func(op porcupine.Operation) bool { return is(op, "swap") && op.Output.(registerOutput).holds },
		func(got *registerOutput) { got.holds = false })

	for try := range uint64(10) {
		_, d := open(t, stator.Options{})
		history := recordItems(t, door{stale(d.Handler)}, seed+try, 3000)
		if porcupine.CheckOperationsTimeout(register, history, registerPatient) == porcupine.Illegal {
			return
		}
	}
	t.Error("a server that answers reads from before is not found")
}

// recordItems runs clients on some items and records their operations.
func recordItems(t testing.TB, d door, seed uint64, count int) []porcupine.Operation {
	t.Helper()
	createTable(t, d, "Items", nil)
	var left, clock, values atomic.Int64
	var busy [registerKeys]atomic.Int64
	left.Store(int64(count))
	var mu sync.Mutex
	var history []porcupine.Operation
	var running sync.WaitGroup
	for n := range registerClients {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		running.Go(func() {
			var mine []porcupine.Operation
			seen := make([]int, registerKeys)
			for left.Add(-1) >= 0 {
				a := registerInput{key: r.IntN(registerKeys)}
				for busy[a.key].Add(1) > registerAtOnce {
					busy[a.key].Add(-1)
					a.key = r.IntN(registerKeys)
				}
				a.kind = []string{"get", "get", "get", "put", "insert", "swap", "swap", "update", "update", "delete", "remove"}[r.IntN(11)]
				a.old = seen[a.key]
				if a.kind != "get" && a.kind != "delete" && a.kind != "remove" {
					a.new = int(values.Add(1)) // values are unique
				}
				ctx, cancel := context.Background(), func() {}
				if a.new != 0 && r.IntN(100) == 0 {
					ctx, cancel = context.WithTimeout(ctx, slower()*time.Duration(r.IntN(300))*time.Microsecond)
				}
				op := porcupine.Operation{ClientId: n, Input: a, Call: clock.Add(1)}
				got, now := ask(ctx, t, d, a)
				op.Return = clock.Add(1)
				busy[a.key].Add(-1)
				cancel()
				if now >= 0 {
					seen[a.key] = now
				}
				op.Output = got
				mine = append(mine, op)
			}
			mu.Lock()
			defer mu.Unlock()
			history = append(history, mine...)
		})
	}
	running.Wait()
	return settled(history)
}

// settled resolves writes with an unknown outcome. A write whose value was
// read was applied, before that reply. A write whose value was never read was
// not applied, or nothing followed it. A removal may have been applied at any
// later time.
func settled(history []porcupine.Operation) (known []porcupine.Operation) {
	seen := make(map[int]int64) // when each value was first read
	for _, op := range history {
		got := op.Output.(registerOutput)
		if at, ok := seen[got.value]; !got.unknown && (!ok || op.Return < at) {
			seen[got.value] = op.Return
		}
	}
	for _, op := range history {
		if op.Output.(registerOutput).unknown {
			a := op.Input.(registerInput)
			at, ok := seen[a.new]
			switch {
			case a.kind == "get":
				continue
			case a.new == 0: // if it was not applied, it may as well be last
				op.Return = math.MaxInt64
			case !ok:
				continue
			default:
				op.Return, op.Output = at, registerOutput{holds: true, unknown: true}
			}
		}
		known = append(known, op)
	}
	return known
}

// ask sends one operation. now is the item's value according to the answer;
// negative if unknown.
func ask(ctx context.Context, t testing.TB, d door, a registerInput) (got registerOutput, now int) {
	key := attributes{"p": str("items"), "k": num(a.key)}
	body := jsonObject{"TableName": "Items"}
	values := jsonObject{}
	operation := map[string]string{
		"get": "GetItem", "put": "PutItem", "insert": "PutItem", "swap": "PutItem",
		"update": "UpdateItem", "delete": "DeleteItem", "remove": "DeleteItem",
	}[a.kind]
	switch operation {
	case "PutItem":
		key["v"] = num(a.new)
		body["Item"] = key
	case "UpdateItem":
		body["UpdateExpression"], values[":new"] = "SET v = :new", num(a.new)
	}
	if operation == "GetItem" {
		body["ConsistentRead"] = true
	} else {
		body["ReturnValues"] = "ALL_OLD"
	}
	if operation != "PutItem" {
		body["Key"] = key
	}
	switch a.kind {
	case "insert":
		body["ConditionExpression"] = "attribute_not_exists(v)"
	case "swap", "update", "remove":
		body["ConditionExpression"], values[":old"] = "v = :old", num(a.old)
	}
	if len(values) > 0 {
		body["ExpressionAttributeValues"] = values
	}
	if body["ConditionExpression"] != nil {
		body["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
	}
	var reply struct{ Item, Attributes attributes }
	err := d.call(ctx, operation, body, &reply)
	var f *fault
	switch {
	case err == nil && a.kind == "get":
		return registerOutput{value: valueOf(reply.Item), holds: true}, valueOf(reply.Item)
	case err == nil:
		return registerOutput{value: valueOf(reply.Attributes), holds: true}, a.new
	case codeOf(err) == "ConditionalCheckFailedException" && errors.As(err, &f):
		return registerOutput{value: valueOf(f.Item)}, valueOf(f.Item)
	case !errors.Is(err, errUnknown) && codeOf(err) != conflictCode:
		t.Errorf("%s: %v", operation, err)
	}
	return registerOutput{unknown: true}, -1
}

// valueOf is the value of an item, 0 if it does not exist.
func valueOf(it attributes) int {
	if it["v"].N == nil {
		return 0
	}
	return number(it["v"])
}
