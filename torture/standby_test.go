package torture

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// seqWrite is a write of items that no other write has.
type seqWrite struct {
	items      []string
	begin, end int64     // positions among the begins and ends of all writes; end is 0 if it was not acknowledged
	acked      time.Time // when it was acknowledged
}

// sequence is the writes of all clients.
type sequence struct {
	ticket atomic.Int64
	mu     sync.Mutex
	writes []*seqWrite
}

// write sends writes until stop is closed or one fails: alternately an item, and a
// transaction of two.
func (q *sequence) write(d door, client string, stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		w := &seqWrite{begin: q.ticket.Add(1)}
		for i := range 1 + n%2 {
			w.items = append(w.items, fmt.Sprintf("%s-%d-%d", client, w.begin, i))
		}
		q.mu.Lock()
		q.writes = append(q.writes, w)
		q.mu.Unlock()
		if err := putAll(d, w.items); err != nil {
			return
		}
		q.mu.Lock()
		w.end, w.acked = q.ticket.Add(1), time.Now()
		q.mu.Unlock()
	}
}

// putAll writes items, several as a transaction.
func putAll(d door, ids []string) error {
	item := func(id string) object {
		return object{"TableName": "Seq", "Item": object{"id": object{"S": id}, "pad": object{"S": fmt.Sprintf("%200d", 1)}}}
	}
	if len(ids) == 1 {
		return d.call("PutItem", item(ids[0]), nil)
	}
	var all []object
	for _, id := range ids {
		all = append(all, object{"Put": item(id)})
	}
	return d.call("TransactWriteItems", object{"TransactItems": all}, nil)
}

// faults returns what is wrong with the items of a promoted standby, which had all that was
// acknowledged before a time: a write is there as a whole or not at all, no write is there
// without one that was acknowledged before it began, and all of those are there that the
// standby said it had.
func (q *sequence) faults(items map[string]bool, fresh time.Time) (faults []string) {
	newest := int64(0) // the latest begin of a write that is there
	there := make(map[*seqWrite]bool)
	known := 0
	for _, w := range q.writes {
		found := 0
		for _, id := range w.items {
			if items[id] {
				found++
			}
		}
		known += found
		if found != 0 && found != len(w.items) {
			faults = append(faults, fmt.Sprintf("a part of the transaction %v is there", w.items))
		}
		if there[w] = found > 0; found > 0 {
			newest = max(newest, w.begin)
		}
	}
	if known != len(items) {
		faults = append(faults, fmt.Sprintf("%d items are there that nobody wrote", len(items)-known))
	}
	for _, w := range q.writes {
		switch {
		case there[w] || w.end == 0:
		case w.end < newest:
			faults = append(faults, fmt.Sprintf("%v is missing, and later writes are there", w.items))
		case w.acked.Before(fresh):
			faults = append(faults, fmt.Sprintf("%v is missing, and the standby had all of that time", w.items))
		}
	}
	return faults
}

// standbyPair is a server and its standby, on fixed ports.
type standbyPair struct {
	t                  testing.TB
	dir                string
	ports              [2]string
	primary, secondary *process
}

func startPair(t testing.TB) *standbyPair {
	t.Helper()
	p := &standbyPair{t: t, dir: t.TempDir()}
	for i := range p.ports {
		p.ports[i] = fixedPort(t)
	}
	p.startPrimary()
	p.startStandby()
	return p
}

