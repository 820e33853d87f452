package db

import (
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
	// unitsRepeated is how often a server stores its record even if it has consumed
	// nothing, and unitsForgotten after what time others remove it if it does not.
	unitsRepeated  = 20 * time.Second
	unitsForgotten = 2 * time.Minute
	// maxUnitsPlaces bounds a record. Places in which nothing was consumed for
	// placesKept are left out.
	maxUnitsPlaces = 4000
	placesKept     = 10 * time.Minute
)

// unitsPlace is where units were consumed.
type unitsPlace struct {
	Table uint32        `json:"table"`
	Index uint16        `json:"index,omitempty"`
	Kind  throttle.Kind `json:"kind"`
	Hash  uint64        `json:"hash,omitempty"` // the first of a partition
}

// unitsRecord is what a server of a cluster has consumed since its start. Each reader
// takes the difference to the record that it has read before, so that a reader that misses
// some of them misses no units.
type unitsRecord struct {
	Number uint64       `json:"number"` // of the records of this server
	Units  []placeUnits `json:"units"`
}

type placeUnits struct {
	unitsPlace
	Units float64 `json:"units"`
}

// unitsExchange is the state of the exchange in one server. It is used by one goroutine.
type unitsExchange struct {
	server  string
	number  uint64
	stored  time.Time // when the record was stored last
	own     map[unitsPlace]*ownUnits
	metered map[unitsPlace]float64 // totals of the meter, for tables without limits
	begun   bool                   // the records of other servers were read
	others  map[string]*otherServer
}

type ownUnits struct {
	units   float64
	changed time.Time
}

type otherServer struct {
	number  uint64
	changed time.Time
	units   map[unitsPlace]float64
}

func newUnitsExchange() *unitsExchange {
	return &unitsExchange{server: NewUUID(), own: make(map[unitsPlace]*ownUnits), metered: make(map[unitsPlace]float64), others: make(map[string]*otherServer)}
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
	changed := d.addOwnUnits(tables, now)
	x.forget(tables, now)
	if changed || now.Sub(x.stored) >= unitsRepeated {
		x.number++
		record, err := json.Marshal(x.record())
		if err != nil {
			return err
		}
		key := unitsKey(x.server)
		if err := d.update(store.Freeing(ctx), [][]byte{key}, func(tx store.Tx) error { tx.Set(key, record); return nil }); err != nil {
			return err
		}
		x.stored = now
	}
	return d.addOtherUnits(ctx, tables, now)
}

// addOwnUnits adds what this server has consumed since it was called last.
func (d *DB) addOwnUnits(tables map[uint32]*table, now time.Time) (changed bool) {
	x := d.units
	add := func(at unitsPlace, units float64) {
		if x.own[at] == nil {
			x.own[at] = new(ownUnits)
		}
		x.own[at].units += units
		x.own[at].changed, changed = now, true
	}
	for _, t := range tables {
		if t.limits != nil {
			t.limits.TakeCharged(func(kind throttle.Kind, at throttle.Place, units float64) {
				add(unitsPlace{t.ID, at.Index, kind, at.Hash}, units)
			})
			continue
		}
		if t.OnDemand {
			continue // nobody asks
		}
		for kind, name := range consumedNames {
			total := func(index uint16, indexName string) {
				at := unitsPlace{Table: t.ID, Index: index, Kind: throttle.Kind(kind)}
				sum := d.meter.Total(meter.ID{Name: name, Table: t.Name, Index: indexName})
				if more := sum - x.metered[at]; more > 0 {
					add(at, more)
				}
				x.metered[at] = sum
			}
			total(0, "")
			for i := range t.Indexes {
				if g := &t.Indexes[i]; g.Global {
					total(g.ID, g.Name)
				}
			}
		}
	}
	return changed
}

