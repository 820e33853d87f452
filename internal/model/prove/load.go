package prove

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
)

// LoadOptions say how much load to send, and for how long.
type LoadOptions struct {
	Rate    Rate
	For     time.Duration
	Workers int           // the most requests in flight; defaults to 64
	Grace   time.Duration // how long after the end requests may still be sent; defaults to 5 s
	Seed    uint64

	PrepareProgress func(done, all int)       // called while items are stored
	Progress        func(sent, all, late int) // called each second; late is how many runs wait for a worker
}

// LoadReport is the result of a load.
type LoadReport struct {
	Seconds  float64        `json:"seconds"` // from the first to the last reply
	Seed     uint64         `json:"seed"`
	Patterns []*LoadPattern `json:"patterns"`
	Hottest  []HotKey       `json:"hottest"`
}

// LoadPattern is the result of one pattern under load. Times are in
// milliseconds from the moment when the run was due, so they include waiting.
type LoadPattern struct {
	Name      string  `json:"name"`
	Rate      float64 `json:"rate"`      // runs per second that were scheduled
	PerSecond float64 `json:"perSecond"` // runs per second that completed
	Done      int     `json:"done"`      // runs that succeeded
	P50       float64 `json:"p50"`
	P99       float64 `json:"p99"`
	Max       float64 `json:"max"`
	Throttled int     `json:"throttled"` // rejected because the units were used up
	Refused   int     `json:"refused"`   // rejected by a condition
	Errors    int     `json:"errors"`
	Unsent    int     `json:"unsent"`          // not sent before the end
	Error     string  `json:"error,omitempty"` // one of the errors

	times []time.Duration
}

// Bad is the number of failed runs. Throttled runs do not count as failed: they
// are the expected result of a load above the provisioned units.
func (r *LoadReport) Bad() (n int) {
	for _, p := range r.Patterns {
		n += p.Errors + p.Unsent
	}
	return n
}

const (
	loadWorkers  = 64
	loadGrace    = 5 * time.Second
	hotKeys      = 1024 // how many keys are counted
	reportedKeys = 10
)

// Load runs the patterns of a model at their rates: each run at its time,
// whether or not earlier runs have completed. The tables must exist; the items
// stay in them.
func Load(ctx context.Context, send apply.Send, m *model.Model, o LoadOptions) (*LoadReport, error) {
	o.Workers, o.Grace = cmp.Or(o.Workers, loadWorkers), cmp.Or(o.Grace, loadGrace)
	chance := rand.New(rand.NewPCG(o.Seed, 0))
	rates := o.Rate.of(m.Patterns)
	arrivals, err := schedule(rates, o.For, chance)
	if err != nil {
		return nil, err
	}
	c, err := prepare(ctx, send, m, arrivals, chance, o.PrepareProgress)
	if err != nil {
		return nil, err
	}
	report := &LoadReport{Seed: o.Seed}
	for i, p := range m.Patterns {
		report.Patterns = append(report.Patterns, &LoadPattern{Name: p.Name, Rate: rates[i]})
	}
	l := &loadRun{send: send, plan: c, arrivals: arrivals, report: report, hot: newHotKeyCounter(hotKeys), options: &o}
	l.run(ctx)
	return report, ctx.Err()
}

// loadRun is a load in progress.
type loadRun struct {
	send     apply.Send
	plan     *loadPlan
	arrivals []arrival
	options  *LoadOptions

	mutex  sync.Mutex // guards the fields below
	report *LoadReport
	hot    *hotKeyCounter
	next   int // the first arrival that no worker has taken
}

