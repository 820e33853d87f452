package rightsize

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/scaling"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/autoscaling"
	"github.com/stator-db/stator/internal/lead/leadtest"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// Units change in the same minutes as those of a server that scales the table, also when the
// decreases of a day are used up.
func TestScalesAsAServerDoes(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	const minutes = 150
	l := loadOf(minutes, always(0), always(0))
	for kind := range l.Resources[0].Consumed {
		rate := 40.0
		for minute := range minutes { // it changes slowly enough that nothing is throttled
			change := 1.25
			if minute%40 < 22 {
				change = 0.8
			}
			rate = min(max(rate*change*(1+0.02*random.NormFloat64()), 2), 60)
			l.Resources[0].Consumed[kind][minute] = 60 * rate
		}
	}
	set := settings()
	bounds := scaling.Bounds{Min: 5, Max: 300}
	virtualtime.Test(t, func(t *testing.T) {
		l.From = time.Now().UTC().Truncate(time.Minute)
		run := l.Resources[0].scale([2]*scaling.Bounds{&bounds, &bounds}, set, l.From)
		engine, err := pebble.Open(pebble.InMemory())
		if err != nil {
			t.Fatal(err)
		}
		server := leadtest.New(engine).Join()
		server.Lead(true)
		d, err := db.Open(t.Context(), server, db.Options{Clock: clock.Given(time.Now), ExpiryInterval: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		key := schema.Attribute{Name: "id", Type: item.S}
		table := schema.Table{Name: "Orders", Key: schema.Key{Partition: []schema.Attribute{key}}, Attributes: []schema.Attribute{key},
			Throughput: schema.Throughput{Read: run.units[0][0], Write: run.units[1][0]}}
		if _, err := d.CreateTable(t.Context(), table); err != nil {
			t.Fatal(err)
		}
		consumed := func(_, _ string, write bool, at time.Time) (float64, bool) {
			minute, kind := int(at.Sub(l.From)/time.Minute), 0
			if write {
				kind = 1
			}
			if minute < 0 || minute >= minutes {
				return 0, false
			}
			return l.Resources[0].Consumed[kind][minute], true
		}
		s := autoscaling.Open(t.Context(), d, autoscaling.Options{Consumed: consumed})
		for _, dimension := range []string{autoscaling.TableRead, autoscaling.TableWrite} {
			err := s.Change(t.Context(), autoscaling.ID{Resource: "table/Orders", Dimension: dimension}, func(stored *autoscaling.Settings) error {
				stored.Target = &autoscaling.Target{ARN: "arn", Created: time.Now(), Region: "us-east-1", Min: bounds.Min, Max: bounds.Max}
				stored.Policy = &autoscaling.Policy{Name: "p", ARN: "policy", Utilization: set.Target, Alarms: make([]autoscaling.Alarm, 4)}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		var units [2][]int64
		for minute := range minutes {
			time.Sleep(time.Until(l.at(minute).Add(30 * time.Second)))
			synctest.Wait()
			table, err := d.Describe("Orders")
			if err != nil {
				t.Fatal(err)
			}
			units[0], units[1] = append(units[0], table.Throughput.Read), append(units[1], table.Throughput.Write)
		}
		s.Close()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
		refused := 0
		for kind := range units {
			if run.exceeding[kind] > 0 {
				t.Fatalf("seed %d: %v units are throttled: the server does not know that", seed, run.exceeding[kind])
			}
			if !slices.Equal(units[kind], run.units[kind]) {
				t.Errorf("seed %d: the server changes units in the minutes %v, and the prediction in %v", seed, changesOf(units[kind]), changesOf(run.units[kind]))
			}
			refused += run.refused[kind]
		}
		if refused == 0 {
			t.Errorf("seed %d: no decrease is refused", seed)
		}
	})
}
