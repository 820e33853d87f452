package db

import (
	"context"
	"errors"
	"maps"
	"math"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/meter"
)

// meterInterval is how often a server checks at least whether a minute is over: its clock
// may be stepped.
const meterInterval = time.Second

// Meter returns the measurements of this server, up to the last minute that is over.
func (d *DB) Meter() *meter.Registry {
	d.meter.Advance(d.Now())
	return d.meter
}

// endMinutes is a loop that ends each minute of the meter when it is over.
func (d *DB) endMinutes() lead.Loop {
	swept := d.Now().Truncate(time.Minute)
	over := func(now time.Time) time.Time { return now.Truncate(time.Minute).Add(time.Minute) }
	return lead.Loop{
		Step: func(context.Context) (wait time.Duration, err error) {
			now := d.Now()
			d.meter.Advance(now)
			d.elsewhere.Advance(now)
			if minute := now.Truncate(time.Minute); minute != swept {
				swept = minute
				d.forgetDeleted(d.meter)
				d.forgetDeleted(d.elsewhere)
				d.callEveryMinute(now)
			}
			return min(meterInterval, over(now).Sub(now)), nil
		},
		Quiet: true,
		Due:   func(context.Context) (time.Time, bool, error) { return over(d.Now()), true, nil },
	}
}

// forgetDeleted removes the series of tables and indexes that do not exist. Those that a request
// has made again which was in progress when its table was deleted would remain for ever.
func (d *DB) forgetDeleted(r *meter.Registry) {
	for of := range r.Resources() {
		if d.has(of) {
			continue
		}
		d.catalog.mu.RLock() // no table of this name is made meanwhile, which would have new series
		switch t, exists := d.catalog.tables[of.Table]; {
		case !exists:
			r.Forget(of.Table)
		case of.Index != "":
			r.ForgetIndexes(of.Table, func(index string) bool { _, has := t.Index(index); return has })
		}
		d.catalog.mu.RUnlock()
	}
}

// has reports whether a table or an index exists.
func (d *DB) has(of meter.Resource) bool {
	t, ok := d.find(of.Table)
	if ok && of.Index != "" {
		_, ok = t.Index(of.Index)
	}
	return ok
}

// tableSeries holds the series that requests to a table add to. It is replaced when the table is
// changed.
type tableSeries struct {
	units                      unitSeries             // of the table
	indexUnits                 map[uint16]*unitSeries // of the global indexes
	failed, conflicts, expired meter.LazySeries

	indexes int // of the table, also local ones

	// since is when this server knew of the table, which has the key 0, and of its indexes.
	since map[uint16]time.Time

	operations atomic.Pointer[map[string]requestSeries] // it is replaced, not changed
}

// unitSeries are the units that a table or an index has consumed.
type unitSeries struct {
	kinds [2]meter.LazySeries // by throttle.Kind
	heat  meter.LazyHeat
}

// hashSpan is the hashes of what a request accesses.
type hashSpan struct{ first, last uint64 }

// allHashes are those of a whole table.
var allHashes = hashSpan{0, math.MaxUint64}

// heatKinds are the kinds of units of heat, by throttle.Kind.
var heatKinds = [2]meter.UnitKind{throttle.Read: meter.ReadUnits, throttle.Write: meter.WriteUnits}

// consumedNames are the names of consumed units, by throttle.Kind.
var consumedNames = [2]string{throttle.Read: meter.ConsumedRead, throttle.Write: meter.ConsumedWrite}

func (u *unitSeries) of(r *meter.Registry, table, index string) {
	for kind, name := range consumedNames {
		u.kinds[kind].Of(r, meter.ID{Name: name, Table: table, Index: index})
	}
	u.heat.Of(r, meter.Resource{Table: table, Index: index})
}

// newTableSeries returns the series of a table. before are those of the table before it was
// changed, or nil.
func newTableSeries(r *meter.Registry, t *schema.Table, before *tableSeries, now time.Time) *tableSeries {
	s := &tableSeries{indexes: len(t.Indexes), since: map[uint16]time.Time{0: now}}
	for i := range t.Indexes {
		s.since[t.Indexes[i].ID] = now
	}
	if before != nil {
		for id := range s.since {
			if was, ok := before.since[id]; ok {
				s.since[id] = was
			}
		}
	}
	s.operations.Store(&map[string]requestSeries{})
	s.units.of(r, t.Name, "")
	for i := range t.Indexes {
		if x := &t.Indexes[i]; x.Global {
			if s.indexUnits == nil {
				s.indexUnits = make(map[uint16]*unitSeries)
			}
			units := new(unitSeries)
			units.of(r, t.Name, x.Name)
			s.indexUnits[x.ID] = units
		}
	}
	s.failed.Of(r, meter.ID{Name: meter.ConditionsFailed, Table: t.Name})
	s.conflicts.Of(r, meter.ID{Name: meter.Conflicts, Table: t.Name})
	s.expired.Of(r, meter.ID{Name: meter.ExpiredItems, Table: t.Name})
	return s
}

// consume records units. A local index shares those of its table.
func (s *tableSeries) consume(kind throttle.Kind, index uint16, at hashSpan, units float64) {
	of := s.unitsOf(index)
	of.kinds[kind].Add(units)
	if at.first == at.last {
		of.heat.Add(heatKinds[kind], at.first, units)
	} else {
		of.heat.AddSpread(heatKinds[kind], at.first, at.last, units)
	}
}

// unitsOf returns the series of an index, or of the table.
func (s *tableSeries) unitsOf(index uint16) *unitSeries {
	if index != 0 {
		if of, ok := s.indexUnits[index]; ok {
			return of
		}
	}
	return &s.units
}

// requestSeries holds what is measured of the requests of one operation.
type requestSeries struct{ latency, returned *meter.LazySeries }

