package serialtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stator-db/stator"
)

var transferCount = flag.Int("serial.transfers", 4000, "transfers between accounts")

const (
	accounts     = 1000
	groupSize    = 8 // a transfer stays within a group, so that the sum of a group is constant
	groups       = accounts / groupSize
	startBalance = 100

	transferClients = 32
	transferReaders = 6
)

// Money moves between accounts and is never created or lost, for any kind of
// read.
func TestTransfers(t *testing.T) {
	seed := seedOf(t)
	d, sound := subject(t, stator.Options{})
	wrong, done := transfer(t, d, seed, *transferCount)
	t.Logf("%d transfers, %d refused, %d unknown; %d sums of groups, %d of all accounts",
		done.made.Load(), done.refused.Load(), done.unknown.Load(), done.groups.Load(), done.wholes.Load())
	for _, w := range wrong {
		t.Error(w)
	}
	sound()
}

// The control: a server that splits transactions into single writes is found.
func TestTransfersFindABrokenServer(t *testing.T) {
	seed := seedOf(t)
	for try := range uint64(10) {
		_, d := open(t, stator.Options{})
		broken := door{intercept(d.Handler, func(w http.ResponseWriter, r *http.Request, operation string, body []byte) bool {
			if operation != "TransactWriteItems" {
				return false
			}
			parts, _ := actions(body)
			for _, update := range parts {
				forward(&answer{header: make(http.Header)}, r, d.Handler, "UpdateItem", update)
			}
			_, _ = w.Write([]byte("{}"))
			return true
		})}
		if wrong, _ := transfer(t, broken, seed+try, 1000); len(wrong) > 0 {
			return
		}
	}
	t.Error("no wrong sum was read")
}

// transferred counts the results.
type transferred struct{ made, refused, unknown, groups, wholes atomic.Int64 }

