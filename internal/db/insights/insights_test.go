package insights

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var start = time.Date(2026, 11, 18, 10, 0, 30, 0, time.UTC)

// Of a Zipfian load over a million keys, the ten hottest are named, with their counts.
func TestHottestOfAMillionKeys(t *testing.T) {
	for _, s := range []float64{1.05, 1.3} {
		seed := rand.Uint64()
		zipf := rand.NewZipf(rand.New(rand.NewPCG(seed, 1)), s, 1, 999_999)
		exact := make(map[uint64]float64)
		var k topK
		for range 1_000_000 {
			n := zipf.Uint64()
			exact[n]++
			k.add(Key{Partition: fmt.Sprint(n)}, 1)
		}
		if len(k.heap) > counters || len(k.at) > counters {
			t.Fatalf("%d keys are counted", len(k.heap))
		}
		hottest := make([]uint64, 0, len(exact))
		for n := range exact {
			hottest = append(hottest, n)
		}
		slices.SortFunc(hottest, func(a, b uint64) int { return int(exact[b] - exact[a]) })
		top := k.top(10)
		for i, n := range hottest[:10] {
			j := slices.IndexFunc(top, func(c Contributor) bool { return c.Key.Partition == fmt.Sprint(n) })
			if j < 0 {
				t.Errorf("seed %d, s %v: key %d, the %d. of all, is missing: %v", seed, s, n, i+1, top)
				continue
			}
			if off := top[j].Value/exact[n] - 1; off < -0.02 || off > 0.02 {
				t.Errorf("seed %d, s %v: key %d has %v instead of %v", seed, s, n, top[j].Value, exact[n])
			}
		}
	}
}

// Keys that come once each are not reported as hot.
func TestUniqueKeysAreNotHot(t *testing.T) {
	var k topK
	for i := range 100_000 {
		k.add(Key{Partition: fmt.Sprint(i)}, 1)
		if i%50 == 0 {
			k.add(Key{Partition: "hot"}, 1)
		}
	}
	if top := k.top(10); len(top) != 1 || top[0].Key.Partition != "hot" || top[0].Value > 2000*1.02 {
		t.Errorf("the hottest are %v", top)
	}
}

func TestReport(t *testing.T) {
	r := NewRules(ModeAll, true)
	for i := range 3 {
		at := start.Add(time.Duration(i) * time.Minute)
		r.Accessed(at, Key{"a", "1"}, true, 2)
		r.Accessed(at, Key{"b", "1"}, true, 1)
		r.Accessed(at, Key{Partition: "b"}, false, 10) // a query
	}
	now := start.Add(3 * time.Minute)
	got := r.Rule(AccessedPartitions).Report(now, start.Add(-time.Hour), now, 10)
	if got.Sum != 39 || len(got.Contributors) != 2 || got.Contributors[0].Key.Partition != "b" || got.Contributors[0].Value != 33 || len(got.Contributors[0].Minutes) != 3 {
		t.Errorf("partitions: %+v", got)
	}
	got = r.Rule(AccessedItems).Report(now, start.Truncate(time.Minute).Add(time.Minute), now, 1)
	if got.Sum != 6 || len(got.Contributors) != 1 || got.Contributors[0].Contributor != (Contributor{Key{"a", "1"}, 4}) {
		t.Errorf("items of two minutes: %+v", got)
	}
	r.Throttled(now, Key{"c", "9"}, true)
	if got := r.Rule(ThrottledItems).Report(now, now.Add(-time.Hour), now.Add(time.Minute), 10); len(got.Contributors) != 1 {
		t.Errorf("the present minute is missing: %+v", got)
	}
}

// A rule keeps a day of minutes.
func TestMinutesAreBounded(t *testing.T) {
	r := new(Rule)
	for i := range 2 * keptMinutes {
		at := start.Add(time.Duration(i) * time.Minute)
		for j := range 2 * keptContributors {
			r.Add(at, Key{Partition: fmt.Sprint(j)}, float64(j+1))
		}
	}
	if len(r.past) > keptMinutes {
		t.Errorf("%d minutes are kept", len(r.past))
	}
	for _, m := range r.past {
		if len(m.top) > keptContributors {
			t.Fatalf("%d keys of a minute are kept", len(m.top))
		}
	}
}

func TestText(t *testing.T) {
	long := strings.Repeat("é", 1000)
	if got := Text(long); len(got) > maxText || !utf8.ValidString(got) || got == Text(long+"x") {
		t.Errorf("a long key is %q", got)
	}
	if got := Text("short"); got != "short" {
		t.Errorf("a short key is %q", got)
	}
}

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		mode   string
		sorted bool
		want   []Kind
	}{
		{ModeAll, true, []Kind{"PKC", "SKC", "PKT", "SKT"}},
		{ModeAll, false, []Kind{"PKC", "PKT"}},
		{ModeThrottled, true, []Kind{"PKT", "SKT"}},
		{ModeThrottled, false, []Kind{"PKT"}},
	} {
		if got := KindsOf(c.mode, c.sorted); !slices.Equal(got, c.want) {
			t.Errorf("%s, %v: %v", c.mode, c.sorted, got)
		}
	}
}
