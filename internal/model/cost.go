package model

import (
	"cmp"
	"math"
	"slices"
)

// Cost is the cost of a model: average units per second, and dollars per month.
type Cost struct {
	Prices   *PriceInfo     `json:"prices"`
	Patterns []*PatternCost `json:"patterns"`
	Groups   []*GroupCost   `json:"groups"`
	Tables   []*TableCost   `json:"tables"`
	Read     float64        `json:"read"`    // units per second, total
	Write    float64        `json:"write"`   // units per second, total
	Dollars  float64        `json:"dollars"` // per month, as the tables are billed
}

// PriceInfo identifies the prices that were used.
type PriceInfo struct {
	Date     string `json:"date"`
	Region   string `json:"region"`
	Currency string `json:"currency"`
	Source   string `json:"source"`
}

// Units are read and write units, on a table and on its indexes.
type Units struct {
	TableRead  float64 `json:"tableRead"`
	TableWrite float64 `json:"tableWrite"`
	IndexRead  float64 `json:"indexRead"`
	IndexWrite float64 `json:"indexWrite"`
}

// Read returns all read units.
func (u Units) Read() float64 { return u.TableRead + u.IndexRead }

// Write returns all write units.
func (u Units) Write() float64 { return u.TableWrite + u.IndexWrite }

func (u *Units) add(more Units, times float64) {
	u.TableRead += more.TableRead * times
	u.TableWrite += more.TableWrite * times
	u.IndexRead += more.IndexRead * times
	u.IndexWrite += more.IndexWrite * times
}

// Amplification returns the units written for each unit of the table itself: 1
// without indexes, 0 without writes.
func (u Units) Amplification() float64 {
	if u.TableWrite == 0 {
		return 0
	}
	return u.Write() / u.TableWrite
}

// PatternCost is the cost of one pattern.
type PatternCost struct {
	Name      string       `json:"name"`
	Group     string       `json:"group,omitempty"`
	Rate      string       `json:"rate"`
	Run       Units        `json:"run"`       // of one run
	PerSecond Units        `json:"perSecond"` // on average
	PerDay    Units        `json:"perDay"`
	Parts     []*IndexCost `json:"parts"`   // of one run, by table and index
	Dollars   float64      `json:"dollars"` // per month, on-demand
	Served    bool         `json:"served"`  // false if it cannot be executed; it then costs nothing
}

// IndexCost is the units used by one table or index.
type IndexCost struct {
	Table string  `json:"table"`
	Index string  `json:"index,omitempty"` // empty for the table itself
	Read  float64 `json:"read"`
	Write float64 `json:"write"`
}

// GroupCost is the sum of the patterns of a group.
type GroupCost struct {
	Name      string `json:"name"`
	PerSecond Units  `json:"perSecond"`
	PerDay    Units  `json:"perDay"`
}

// TableCost is the cost of a table with its indexes.
type TableCost struct {
	Name          string       `json:"name"`
	Billing       string       `json:"billing"`
	PerSecond     Units        `json:"perSecond"`
	Amplification float64      `json:"amplification"`
	Indexes       []*IndexCost `json:"indexes"`     // units per second
	Provisioned   []*IndexCost `json:"provisioned"` // units to provision, the table first
	StorageBytes  float64      `json:"storageBytes"`
	Stream        *StreamLoad  `json:"stream,omitempty"`

	OnDemandDollars    float64 `json:"onDemandDollars"`    // per month
	ProvisionedDollars float64 `json:"provisionedDollars"` // per month
	StorageDollars     float64 `json:"storageDollars"`     // per month
	RecoveryDollars    float64 `json:"recoveryDollars"`    // per month
	StreamDollars      float64 `json:"streamDollars"`      // per month
	Dollars            float64 `json:"dollars"`            // per month, as it is billed
}

// Cost computes the cost of a model. Patterns that cannot be executed cost
// nothing; Check reports them.
func (m *Model) Cost(prices *Prices) *Cost {
	var runs []patternRun
	for _, p := range m.Patterns {
		r := patternRun{plan: m.Plan(p)}
		if r.plan.Served() {
			if s, err := m.Scenario(r.plan, Generator{}, 0); err == nil {
				r.scenario = s
			}
		}
		runs = append(runs, r)
	}
	return m.cost(prices, runs)
}

const daySeconds = 86400

