package autoscaling

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/lead/leadtest"
	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// setMeter is a meter whose consumption is set by a test, in units per second.
type setMeter struct {
	mu     sync.Mutex
	rates  []float64
	from   []time.Time
	unread bool // nothing is known
}

// set sets the consumption from the current minute on.
func (l *setMeter) set(rate float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rates, l.from = append(l.rates, rate), append(l.from, time.Now().Truncate(time.Minute))
}

func (l *setMeter) consumed(_, _ string, write bool, minute time.Time) (float64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, from := range slices.Backward(l.from) {
		if !minute.Before(from) {
			return l.rates[i] * 60, !l.unread && minute.Add(time.Minute).Before(time.Now())
		}
	}
	return 0, false
}

// scalingTest is a database with auto scaling, in virtual time. The table T has the
// index I.
type scalingTest struct {
	*testing.T
	engine store.Engine
	fleet  *leadtest.Fleet
	load   *setMeter
	delay  time.Duration // of changes of a table
	db     *db.DB
	*Store
	log logtest.Log
}

func newScalingTest(t *testing.T) *scalingTest {
	t.Helper()
	engine, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	st := &scalingTest{T: t, engine: engine, fleet: leadtest.New(engine), load: new(setMeter)}
	st.open()
	t.Cleanup(func() {
		st.close()
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	key := schema.Attribute{Name: "id", Type: item.S}
	units := schema.Throughput{Read: 10, Write: 10}
	table := schema.Table{Name: "T", Key: schema.Key{Partition: []schema.Attribute{key}}, Attributes: []schema.Attribute{key}, Throughput: units}
	table.AddIndex(schema.Index{Name: "I", Global: true, Key: table.Key, Projection: schema.Projection{Kind: schema.ProjectAll}, Throughput: units})
	if _, err := st.db.CreateTable(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	return st
}

func (t *scalingTest) open() {
	t.Helper()
	server := t.fleet.Join()
	server.Lead(true)
	d, err := db.Open(t.Context(), server, db.Options{Clock: clock.Given(time.Now), ExpiryInterval: 24 * time.Hour, TableDelay: t.delay})
	if err != nil {
		t.Fatal(err)
	}
	t.db, t.Store = d, Open(t.Context(), d, Options{Log: t.log.Logger(), Consumed: t.load.consumed})
}

func (t *scalingTest) close() {
	t.Store.Close()
	if err := t.db.Close(); err != nil {
		t.Error(err)
	}
}

var reads = ID{"table/T", TableRead}

// register sets a target with bounds, and with a policy of 50 %.
func (t *scalingTest) register(id ID, lowest, highest int64, change func(*Settings)) {
	t.Helper()
	err := t.Change(t.Context(), id, func(s *Settings) error {
		s.Target = &Target{ARN: "arn", Created: time.Now(), Region: "us-east-1", Min: lowest, Max: highest, Unapplied: true}
		s.Policy = &Policy{Name: "half", ARN: "policy", Utilization: 50, Alarms: []Alarm{{Name: "high"}, {Name: "low"}, {}, {}}}
		if change != nil {
			change(s)
		}
		return nil
	})
	if err == nil {
		err = t.ApplyBounds(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// at advances to a time after the start of the test, and checks the units of reads.
func (t *scalingTest) at(start time.Time, after time.Duration, want int64) {
	t.Helper()
	time.Sleep(time.Until(start.Add(after)))
	synctest.Wait()
	if got, ok := t.units(reads); got != want || !ok {
		t.Errorf("after %v: %d units, want %d; %s", after, got, want, t.activities(reads))
	}
}

// activities returns the activities of an id as text.
func (t *scalingTest) activities(id ID) string {
	t.Helper()
	s, err := t.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, a := range s.Activities {
		lines = append(lines, fmt.Sprintf("%s %s (%s) %s", a.Status, a.Description, a.Cause, a.Message))
	}
	return strings.Join(lines, "\n")
}

// setUnits is what a customer does.
func (t *scalingTest) setReads(n int64) {
	t.Helper()
	_, err := t.db.UpdateTable(t.Context(), "T", func(table *schema.Table) error {
		return table.ChangeUnits(schema.Throughput{Read: n, Write: table.Throughput.Write}, t.db.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A load that doubles leads to new units after two minutes above the target, and
// back after fifteen below it.
func TestTargetTracking(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		st.load.set(5)
		st.register(reads, 2, 100, nil)
		start := time.Now()
		st.at(start, 20*time.Minute, 10) // on target

		st.load.set(10)
		st.at(start, 21*time.Minute+30*time.Second, 10) // one minute above
		st.at(start, 22*time.Minute+10*time.Second, 20)
		st.at(start, 40*time.Minute, 20)

		st.load.set(5) // 25 %, below 30 %
		st.at(start, 54*time.Minute+30*time.Second, 20)
		st.at(start, 55*time.Minute+10*time.Second, 10)
		want := "Successful Setting read capacity units to 20. (monitor alarm high in state ALARM triggered policy half) " +
			"Successfully set read capacity units to 20. Change successfully fulfilled by dynamodb.\n" +
			"Successful Setting read capacity units to 10. (monitor alarm low in state ALARM triggered policy half) " +
			"Successfully set read capacity units to 10. Change successfully fulfilled by dynamodb."
		if got := st.activities(reads); got != want {
			t.Errorf("the activities are\n%s\nwant\n%s", got, want)
		}
	})
}

func TestTrackingKeepsToTheBounds(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		st.register(reads, 6, 15, nil)
		start := time.Now()
		st.load.set(1000)
		st.at(start, 3*time.Minute, 15)
		st.load.set(0)
		st.at(start, 30*time.Minute, 6)
		st.setReads(3) // a customer's units below the minimum remain
		st.at(start, 50*time.Minute, 3)
		st.setReads(9) // within the bounds they are not needed
		st.at(start, 51*time.Minute+30*time.Second, 6)
	})
}

func TestBoundsApplyAtOnce(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		st.register(reads, 12, 20, nil)
		st.at(time.Now(), 0, 12)
		st.register(reads, 1, 7, nil)
		st.at(time.Now(), 0, 7)
		want := "Successful Setting read capacity units to 12. (minimum capacity was set to 12) Successfully set read capacity units to 12. Change successfully fulfilled by dynamodb.\n" +
			"Successful Setting read capacity units to 7. (maximum capacity was set to 7) Successfully set read capacity units to 7. Change successfully fulfilled by dynamodb."
		if got := st.activities(reads); got != want {
			t.Errorf("the activities are\n%s\nwant\n%s", got, want)
		}
		index := ID{"table/T/index/I", IndexWrite}
		st.register(index, 30, 40, nil)
		if got, _ := st.units(index); got != 30 {
			t.Errorf("the index has %d write units, want 30", got)
		}
	})
}

// A table that is being changed gets its bounds when that has ended.
func TestBoundsWaitForTheTable(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		st.close()
		st.delay = 10 * time.Second
		st.open()
		st.setReads(8) // takes ten seconds
		start := time.Now()
		st.register(reads, 12, 20, nil)
		st.at(start, 9*time.Second, 8)
		if got := st.activities(reads); got != "" {
			t.Errorf("while the table is being changed, the activities are %s", got)
		}
		st.at(start, 12*time.Second, 12)

		st.register(ID{"table/Later", TableRead}, 12, 20, nil) // no table yet: nothing to apply
		if s, err := st.Get(t.Context(), ID{"table/Later", TableRead}); err != nil || s.Target.Unapplied || len(s.Activities) > 0 {
			t.Errorf("a target without a table: %+v, %v", s, err)
		}
	})
}

func TestCooldowns(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		cooldown := int32(600)
		st.register(reads, 1, 1000, func(s *Settings) { s.Policy.OutCooldown, s.Policy.InCooldown = &cooldown, &cooldown })
		start := time.Now()
		st.load.set(10)
		st.at(start, 2*time.Minute+10*time.Second, 20)
		st.setReads(12) // by hand: the load is above the target again
		st.at(start, 12*time.Minute, 12)
		st.at(start, 13*time.Minute, 20)
		st.load.set(5)
		st.at(start, 28*time.Minute+10*time.Second, 10)
		st.load.set(1)
		st.at(start, 38*time.Minute, 10)
		st.at(start, 43*time.Minute+10*time.Second, 2)
	})
}