// run lets workers take one arrival after another. A worker waits for the time
// of its arrival; when all workers are busy, arrivals are late, which is
// measured.
func (l *loadRun) run(ctx context.Context) {
	start := time.Now()
	ctx, cancel := context.WithDeadline(ctx, start.Add(l.options.For+l.options.Grace))
	defer cancel()
	ended := make(chan struct{})
	var telling, working sync.WaitGroup
	telling.Go(func() { l.reportProgress(start, ended) })
	for range l.options.Workers {
		working.Go(func() {
			for {
				a, ok := l.take()
				if !ok {
					return
				}
				if wait := time.Until(start.Add(a.at)); wait <= 0 || apply.Sleep(ctx, wait) == nil {
					l.execute(ctx, start, a)
				} else {
					l.record(a, 0, ctx.Err())
				}
			}
		})
	}
	working.Wait()
	close(ended)
	telling.Wait()
	l.finish(time.Since(start))
}

func (l *loadRun) take() (arrival, bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.next == len(l.arrivals) {
		return arrival{}, false
	}
	l.next++
	return l.arrivals[l.next-1], true
}

// execute sends the requests of one run.
func (l *loadRun) execute(ctx context.Context, start time.Time, a arrival) {
	p := &l.plan.runs[a.pattern][a.run]
	err := ctx.Err()
	for _, r := range p.requests {
		if err != nil {
			break
		}
		err = l.pages(ctx, r)
	}
	l.record(a, time.Since(start.Add(a.at)), err)
}

func (l *loadRun) pages(ctx context.Context, r preparedRequest) error {
	body := r.body
	for page := 1; ; page++ {
		text, err := l.send(ctx, r.operation, body)
		if err != nil || page >= r.pages {
			return err
		}
		var reply struct{ LastEvaluatedKey json.RawMessage }
		if err := json.Unmarshal(text, &reply); err != nil || reply.LastEvaluatedKey == nil {
			return err
		}
		var next map[string]json.RawMessage
		if err := json.Unmarshal(r.body, &next); err != nil {
			return err
		}
		next["ExclusiveStartKey"] = reply.LastEvaluatedKey
		if body, err = json.Marshal(next); err != nil {
			return err
		}
	}
}

// record adds one run to the report.
func (l *loadRun) record(a arrival, took time.Duration, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	p := l.report.Patterns[a.pattern]
	var fault *apierror.Error
	switch {
	case err == nil:
		p.times = append(p.times, took)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		p.Unsent++
		return
	case errors.As(err, &fault) && throttles[fault.Code]:
		p.Throttled++
	case errors.As(err, &fault) && (fault.Code == "ConditionalCheckFailedException" || fault.Code == "TransactionCanceledException"):
		p.Refused++
	default:
		p.Errors++
		p.Error = err.Error()
	}
	for _, k := range l.plan.runs[a.pattern][a.run].keys {
		l.hot.add(k)
	}
}

// throttles are the codes of throttling errors.
var throttles = map[string]bool{"ProvisionedThroughputExceededException": true, "ThrottlingException": true, "RequestLimitExceeded": true}

// reportProgress reports the progress of the load each second.
func (l *loadRun) reportProgress(start time.Time, ended chan struct{}) {
	if l.options.Progress == nil {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		l.mutex.Lock()
		sent := l.next
		l.mutex.Unlock()
		due, _ := slices.BinarySearchFunc(l.arrivals, time.Since(start), func(a arrival, now time.Duration) int { return cmp.Compare(a.at, now) })
		l.options.Progress(sent, len(l.arrivals), max(0, due-sent))
	}
}

// finish computes the figures of the report.
func (l *loadRun) finish(took time.Duration) {
	l.report.Seconds = took.Seconds()
	l.report.Hottest = l.hot.top(reportedKeys)
	for _, p := range l.report.Patterns {
		p.Done = len(p.times)
		p.PerSecond = float64(p.Done) / max(took, l.options.For).Seconds()
		slices.Sort(p.times)
		p.P50, p.P99, p.Max = millis(quantile(p.times, 0.5)), millis(quantile(p.times, 0.99)), millis(quantile(p.times, 1))
	}
}

// quantile is the smallest of the sorted times that is not exceeded by the
// given fraction of them.
func quantile(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(part*float64(len(sorted))-1e-9)) - 1 // 0.07 of 100 is a little more than 7
	return sorted[max(0, min(i, len(sorted)-1))]
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
