package db

import (
	"context"
	"errors"
	"math"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/index"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/partition"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/data/throttle"
)

// Throttled is returned for a request that exceeds the throughput of a table, a
// global index or a partition.
type Throttled = throttle.Exceeded

// setLimits sets the limits of a table that is new or was changed.
func (d *DB) setLimits(t *table) {
	if t.limits != nil {
		t.limits.Configure(t.Table, d.clock.Elapsed())
		return
	}
	counts := t.counts
	t.limits = throttle.New(t.Table, d.clock.Elapsed(), func(index uint16) int64 { return counts.current()[index].Bytes })
	t.limits.Shared = d.units != nil
}

// SetThrottling sets whether requests to a table are throttled.
func (d *DB) SetThrottling(ctx context.Context, table string, set schema.Throttling) error {
	_, err := d.alter(ctx, table, func(t *schema.Table) error {
		t.Throttling = set
		return nil
	})
	return err
}

func placeOf(index uint16, key []byte) throttle.Place {
	return throttle.Place{Index: index, Hash: keyspace.Hash(key)}
}

// admitRead returns a Throttled if a read exceeds a limit.
func (d *DB) admitRead(b *Bill, t *table, a access) error {
	if b.faults() != nil {
		if err := d.reject(b, t, a); err != nil {
			return err
		}
	}
	if t.limits == nil {
		return nil
	}
	err := t.limits.Admit(d.clock.Elapsed(), throttle.Read, placeOf(a.index, a.stored))
	if err != nil {
		d.throttled(b, t, a, err)
	}
	return err
}

// consumeRead records the units of a read.
func (d *DB) consumeRead(b *Bill, t *table, a access, units float64) {
	if t.limits == nil {
		d.meterRead(b, t, a, units)
		return
	}
	at := placeOf(a.index, a.stored)
	t.limits.Charge(d.clock.Elapsed(), throttle.Read, at, units)
	d.addRead(b, t, a, billLine{units: units, at: at, charged: units})
}

// meterRead records the units of a read, without its limits.
func (d *DB) meterRead(b *Bill, t *table, a access, units float64) {
	d.addRead(b, t, a, billLine{units: units})
}

// addRead records a read. It is one line of the bill: most requests have no other.
func (d *DB) addRead(b *Bill, t *table, a access, line billLine) {
	line.span = a.hashes()
	if b != nil {
		line.table, line.metered, line.index = t, true, a.index
		if t.rules != nil {
			kept := a // so that a itself is not allocated without rules
			line.access = &kept
		}
		b.add(d, line)
		return
	}
	t.series.consume(throttle.Read, a.index, line.span, line.units)
	if t.rules != nil {
		d.accessed(t, a, line.units)
	}
}

// chargeRead charges units to the limits only: in advance, or the rest.
func (d *DB) chargeRead(b *Bill, t *table, a access, units float64) {
	if t.limits != nil {
		d.chargePlace(b, t, placeOf(a.index, a.stored), units)
	}
}

func (d *DB) chargePlace(b *Bill, t *table, at throttle.Place, units float64) {
	t.limits.Charge(d.clock.Elapsed(), throttle.Read, at, units)
	if b != nil {
		b.add(d, billLine{table: t, at: at, charged: units})
	}
}

// readableUnits returns how many units a page may consume until it exceeds a limit.
func (d *DB) readableUnits(t *table, a access) float64 {
	if t.limits == nil {
		return math.Inf(1)
	}
	return t.limits.Units(d.clock.Elapsed(), throttle.Read, placeOf(a.index, a.stored))
}

// chargeScan records the units that a scan has consumed in the i-th of the partitions
// that its cost is computed by.
func (d *DB) chargeScan(b *Bill, t *table, index uint16, i, partitions int, units float64) {
	d.chargePlace(b, t, throttle.Place{Index: index, Hash: partition.First(i, partitions), Scan: true}, units)
}

// admission is what is charged for some writes.
type admission struct {
	d      *DB
	bill   *Bill // nil if it is counted at once
	writes []Write
	tables []*table
	keys   [][]byte

	// Each write of a batch is admitted by itself, so it is charged in advance what
	// it costs at least.
	batch bool
	// factor applies to the units of tables, as in capacity.Consumed.Transactional.
	factor float64

	pending []indexUnits // of the writes of a batch that are being executed
}

// indexUnits is what the writes of a batch cost in a global index.
type indexUnits struct {
	table *table
	index uint16
	units float64
}

// isCustomers reports whether the i-th write is a customer's. Background work is
// neither throttled nor charged.
func (a *admission) isCustomers(i int) bool { return a.writes[i].Actor == change.Customer }

// limits returns the limits of the i-th write; nil if there are none.
func (a *admission) limits(i int) *throttle.Table {
	if !a.isCustomers(i) {
		return nil
	}
	return a.tables[i].limits
}

// admit returns a Cancelled of n writes, with a Throttled for each write whose item is
// in a table or partition that has reached a limit.
func (a *admission) admit(n int) error {
	var cancelled *Cancelled
	for i := range a.writes {
		if err := a.rejectWrite(i, n); err != nil {
			cancelled, _ = cancelled.add(i, n, err)
			continue
		}
		limits := a.limits(i)
		if limits == nil || a.keys[i] == nil {
			continue
		}
		if err := limits.Admit(a.d.clock.Elapsed(), throttle.Write, placeOf(0, a.keys[i])); err != nil {
			cancelled, _ = cancelled.add(i, n, err)
		} else if a.batch {
			a.charge(i, atLeast(&a.writes[i]))
		}
	}
	if cancelled == nil {
		return nil
	}
	for i := range a.writes {
		if cancelled.Reasons[i] == nil {
			a.refund(i)
		}
	}
	return cancelled
}

