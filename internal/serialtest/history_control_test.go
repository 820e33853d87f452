package serialtest

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The controls of the checker: histories with one fault each, and unusual
// histories without a fault.
func TestCheckerFindsPlantedAnomalies(t *testing.T) {
	app := func(key int, elements ...int) []appended { return []appended{{key, elements}} }
	see := func(key int, list ...int) []read { return []read{{key, list}} }
	for _, c := range []struct {
		name string
		want string // empty if the history is sound
		txns []txn
	}{
		{"one after another", "", []txn{
			{begin: 1, end: 2, appends: app(1, 1)},
			{begin: 3, end: 4, appends: app(1, 2), reads: see(1, 1, 2)},
			{begin: 5, end: 6, reads: see(1, 1, 2)},
		}},
		{"concurrent, in either order", "", []txn{
			{begin: 1, end: 4, appends: app(1, 1)},
			{begin: 2, end: 3, appends: app(1, 2)},
			{begin: 5, end: 6, reads: see(1, 2, 1)},
		}},
		{"an unknown outcome that happened, long after", "", []txn{
			{begin: 1, outcome: unknown, appends: app(1, 1)},
			{begin: 2, end: 3, reads: see(1)},
			{begin: 4, end: 5, reads: see(1, 1)},
		}},
		{"an unknown outcome that did not happen", "", []txn{
			{begin: 1, outcome: unknown, appends: app(1, 1)},
			{begin: 2, end: 3, appends: app(1, 2)},
			{begin: 4, end: 5, reads: see(1, 2)},
		}},
		{"an aborted transaction that is not read", "", []txn{
			{begin: 1, end: 2, outcome: aborted, appends: app(1, 1)},
			{begin: 3, end: 4, reads: see(1)},
		}},
		{"an append that is not read yet", "", []txn{
			{begin: 1, end: 2, reads: see(1)},
			{begin: 3, end: 4, appends: app(1, 1)},
		}},
		{"two writes in two orders", dirtyWrite, []txn{
			{begin: 1, end: 4, appends: []appended{{1, []int{1}}, {2, []int{2}}}},
			{begin: 1, end: 4, appends: []appended{{1, []int{3}}, {2, []int{4}}}},
			{begin: 5, end: 6, reads: see(1, 1, 3)},
			{begin: 5, end: 6, reads: see(2, 4, 2)},
		}},
		{"a read of an aborted write", abortedRead, []txn{
			{begin: 1, end: 2, outcome: aborted, appends: app(1, 1)},
			{begin: 3, end: 4, reads: see(1, 1)},
		}},
		{"a read of half an append", intermediateRead, []txn{
			{begin: 1, end: 4, appends: app(1, 1, 2)},
			{begin: 2, end: 3, reads: see(1, 1)},
			{begin: 5, end: 6, reads: see(1, 1, 2)},
		}},
		{"two that each see the other", circularFlow, []txn{
			{begin: 1, end: 4, appends: app(1, 1), reads: see(2, 2)},
			{begin: 1, end: 4, appends: app(2, 2), reads: see(1, 1)},
		}},
		{"an append that is lost", lostUpdate, []txn{
			{begin: 1, end: 2, appends: app(1, 1)},
			{begin: 1, end: 2, appends: app(1, 2)},
			{begin: 3, end: 4, reads: see(1, 2)},
		}},
		{"a list that shows one of two, then the other", incompatibleOrder, []txn{
			{begin: 1, end: 2, appends: app(1, 1)},
			{begin: 1, end: 2, appends: app(1, 2)},
			{begin: 1, end: 2, reads: see(1, 1)},
			{begin: 3, end: 4, reads: see(1, 2)},
		}},
		{"write skew", antiDependency, []txn{
			{begin: 1, end: 4, appends: app(1, 1), reads: see(2)},
			{begin: 1, end: 4, appends: app(2, 2), reads: see(1)},
			{begin: 5, end: 6, reads: []read{{1, []int{1}}, {2, []int{2}}}},
		}},
		{"a read of half a transaction", antiDependency, []txn{
			{begin: 1, end: 4, appends: []appended{{1, []int{1}}, {2, []int{2}}}},
			{begin: 2, end: 3, reads: []read{{1, []int{1}}, {2, nil}}},
			{begin: 5, end: 6, reads: see(2, 2)},
		}},
		{"two reads that disagree on the order", antiDependency, []txn{
			{begin: 1, end: 9, appends: app(1, 1)},
			{begin: 1, end: 9, appends: app(2, 2)},
			{begin: 2, end: 3, reads: []read{{1, []int{1}}, {2, nil}}},
			{begin: 2, end: 3, reads: []read{{1, nil}, {2, []int{2}}}},
			{begin: 10, end: 11, reads: []read{{1, []int{1}}, {2, []int{2}}}},
		}},
		{"a stale read", realTime, []txn{
			{begin: 1, end: 2, appends: app(1, 1)},
			{begin: 3, end: 4, reads: see(1)},
			{begin: 5, end: 6, reads: see(1, 1)},
		}},
		{"a read of an earlier state", realTime, []txn{
			{begin: 1, end: 9, appends: app(1, 1)},
			{begin: 2, end: 3, reads: see(1, 1)},
			{begin: 4, end: 5, reads: see(1)},
		}},
		{"a write that takes effect before its request", realTime, []txn{
			{begin: 1, end: 2, appends: app(1, 1)},
			{begin: 3, outcome: unknown, appends: app(1, 2)},
			{begin: 4, end: 5, reads: see(1, 2, 1)},
		}},
		{"an append that happened twice", duplicate, []txn{
			{begin: 1, end: 2, appends: app(1, 1)},
			{begin: 3, end: 4, reads: see(1, 1, 1)},
		}},
		{"an element from nowhere", phantom, []txn{
			{begin: 1, end: 2, reads: see(1, 1)},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := check(c.txns)
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("anomalies are found in a sound history: %v", got)
			case c.want != "" && !slices.ContainsFunc(got, func(a anomaly) bool { return a.kind == c.want }):
				t.Errorf("the anomalies are %v, want %s", got, c.want)
			}
		})
	}
}

