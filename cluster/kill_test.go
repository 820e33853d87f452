//go:build linux && cluster

package cluster

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/cluster/rig"
)

var kills = flag.Int("kills", 20, "how many times a part of the cluster, or a server, is killed")

// between is how many requests must be acknowledged between two kills, and
// also while the killed part is down.
const between = 200

// Whatever is killed, acknowledged writes are kept, indexes and streams agree
// with them, a transaction with a token happens once, and no money is created
// or lost.
func TestNothingIsLostByKills(t *testing.T) {
	c := wholeCluster(t)
	servers := serve(t, 2, engineURL(t), "--shard-duration", "10s")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	l := newLoad(t, servers, seed)
	l.begin()
	counts := make(map[string]int)
	began := time.Now()
	for n := range *kills {
		kind, restore := killOne(t, c, servers, n)
		counts[kind]++
		killed := time.Now()
		l.progress("with a "+kind+" lost", between)
		carried := time.Since(killed)
		restore()
		await(t, "the cluster is whole again", c.Healthy)
		l.progress("after a "+kind+" was lost", between)
		t.Logf("kill %d, of a %s: %d acknowledged without it after %v, whole after %v", n+1, kind, between, carried.Round(time.Millisecond), time.Since(killed).Round(time.Millisecond))
	}
	l.end()
	t.Logf("%d kills %v in %v; %d requests acknowledged, %d attempts had errors %v, longest outage %v; %d sums checked",
		*kills, counts, time.Since(began).Round(time.Second), l.acked.Load(), l.missed.Load(), l.errors, l.outage.Round(time.Millisecond), l.looked.Load())

	found := l.findings(t)
	t.Logf("%d items put, %d records of the stream, %d entries of the index, %d items shared", len(found.puts), len(found.stream), len(found.entries), len(found.shared))
	faults := l.faults(found)
	if len(faults) > 0 {
		t.Errorf("%d faults:\n%s", len(faults), strings.Join(faults[:min(len(faults), 20)], "\n"))
		return
	}
	l.expectControls(t, found)
}

// killOne kills one of the parts in turn, and returns a function that
// restores it.
func killOne(t *testing.T, c *rig.Cluster, servers fleet, n int) (kind string, restore func()) {
	t.Helper()
	var lost int
	find := func(what string, leader func(context.Context) (int, error)) {
		t.Helper()
		await(t, what, func(ctx context.Context) (err error) {
			lost, err = leader(ctx)
			return err
		})
	}
	back := func(start func(int) error) func() {
		return func() {
			t.Helper()
			if err := start(lost); err != nil {
				t.Fatal(err)
			}
		}
	}
	switch n % 3 {
	case 0:
		find("a store leads", c.StoreLeading)
		c.KillStore(lost)
		return "store", back(c.StartStore)
	case 1:
		find("a PD leads", c.PDLeader)
		c.KillPD(lost)
		return "PD", back(c.StartPD)
	}
	s := servers[n/3%len(servers)]
	s.kill()
	return "stator", s.start
}

// progress waits until n more requests are acknowledged.
func (l *load) progress(when string, n int64) {
	l.t.Helper()
	want := l.acked.Load() + n
	await(l.t, when, func(context.Context) error {
		if got := l.acked.Load(); got < want {
			return fmt.Errorf("%d of %d requests are acknowledged", got-want+n, n)
		}
		return nil
	})
}

// findings is the content of the tables at the end.
type findings struct {
	puts     map[string]image
	accounts map[string]image
	shared   map[string]image
	entries  []image // of the index
	stream   []change
}

func (l *load) findings(t *testing.T) findings {
	t.Helper()
	return findings{
		puts:     by("id", l.servers.scan(t, "Puts", "")),
		accounts: by("id", l.servers.scan(t, "Accounts", "")),
		shared:   by("id", l.servers.scan(t, "Shared", "")),
		entries:  l.servers.scan(t, "Shared", "by-g"),
		stream:   l.servers.any().records(t, "Shared"),
	}
}

// faults compares the findings with the replies that the writers got.
func (l *load) faults(found findings) (faults []string) {
	for id := range l.puts {
		if found.puts[id] == nil {
			faults = append(faults, "the item "+id+" was acknowledged and is lost")
		}
	}
	sum := 0
	for n := range accounts {
		sum += found.accounts[account(n)].number("balance")
	}
	if sum != accounts*startBalance {
		faults = append(faults, fmt.Sprintf("all accounts have %d, want %d", sum, accounts*startBalance))
	}
	for w, n := range l.moved {
		if got := found.accounts[mover(w)].number("moved"); got != n {
			faults = append(faults, fmt.Sprintf("%s has moved %d times, %d were acknowledged", mover(w), got, n))
		}
	}
	faults = append(faults, indexFaults(found.shared, found.entries)...)
	faults = append(faults, replayFaults(found.stream, found.shared)...)
	return append(faults, l.versionFaults(found.stream)...)
}

// indexFaults compares the entries of an index with the items that belong in
// it.
func indexFaults(items map[string]image, entries []image) (faults []string) {
	left := maps.Clone(items)
	for _, e := range entries {
		id := e.text("id")
		if it, ok := left[id]; !ok || it.String() != e.String() {
			faults = append(faults, fmt.Sprintf("the index has %v, the table %v", e, it))
		}
		delete(left, id)
	}
	for _, it := range left {
		if it.text("g") != "" {
			faults = append(faults, fmt.Sprintf("the table has %v, the index does not", it))
		}
	}
	return faults
}