// forget removes places of tables that were deleted, and those in which nothing is
// consumed.
func (x *unitsExchange) forget(tables map[uint32]*table, now time.Time) {
	maps.DeleteFunc(x.own, func(at unitsPlace, o *ownUnits) bool {
		return tables[at.Table] == nil || now.Sub(o.changed) > placesKept
	})
	maps.DeleteFunc(x.metered, func(at unitsPlace, _ float64) bool { return tables[at.Table] == nil })
	if len(x.own) <= maxUnitsPlaces {
		return
	}
	places := slices.SortedFunc(maps.Keys(x.own), func(a, b unitsPlace) int { return x.own[b].changed.Compare(x.own[a].changed) })
	for _, at := range places[maxUnitsPlaces:] {
		delete(x.own, at)
	}
}

func (x *unitsExchange) record() unitsRecord {
	r := unitsRecord{Number: x.number, Units: make([]placeUnits, 0, len(x.own))}
	for at, o := range x.own {
		r.Units = append(r.Units, placeUnits{at, math.Round(o.units*1000) / 1000})
	}
	return r
}

// addOtherUnits charges what the other servers have consumed since it was called last. It
// removes the records of servers that have ended.
func (d *DB) addOtherUnits(ctx context.Context, tables map[uint32]*table, now time.Time) error {
	x := d.units
	records, err := d.unitsRecords(ctx)
	if err != nil {
		return err
	}
	var ended [][]byte
	for server, r := range records {
		if server == x.server {
			continue
		}
		o := x.others[server]
		if o == nil {
			o = &otherServer{changed: now, units: make(map[unitsPlace]float64)}
			x.others[server] = o
			if !x.begun { // what was consumed before the start
				o.number = r.Number
				o.read(r, func(unitsPlace, float64) {})
			}
		}
		if r.Number != o.number {
			o.number, o.changed = r.Number, now
			o.read(r, func(at unitsPlace, units float64) { d.consumedElsewhere(tables[at.Table], at, units) })
		} else if now.Sub(o.changed) > unitsForgotten {
			ended = append(ended, unitsKey(server))
		}
	}
	x.begun = true
	maps.DeleteFunc(x.others, func(server string, _ *otherServer) bool { _, has := records[server]; return !has })
	if len(ended) == 0 {
		return nil
	}
	return d.update(store.Freeing(ctx), ended, func(tx store.Tx) error {
		for _, key := range ended {
			tx.Delete(key)
		}
		return nil
	})
}

// read calls each with what a record has more than the one before.
func (o *otherServer) read(r unitsRecord, each func(at unitsPlace, units float64)) {
	units := make(map[unitsPlace]float64, len(r.Units))
	for _, u := range r.Units {
		units[u.unitsPlace] = u.Units
		more := u.Units - o.units[u.unitsPlace]
		if more < 0 { // the place was left out for a while
			more = u.Units
		}
		if more > 0 {
			each(u.unitsPlace, more)
		}
	}
	o.units = units
}

// consumedElsewhere records units that another server has consumed.
func (d *DB) consumedElsewhere(t *table, at unitsPlace, units float64) {
	if t == nil || at.Kind != throttle.Read && at.Kind != throttle.Write {
		return
	}
	index := ""
	if at.Index != 0 {
		i := slices.IndexFunc(t.Indexes, func(x schema.Index) bool { return x.ID == at.Index })
		if i < 0 {
			return
		}
		index = t.Indexes[i].Name
	}
	d.elsewhere.Series(meter.ID{Name: consumedNames[at.Kind], Table: t.Name, Index: index}).Add(units)
	if t.limits != nil {
		t.limits.ChargeOther(d.clock.Elapsed(), at.Kind, throttle.Place{Index: at.Index, Hash: at.Hash}, units)
	}
}

// unitsRecords reads the records of all servers.
func (d *DB) unitsRecords(ctx context.Context) (map[string]unitsRecord, error) {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	start := unitsKey("")
	end := slices.Clone(start)
	end[len(end)-1]++
	found := make(map[string]unitsRecord)
	for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return nil, err
		}
		var r unitsRecord
		if err := json.Unmarshal(pair.Value, &r); err != nil {
			r = unitsRecord{} // it is removed, as that of a server that has ended
		}
		found[string(pair.Key[len(start):])] = r
	}
	return found, nil
}