// CountRequest records how long a successful request took, and how many items it
// returned; -1 if its operation does not return several. Its bill may be nil.
func (d *DB) CountRequest(b *Bill, table, operation string, took time.Duration, returned int) {
	milliseconds := float64(took.Microseconds()) / 1000
	t, ok := b.find(d, table)
	if !ok {
		d.meter.Series(meter.ID{Name: meter.Latency, Operation: operation}).Add(milliseconds)
		return
	}
	r := t.series.ofOperation(d.meter, table, operation, returned >= 0)
	r.latency.Add(milliseconds)
	if r.returned != nil {
		r.returned.Add(float64(returned))
	}
}

// ofOperation returns the series of an operation, which may return several items.
func (s *tableSeries) ofOperation(r *meter.Registry, table, operation string, several bool) requestSeries {
	if found, ok := (*s.operations.Load())[operation]; ok {
		return found
	}
	made := requestSeries{latency: new(meter.LazySeries)}
	made.latency.Of(r, meter.ID{Name: meter.Latency, Table: table, Operation: operation})
	if several {
		made.returned = new(meter.LazySeries)
		made.returned.Of(r, meter.ID{Name: meter.ReturnedItems, Table: table, Operation: operation})
	}
	for {
		was := s.operations.Load()
		now := maps.Clone(*was)
		now[operation] = made
		if s.operations.CompareAndSwap(was, &now) {
			return made
		}
	}
}

// indexID returns the id of an index, 0 if there is none of that name.
func (t *table) indexID(name string) uint16 {
	if x, ok := t.Index(name); ok {
		return x.ID
	}
	return 0
}

// Consumed returns the units that a table, or one of its global indexes, consumed in the
// minute that begins at a time, on all servers that share the data. It is not ok if that is
// not known.
func (d *DB) Consumed(table, index string, write bool, minute time.Time) (units float64, ok bool) {
	t, exists := d.find(table)
	if !exists || minute.Before(t.series.since[t.indexID(index)]) {
		return 0, false
	}
	kind := throttle.Read
	if write {
		kind = throttle.Write
	}
	id := meter.ID{Name: consumedNames[kind], Table: table, Index: index}
	units, ok = d.Meter().Sum(id, minute)
	if d.units == nil || !ok {
		return units, ok
	}
	d.elsewhere.Advance(d.Now())
	others, ok := d.elsewhere.Sum(id, minute)
	return units + others, ok
}

// throttleNames are the names of the measurements of throttled requests.
var throttleNames = map[throttle.Kind]map[throttle.Limit]string{
	throttle.Read:  {"": meter.ReadThrottles, throttle.Provisioned: meter.ReadProvisioned, throttle.KeyRange: meter.ReadKeyRange, throttle.OnDemandMax: meter.ReadOnDemandMax, throttle.Account: meter.ReadAccount},
	throttle.Write: {"": meter.WriteThrottles, throttle.Provisioned: meter.WriteProvisioned, throttle.KeyRange: meter.WriteKeyRange, throttle.OnDemandMax: meter.WriteOnDemandMax, throttle.Account: meter.WriteAccount},
}

// countThrottled counts a request to a table, or an action of one, that exceeds a limit.
func (d *DB) countThrottled(t *table, e *Throttled) {
	names := throttleNames[e.Kind]
	for _, name := range [2]string{names[""], names[e.Limit]} {
		d.meter.Series(meter.ID{Name: name, Table: e.Table, Index: e.Index}).Add(1)
	}
	t.series.unitsOf(t.indexID(e.Index)).heat.AddThrottled(heatKinds[e.Kind], e.Hash)
	if x, ok := t.Index(e.Index); ok && x.State == schema.Creating && e.Kind == throttle.Write {
		d.meter.Series(meter.ID{Name: meter.BuildThrottles, Table: e.Table, Index: e.Index}).Add(1)
	}
}

// countReasons counts the writes that were rejected because of a condition, a
// transaction or a limit.
func (d *DB) countReasons(b *Bill, writes []Write, tables []*table, err error) {
	cancelled, ok := errors.AsType[*Cancelled](err)
	if !ok {
		return
	}
	for i := range writes {
		reason := cancelled.Reasons[i]
		if reason == nil {
			continue
		}
		if isThrottled(reason) {
			d.throttled(b, tables[i], access{item: writes[i].Key}, reason)
		} else if _, ok := errors.AsType[*ConditionFailed](reason); ok {
			tables[i].series.failed.Add(1)
		}
	}
}

// sample adds what tables have at any time.
func (d *DB) sample(add func(meter.ID, float64)) {
	of := func(t *schema.Table, index string, units, most schema.Throughput) {
		if t.OnDemand {
			units, most = schema.Throughput{}, schema.Throughput{Read: max(0, most.Read), Write: max(0, most.Write)}
		} else {
			most = schema.Throughput{}
		}
		for _, v := range []struct {
			name  string
			value int64
		}{
			{meter.ProvisionedRead, units.Read}, {meter.ProvisionedWrite, units.Write},
			{meter.OnDemandMaxRead, most.Read}, {meter.OnDemandMaxWrite, most.Write},
		} {
			if v.value > 0 {
				add(meter.ID{Name: v.name, Table: t.Name, Index: index}, float64(v.value))
			}
		}
	}
	if b := d.building.Load(); b != nil {
		add(meter.ID{Name: meter.BuildProgress, Table: b.table, Index: b.index}, math.Floor(100*b.share))
	}
	for _, t := range d.all() {
		of(t.Table, "", t.Throughput, t.MaxRequests)
		for i := range t.Indexes {
			if x := &t.Indexes[i]; x.Global {
				of(t.Table, x.Name, x.Throughput, x.MaxRequests)
			}
		}
	}
}