func (m *Model) cost(prices *Prices, runs []patternRun) *Cost {
	c := &Cost{Prices: prices.Info()}
	peaks := make(map[*Table]*tableLoad)
	for _, t := range m.Tables {
		peaks[t] = newTableLoad(t)
		c.Tables = append(c.Tables, &TableCost{Name: t.Name, Billing: cmp.Or(t.Billing, "on-demand")})
	}
	for _, r := range runs {
		c.pattern(m, prices, r, peaks)
	}
	for i, t := range m.Tables {
		c.table(m, prices, t, c.Tables[i], peaks[t])
	}
	return c
}

// tableLoad is the units per second of a table and of each of its indexes.
type tableLoad struct {
	table   *Table
	average []*IndexCost // the table first
}

func newTableLoad(t *Table) *tableLoad {
	l := &tableLoad{table: t, average: []*IndexCost{{Table: t.Name}}}
	for _, x := range t.Indexes {
		l.average = append(l.average, &IndexCost{Table: t.Name, Index: x.Name})
	}
	return l
}

// add adds the cost of a request that runs rate times per second.
func (l *tableLoad) add(u TableUnits, write bool, rate float64) {
	put := func(x *IndexCost, units float64) {
		if write {
			x.Write += units * rate
		} else {
			x.Read += units * rate
		}
	}
	put(l.average[0], u.Consumed.Table)
	for _, x := range u.Indexes {
		i := slices.IndexFunc(l.average, func(c *IndexCost) bool { return c.Index == x.Name })
		put(l.average[i], x.Units)
	}
}

func (c *Cost) pattern(m *Model, prices *Prices, r patternRun, loads map[*Table]*tableLoad) {
	p := r.plan.Pattern
	cost := &PatternCost{Name: p.Name, Group: p.Group, Rate: p.Rate.Text, Served: r.scenario != nil}
	c.Patterns = append(c.Patterns, cost)
	if r.scenario == nil {
		return
	}
	read, write := r.scenario.Units()
	for _, list := range []struct {
		units []TableUnits
		write bool
	}{{read, false}, {write, true}} {
		for _, u := range list.units {
			t, _ := m.Table(u.Table)
			loads[t].add(u, list.write, p.Rate.PerSecond)
			once := newTableLoad(t)
			once.add(u, list.write, 1)
			for _, x := range once.average {
				if x.Read+x.Write > 0 {
					cost.Parts = append(cost.Parts, x)
				}
			}
			cost.Run.add(split(once.average), 1)
		}
	}
	cost.PerSecond.add(cost.Run, p.Rate.PerSecond)
	cost.PerDay.add(cost.Run, p.Rate.PerSecond*daySeconds)
	cost.Dollars = prices.onDemand(cost.PerSecond.Read(), cost.PerSecond.Write())
	c.Read += cost.PerSecond.Read()
	c.Write += cost.PerSecond.Write()
	if p.Group == "" {
		return
	}
	i := slices.IndexFunc(c.Groups, func(g *GroupCost) bool { return g.Name == p.Group })
	if i < 0 {
		i = len(c.Groups)
		c.Groups = append(c.Groups, &GroupCost{Name: p.Group})
	}
	c.Groups[i].PerSecond.add(cost.PerSecond, 1)
	c.Groups[i].PerDay.add(cost.PerDay, 1)
}

// split splits a load into that of the table and that of its indexes.
func split(load []*IndexCost) Units {
	u := Units{TableRead: load[0].Read, TableWrite: load[0].Write}
	for _, x := range load[1:] {
		u.IndexRead += x.Read
		u.IndexWrite += x.Write
	}
	return u
}

// onDemand is the monthly price of units per second.
func (p *Prices) onDemand(read, write float64) float64 {
	return p.Requests(read*monthSeconds, write*monthSeconds)
}

// Requests is the price of units that are consumed on demand.
func (p *Prices) Requests(read, write float64) float64 {
	return (read*p.ReadRequests + write*p.WriteRequests) / 1e6
}

// Hour is the price of units that are provisioned for an hour.
func (p *Prices) Hour(read, write float64) float64 {
	return read*p.ReadCapacity + write*p.WriteCapacity
}

// Info identifies the prices.
func (p *Prices) Info() *PriceInfo {
	return &PriceInfo{p.Date, p.Region, cmp.Or(p.Currency, "USD"), p.Source}
}

