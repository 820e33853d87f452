package db

import (
	"context"
	"slices"

	"github.com/stator-db/stator/internal/data/throttle"
)

// Bill holds what a request consumes until it ends. A request for which there is no
// room is repeated: what its attempts before the last one have consumed is not counted.
//
// The limits of throughput are charged at once, as other requests are admitted by them.
type Bill struct {
	// By is the ARN of the principal that sent the request. The change log has it.
	By string

	// Faults are injected into the request by a test; nil for none.
	Faults Faults

	d     *DB
	table *table // the last one that the request has used
	lines []billLine
	first [1]billLine // most requests have one, for which no memory is allocated
}

// billLine is one read of a request, a charge to limits, or an action that was throttled.
type billLine struct {
	table  *table
	access *access // with rules of Contributor Insights, or a limit that is exceeded

	metered bool
	index   uint16
	span    hashSpan
	units   float64 // consumed

	at      throttle.Place
	charged float64 // to the limits

	exceeded error // a Throttled
}

// BillKey is the key of a *Bill in a context.
type BillKey struct{}

// billOf returns the bill of a request, or nil: what it consumes is counted at once.
func billOf(ctx context.Context) *Bill {
	b, _ := ctx.Value(BillKey{}).(*Bill)
	return b
}

// principal returns who sent the request; empty if that is not known.
func (b *Bill) principal() string {
	if b == nil {
		return ""
	}
	return b.By
}

func (b *Bill) add(d *DB, line billLine) {
	b.d, b.table = d, line.table
	if n := len(b.lines); n > 0 && !line.metered && line.exceeded == nil {
		if last := &b.lines[n-1]; last.table == line.table && last.metered && last.charged == 0 {
			last.at, last.charged = line.at, line.charged // a page is charged after it is metered
			return
		}
	}
	if b.lines == nil {
		b.lines = b.first[:0]
	}
	b.lines = append(b.lines, line)
}

// uses records the tables of the writes of a request.
func (b *Bill) uses(tables []*table) {
	if b != nil && len(tables) > 0 {
		b.table = tables[0]
	}
}

// find returns the table of a name, without looking it up if the request has just used it.
func (b *Bill) find(d *DB, name string) (*table, bool) {
	if b != nil && b.table != nil && b.table.Name == name {
		return b.table, true
	}
	return d.find(name)
}

// expect makes room for this many lines.
func (b *Bill) expect(lines int) {
	if b != nil && lines > len(b.first) {
		b.lines = slices.Grow(b.lines, lines)
	}
}

// Settle counts what the request has consumed.
func (b *Bill) Settle() {
	for i := range b.lines {
		line := &b.lines[i]
		switch {
		case line.exceeded != nil:
			b.d.countExceeded(line.table, *line.access, line.exceeded)
		case line.metered:
			line.table.series.consume(throttle.Read, line.index, line.span, line.units)
			if line.access != nil {
				b.d.accessed(line.table, *line.access, line.units)
			}
		}
	}
	b.clear()
}

// Discard takes back what the request has consumed: it is repeated.
func (b *Bill) Discard() {
	for i := range b.lines {
		if line := &b.lines[i]; line.charged != 0 {
			line.table.limits.Charge(b.d.clock.Elapsed(), throttle.Read, line.at, -line.charged)
		}
	}
	b.clear()
}

func (b *Bill) clear() {
	clear(b.lines)
	b.lines, b.table = b.lines[:0], nil
}
