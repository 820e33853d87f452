package db

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/meter"
	"github.com/stator-db/stator/internal/store"
)

const (
	// exchangeInterval is how often the servers of a cluster exchange what they
	// consume.
	exchangeInterval = time.Second
	// keptIntervals is how many intervals a record has. A server that does not read it
	// for longer misses what was consumed before.
	keptIntervals = 8
	// unitsRepeated is how often a server stores its record even if it has consumed
	// nothing, and unitsForgotten after what time others remove it if it does not.
	unitsRepeated  = 20 * time.Second
	unitsForgotten = 2 * time.Minute
	// maxUnitsPlaces bounds an interval: of more places, those with the most units are in it.
	maxUnitsPlaces = 1000
)

// unitsPlace is where units were consumed, or a partition was split.
type unitsPlace struct {
	Table uint32        `json:"table"`
	Index uint16        `json:"index,omitempty"`
	Kind  throttle.Kind `json:"kind"`
	Hash  uint64        `json:"hash,omitempty"` // the first of a partition
}

// unitsRecord is what a server of a cluster tells the others.
type unitsRecord struct {
	Number    uint64          `json:"number"` // of the last interval
	Intervals []unitsInterval `json:"intervals"`
	Splits    []unitsPlace    `json:"splits,omitempty"` // of hot partitions
}

// unitsInterval is what a server has consumed in one interval.
type unitsInterval struct {
	Number uint64       `json:"number"`
	Units  []placeUnits `json:"units"`
}

type placeUnits struct {
	unitsPlace
	Units float64 `json:"units"`
}

// unitsExchange is the state of the exchange in one server. It is used by one goroutine.
type unitsExchange struct {
	server  string
	record  unitsRecord
	stored  time.Time              // when the record was stored last
	metered map[unitsPlace]float64 // totals of the meter at the last interval
	others  map[string]*otherServer
}

type otherServer struct {
	number  uint64 // of the last interval that was read
	changed time.Time
	stored  []byte
}

func newUnitsExchange() *unitsExchange {
	return &unitsExchange{server: NewUUID(), metered: make(map[unitsPlace]float64), others: make(map[string]*otherServer)}
}

func unitsKey(server string) []byte { return keyspace.Meta("units/" + server) }

// exchangeUnits stores what this server has consumed, and charges what the others have
// consumed to its limits. So the limits of a table are those of all servers together, one
// interval late: servers may admit more meanwhile, and then admit less until that is
// made up.
func (d *DB) exchangeUnits(ctx context.Context) error {
	x, now := d.units, time.Now()
	tables := make(map[uint32]*table)
	for _, t := range d.all() {
		tables[t.ID] = t
	}
	units := d.takeUnits(tables)
	if len(units) > 0 || now.Sub(x.stored) >= unitsRepeated {
		x.record.add(units)
		x.record.Splits = heatSplits(tables)
		value, err := json.Marshal(x.record)
		if err != nil {
			return err
		}
		key := unitsKey(x.server)
		if err := d.update(store.Freeing(ctx), [][]byte{key}, func(tx store.Tx) error { tx.Set(key, value); return nil }); err != nil {
			return err
		}
		x.stored = now
	}
	return d.readUnits(ctx, tables, now)
}

// add adds an interval.
func (r *unitsRecord) add(units []placeUnits) {
	if len(units) > maxUnitsPlaces {
		slices.SortFunc(units, func(a, b placeUnits) int { return cmp.Compare(b.Units, a.Units) })
		units = units[:maxUnitsPlaces]
	}
	r.Number++
	r.Intervals = append(r.Intervals, unitsInterval{r.Number, units})
	r.Intervals = r.Intervals[max(0, len(r.Intervals)-keptIntervals):]
}

// heatSplits returns where hot partitions were split on this server. All servers have to
// have them: one that has not would charge the partition what its halves consume.
func heatSplits(tables map[uint32]*table) (splits []unitsPlace) {
	for _, t := range tables {
		if t.limits != nil {
			for _, at := range t.limits.HeatSplits() {
				splits = append(splits, unitsPlace{Table: t.ID, Index: at.Index, Hash: at.Hash})
			}
		}
	}
	return splits[:min(len(splits), maxUnitsPlaces)]
}

