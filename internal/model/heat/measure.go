package heat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/prove"
)

// Server is a server in memory whose time the caller sets. It does not throttle until
// StartThrottling.
type Server struct {
	Send            apply.Send
	StartThrottling func(ctx context.Context, table string) error
	SetTime         func(since time.Duration) // since the start of the load; it never goes back
	Counters        func(ctx context.Context) (map[Counter]float64, error)
}

// Counter names what a server counts: units, or throttled requests.
type Counter struct {
	Table, Index string
	Write        bool
	Limit        throttle.Limit // "" for consumed units
}

// Comparison is a forecast and what a server did with the same requests at the same
// times.
type Comparison struct {
	Forecast *Forecast  `json:"forecast"`
	Rows     []Compared `json:"rows"`
	Runs     int        `json:"runs"`    // that were sent
	Refused  int        `json:"refused"` // runs that a condition rejected; the forecast expects none
	Errors   int        `json:"errors"`
	Error    string     `json:"error,omitempty"` // one of the errors
}

// Compared is a counter of the forecast and of the server: units in all, or requests
// that were throttled for a reason.
type Compared struct {
	Table    string  `json:"table"`
	Index    string  `json:"index,omitempty"`
	Units    string  `json:"units"`            // read or write
	Reason   string  `json:"reason,omitempty"` // "" for the units
	Forecast float64 `json:"forecast"`
	Measured float64 `json:"measured"`
}

// Limits of what is sent to a server.
const (
	maxSent  = 300_000 // runs
	maxFound = 5_000   // items that the repeated runs of a pattern find
	maxItems = 400_000
)

// Measure forecasts the traffic of a model, and sends the same runs at the same times to
// a server, in virtual time. The tables of the model must exist on it and be empty.
func Measure(ctx context.Context, server *Server, m *model.Model, o Options, progress func(what string, done, all int)) (*Comparison, error) {
	t, err := trafficOf(m, o)
	if err != nil {
		return nil, err
	}
	if n := t.perSecond * o.For.Seconds(); n > maxSent {
		return nil, fmt.Errorf("that is %.0f runs, and a server is sent at most %d: use a lower --load or a shorter --for", n, maxSent)
	}
	chance := rand.New(rand.NewPCG(o.Seed, 0))
	var arrivals []arrived
	counts := make([]int, len(t.patterns))
	for a, ok := t.next(1, chance); ok; a, ok = t.next(1, chance) {
		arrivals = append(arrivals, a)
		counts[a.pattern]++
	}
	var items, owned []model.Stored
	for i, p := range t.patterns {
		if counts[i] == 0 {
			continue
		}
		if err := p.prepare(m, t, true, counts[i]); err != nil {
			return nil, err
		}
		for j := range p.runs {
			items = append(items, p.runs[j].scenario.Before...)
			if prove.RunsOnce(p.plan) {
				owned = append(owned, p.runs[j].scenario.Before...)
			}
		}
		if len(items) > maxItems {
			return nil, fmt.Errorf("the runs need more than %d items: use a lower --load or a shorter --for", maxItems)
		}
		progress("preparing", i+1, len(t.patterns))
	}
	assignRuns(t, arrivals, chance)

	// The runs that succeed only once find their items as they need them.
	if err := prove.Store(ctx, server.Send, m, append(items, owned...), func(done, all int) { progress("storing items", done, all) }); err != nil {
		return nil, err
	}
	s := newSimulator(m, t, o.For, 1)
	for _, a := range arrivals {
		run := s.resolve(&t.patterns[a.pattern].runs[a.run])
		s.play(a.at, a.pattern, &run)
	}
	c := &Comparison{Forecast: s.forecast(o), Runs: len(arrivals)}
	server.SetTime(0)
	for _, table := range m.Tables {
		if err := server.StartThrottling(ctx, table.Name); err != nil {
			return nil, err
		}
	}
	before, err := server.Counters(ctx)
	if err != nil {
		return nil, err
	}
	for i, a := range arrivals {
		server.SetTime(a.at)
		if err := c.send(ctx, server.Send, t.patterns[a.pattern].runs[a.run].scenario); err != nil {
			return nil, err
		}
		progress("sending runs", i+1, len(arrivals))
	}
	after, err := server.Counters(ctx)
	if err != nil {
		return nil, err
	}
	for k, n := range before {
		after[k] -= n
	}
	c.compare(s, after)
	return c, nil
}