// The cooldown of increases does not hold back one to more units than the last, as on AWS: a
// policy continues to scale out while the load grows.
func TestCooldownAllowsALargerIncrease(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		cooldown := int32(3600)
		st.register(reads, 1, 1000, func(s *Settings) { s.Policy.OutCooldown = &cooldown })
		start := time.Now()
		st.load.set(10)
		st.at(start, 2*time.Minute+10*time.Second, 20)
		st.load.set(20)
		st.at(start, 4*time.Minute+10*time.Second, 40)
		st.load.set(40)
		st.at(start, 6*time.Minute+10*time.Second, 80)
		st.setReads(50) // by hand
		st.at(start, 30*time.Minute, 50)
		st.load.set(41)
		st.at(start, 33*time.Minute, 82)
	})
}

// Bounds that a table does not accept now are applied when it does.
func TestRejectedBoundsAreRetried(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		for n := range int64(4) {
			st.setReads(9 - n) // the decreases of the day
		}
		start := time.Now()
		st.load.set(1.5) // the policy wants 3 units, which are rejected too
		st.register(reads, 1, 4, nil)
		st.at(start, 59*time.Minute, 6)
		if got := st.activities(reads); !strings.HasPrefix(got, "Failed Setting read capacity units to 4. (maximum capacity was set to 4)") || strings.Contains(got, "\n") {
			t.Errorf("the activities are\n%s\nwant one failure", got)
		}
		st.at(start, 62*time.Minute, 4)
		if s, err := st.Get(t.Context(), reads); err != nil || s.Target.Unapplied || !s.Target.ClaimedUntil.IsZero() {
			t.Errorf("%+v, %v", s.Target, err)
		}
	})
}

