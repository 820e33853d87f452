package prove

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/virtualtime"
)

const seed = 20261115

func parse(t *testing.T, text string) *model.Model {
	t.Helper()
	m, err := model.Parse("test.model.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const carts = `
model: 1
tables:
  shop: {key: {partition: PK, sort: SK}, indexes: {byDay: {partition: day}}}
entities:
  cart: {keys: {PK: "C#{customer}", SK: CART}, attributes: {customer: S, day: {format: date}, lines: N}, count: 1000}
patterns:
  - {name: get, get: cart, given: [customer], rate: 20/s, skew: {customer: 0.5}}
  - {name: put, put: cart, condition: attribute_not_exists(PK), rate: 10/s}
`

// Each pattern arrives at its rate, at times that only the seed determines.
func TestSchedule(t *testing.T) {
	rates := []float64{100, 10, 0, 0.5}
	all, err := schedule(rates, 100*time.Second, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]float64, len(rates))
	for i, a := range all {
		if a.at < 0 || a.at >= 100*time.Second || i > 0 && a.at < all[i-1].at {
			t.Fatalf("arrival %d is at %v", i, a.at)
		}
		counts[a.pattern]++
	}
	for i, rate := range rates {
		want := rate * 100
		if math.Abs(counts[i]-want) > 5*math.Sqrt(want) {
			t.Errorf("seed %d: pattern %d arrives %v times, want about %v", seed, i, counts[i], want)
		}
	}
	again, _ := schedule(rates, 100*time.Second, rand.New(rand.NewPCG(seed, 0)))
	if fmt.Sprint(all) != fmt.Sprint(again) {
		t.Error("the same seed makes another schedule")
	}
	if _, err := schedule([]float64{1e6}, time.Hour, rand.New(rand.NewPCG(seed, 0))); err == nil {
		t.Error("the number of arrivals is not limited")
	}
}

func TestParseRate(t *testing.T) {
	m := parse(t, carts)
	for _, c := range []struct {
		text string
		want []float64
	}{
		{"1x", []float64{20, 10}}, {"0.1x", []float64{2, 1}}, {"60", []float64{40, 20}}, {"3/s", []float64{2, 1}},
		{"0x", nil}, {"-1", nil}, {"x", nil}, {"", nil}, {"NaN", nil}, {"1e300", nil}, {"fast", nil},
	} {
		r, err := ParseRate(c.text)
		if (err != nil) != (c.want == nil) {
			t.Errorf("ParseRate(%q) = %v, %v", c.text, r, err)
			continue
		}
		if got := r.of(m.Patterns); c.want != nil && fmt.Sprintf("%.6f", got) != fmt.Sprintf("%.6f", c.want) {
			t.Errorf("at %s the rates are %v, want %v", c.text, got, c.want)
		}
	}
}

// answering is a server that replies with err after a delay.
func answering(takes time.Duration, err error) apply.Send {
	return func(ctx context.Context, operation string, _ any) ([]byte, error) {
		if operation == "BatchWriteItem" {
			return []byte("{}"), nil
		}
		if stopped := apply.Sleep(ctx, takes); stopped != nil {
			return nil, stopped
		}
		return []byte("{}"), err
	}
}

// The times of a server that keeps up are measured exactly, for the requested
// duration.
func TestLoadMeasures(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		reports := 0
		r, err := Load(t.Context(), answering(10*time.Millisecond, nil), parse(t, carts), LoadOptions{Rate: Rate{Times: 1}, For: 30 * time.Second, Seed: seed,
			Progress: func(sent, all, late int) {
				reports++
				if late > 0 || sent > all {
					t.Errorf("reported are %d of %d, %d late", sent, all, late)
				}
			}})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []float64{20, 10} {
			p := r.Patterns[i]
			if p.P50 != 10 || p.P99 != 10 || p.Max != 10 || math.Abs(p.PerSecond-want) > 3 || p.Rate != want {
				t.Errorf("seed %d: %+v", seed, p)
			}
		}
		if r.Bad() != 0 || r.Seconds > 31 || reports < 28 {
			t.Errorf("%d runs failed in %v s, with %d progress reports", r.Bad(), r.Seconds, reports)
		}
	})
}

// The load is an open loop: when the server is slow, requests are still due, and
// their waiting is measured. Runs that are not sent at the end are reported.
func TestLoadIsOpen(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		start := time.Now()
		r, err := Load(t.Context(), answering(100*time.Millisecond, nil), parse(t, carts),
			LoadOptions{Rate: Rate{Times: 1}, For: 20 * time.Second, Workers: 2, Grace: time.Second, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		done, unsent := 0, 0
		for _, p := range r.Patterns {
			done, unsent = done+p.Done, unsent+p.Unsent
			if p.P99 < 2000 {
				t.Errorf("%s: two workers complete 20 of 30 runs a second, but the p99 is only %v ms", p.Name, p.P99)
			}
		}
		if done < 400 || done > 422 || unsent < 100 {
			t.Errorf("seed %d: %d are done and %d unsent", seed, done, unsent)
		}
		if took := time.Since(start); took > 21*time.Second+time.Millisecond {
			t.Errorf("it ends after %v", took)
		}
	})
}

// Keys are as hot as declared, and keys of indexes are counted too.
func TestLoadIsSkewed(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		r, err := Load(t.Context(), answering(0, nil), parse(t, carts), LoadOptions{Rate: Rate{Times: 1}, For: 100 * time.Second, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		// Of 40 keys a second, 20 of gets and 2 times 10 of puts, the busiest
		// customer has half of the gets.
		hot := r.Hottest[0]
		if !strings.HasPrefix(hot.Key, "shop C#") || math.Abs(hot.Share-0.25) > 0.03 {
			t.Errorf("seed %d: the hottest is %+v", seed, hot)
		}
		if len(r.Hottest) > 1 && r.Hottest[1].Share > 0.02 {
			t.Errorf("seed %d: the next is %+v", seed, r.Hottest[1])
		}
	})
}

// Each kind of rejection is counted separately.
func TestLoadCounts(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		of   func(*LoadPattern) int
	}{
		{"nothing", nil, func(p *LoadPattern) int { return p.Done }},
		{"spent units", &apierror.Error{Code: "ProvisionedThroughputExceededException"}, func(p *LoadPattern) int { return p.Throttled }},
		{"a condition", apierror.ConditionFailed(nil), func(p *LoadPattern) int { return p.Refused }},
		{"a fault", apierror.Validation("no"), func(p *LoadPattern) int { return p.Errors }},
		{"a broken connection", errors.New("connection reset"), func(p *LoadPattern) int { return p.Errors }},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				r, err := Load(t.Context(), answering(0, c.err), parse(t, carts), LoadOptions{Rate: Rate{Times: 1}, For: 10 * time.Second, Seed: seed})
				if err != nil {
					t.Fatal(err)
				}
				p := r.Patterns[0]
				if n := c.of(p); n == 0 || n != p.Done+p.Throttled+p.Refused+p.Errors+p.Unsent {
					t.Errorf("it is counted as %+v", p)
				}
			})
		})
	}
}

// A cancelled load returns the context's error.
func TestLoadStops(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		_, err := Load(ctx, answering(time.Millisecond, nil), parse(t, carts), LoadOptions{Rate: Rate{Times: 1}, For: time.Hour / 4, Seed: seed})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 6*time.Second {
			t.Errorf("after %v it ends with %v", time.Since(start), err)
		}
	})
}

// A real server can execute the models: no condition fails that should hold, and
// no request is rejected.
func TestLoadModels(t *testing.T) {
	files := models(t)
	for _, file := range files[:len(files)-1] { // the last has pages of megabytes
		t.Run(filepath.Base(file), func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				m := readModel(t, file)
				e := server(t, m)
				r, err := Load(t.Context(), e.Send, m, LoadOptions{Rate: Rate{PerSecond: 400}, For: 2 * time.Second, Seed: seed})
				if err != nil {
					t.Fatal(err)
				}
				done := 0
				for _, p := range r.Patterns {
					done += p.Done
					if p.Throttled+p.Refused+p.Errors+p.Unsent > 0 {
						t.Errorf("seed %d: %+v", seed, *p)
					}
				}
				if done < 600 || len(r.Hottest) == 0 {
					t.Errorf("seed %d: %d runs, hottest %v", seed, done, r.Hottest)
				}
				t.Log(r.Hottest[:min(3, len(r.Hottest))])
			})
		})
	}
}

func TestQuantile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		times []time.Duration
		part  float64
		want  time.Duration
	}{
		{nil, 0.5, 0}, {hundred[:1], 0.5, 1}, {hundred[:1], 0.99, 1}, {hundred[:2], 0.5, 1}, {hundred[:3], 0.5, 2},
		{hundred, 0.5, 50}, {hundred, 0.99, 99}, {hundred, 0.07, 7}, {hundred, 1, 100}, {hundred, 0, 1},
	} {
		if got := quantile(c.times, c.part); got != c.want {
			t.Errorf("%v of %d times is %d, want %d", c.part, len(c.times), got, c.want)
		}
	}
}

// No frequent key is missed, and no count is wrong by more than all divided by
// the size.
func TestHottest(t *testing.T) {
	const size, all = 50, 20_000
	chance := rand.New(rand.NewPCG(seed, 0))
	h := newHotKeyCounter(size)
	exact := make(map[string]int)
	for range all {
		key := fmt.Sprint("cold ", chance.IntN(5000))
		if n := chance.IntN(100); n < 30 {
			key = fmt.Sprint("hot ", n%3)
		}
		h.add(key)
		exact[key]++
	}
	if len(h.keys) > size || len(h.at) > size {
		t.Errorf("%d keys are kept", len(h.keys))
	}
	for _, c := range h.keys {
		if c.count < exact[c.key] || c.count-c.over > exact[c.key] || c.over > all/size {
			t.Errorf("seed %d: %s is counted %d times, at most %d too many, want %d", seed, c.key, c.count, c.over, exact[c.key])
		}
	}
	top := h.top(10)
	if len(top) != 3 {
		t.Errorf("seed %d: the hottest are %+v", seed, top)
	}
	for _, k := range top {
		if !strings.HasPrefix(k.Key, "hot") {
			t.Errorf("seed %d: %+v is not one of the hottest", seed, k)
		}
	}
}

// A load that would exhaust memory is rejected before it starts.
func TestLoadIsBounded(t *testing.T) {
	m := readModel(t, "../../../apps/taskqueue/taskqueue.model.yaml")
	sent := 0
	_, err := Load(t.Context(), func(context.Context, string, any) ([]byte, error) { sent++; return []byte("{}"), nil }, m,
		LoadOptions{Rate: Rate{Times: 1}, For: 150 * time.Second, Seed: seed})
	if err == nil || !strings.Contains(err.Error(), "this needs more than 400000 items and runs") || sent > 0 {
		t.Errorf("450,000 writes with an item each return %v after %d requests", err, sent)
	}
}