// atLeast is what a write costs at least in its table.
func atLeast(w *Write) float64 {
	if w.Update || w.Deletes {
		return capacity.Write(0)
	}
	return capacity.Write(w.Key.Size())
}

// insightsWrite is how much more a write unit counts than a read unit.
const insightsWrite = 3

// access returns what the i-th write changes.
func (a *admission) access(i int) access { return access{stored: a.keys[i], item: a.writes[i].Key} }

// consume records the units that the i-th write has consumed in its table.
func (a *admission) consume(i int, units float64) {
	t := a.tables[i]
	at := keyspace.Hash(a.keys[i])
	t.series.consume(throttle.Write, 0, hashSpan{at, at}, units)
	if t.rules != nil {
		a.d.accessed(t, a.access(i), insightsWrite*units)
	}
	a.charge(i, units)
}

// charge charges units to the limits of the table of the i-th write.
func (a *admission) charge(i int, units float64) {
	if limits := a.limits(i); limits != nil && a.keys[i] != nil {
		limits.Charge(a.d.clock.Elapsed(), throttle.Write, placeOf(0, a.keys[i]), units)
	}
}

// refund takes back what was charged in advance.
func (a *admission) refund(i int) {
	if a.batch {
		a.charge(i, -atLeast(&a.writes[i]))
	}
}

// done charges the writes after they were executed.
func (a *admission) done(outcomes []Outcome) {
	for i := range outcomes {
		o := &outcomes[i]
		if !a.isCustomers(i) {
			if a.writes[i].Actor == change.Expiry && o.After == nil && o.beforeBytes > 0 {
				a.tables[i].series.expired.Add(1)
			}
			continue
		}
		limits := a.limits(i)
		units := a.factor * capacity.Write(max(o.beforeBytes, o.afterBytes))
		for j := range o.edits {
			e := &o.edits[j]
			if !e.Index.Global {
				units += e.Units
				continue
			}
			t := a.tables[i]
			at := keyspace.Hash(e.Key)
			t.series.consume(throttle.Write, e.Index.ID, hashSpan{at, at}, e.Units)
			if t.rules != nil {
				entry := e.After
				if entry == nil {
					entry = e.Before
				}
				a.d.accessed(t, access{index: e.Index.ID, item: entry}, insightsWrite*e.Units)
			}
			if limits != nil {
				limits.Charge(a.d.clock.Elapsed(), throttle.Write, placeOf(e.Index.ID, e.Key), e.Units)
			}
		}
		a.refund(i)
		a.consume(i, units)
	}
}

// failed charges the writes whose conditions do not hold: as much as a write of the
// stored item, or of the new one if it exists already.
func (a *admission) failed(err error) {
	cancelled, _ := errors.AsType[*Cancelled](err)
	for i := range a.writes {
		if !a.isCustomers(i) {
			continue
		}
		a.refund(i)
		if cancelled == nil {
			continue
		}
		reason := cancelled.Reasons[i]
		if f, ok := errors.AsType[*ConditionFailed](reason); ok {
			a.consume(i, a.factor*capacity.Write(f.Before.Size()))
		} else if f, ok := errors.AsType[*apierror.Error](reason); ok && f.Code == apierror.DuplicateItem().Code {
			a.consume(i, a.factor*atLeast(&a.writes[i]))
		}
	}
}

// replayed charges a transaction that was executed before: it reads its items.
func (a *admission) replayed(sizes []int) {
	for i, size := range sizes {
		if a.isCustomers(i) && a.keys[i] != nil {
			a.d.consumeRead(a.bill, a.tables[i], a.access(i), a.factor*capacity.Read(size, true))
		}
	}
}

// admitEdits returns a Throttled if the i-th write would change a global index that
// has reached a limit: such an index delays the writes of its table.
func (a *admission) admitEdits(i int, edits []index.Edit) error {
	limits := a.limits(i)
	if limits == nil {
		return nil
	}
	for j := range edits {
		e := &edits[j]
		if !e.Index.Global {
			continue
		}
		if err := limits.AdmitAfter(a.d.clock.Elapsed(), throttle.Write, placeOf(e.Index.ID, e.Key), a.pendingUnits(i, e.Index.ID)); err != nil {
			return err
		}
	}
	if a.batch {
		for j := range edits {
			if e := &edits[j]; e.Index.Global {
				a.pending = append(a.pending, indexUnits{a.tables[i], e.Index.ID, e.Units})
			}
		}
	}
	return nil
}

// pendingUnits is what the earlier writes of a batch cost in an index of the table of
// the i-th.
func (a *admission) pendingUnits(i int, index uint16) (units float64) {
	for _, p := range a.pending {
		if p.table == a.tables[i] && p.index == index {
			units += p.units
		}
	}
	return units
}

// isThrottled reports whether an action was rejected because of a limit.
func isThrottled(err error) bool {
	_, ok := errors.AsType[*Throttled](err)
	return ok
}

// readUnits is what a read of an item by its key costs. Small items, which are most,
// are not measured: that would take a quarter of the time of a GetItem.
func readUnits(it item.Item, consistent bool) float64 {
	if size := it.SizeBound(); size <= capacity.ReadableBytes(1, true) {
		return capacity.Read(size, consistent)
	}
	return capacity.Read(it.Size(), consistent)
}
