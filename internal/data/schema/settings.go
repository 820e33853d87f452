package schema

import (
	"time"

	"github.com/stator-db/stator/internal/apierror"
)

// The settings that may be changed only so often.

// Encryption is the customer's request for encryption with a key of their
// own.
type Encryption struct {
	Enabled bool   `json:"enabled,omitempty"`
	KeyARN  string `json:"keyArn,omitempty"`

	// The changes within a day, which begins with the first of them.
	DayStart time.Time `json:"dayStart,omitzero"`
	Changes  int       `json:"changes,omitempty"`
	Changed  time.Time `json:"changed,omitzero"`
}

// The limits of changes of the encryption: a number each day, and then one each
// interval.
const (
	freeEncryptions    = 4
	encryptionInterval = 6 * time.Hour
)

// Change returns the encryption that a table changes to, or a fault if it was
// changed too often.
func (e Encryption) Change(enabled bool, keyARN string, now time.Time) (Encryption, error) {
	end, next := e.DayStart.Add(24*time.Hour), e.Changed.Add(encryptionInterval)
	switch {
	case !now.Before(end):
		e.DayStart, e.Changes = now, 0
	case e.Changes >= freeEncryptions && now.Before(next):
		const layout = "2006-01-02T15:04:05.000Z"
		return e, apierror.LimitExceeded("Subscriber limit exceeded: Encryption mode changes are limited in the 24h window ending at %s. "+
			"After the first %d change, each subsequent change in the same window can be performed at most once every %d seconds. "+
			"Number of updates today: %d. Last change at %s. Next changes can be made at %s.",
			end.UTC().Format(layout), freeEncryptions, int(encryptionInterval.Seconds()), e.Changes, e.Changed.UTC().Format(layout), next.UTC().Format(layout))
	}
	e.Enabled, e.KeyARN = enabled, keyARN
	e.Changes++
	e.Changed = now
	return e, nil
}

// The limit of changes of the table class.
const (
	maxClassChanges = 2
	classDays       = 30
)

// ChangeClass sets the table class, or returns a fault if it was changed too
// often. Until the limit is reached, a class that the table has already is
// accepted and changes nothing; current is the class of a table that has none set.
func (t *Table) ChangeClass(to, current string, now time.Time) error {
	if !t.ClassChangedBefore.IsZero() && now.Before(t.ClassChangedBefore.Add(classDays*24*time.Hour)) {
		return apierror.LimitExceeded("Subscriber limit exceeded: Updates to TableClass are limited to %d times in %d day(s).", maxClassChanges, classDays)
	}
	if to != current {
		t.Class, t.ClassChanged, t.ClassChangedBefore = to, now, t.ClassChanged
	}
	return nil
}