// A record that cannot be read does not stop the scaling of others.
func TestCorruptSettingsDoNotStopOthers(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		corrupt := ID{"table/T", TableWrite}
		if err := st.db.ChangeScaling(t.Context(), corrupt.Resource, corrupt.Dimension, func([]byte) ([]byte, error) { return []byte("\x01{"), nil }); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		st.load.set(10)
		st.register(reads, 1, 1000, nil)
		st.at(start, 2*time.Minute+10*time.Second, 20)
		if all, err := st.List(t.Context()); err != nil || len(all) != 1 || all[0].ID != reads {
			t.Errorf("%v, %v", all, err)
		}
		if _, err := st.Get(t.Context(), corrupt); err == nil {
			t.Error("the corrupt settings can be read")
		}
		if n := strings.Count(st.log.String(), "cannot be read"); n != 1 {
			t.Errorf("%d lines about it in the log:\n%s", n, st.log.String())
		}
	})
}

// A cooldown ends even if the clock was set back after the change.
func TestCooldownAfterTheClockWasSetBack(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		cooldown := int32(60)
		st.register(reads, 1, 1000, func(s *Settings) { s.Policy.OutCooldown, s.Policy.ScaledOut = &cooldown, time.Now().Add(24*time.Hour) })
		st.load.set(10)
		st.at(time.Now(), 3*time.Minute, 20)
	})
}

// Settings that were changed after the leader has read them are not acted on.
func TestOldSettingsAreNotActedOn(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		st.load.set(10)
		st.register(reads, 1, 1000, func(s *Settings) { s.Target.OutSuspended = true })
		st.at(time.Now(), 5*time.Minute, 10)
		old, err := st.Get(t.Context(), reads)
		if err != nil {
			t.Fatal(err)
		}
		old.Target.OutSuspended = false // when they were read
		act := func(want int64) {
			t.Helper()
			if err := st.track(t.Context(), old); err != nil {
				t.Error(err)
			}
			if got, _ := st.units(reads); got != want {
				t.Errorf("%d units, want %d; %s", got, want, st.activities(reads))
			}
		}
		act(10)
		if err := st.change(t.Context(), reads, func(s *Settings) error { s.Target.OutSuspended, s.Target.Max = false, 12; return nil }); err != nil {
			t.Fatal(err)
		}
		act(12)
		st.setReads(10)
		if err := st.change(t.Context(), reads, func(s *Settings) error { s.Target, s.Policy = nil, nil; return nil }); err != nil {
			t.Fatal(err)
		}
		act(10)
	})
}

