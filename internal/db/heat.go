package db

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/lead"
)

// heatInterval is how often the traffic of tables is looked at.
const heatInterval = 10 * time.Second

// heatLoop is a loop that follows the traffic of tables that are throttled.
func (d *DB) heatLoop() lead.Loop {
	l := quiet(lead.Every(heatInterval, d.followHeat, d.warn("what the traffic of tables has changed could not be stored")))
	l.Due = func(context.Context) (at time.Time, ok bool, err error) {
		return d.Now(), slices.ContainsFunc(d.all(), func(t *table) bool { return t.limits != nil }), nil
	}
	return l
}

// followHeat stores what the traffic of tables that are throttled has changed: hot
// partitions that were split, which split the shards of a stream, and the warm
// throughput of on-demand tables.
func (d *DB) followHeat(ctx context.Context) (failure error) {
	for _, t := range d.all() {
		if t.limits == nil {
			continue
		}
		splits := t.limits.TakeSplits()
		if _, streams := t.Stream(); !streams {
			splits = nil
		}
		if len(splits) == 0 && !t.warms(t.Table.Clone()) {
			continue
		}
		_, err := d.alter(ctx, t.Name, func(def *schema.Table) error {
			if def.ID != t.ID {
				return nil
			}
			for _, at := range splits {
				def.SplitShard(at)
			}
			t.warms(def)
			return nil
		})
		if err != nil {
			t.limits.PutBackSplits(splits)
		}
		if gone, ok := errors.AsType[*apierror.Error](err); !ok || gone.Code != apierror.NoTable().Code {
			failure = errors.Join(failure, err)
		}
	}
	return failure
}

// warms raises the warm throughput in a description to what the table serves. It reports
// whether that changed anything: warm throughput never falls.
func (t *table) warms(def *schema.Table) (changed bool) {
	if !def.OnDemand {
		return false
	}
	raise := func(warm *schema.Throughput, index uint16) {
		was := *warm
		*warm = schema.Warmest(was, t.limits.Level(index))
		changed = changed || *warm != was
	}
	raise(&def.Warm, 0)
	def.Indexes = slices.Clone(def.Indexes)
	for i := range def.Indexes {
		if x := &def.Indexes[i]; x.Global {
			raise(&x.Warm, x.ID)
		}
	}
	return changed
}