// takeUnits returns what this server has consumed since it was called last.
func (d *DB) takeUnits(tables map[uint32]*table) (units []placeUnits) {
	x, totals := d.units, make(map[unitsPlace]float64)
	add := func(at unitsPlace, n float64) {
		units = append(units, placeUnits{at, math.Round(n*1000) / 1000})
	}
	for _, t := range tables {
		if t.limits != nil {
			t.limits.TakeCharged(func(kind throttle.Kind, at throttle.Place, n float64) {
				add(unitsPlace{t.ID, at.Index, kind, at.Hash}, n)
			})
		}
		for _, p := range t.consumedPlaces() {
			at := unitsPlace{Table: t.ID, Index: p.index, Kind: p.kind}
			totals[at] = d.meter.Total(p.id)
			was, known := x.metered[at]
			if more := totals[at] - was; known && more > 0 && t.limits == nil && !t.OnDemand {
				add(at, more) // for auto scaling
			}
		}
	}
	x.metered = totals
	return units
}

// consumedPlace is where a table consumes units.
type consumedPlace struct {
	index uint16
	kind  throttle.Kind
	id    meter.ID
}

func (t *table) consumedPlaces() (places []consumedPlace) {
	for kind, name := range consumedNames {
		places = append(places, consumedPlace{0, throttle.Kind(kind), meter.ID{Name: name, Table: t.Name}})
		for i := range t.Indexes {
			if x := &t.Indexes[i]; x.Global {
				places = append(places, consumedPlace{x.ID, throttle.Kind(kind), meter.ID{Name: name, Table: t.Name, Index: x.Name}})
			}
		}
	}
	return places
}

// readUnits charges what the other servers have consumed since it was called last. It
// removes the records of servers that have ended.
func (d *DB) readUnits(ctx context.Context, tables map[uint32]*table, now time.Time) error {
	x := d.units
	records, err := d.unitsRecords(ctx)
	if err != nil {
		return err
	}
	for server, stored := range records {
		if server == x.server {
			continue
		}
		o := x.others[server]
		if o == nil {
			o = &otherServer{}
			x.others[server] = o
		}
		if !bytes.Equal(o.stored, stored) {
			o.stored, o.changed = stored, now
			var r unitsRecord
			if json.Unmarshal(stored, &r) == nil {
				o.read(&r, func(u placeUnits) { d.consumedElsewhere(tables[u.Table], u) })
				for _, at := range r.Splits {
					if t := tables[at.Table]; t != nil && t.limits != nil {
						t.limits.SplitOther(d.clock.Elapsed(), throttle.Place{Index: at.Index, Hash: at.Hash})
					}
				}
			}
		} else if now.Sub(o.changed) > unitsForgotten {
			if err := d.removeUnits(ctx, server, stored); err != nil {
				return err
			}
		}
	}
	maps.DeleteFunc(x.others, func(server string, _ *otherServer) bool { _, has := records[server]; return !has })
	return nil
}

// read calls each for what a server has consumed since its record was read last. Of a server
// that is new, or is seen again, that is not known.
func (o *otherServer) read(r *unitsRecord, each func(placeUnits)) {
	if o.number > 0 {
		for _, i := range r.Intervals {
			if i.Number > o.number {
				for _, u := range i.Units {
					each(u)
				}
			}
		}
	}
	o.number = r.Number
}

// removeUnits removes the record of a server that has ended, unless it has changed.
func (d *DB) removeUnits(ctx context.Context, server string, stored []byte) error {
	key := unitsKey(server)
	return d.update(store.Freeing(ctx), [][]byte{key}, func(tx store.Tx) error {
		if now, ok := tx.Get(key); ok && bytes.Equal(now, stored) {
			tx.Delete(key)
		}
		return nil
	})
}

// consumedElsewhere records units that another server has consumed. They may be negative: what
// was charged in advance is given back.
func (d *DB) consumedElsewhere(t *table, u placeUnits) {
	if t == nil || u.Kind != throttle.Read && u.Kind != throttle.Write || math.IsNaN(u.Units) {
		return
	}
	index := ""
	if u.Index != 0 {
		i := slices.IndexFunc(t.Indexes, func(x schema.Index) bool { return x.ID == u.Index })
		if i < 0 {
			return
		}
		index = t.Indexes[i].Name
	}
	d.elsewhere.Series(meter.ID{Name: consumedNames[u.Kind], Table: t.Name, Index: index}).Add(u.Units)
	if t.limits != nil {
		t.limits.ChargeOther(d.clock.Elapsed(), u.Kind, throttle.Place{Index: u.Index, Hash: u.Hash}, u.Units)
	}
}

// unitsRecords reads the records of all servers.
func (d *DB) unitsRecords(ctx context.Context) (map[string][]byte, error) {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	start := unitsKey("")
	end := slices.Clone(start)
	end[len(end)-1]++
	found := make(map[string][]byte)
	for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return nil, err
		}
		found[string(pair.Key[len(start):])] = bytes.Clone(pair.Value)
	}
	return found, nil
}