// fixedPort returns an address that nobody listens at. It is not one of those that the
// system gives to connections and to others that ask for any port.
func fixedPort(t testing.TB) string {
	t.Helper()
	for range 100 {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

func (p *standbyPair) startPrimary() {
	p.t.Helper()
	p.primary = start(p.t, filepath.Join(p.dir, "primary"), "--log=error", "--addr", p.ports[0])
}

func (p *standbyPair) startStandby() {
	p.t.Helper()
	s, err := run(p.t, command(p.t, "standby", "--of", "http://"+p.ports[0], "--addr", p.ports[1], "--data", filepath.Join(p.dir, "standby"), "--log=error"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.secondary = s
}

// status returns the status of the standby, and the time of which it had everything; zero if
// it does not say so.
func (p *standbyPair) status() (state string, fresh time.Time) {
	p.t.Helper()
	r, err := http.NewRequest("GET", "http://"+p.ports[1]+"/standby", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	sign(r, "")
	asked := time.Now()
	reply, err := patient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer reply.Body.Close()
	text, _ := io.ReadAll(reply.Body)
	var s struct {
		State      string  `json:"state"`
		LagSeconds float64 `json:"lagSeconds"`
		LagUnknown bool    `json:"lagUnknown"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		p.t.Fatalf("%v: %s", err, text)
	}
	if s.State == "COPYING" || s.LagUnknown {
		return s.State, time.Time{}
	}
	return s.State, asked.Add(-time.Duration(s.LagSeconds * float64(time.Second)))
}

// waitFollowing waits until the standby has a copy and has caught up since then.
func (p *standbyPair) waitFollowing(since time.Time) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		state, fresh := p.status()
		if state == "FOLLOWING" && fresh.After(since) {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("the standby is %s, with all of %s; it logs\n%s", state, fresh, p.secondary.log())
		}
	}
}

// load writes for a while, kills a side meanwhile, and starts it again.
func (p *standbyPair) load(q *sequence, name string, kill func()) {
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() { q.write(p.primary.door, fmt.Sprintf("%s-%d", name, i), stop) })
	}
	time.Sleep(loadTime)
	kill()
	close(stop)
	clients.Wait()
}

func scanIDs(t testing.TB, d door) map[string]bool {
	t.Helper()
	items := make(map[string]bool)
	in := object{"TableName": "Seq", "ProjectionExpression": "id", "ConsistentRead": true}
	for {
		var out struct {
			Items            []struct{ ID struct{ S string } }
			LastEvaluatedKey object
		}
		d.must(t, "Scan", in, &out)
		for _, it := range out.Items {
			items[it.ID.S] = true
		}
		if out.LastEvaluatedKey == nil {
			return items
		}
		in["ExclusiveStartKey"] = out.LastEvaluatedKey
	}
}

// Whichever side is killed with -9 under load, the promoted standby has a state that the
// server had, with all that it said it had, and serves.
func TestKilledServerIsReplacedByItsStandby(t *testing.T) {
	g := newRig(t)
	for n := range g.rounds(2) {
		p, q := startPair(t), new(sequence)
		p.primary.must(t, "CreateTable", object{"TableName": "Seq", "BillingMode": "PAY_PER_REQUEST",
			"AttributeDefinitions": []object{{"AttributeName": "id", "AttributeType": "S"}}, "KeySchema": []object{{"AttributeName": "id", "KeyType": "HASH"}}}, nil)
		p.waitFollowing(time.Now())
		for i := range 2 + g.IntN(3) {
			p.load(q, fmt.Sprint(i), func() {
				if (n+i)%2 == 0 {
					p.primary.kill()
					p.startPrimary()
				} else {
					p.secondary.kill()
					p.startStandby()
				}
			})
			g.count("kills", 1)
		}
		if g.IntN(2) == 0 {
			p.waitFollowing(time.Now())
		}
		var fresh time.Time
		p.load(q, "last", func() {
			_, fresh = p.status()
			p.primary.kill()
		})
		if out, err := command(t, "promote", "--endpoint", "http://"+p.ports[1]).CombinedOutput(); err != nil {
			t.Fatalf("promote: %v\n%s", err, out)
		}
		items := scanIDs(t, p.secondary.door)
		g.count("writes", len(q.writes))
		g.count("items after the promotion", len(items))
		reportFaults(t, q.faults(items, fresh))
		if err := putAll(p.secondary.door, []string{"after", "the promotion"}); err != nil {
			t.Error(err)
		}
		checkControl(t, q, items)
		p.secondary.kill()
		if out, err := verify(t, filepath.Join(p.dir, "standby")); err != nil {
			t.Errorf("verify: %v\n%s", err, out)
		}
	}
}

// checkControl is the control: a write that is missing in the middle is found.
func checkControl(t testing.TB, q *sequence, items map[string]bool) {
	t.Helper()
	acked := 0
	for _, w := range q.writes {
		if w.end == 0 || !items[w.items[0]] {
			continue
		}
		if acked++; acked < 5 {
			continue
		}
		for _, id := range w.items {
			delete(items, id)
		}
		if len(q.faults(items, time.Time{})) == 0 {
			t.Error("a missing write is not found")
		}
		return
	}
	t.Error("there are too few writes")
}