func TestSuspendedScaling(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		st.register(reads, 1, 1000, func(s *Settings) { s.Target.OutSuspended, s.Target.InSuspended = true, true })
		start := time.Now()
		st.load.set(10)
		st.at(start, 5*time.Minute, 10)
		st.register(reads, 1, 1000, func(s *Settings) { s.Target.InSuspended = true })
		st.at(start, 7*time.Minute, 20)
		st.load.set(0)
		st.at(start, 60*time.Minute, 20)
		st.register(reads, 1, 1000, func(s *Settings) { disable := true; s.Policy.DisableScaleIn = &disable })
		st.at(start, 80*time.Minute, 20)
		st.register(reads, 1, 1000, nil)
		st.at(start, 82*time.Minute, 1)
	})
}

// The limit of decreases holds for auto scaling too.
func TestDecreaseLimitFailsTheActivity(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		for n := range int64(4) {
			st.setReads(9 - n)
		}
		st.load.set(0)
		start := time.Now()
		st.register(reads, 1, 100, nil)
		st.at(start, 45*time.Minute, 6)
		got := st.activities(reads)
		if !strings.HasPrefix(got, "Failed Setting read capacity units to 1. (monitor alarm low in state ALARM triggered policy half) Failed to set read capacity units to 1. "+
			"Reason: Failed updating table: Subscriber limit exceeded: Provisioned throughput decreases are limited within a given UTC day.") || strings.Contains(got, "\n") {
			t.Errorf("the activities are\n%s\nwant one failure", got)
		}
		st.at(start, 61*time.Minute, 1)
	})
}

func TestUnknownConsumptionChangesNothing(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		st.load.unread = true
		st.register(reads, 1, 100, nil)
		st.at(time.Now(), time.Hour, 10)
	})
}

func TestOnDemandTablesAreNotScaled(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		st.load.set(1000)
		if _, err := st.db.UpdateTable(t.Context(), "T", func(table *schema.Table) error { table.OnDemand = true; return nil }); err != nil {
			t.Fatal(err)
		}
		st.register(reads, 20, 100, nil)
		time.Sleep(time.Hour)
		if got := st.activities(reads); got != "" {
			t.Errorf("the activities are %s", got)
		}
	})
}

// Settings and activities survive a restart, and another server continues.
func TestRestart(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		lowest := int64(30)
		st.register(reads, 5, 100, func(s *Settings) {
			s.Actions = []Action{{Name: "morning", ARN: "a", Schedule: "at(2000-01-01T02:00:00)", Min: &lowest, Created: time.Now(), Since: time.Now()}}
		})
		start := time.Now()
		time.Sleep(time.Hour)
		st.close()
		time.Sleep(2 * time.Hour) // the action is due while no server runs
		st.open()
		st.at(start, 3*time.Hour+time.Second, 30)
		want := "Successful Setting min capacity to 30 (scheduled action name morning was triggered) Successfully set min capacity to 30\n" +
			"Successful Setting read capacity units to 30. (minimum capacity was set to 30) Successfully set read capacity units to 30. Change successfully fulfilled by dynamodb."
		if got := st.activities(reads); got != want {
			t.Errorf("the activities are\n%s\nwant\n%s", got, want)
		}
		st.at(start, 5*time.Hour, 30) // once
		if got := st.activities(reads); got != want {
			t.Errorf("later the activities are\n%s\nwant\n%s", got, want)
		}
	})
}

func TestScheduledActions(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		start := time.Now() // midnight
		bounds := func(lowest, highest int64) (*int64, *int64) { return &lowest, &highest }
		action := func(name, schedule string, lowest, highest int64) Action {
			a := Action{Name: name, ARN: name, Schedule: schedule, Created: start, Since: start}
			a.Min, a.Max = bounds(lowest, highest)
			return a
		}
		up, down := action("up", "cron(0 2,5 ? * * *)", 50, 60), action("down", "cron(30 2 ? * * *)", 5, 10)
		up.Timezone = "Europe/Berlin" // an hour before UTC in winter
		st.register(reads, 1, 100, func(s *Settings) { s.Policy, s.Actions = nil, []Action{down, up} })
		st.at(start, 59*time.Minute, 10)
		st.at(start, time.Hour+time.Second, 50)
		st.at(start, 2*time.Hour+30*time.Minute+time.Second, 10)

		st.register(reads, 1, 100, func(s *Settings) { s.Target.ScheduledSuspended = true })
		st.at(start, 4*time.Hour+30*time.Minute, 10)
	})
}