const gigabyte = 1 << 30

func (c *Cost) table(m *Model, prices *Prices, t *Table, cost *TableCost, l *tableLoad) {
	cost.PerSecond = split(l.average)
	cost.Amplification = cost.PerSecond.Amplification()
	cost.Indexes = l.average[1:]
	for i, x := range l.average {
		read, write := t.Read, t.Write
		if i > 0 {
			index := t.Indexes[i-1]
			if index.Local {
				continue // it uses the table's units
			}
			read, write = cmp.Or(index.Read, read), cmp.Or(index.Write, write)
		}
		p := &IndexCost{Table: t.Name, Index: x.Index, Read: read.Provision(x.Read), Write: write.Provision(x.Write)}
		if i == 0 {
			p.Read, p.Write = read.Provision(x.Read+l.local(false)), write.Provision(x.Write+l.local(true))
		}
		cost.Provisioned = append(cost.Provisioned, p)
		cost.ProvisionedDollars += prices.Hour(p.Read, p.Write) * MonthHours
	}
	cost.OnDemandDollars = prices.onDemand(cost.PerSecond.Read(), cost.PerSecond.Write())

	s := m.Storage(t)
	cost.StorageBytes = s.Table
	recovered := s.Table
	for i, x := range s.Indexes {
		cost.StorageBytes += x.Bytes
		if t.Indexes[i].Local {
			recovered += x.Bytes
		}
	}
	cost.StorageDollars = cost.StorageBytes / gigabyte * prices.Storage
	if t.Recovery {
		cost.RecoveryDollars = recovered / gigabyte * prices.Recovery
	}
	if t.Stream != "" {
		cost.Stream = t.streamLoad(cost.PerSecond, s.Table)
		cost.StreamDollars = prices.streams(cost.Stream)
	}
	cost.Dollars = cost.OnDemandDollars
	if !t.OnDemand() {
		cost.Dollars = cost.ProvisionedDollars
	}
	cost.Dollars += cost.StorageDollars + cost.RecoveryDollars + cost.StreamDollars
	c.Dollars += cost.Dollars
}

// local is the load of the local indexes, which use the table's units.
func (l *tableLoad) local(write bool) (sum float64) {
	for i, x := range l.table.Indexes {
		if x.Local && write {
			sum += l.average[i+1].Write
		} else if x.Local {
			sum += l.average[i+1].Read
		}
	}
	return sum
}

// Provision is how many units are paid for when used units are consumed on
// average: the fixed number, or what auto scaling provisions.
func (c *Capacity) Provision(used float64) float64 {
	target, least, most := float64(DefaultTarget), 1.0, math.Inf(1)
	if c != nil {
		if c.Min == 0 && c.Max == 0 && c.Target == 0 {
			return float64(c.Units)
		}
		if c.Target > 0 {
			target = float64(c.Target)
		}
		least = max(1, float64(c.Min))
		if c.Max > 0 {
			most = float64(c.Max)
		}
	}
	return min(most, max(least, math.Ceil(used*100/target-1e-9)))
}

// StreamLoad is how a stream is read, as its cost assumes.
type StreamLoad struct {
	Readers        int     `json:"readers"` // programs that poll it; functions that the service calls read for free
	Shards         float64 `json:"shards"`
	PollsPerSecond float64 `json:"pollsPerSecond"` // of one reader, for each shard
}

// pollsPerSecond is how often one reader polls each shard of a stream.
const pollsPerSecond = 4

// streamLoad is the load of the table's stream.
func (t *Table) streamLoad(u Units, bytes float64) *StreamLoad {
	readers := 1
	if t.Readers != nil {
		readers = *t.Readers
	}
	shards := max(1, math.Ceil(u.TableWrite/MaxPartitionWrites), math.Ceil(u.TableRead/MaxPartitionReads), math.Ceil(bytes/maxCollection))
	return &StreamLoad{Readers: readers, Shards: shards, PollsPerSecond: pollsPerSecond}
}

// streams is the price of reading a stream.
func (p *Prices) streams(l *StreamLoad) float64 {
	reads := max(0, float64(l.Readers)*l.Shards*l.PollsPerSecond*monthSeconds-p.FreeStreamReads)
	return reads / 1e5 * p.StreamReads
}
