package schema

import (
	"time"

	"github.com/stator-db/stator/internal/apierror"
)

// Throughput is a pair of read and write units a second.
type Throughput struct {
	Read      int64     `json:"read,omitempty"`
	Write     int64     `json:"write,omitempty"`
	Increased time.Time `json:"increased,omitzero"`
	Decreased time.Time `json:"decreased,omitzero"`
	Decreases int64     `json:"decreases,omitempty"` // on the day of Decreased
}

// SameUnits reports whether both have the same units.
func (t Throughput) SameUnits(other Throughput) bool {
	return t.Read == other.Read && t.Write == other.Write
}

// The limits of decreases: a number each day, and then one each interval.
const (
	freeDecreases    = 4
	decreaseInterval = time.Hour
)

// Change returns the throughput with new units, and the times of their increase
// or decrease. It returns a fault if the units were decreased too often today. A
// change of both units at once counts as one decrease.
func (t Throughput) Change(to Throughput, now time.Time) (Throughput, error) {
	if to.Read < t.Read || to.Write < t.Write {
		if err := t.mayDecrease(now); err != nil {
			return t, err
		}
	}
	return t.Changed(to, now), nil
}

// Changed is Change for changes that are not limited.
func (t Throughput) Changed(to Throughput, now time.Time) Throughput {
	if to.Read > t.Read || to.Write > t.Write {
		t.Increased = now
	}
	if to.Read < t.Read || to.Write < t.Write {
		t.Decreases = t.DecreasesOn(now) + 1
		t.Decreased = now
	}
	t.Read, t.Write = to.Read, to.Write
	return t
}

// Warmest returns the larger of each: warm throughput never decreases.
func Warmest(a, b Throughput) Throughput {
	return Throughput{Read: max(a.Read, b.Read), Write: max(a.Write, b.Write)}
}

// ChangeUnits changes the provisioned units of the table as Change does. Its warm
// throughput follows.
func (t *Table) ChangeUnits(to Throughput, now time.Time) (err error) {
	if t.Throughput, err = t.Throughput.Change(to, now); err == nil {
		t.Warm = Warmest(t.Warm, to)
	}
	return err
}

// ChangeUnits is ChangeUnits of an index.
func (x *Index) ChangeUnits(to Throughput, now time.Time) (err error) {
	if x.Throughput, err = x.Throughput.Change(to, now); err == nil {
		x.Warm = Warmest(x.Warm, to)
	}
	return err
}

// DecreasesOn returns how often units were decreased on the day of now. A day
// begins at midnight UTC.
func (t Throughput) DecreasesOn(now time.Time) int64 {
	if !midnight(t.Decreased).Equal(midnight(now)) {
		return 0
	}
	return t.Decreases
}

func midnight(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// mayDecrease returns a fault if the units may not be decreased now.
func (t Throughput) mayDecrease(now time.Time) error {
	count := t.DecreasesOn(now)
	next := t.Decreased.Add(decreaseInterval)
	if count < freeDecreases || !now.Before(next) {
		return nil
	}
	// The count starts again at midnight, which may be earlier.
	if tomorrow := midnight(now).Add(24 * time.Hour); tomorrow.Before(next) {
		next = tomorrow
	}
	const layout = "Monday, January 2, 2006 at 3:04:05 PM"
	return apierror.LimitExceeded("Subscriber limit exceeded: Provisioned throughput decreases are limited within a given UTC day. "+
		"After the first %d decreases, each subsequent decrease in the same UTC day can be performed at most once every %d seconds. "+
		"Number of decreases today: %d. Last decrease at %s Coordinated Universal Time. Next decrease can be made at %s Coordinated Universal Time",
		freeDecreases, int(decreaseInterval.Seconds()), count, t.Decreased.UTC().Format(layout), next.UTC().Format(layout))
}

// ProvisionedUnits is the sum of the provisioned units of a table and of its
// indexes.
func (t *Table) ProvisionedUnits() Throughput {
	if t.OnDemand {
		return Throughput{}
	}
	sum := Throughput{Read: t.Throughput.Read, Write: t.Throughput.Write}
	for i := range t.Indexes {
		sum.Read += t.Indexes[i].Throughput.Read
		sum.Write += t.Indexes[i].Throughput.Write
	}
	return sum
}
