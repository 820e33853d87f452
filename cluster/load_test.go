//go:build linux && cluster

package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The load: some writers put items of their own, some change shared items
// that have an index and a stream, some move money between accounts, and
// observers check that no money is created or lost.
const (
	putters   = 8
	changers  = 8
	movers    = 8
	observers = 2

	sharedItems  = 300
	accounts     = 96
	groupSize    = 8 // a transfer stays within a group, so that the sum of a group is constant
	startBalance = 100
)

// load records the replies to the writers.
type load struct {
	t       *testing.T
	servers fleet
	seed    uint64
	stop    chan struct{}
	running sync.WaitGroup

	acked  atomic.Int64 // requests
	missed atomic.Int64 // attempts that had an error
	looked atomic.Int64 // sums of groups

	mu     sync.Mutex
	last   time.Time      // when the last request was acknowledged
	outage time.Duration  // the longest time without an acknowledgement
	errors map[string]int // failed attempts by error

	puts   map[string]bool // items that were put for certain
	anyway map[string]bool // versions that are in the stream for certain
	once   map[string]bool // versions of transactions with a token: true if acknowledged, and so in the stream once; otherwise at most once
	moved  [movers]int     // transfers of each mover, which have a token
}

func newLoad(t *testing.T, servers fleet, seed uint64) *load {
	t.Helper()
	l := &load{
		t: t, servers: servers, seed: seed, stop: make(chan struct{}), last: time.Now(), errors: make(map[string]int),
		puts: make(map[string]bool), anyway: make(map[string]bool), once: make(map[string]bool),
	}
	keyed(t, servers[0], "Puts", nil)
	keyed(t, servers[0], "Shared", object{
		"AttributeDefinitions": []object{
			{"AttributeName": "id", "AttributeType": "S"}, {"AttributeName": "g", "AttributeType": "S"}, {"AttributeName": "v", "AttributeType": "S"},
		},
		"GlobalSecondaryIndexes": []object{{
			"IndexName":  "by-g",
			"KeySchema":  []object{{"AttributeName": "g", "KeyType": "HASH"}, {"AttributeName": "v", "KeyType": "RANGE"}},
			"Projection": object{"ProjectionType": "ALL"},
		}},
		"StreamSpecification": object{"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"},
	})
	keyed(t, servers[0], "Accounts", nil)
	for n := range accounts {
		servers.any().must(t, "PutItem", object{"TableName": "Accounts", "Item": object{"id": str(account(n)), "balance": num(startBalance)}}, nil)
	}
	return l
}

func account(n int) string { return fmt.Sprintf("account-%d", n) }
func mover(n int) string   { return fmt.Sprintf("mover-%d", n) }

// begin starts all writers; they run until end.
func (l *load) begin() {
	each := func(first, n int, step func(ctx context.Context, r *rand.Rand, w, i int)) {
		for w := range n {
			r := rand.New(rand.NewPCG(l.seed, uint64(first+w)))
			l.running.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-l.stop:
						return
					default:
						step(context.Background(), r, w, i)
					}
				}
			})
		}
	}
	each(0, putters, l.put)
	each(100, changers, l.change)
	each(200, movers, l.move)
	each(300, observers, l.observe)
}

// end stops the writers after their current request.
func (l *load) end() {
	close(l.stop)
	l.running.Wait()
}

// sdkTries is how many times an SDK sends a request; allTries is enough to
// learn the outcome.
const (
	sdkTries = 4
	allTries = 100
)

// ask sends a request and counts it.
func (l *load) ask(ctx context.Context, tries int, operation string, body, reply any) error {
	err := l.servers.persist(ctx, tries, operation, body, reply, l.miss)
	if err == nil && operation != "TransactGetItems" {
		l.acked.Add(1)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.outage = max(l.outage, time.Since(l.last))
		l.last = time.Now()
	}
	return err
}

func (l *load) miss(err error) {
	l.missed.Add(1)
	kind := "the network"
	var f *fault
	if errors.As(err, &f) {
		kind = fmt.Sprintf("%d %s", f.Status, f.code())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors[kind]++
}

// put puts an item that no other writer puts.
func (l *load) put(ctx context.Context, _ *rand.Rand, w, i int) {
	id := fmt.Sprintf("%d-%d", w, i)
	err := l.ask(ctx, sdkTries, "PutItem", object{"TableName": "Puts", "Item": object{"id": str(id), "pad": str(fmt.Sprintf("%0200d", i))}}, nil)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.puts[id] = true
	} else if !mayPass(err) {
		l.t.Errorf("PutItem: %v", err)
	}
}