// replayFaults replays the records of each item: each begins where the one
// before it ended, and the last ends with the present item.
func replayFaults(stream []change, present map[string]image) (faults []string) {
	now, seen := make(map[string]string), make(map[string]bool)
	for _, r := range stream {
		if seen[r.EventID] {
			faults = append(faults, r.EventID+" is there twice")
		}
		seen[r.EventID] = true
		id := r.Dynamodb.Keys.text("id")
		if before := r.Dynamodb.OldImage.String(); before != now[id] {
			faults = append(faults, fmt.Sprintf("%s: a change of %q begins with %q", id, now[id], before))
		}
		now[id] = r.Dynamodb.NewImage.String()
	}
	for id, it := range present {
		if now[id] == "" {
			faults = append(faults, fmt.Sprintf("%v was never made", it))
		}
	}
	for id, last := range now {
		if last != present[id].String() {
			faults = append(faults, fmt.Sprintf("%s is %q, but its last change made it %q", id, present[id], last))
		}
	}
	return faults
}

// versionFaults looks for the versions that were acknowledged to writers.
func (l *load) versionFaults(stream []change) (faults []string) {
	count := make(map[string]int)
	for _, r := range stream {
		count[r.Dynamodb.NewImage.text("v")]++
	}
	for v := range l.anyway {
		if count[v] == 0 {
			faults = append(faults, "the write "+v+" was acknowledged and is not in the stream")
		}
	}
	for v, acked := range l.once {
		if count[v] > 1 || acked && count[v] == 0 {
			faults = append(faults, fmt.Sprintf("the write %s, which has a token, happened %d times; acknowledged: %t", v, count[v], acked))
		}
	}
	return faults
}

// expectControls plants faults in the findings. Each has to be noticed.
func (l *load) expectControls(t *testing.T, found findings) {
	t.Helper()
	for name, plant := range map[string]func(*findings){
		"an item is lost": func(f *findings) { f.puts = without(f.puts, l.puts) },
		"a record is lost": func(f *findings) {
			f.stream = slices.Delete(slices.Clone(f.stream), len(f.stream)/2, len(f.stream)/2+1)
		},
		"the last record is lost": func(f *findings) { f.stream = f.stream[:len(f.stream)-1] },
		"a record is there twice": func(f *findings) {
			f.stream = slices.Insert(slices.Clone(f.stream), len(f.stream)/2, f.stream[len(f.stream)/2])
		},
		"an entry of the index is lost": func(f *findings) { f.entries = f.entries[1:] },
		"an entry of the index is old": func(f *findings) {
			old := maps.Clone(f.entries[0])
			old["v"] = map[string]string{"S": "before"}
			f.entries = append([]image{old}, f.entries[1:]...)
		},
		"an entry of the index is too many": func(f *findings) { f.entries = append(slices.Clone(f.entries), f.entries[0]) },
		"money is lost": func(f *findings) {
			f.accounts = maps.Clone(f.accounts)
			delete(f.accounts, account(1))
		},
		"a transfer happened twice": func(f *findings) {
			f.accounts = maps.Clone(f.accounts)
			f.accounts[mover(0)] = image{"moved": {"N": fmt.Sprint(l.moved[0] + 1)}}
		},
	} {
		broken := found
		plant(&broken)
		if len(l.faults(broken)) == 0 {
			t.Errorf("%s, and it is not noticed", name)
		}
	}
}

// without removes one of the acknowledged items.
func without(items map[string]image, acked map[string]bool) map[string]image {
	items = maps.Clone(items)
	for id := range acked {
		delete(items, id)
		break
	}
	return items
}

// change is a record of a stream.
type change struct {
	EventID  string `json:"eventID"`
	Dynamodb struct{ Keys, NewImage, OldImage image }
}

// records returns all records of a table's stream, each shard after its
// parent.
func (s *server) records(t *testing.T, table string) (all []change) {
	t.Helper()
	ask := func(operation string, body object, reply any) {
		t.Helper()
		s.must(t, "DynamoDBStreams_20120810."+operation, body, reply)
	}
	var streams struct{ Streams []struct{ StreamArn string } }
	ask("ListStreams", object{"TableName": table}, &streams)
	describe := object{"StreamArn": streams.Streams[0].StreamArn}
	for {
		var reply struct {
			StreamDescription struct {
				Shards               []struct{ ShardId string }
				LastEvaluatedShardId string
			}
		}
		ask("DescribeStream", describe, &reply)
		for _, shard := range reply.StreamDescription.Shards {
			var at struct{ ShardIterator string }
			ask("GetShardIterator", object{"StreamArn": describe["StreamArn"], "ShardId": shard.ShardId, "ShardIteratorType": "TRIM_HORIZON"}, &at)
			for at.ShardIterator != "" {
				var page struct {
					Records           []change
					NextShardIterator string
				}
				ask("GetRecords", object{"ShardIterator": at.ShardIterator}, &page)
				all = append(all, page.Records...)
				if at.ShardIterator = page.NextShardIterator; len(page.Records) == 0 {
					break
				}
			}
		}
		last := reply.StreamDescription.LastEvaluatedShardId
		if last == "" {
			return all
		}
		describe["ExclusiveStartShardId"] = last
	}
}