// Scheduled actions that were done before the clock was set back are done again at their times.
func TestScheduledActionsAfterTheClockWasSetBack(t *testing.T) {
	for _, schedule := range []string{"cron(0 * ? * * *)", "rate(1 hour)"} {
		t.Run(schedule, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				st := newScalingTest(t)
				lowest, start := int64(30), time.Now()
				st.register(reads, 5, 100, func(s *Settings) {
					s.Policy = nil
					s.Actions = []Action{{Name: "hourly", ARN: "a", Schedule: schedule, Min: &lowest, Created: start.Add(48 * time.Hour), Since: start.Add(50 * time.Hour)}}
				})
				st.at(start, 59*time.Minute, 10)
				st.at(start, time.Hour+2*time.Second, 30)
			})
		})
	}
}

// Activities are bounded, and removed with the last of them after the target.
func TestActivitiesAreBounded(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		lowest := int64(1)
		st.register(reads, 1, 100, func(s *Settings) {
			s.Policy = nil
			s.Actions = []Action{{Name: "often", ARN: "o", Schedule: "rate(1 minute)", Min: &lowest, Created: time.Now(), Since: time.Now()}}
		})
		time.Sleep(2 * time.Hour)
		s, err := st.Get(t.Context(), reads)
		if err != nil || len(s.Activities) != maxActivities {
			t.Fatalf("there are %d activities, %v, want %d", len(s.Activities), err, maxActivities)
		}
		if err := st.Change(t.Context(), reads, func(s *Settings) error {
			s.Target, s.Actions = nil, nil
			for i := range s.Activities {
				s.Activities[i].Started = s.Activities[i].Started.Add(-activityAge)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if left, err := st.List(t.Context()); err != nil || len(left) != 0 {
			t.Errorf("%d settings are left, %v", len(left), err)
		}
	})
}

// A failure of one change does not stop the work, and only the leader does it.
func TestOnlyTheLeaderScales(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		st := newScalingTest(t)
		other := st.fleet.Join()
		other.Lead(false)
		d, err := db.Open(t.Context(), other, db.Options{Clock: clock.Given(time.Now), ExpiryInterval: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		idle := Open(t.Context(), d, Options{Consumed: func(string, string, bool, time.Time) (float64, bool) {
			t.Error("a server that does not lead reads the consumption")
			return 0, false
		}})
		defer func() {
			idle.Close()
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}()
		st.load.set(10)
		st.register(reads, 1, 100, nil)
		st.at(time.Now(), 5*time.Minute, 20)
	})
}

func TestCorruptSettings(t *testing.T) {
	for _, stored := range []string{"", "\x02{}", "\x01{"} {
		if _, err := decodeSettings([]byte(stored)); err == nil {
			t.Errorf("%q is decoded", stored)
		}
	}
	if got := encodeSettings(&Settings{ID: reads}); got != nil {
		t.Errorf("empty settings are stored as %q", got)
	}
}

func TestParts(t *testing.T) {
	for _, c := range []struct {
		resource, dimension, table, index string
		write, ok                         bool
	}{
		{"table/T", TableRead, "T", "", false, true},
		{"table/T", TableWrite, "T", "", true, true},
		{"table/T/index/I", IndexWrite, "T", "I", true, true},
		{"table/T", IndexRead, "", "", false, false},
		{"table/T/index/I", TableRead, "", "", false, false},
		{"table/T/index/", IndexRead, "", "", false, false},
		{"table/", TableRead, "", "", false, false},
		{"T", TableRead, "", "", false, false},
		{"service/T", TableRead, "T", "", false, false},
	} {
		table, index, write, ok := ID{c.resource, c.dimension}.Parts()
		if ok != c.ok || ok && (table != c.table || index != c.index || write != c.write) {
			t.Errorf("%s, %s: %q, %q, %v, %v", c.resource, c.dimension, table, index, write, ok)
		}
	}
}
