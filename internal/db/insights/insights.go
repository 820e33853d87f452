// Package insights finds the keys that are accessed or throttled most, as CloudWatch
// Contributor Insights does for DynamoDB.
//
// The counts are those of one process, and are lost when it ends.
package insights

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kind is what a rule counts.
type Kind string

// The kinds of rules, as their names have them.
const (
	AccessedPartitions  Kind = "PKC" // consumed units by partition key
	AccessedItems       Kind = "SKC" // by partition key and sort key
	ThrottledPartitions Kind = "PKT" // throttled requests by partition key
	ThrottledItems      Kind = "SKT" // by partition key and sort key
)

// Bounds of the memory of a rule.
const (
	keptMinutes      = 24 * 60 // as long as CloudWatch keeps them
	keptContributors = 25      // of a minute that is over; CloudWatch's graphs show as many
	keptBytes        = 1 << 20 // of the keys of the minutes that are over
	maxText          = 200     // bytes of a key; of longer ones, their beginning and a hash
)

// Text returns the text of a part of a key, in bounded memory.
func Text(s string) string {
	if len(s) <= maxText {
		return s
	}
	h := fnv.New64a()
	h.Write([]byte(s))
	return fmt.Sprintf("%s…%016x", strings.ToValidUTF8(s[:maxText-20], ""), h.Sum64())
}

// Rule counts the requests of each key, by minute.
type Rule struct {
	mu      sync.Mutex
	minute  int64 // the present one, since 1970
	present topK
	past    []minuteTop // it is appended to and cut, not changed
	bytes   int         // of past, about
}

type minuteTop struct {
	minute int64
	sum    float64
	top    []Contributor
}

// Add adds to what the requests of a key add up to.
func (r *Rule) Add(now time.Time, key Key, value float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(now.Unix() / 60)
	r.present.add(key, value)
}

// advance ends the present minute if it is over.
func (r *Rule) advance(minute int64) {
	if minute <= r.minute {
		return
	}
	if len(r.present.heap) > 0 {
		ended := minuteTop{r.minute, r.present.sum, r.present.top(keptContributors)}
		r.past, r.bytes = append(r.past, ended), r.bytes+ended.bytes()
	}
	r.present, r.minute = topK{}, minute
	n := 0
	for n < len(r.past) && (r.past[n].minute < minute-keptMinutes || r.bytes > keptBytes) {
		r.bytes -= r.past[n].bytes()
		n++
	}
	if n > 0 {
		r.past = slices.Clone(r.past[n:])
	}
}

// bytes returns about how much memory the minute needs.
func (m *minuteTop) bytes() (bytes int) {
	for i := range m.top {
		bytes += 64 + len(m.top[i].Key.Partition) + len(m.top[i].Key.Sort)
	}
	return bytes
}

// Report is what a rule has counted in a time.
type Report struct {
	Sum          float64 // of all keys
	Keys         int     // that are known, also those that are not among the Contributors
	Contributors []Contributions
}

// Contributions is what the requests of one key add up to.
type Contributions struct {
	Contributor
	Minutes []MinuteValue // in which there were any
}

// MinuteValue is the part of a minute.
type MinuteValue struct {
	Minute time.Time
	Value  float64
}

// Report returns the n keys that contribute most in the minutes from a time until
// before another.
func (r *Rule) Report(now, from, to time.Time, n int) Report {
	past := r.minutes(now)
	from = from.Truncate(time.Minute)
	var report Report
	byKey := make(map[Key]*Contributions)
	for _, m := range past {
		begin := time.Unix(m.minute*60, 0).UTC()
		if begin.Before(from) || !begin.Before(to) {
			continue
		}
		report.Sum += m.sum
		for _, c := range m.top {
			all := byKey[c.Key]
			if all == nil {
				all = &Contributions{Contributor: Contributor{Key: c.Key}}
				byKey[c.Key] = all
			}
			all.Value += c.Value
			all.Minutes = append(all.Minutes, MinuteValue{begin, c.Value})
		}
	}
	for _, c := range byKey {
		report.Contributors = append(report.Contributors, *c)
	}
	report.Keys = len(byKey)
	slices.SortFunc(report.Contributors, func(a, b Contributions) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Key.Partition, b.Key.Partition), cmp.Compare(a.Key.Sort, b.Key.Sort))
	})
	if len(report.Contributors) > n {
		report.Contributors = report.Contributors[:n]
	}
	return report
}

// minutes returns all minutes, with the present one.
func (r *Rule) minutes(now time.Time) []minuteTop {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(now.Unix() / 60)
	if len(r.present.heap) == 0 {
		return r.past
	}
	return append(slices.Clip(r.past), minuteTop{r.minute, r.present.sum, r.present.top(keptContributors)})
}

// Rules are the rules of a table or a global index; those that are not enabled are nil.
type Rules struct {
	Mode  string
	rules map[Kind]*Rule
}

// The modes of Contributor Insights.
const (
	ModeAll       = "ACCESSED_AND_THROTTLED_KEYS"
	ModeThrottled = "THROTTLED_KEYS"
)

// KindsOf returns the kinds of rules of a mode, for a table or index with or without a
// sort key.
func KindsOf(mode string, sorted bool) (kinds []Kind) {
	if mode == ModeAll {
		kinds = append(kinds, AccessedPartitions)
		if sorted {
			kinds = append(kinds, AccessedItems)
		}
	}
	kinds = append(kinds, ThrottledPartitions)
	if sorted {
		kinds = append(kinds, ThrottledItems)
	}
	return kinds
}

// NewRules returns the rules of a mode.
func NewRules(mode string, sorted bool) *Rules {
	r := &Rules{Mode: mode, rules: make(map[Kind]*Rule)}
	for _, kind := range KindsOf(mode, sorted) {
		r.rules[kind] = new(Rule)
	}
	return r
}

// Rule returns the rule of a kind, or nil.
func (r *Rules) Rule(kind Kind) *Rule { return r.rules[kind] }

// Accessed counts the units of a request. A request that is not to a single item has no
// sort key, and counts for its partition only.
func (r *Rules) Accessed(now time.Time, key Key, single bool, units float64) {
	if rule := r.rules[AccessedPartitions]; rule != nil {
		rule.Add(now, Key{Partition: key.Partition}, units)
	}
	if rule := r.rules[AccessedItems]; rule != nil && single {
		rule.Add(now, key, units)
	}
}

// Throttled counts a throttled request.
func (r *Rules) Throttled(now time.Time, key Key, single bool) {
	r.rules[ThrottledPartitions].Add(now, Key{Partition: key.Partition}, 1)
	if rule := r.rules[ThrottledItems]; rule != nil && single {
		rule.Add(now, key, 1)
	}
}

// Len returns the number of rules.
func (r *Rules) Len() int { return len(r.rules) }