// assignRuns gives each arrival a run. One that succeeds only once is used once.
func assignRuns(t *traffic, arrivals []arrived, chance *rand.Rand) {
	used := make([]int, len(t.patterns))
	for i := range arrivals {
		a := &arrivals[i]
		p := t.patterns[a.pattern]
		if prove.RunsOnce(p.plan) {
			a.run = used[a.pattern]
			used[a.pattern]++
		} else {
			a.run = chance.IntN(len(p.runs))
		}
	}
}

// send sends the requests of a run, until one of them fails.
func (c *Comparison) send(ctx context.Context, send apply.Send, run *model.Scenario) error {
	for i := range run.Calls {
		err := sendPages(ctx, send, &run.Calls[i])
		var fault *apierror.Error
		switch {
		case err == nil:
			continue
		case !errors.As(err, &fault):
			return err
		case isThrottle(fault):
		case fault.Code == "ConditionalCheckFailedException" || fault.Code == "TransactionCanceledException":
			c.Refused++
		default:
			c.Errors++
			c.Error = cmp.Or(c.Error, fault.Error())
		}
		return nil
	}
	return nil
}

// isThrottle reports whether a request was rejected because of a limit.
func isThrottle(fault *apierror.Error) bool {
	switch fault.Code {
	case "ProvisionedThroughputExceededException", "ThrottlingException":
		return true
	}
	codes, _ := fault.Detail.(apply.CancellationCodes)
	return slices.Contains(codes, "ThrottlingError") || slices.Contains(codes, "ProvisionedThroughputExceeded")
}

// sendPages sends a request, and those for the other pages if all are read.
func sendPages(ctx context.Context, send apply.Send, call *model.Call) error {
	body := maps.Clone(call.Body)
	delete(body, "ReturnConsumedCapacity")
	for page := 1; ; page++ {
		text, err := send(ctx, call.Operation, body)
		if err != nil || !call.Follow {
			return err
		}
		var reply struct{ LastEvaluatedKey json.RawMessage }
		if err := json.Unmarshal(text, &reply); err != nil {
			return fmt.Errorf("read the reply of %s: %w", call.Operation, err)
		}
		if reply.LastEvaluatedKey == nil || page > 2*call.Want.Pages+10 { // a bound for a server that never ends
			return nil
		}
		body["ExclusiveStartKey"] = reply.LastEvaluatedKey
	}
}

// compare adds the counters of the server with those of the simulation.
func (c *Comparison) compare(s *simulator, measured map[Counter]float64) {
	for _, r := range s.all {
		row := Compared{Table: r.table, Index: r.index, Units: r.kindName(), Forecast: sum(r.whole.served), Measured: measured[Counter{r.table, r.index, r.write, ""}]}
		if row.Forecast == 0 && row.Measured == 0 {
			continue
		}
		c.Rows = append(c.Rows, row)
		for _, limit := range []throttle.Limit{throttle.Provisioned, throttle.KeyRange, throttle.OnDemandMax, throttle.Account} {
			e := throttle.Exceeded{Index: r.index, Kind: r.kind, Limit: limit}
			row.Reason, row.Forecast, row.Measured = e.Reason(), r.reasons[e.Reason()], measured[Counter{r.table, r.index, r.write, limit}]
			if row.Forecast != 0 || row.Measured != 0 {
				c.Rows = append(c.Rows, row)
			}
		}
	}
	slices.SortStableFunc(c.Rows, func(a, b Compared) int { return cmp.Compare(a.Table, b.Table) })
}
