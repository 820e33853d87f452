package workbench

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/match"
	"github.com/stator-db/stator/internal/workload"
)

// BillRequest asks what was consumed costs.
type BillRequest struct {
	Seconds   float64 // of which everything is
	Resources []Consumption
}

// PatternBillRequest asks what the requests of access patterns cost.
type PatternBillRequest struct {
	Design
	Traffic workload.Report
	Seconds float64 // of which it is
}

// Consumption is what a table or a global index has consumed.
type Consumption struct {
	Table, Index                      string
	OnDemand                          bool
	Read, Write                       float64 // units
	ProvisionedRead, ProvisionedWrite float64 // units per second, on average
	Bytes                             float64 // that are stored
}

// Bill is what was consumed costs.
type Bill struct {
	Prices  *model.PriceInfo
	Seconds float64
	Lines   []BillLine
	Dollars float64 // of the time
	Month   float64 // if the month were like that time
}

// PatternsBill is what the requests of access patterns cost.
type PatternsBill struct {
	Patterns []PatternBill // the most expensive first
}

// BillLine is one table or index.
type BillLine struct {
	Table       string
	Index       string `json:",omitempty"`
	OnDemand    bool
	Read, Write float64 // units that were consumed
	Dollars     float64 // of the time, without storage
	Month       float64 // if the month were like that time, without storage
	Storage     float64 // a month
}

// PatternBill is the requests of an access pattern.
type PatternBill struct {
	Name        string   // empty for requests that no pattern matches
	Others      []string `json:",omitempty"` // patterns that the requests may also belong to
	Requests    int64
	Read, Write float64
	Dollars     float64 // of the time, at the prices of on-demand
	Month       float64
}

const (
	hourSeconds = 3600
	gigabyte    = 1 << 30
)

func (b *Bench) getBill(in *BillRequest) (*Bill, error) {
	perMonth, err := timesAMonth(in.Seconds)
	if err != nil {
		return nil, err
	}
	prices := model.DefaultPrices()
	bill := &Bill{Prices: prices.Info(), Seconds: in.Seconds, Lines: []BillLine{}}
	for _, c := range in.Resources {
		for _, n := range []float64{c.Read, c.Write, c.ProvisionedRead, c.ProvisionedWrite, c.Bytes} {
			if !(n >= 0 && n < math.MaxInt64) {
				return nil, invalid("A consumption of table %s is %v", c.Table, n)
			}
		}
		line := BillLine{Table: c.Table, Index: c.Index, OnDemand: c.OnDemand, Read: c.Read, Write: c.Write, Storage: c.Bytes / gigabyte * prices.Storage}
		if c.OnDemand {
			line.Dollars = prices.Requests(c.Read, c.Write)
		} else {
			line.Dollars = prices.Hour(c.ProvisionedRead, c.ProvisionedWrite) * in.Seconds / hourSeconds
		}
		line.Month = line.Dollars * perMonth
		bill.Dollars += line.Dollars
		bill.Month += line.Month + line.Storage
		bill.Lines = append(bill.Lines, line)
	}
	return bill, nil
}

// timesAMonth returns how often a month has some seconds.
func timesAMonth(seconds float64) (float64, error) {
	if !(seconds >= 1 && seconds <= 31*24*hourSeconds) {
		return 0, invalid("Seconds is %v, but must be from 1 to those of a month", seconds)
	}
	return model.MonthHours * hourSeconds / seconds, nil
}

func (b *Bench) getPatternBill(in *PatternBillRequest) (*PatternsBill, error) {
	perMonth, err := timesAMonth(in.Seconds)
	if err != nil {
		return nil, err
	}
	m, err := in.model()
	if err != nil {
		return nil, err
	}
	if err := checkShapes(&in.Traffic); err != nil {
		return nil, err
	}
	return &PatternsBill{patternBills(m, model.DefaultPrices(), in.Traffic, perMonth)}, nil
}

// patternBills returns what the requests of the tables of a model cost, by access pattern.
func patternBills(m *model.Model, prices *model.Prices, traffic workload.Report, perMonth float64) []PatternBill {
	matcher, all := match.New(m), make(map[string]*PatternBill)
	for _, shape := range traffic.Shapes {
		if _, ours := m.Table(shape.Table); !ours {
			continue
		}
		var names []string
		for _, r := range matcher.Find(shape.Shape) {
			if !slices.Contains(names, r.Pattern.Name) {
				names = append(names, r.Pattern.Name)
			}
		}
		key := strings.Join(names, "\x00")
		p := all[key]
		if p == nil {
			p = new(PatternBill)
			if len(names) > 0 {
				p.Name, p.Others = names[0], names[1:]
			}
			all[key] = p
		}
		p.Requests += shape.Requests
		if isRead(&shape.Shape) {
			p.Read += shape.Units
		} else {
			p.Write += shape.Units
		}
	}
	bills := []PatternBill{}
	for _, p := range all {
		p.Dollars = prices.Requests(p.Read, p.Write)
		p.Month = p.Dollars * perMonth
		bills = append(bills, *p)
	}
	slices.SortFunc(bills, func(a, b PatternBill) int {
		return cmp.Or(cmp.Compare(b.Dollars, a.Dollars), cmp.Compare(a.Name, b.Name))
	})
	return bills
}

// isRead reports whether requests consume read units. Statements have the operation with the same
// effect.
func isRead(s *workload.Shape) bool {
	switch s.Operation {
	case "BatchGetItem", "GetItem", "Query", "Scan", "TransactGetItems":
		return true
	}
	return false
}
