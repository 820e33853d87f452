package heat

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/partition"
	"github.com/stator-db/stator/internal/model"
)

// headroom is the share of a limit that advice leaves in use at most: requests do not
// arrive evenly.
const headroom = 0.9

// advise returns what to change so that nothing is throttled.
func (s *simulator) advise(r *unitPool) (advice []Advice) {
	if r.throttled == 0 {
		return nil
	}
	keys, whole := r.hottest(), r.throttled > r.ofPartition
	if whole {
		advice = s.adviseWhole(r, keys)
	}
	// More units for the whole are more partitions, which help unless a key alone is too
	// hot for one.
	if r.ofPartition > 0 && (!whole || s.shareOf(r, keys) >= 1) {
		advice = append(advice, s.advisePartition(r, keys)...)
	}
	return advice
}

func adviceOf(change Change, to float64, format string, args ...any) Advice {
	return Advice{change, to, fmt.Sprintf(format, args...)}
}

// shareOf is what the hottest key is asked for, as a share of the limit of a partition.
func (s *simulator) shareOf(r *unitPool, keys []*keyHeat) float64 {
	if len(keys) == 0 {
		return 0
	}
	return keys[0].asked / s.during.Seconds() / float64(r.limit())
}

// adviseWhole is the advice for a limit of a whole table or index.
func (s *simulator) adviseWhole(r *unitPool, keys []*keyHeat) (advice []Advice) {
	asked := sum(r.whole.asked) / s.during.Seconds()
	units := math.Ceil(asked / headroom)
	if r.onDemand {
		n := partitionsFor(keys, float64(r.limit())*s.during.Seconds()*headroom)
		units = max(units, float64(int64(n)*r.limit()))
	}
	kind, of := r.kindName(), "table "+r.table
	if r.index != "" {
		of = "index " + r.index
	}
	switch {
	case r.onDemand:
		advice = append(advice, adviceOf(RaiseWarm, units, "give %s a warm throughput of %s %s units before the peak: on-demand begins with %s, and serves twice as much only half an hour after a peak",
			of, model.Figure(units), kind, model.Figure(float64(r.rate))))
	default:
		advice = append(advice, adviceOf(RaiseUnits, units, "give %s %s %s units: %s are provisioned, and %s are asked for", of, model.Figure(units), kind, model.Figure(float64(r.rate)), model.Figure(math.Round(asked))))
		advice = append(advice, adviceOf(BecomeOnDemand, 0, "or set billing: on-demand"))
	}
	if r.index != "" && r.write {
		advice = append(advice, adviceOf(Redesign, 0, "index %s rejects the writes of its table that change it: fewer writes need units if it is sparse or projects fewer attributes", r.index))
	}
	return advice
}

// advisePartition is the advice for the limit of a partition.
func (s *simulator) advisePartition(r *unitPool, keys []*keyHeat) (advice []Advice) {
	limit, seconds := float64(r.limit()), s.during.Seconds()
	if len(keys) == 0 {
		return []Advice{{Redesign, 0, "read less by scans: they read all partitions"}}
	}
	top, share := keys[0], s.shareOf(r, keys)
	n, busiest := s.shards(r, keys, min(headroom, s.allowed))
	if n == 0 { // the budget cannot be kept with these partitions
		n, busiest = s.shards(r, keys, headroom)
	}
	switch {
	case n > 1 && r.write:
		advice = append(advice, adviceOf(AddShards, float64(n), "shard the key %s by %d (an attribute with shards: %d in it): the busiest partition is then asked for %s units/s", top.form, n, n, model.Figure(math.Round(busiest))))
	case n > 1:
		advice = append(advice, adviceOf(AddCopies, float64(n), "keep %d copies of what is read by the key %s, or a cache before it: the busiest partition is then asked for %s units/s", n, top.form, model.Figure(math.Round(busiest))))
	}
	if share >= 1 {
		return append(advice, adviceOf(Redesign, 0, "partitions do not help: the key %s alone is asked for %s units/s", top.text, model.Figure(math.Round(share*limit))))
	}
	or := ""
	if len(advice) > 0 {
		or = "or "
	}
	switch n := partitionsFor(keys, limit*seconds*headroom); {
	case n > r.even.Len() && r.onDemand:
		advice = append(advice, adviceOf(RaiseWarm, float64(n)*limit, "%sgive it a warm throughput of %s %s units before the peak: %d partitions", or, model.Figure(float64(n)*limit), r.kindName(), n))
	case n > r.even.Len():
		advice = append(advice, adviceOf(RaiseWarm, float64(n)*limit, "%sgive it a warm throughput of %s %s units, or provision as many: %d partitions", or, model.Figure(float64(n)*limit), r.kindName(), n))
	case len(advice) == 0:
		advice = append(advice, adviceOf(Redesign, 0, "use more partition keys: %s units/s are asked for in all", model.Figure(math.Round(sum(r.whole.asked)/seconds))))
	}
	if s.during-r.last > s.during/10 && len(r.splits) > 0 {
		advice = append(advice, adviceOf(Nothing, 0, "after %v nothing is throttled, since the hot partition was split; other keys that become hot are throttled again", r.last.Truncate(time.Second)))
	}
	return advice
}

// shardCounts are the numbers of shards that are tried.
var shardCounts = []int{1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 50, 64, 100, 128, 200, 256}

// shards returns the smallest number of shards of the hot keys with which no partition
// is asked for more than a share of its limit, and what the busiest is then asked for. It
// is 0 if there is none.
func (s *simulator) shards(r *unitPool, keys []*keyHeat, allowed float64) (n int, busiest float64) {
	seconds, atLeast := s.during.Seconds(), model.ShardsFor(s.shareOf(r, keys), allowed)
	limit := float64(r.limit()) * allowed
	counts := slices.Clone(shardCounts)
	if i, found := slices.BinarySearch(counts, atLeast); !found {
		counts = slices.Insert(counts, i, atLeast)
	}
	for _, n := range counts {
		if n < atLeast {
			continue
		}
		loads := make([]float64, r.even.Len())
		for _, k := range keys {
			if n == 1 || k.form != keys[0].form {
				loads[r.even.Of(k.hash)] += k.asked / seconds
				continue
			}
			for i := range n {
				loads[r.even.Of(shardHash(k.text, i))] += k.asked / seconds / float64(n)
			}
		}
		if busiest = slices.Max(loads); busiest <= limit {
			return n, busiest
		}
	}
	return 0, 0
}

// shardHash is the hash of a key with a suffix.
func shardHash(key string, shard int) uint64 {
	return keyspace.Hash(keyspace.Partition(nil, 1, 0, []item.Value{item.String(fmt.Sprintf("%s#%d", key, shard))}))
}

// maxPartitions is the most partitions that are advised: those of 40,000 write units.
const maxPartitions = 40

// partitionsFor returns the smallest number of partitions of which each is asked for at
// most some units; 0 if there is none.
func partitionsFor(keys []*keyHeat, most float64) int {
	for n := 1; n <= maxPartitions; n++ {
		even, loads := partition.Even(n), make([]float64, n)
		for _, k := range keys {
			loads[even.Of(k.hash)] += k.asked
		}
		if slices.Max(loads) <= most {
			return n
		}
	}
	return 0
}