// A fault in a long history is found, whichever transaction has it.
func TestCheckerFindsOneFaultAmongMany(t *testing.T) {
	seed := seedOf(t)
	for round := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, round))
		history := soundHistory(r, 2000)
		if got := check(history); len(got) > 0 {
			t.Fatalf("round %d: a sound history has %v", round, got)
		}
		for {
			x := &history[r.IntN(len(history))]
			if len(x.reads) > 0 && len(x.reads[0].list) > 2 {
				x.reads[0].list = x.reads[0].list[:len(x.reads[0].list)-2]
				break
			}
		}
		if got := check(history); len(got) == 0 {
			t.Errorf("round %d: a read that lacks its last two elements is not found", round)
		}
	}
}

// soundHistory returns transactions that happen one after another, each at a
// moment between its begin and end.
func soundHistory(r *rand.Rand, n int) []txn {
	lists := make([][]int, 8)
	history := make([]txn, n)
	element := 0
	for i := range history {
		x := &history[i]
		x.begin, x.end = int64(10*i-r.IntN(3)), int64(10*i+r.IntN(3))
		for _, key := range r.Perm(len(lists))[:1+r.IntN(3)] {
			if r.IntN(2) == 0 {
				x.reads = append(x.reads, read{key, slices.Clone(lists[key])})
				continue
			}
			element++
			lists[key] = append(lists[key], element)
			x.appends = append(x.appends, appended{key, []int{element}})
		}
	}
	for key := range lists {
		history = append(history, txn{begin: int64(10*n + 10), end: int64(10*n + 11), reads: []read{{key, lists[key]}}})
	}
	return history
}