// change changes shared items, alone or in a transaction.
func (l *load) change(ctx context.Context, r *rand.Rand, w, i int) {
	version := fmt.Sprintf("%d-%d", w, i)
	ids := r.Perm(sharedItems)
	target := func(n int) object {
		return object{"TableName": "Shared", "Key": object{"id": str(fmt.Sprintf("shared-%d", ids[n]))}}
	}
	update := func(n int, v string) object {
		u := target(n)
		values := object{":v": str(v), ":one": num(1)}
		u["UpdateExpression"], u["ExpressionAttributeValues"] = "SET v = :v REMOVE g ADD n :one", values
		if g := r.IntN(6); g > 0 {
			u["UpdateExpression"], values[":g"] = "SET v = :v, g = :g ADD n :one", str(fmt.Sprintf("group-%d", g))
		}
		return u
	}
	operation, body, versions, tries, token := "UpdateItem", object(nil), []string{version}, sdkTries, false
	switch r.IntN(10) {
	case 0:
		operation, body, versions = "DeleteItem", target(0), nil
	case 1, 2, 3, 4:
		versions = []string{version + "a", version + "b"}
		operation, body = "TransactWriteItems", object{"TransactItems": []object{
			{"Update": update(0, versions[0])}, {"Delete": target(1)}, {"Update": update(2, versions[1])},
		}}
		if token = r.IntN(2) == 0; token {
			body["ClientRequestToken"], tries = fmt.Sprintf("c-%x-%s", l.seed, version), allTries
		}
	default:
		body = update(0, version)
	}
	err := l.ask(ctx, tries, operation, body, nil)
	if err != nil && !mayPass(err) {
		l.t.Errorf("%s: %v", operation, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range versions {
		if token {
			l.once[v] = err == nil
		} else if err == nil {
			l.anyway[v] = true
		}
	}
}

// move moves money between two accounts and counts it in the same transaction,
// which has a token: it is repeated until it is known whether it happened.
func (l *load) move(ctx context.Context, r *rand.Rand, w, i int) {
	of := r.Perm(groupSize)
	first := r.IntN(accounts/groupSize) * groupSize
	add := func(id, attribute string, n int) object {
		return object{"Update": object{
			"TableName": "Accounts", "Key": object{"id": str(id)}, "UpdateExpression": "ADD #a :n",
			"ExpressionAttributeNames": object{"#a": attribute}, "ExpressionAttributeValues": object{":n": num(n)},
		}}
	}
	amount := 1 + r.IntN(60)
	from := add(account(first+of[0]), "balance", -amount)
	inner := from["Update"].(object)
	inner["ConditionExpression"] = "balance >= :amount"
	inner["ExpressionAttributeValues"].(object)[":amount"] = num(amount)
	err := l.ask(ctx, allTries, "TransactWriteItems", object{
		"ClientRequestToken": fmt.Sprintf("m-%x-%d-%d", l.seed, w, i),
		"TransactItems":      []object{from, add(account(first+of[1]), "balance", amount), add(mover(w), "moved", 1)},
	}, nil)
	switch {
	case err == nil:
		l.moved[w]++ // no other writer changes it
	case codeOf(err) != "TransactionCanceledException":
		l.t.Errorf("a transfer: %v", err)
	}
}

// observe adds up a group of accounts.
func (l *load) observe(ctx context.Context, r *rand.Rand, _, _ int) {
	first := r.IntN(accounts/groupSize) * groupSize
	var gets []object
	for n := range groupSize {
		gets = append(gets, object{"Get": object{"TableName": "Accounts", "Key": object{"id": str(account(first + n))}}})
	}
	var reply struct{ Responses []struct{ Item image } }
	if err := l.ask(ctx, sdkTries, "TransactGetItems", object{"TransactItems": gets}, &reply); err != nil {
		if !mayPass(err) {
			l.t.Errorf("TransactGetItems: %v", err)
		}
		return
	}
	sum := 0
	for _, got := range reply.Responses {
		sum += got.Item.number("balance")
	}
	if sum != groupSize*startBalance {
		l.t.Errorf("accounts %d to %d have %d, want %d", first, first+groupSize-1, sum, groupSize*startBalance)
	}
	l.looked.Add(1)
}
