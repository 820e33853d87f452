package main

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A bucket's longest duration is never shorter than one in it, and at most
// 1.6 % longer.
func TestBuckets(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 63, 64, 65, 127, 128, 1000, 123_456, time.Second, time.Hour, 1<<63 - 1} {
		got := longest(bucket(d))
		if got < d || float64(got) > float64(d)*(1+1.0/subBuckets) {
			t.Errorf("%v falls into a bucket up to %v", d, got)
		}
	}
	for b := range len(histogram{}.counts) - 1 {
		if bucket(longest(b)) != b || bucket(longest(b)+1) != b+1 {
			t.Fatalf("bucket %d ends at %v, which lies in %d, and the next in %d", b, longest(b), bucket(longest(b)), bucket(longest(b)+1))
		}
	}
}

// Quantiles of two added halves are those of the sorted whole.
func TestQuantile(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 0))
	var all []time.Duration
	var halves [2]histogram
	for i := range 10_001 {
		d := time.Duration(r.ExpFloat64() * float64(time.Millisecond))
		all = append(all, d)
		halves[i%2].record(d)
	}
	slices.Sort(all)
	halves[0].add(&halves[1])
	for _, q := range []float64{0, 0.5, 0.99, 0.999, 1} {
		want := all[min(int(q*float64(len(all))), len(all)-1)]
		got := halves[0].quantile(q)
		if got < want || float64(got) > float64(want)*1.016+1 {
			t.Errorf("seed %d: quantile %v is %v, want %v", seed, q, got, want)
		}
	}
	if got := new(histogram).quantile(0.5); got != 0 {
		t.Errorf("the median of an empty histogram is %v", got)
	}
}

func TestHistogramTravels(t *testing.T) {
	var h, back histogram
	for _, d := range []time.Duration{1, 1, 5 * time.Microsecond, time.Second} {
		h.record(d)
	}
	text, err := json.Marshal(&pebbleResult{Sample: sample{Latency: h}})
	if err != nil {
		t.Fatal(err)
	}
	var o pebbleResult
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	if back = o.Sample.Latency; back != h {
		t.Errorf("%s is decoded with %d of %d durations", text, back.total, h.total)
	}
}