// transfer moves money while other clients add it up, and returns the wrong
// sums that they read.
func transfer(t testing.TB, d door, seed uint64, count int) (wrong []string, done *transferred) {
	t.Helper()
	openAccounts(t, d)
	done = new(transferred)
	var mu sync.Mutex
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if len(wrong) < 5 {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	var left atomic.Int64
	left.Store(int64(count))
	var movers, readers sync.WaitGroup
	for n := range transferClients {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		movers.Go(func() {
			for left.Add(-1) >= 0 {
				moveMoney(t, d, r, done)
			}
		})
	}
	ctx, stop := context.WithCancel(context.Background())
	for n := range transferReaders {
		r := rand.New(rand.NewPCG(seed, uint64(100+n)))
		readers.Go(func() {
			for ctx.Err() == nil {
				group := r.IntN(groups)
				if sum := groupSum(t, d, group, r.IntN(2) == 0); sum != groupSize*startBalance {
					note("group %d has %d, want %d", group, sum, groupSize*startBalance)
				}
				done.groups.Add(1)
				if r.IntN(20) > 0 {
					continue
				}
				if sum := wholeSum(t, d, r.IntN(2) == 0); sum != accounts*startBalance {
					note("all accounts have %d, want %d", sum, accounts*startBalance)
				}
				done.wholes.Add(1)
			}
		})
	}
	movers.Wait()
	stop()
	readers.Wait()
	for group := range groups {
		if sum := groupSum(t, d, group, true); sum != groupSize*startBalance {
			note("in the end group %d has %d", group, sum)
		}
	}
	return wrong, done
}

func accountKey(n int) attributes { return attributes{"p": str("bank"), "k": num(n)} }

func openAccounts(t testing.TB, d door) {
	t.Helper()
	// An index by balance moves an entry for each change.
	createTable(t, d, "Accounts", jsonObject{
		"AttributeDefinitions": []jsonObject{
			{"AttributeName": "p", "AttributeType": "S"}, {"AttributeName": "k", "AttributeType": "N"}, {"AttributeName": "balance", "AttributeType": "N"},
		},
		"GlobalSecondaryIndexes": []jsonObject{{
			"IndexName":  "by-balance",
			"KeySchema":  []jsonObject{{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "balance", "KeyType": "RANGE"}},
			"Projection": jsonObject{"ProjectionType": "KEYS_ONLY"},
		}},
	})
	for n := 0; n < accounts; n += 25 {
		var puts []jsonObject
		for k := n; k < n+25; k++ {
			it := accountKey(k)
			it["balance"] = num(startBalance)
			puts = append(puts, jsonObject{"PutRequest": jsonObject{"Item": it}})
		}
		d.must(t, "BatchWriteItem", jsonObject{"RequestItems": jsonObject{"Accounts": puts}}, nil)
	}
}

// moveMoney moves money from two accounts of a group, if they have enough, to
// two others.
func moveMoney(t testing.TB, d door, r *rand.Rand, done *transferred) {
	first := r.IntN(groups) * groupSize
	of := r.Perm(groupSize)[:4]
	amount := 1 + r.IntN(60)
	var items []jsonObject
	for i, n := range of {
		update := jsonObject{"TableName": "Accounts", "Key": accountKey(first + n), "ExpressionAttributeValues": jsonObject{":n": num(amount)}}
		if i < 2 {
			update["UpdateExpression"], update["ConditionExpression"] = "SET balance = balance - :n", "balance >= :n"
		} else {
			update["UpdateExpression"] = "SET balance = balance + :n"
		}
		items = append(items, jsonObject{"Update": update})
	}
	ctx := context.Background()
	if r.IntN(100) == 0 {
		cancelled, cancel := context.WithCancel(ctx)
		go cancel()
		ctx = cancelled
	}
	switch err := d.call(ctx, "TransactWriteItems", jsonObject{"TransactItems": items}, nil); {
	case err == nil:
		done.made.Add(1)
	case codeOf(err) == "TransactionCanceledException":
		done.refused.Add(1)
	case errors.Is(err, errUnknown):
		done.unknown.Add(1)
	default:
		t.Error(err)
	}
}

// groupSum adds up a group by a transaction or a query.
func groupSum(t testing.TB, d door, group int, transact bool) int {
	first := group * groupSize
	var reply struct {
		Responses []struct{ Item attributes }
		Items     []attributes
	}
	var err error
	if transact {
		var gets []jsonObject
		for n := range groupSize {
			gets = append(gets, jsonObject{"Get": jsonObject{"TableName": "Accounts", "Key": accountKey(first + n)}})
		}
		err = d.call(context.Background(), "TransactGetItems", jsonObject{"TransactItems": gets}, &reply)
	} else {
		err = d.call(context.Background(), "Query", jsonObject{
			"TableName": "Accounts", "KeyConditionExpression": "p = :p AND k BETWEEN :a AND :b", "ConsistentRead": true,
			"ExpressionAttributeValues": jsonObject{":p": str("bank"), ":a": num(first), ":b": num(first + groupSize - 1)},
		}, &reply)
	}
	if err != nil {
		t.Error(err)
	}
	sum := 0
	for _, r := range reply.Responses {
		sum += number(r.Item["balance"])
	}
	for _, it := range reply.Items {
		sum += number(it["balance"])
	}
	return sum
}

// wholeSum adds up all accounts by one page of a scan, or of a query of the
// index: a page is one snapshot.
func wholeSum(t testing.TB, d door, index bool) int {
	body := jsonObject{"TableName": "Accounts"}
	operation := "Scan"
	if index {
		operation = "Query"
		body["IndexName"], body["KeyConditionExpression"] = "by-balance", "p = :p"
		body["ExpressionAttributeValues"] = jsonObject{":p": str("bank")}
	}
	var reply struct {
		Items            []attributes
		LastEvaluatedKey attributes
	}
	if err := d.call(context.Background(), operation, body, &reply); err != nil || reply.LastEvaluatedKey != nil {
		t.Errorf("%s ends at %v, %v", operation, reply.LastEvaluatedKey, err)
	}
	sum := 0
	for _, it := range reply.Items {
		sum += number(it["balance"])
	}
	return sum
}
