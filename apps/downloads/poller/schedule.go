package poller

import (
	"fmt"
	"time"

	"github.com/stator-db/stator/apps/internal/daily"
)

// Schedule is when the batch of a day starts.
type Schedule struct {
	daily.Time
	DaysBack int // days between the date of the files and the run
}

// ParseSchedule parses a time such as 06:30 and a zone such as Europe/Berlin.
func ParseSchedule(at, zone string, daysBack int) (Schedule, error) {
	clock, err := time.Parse("15:04", at)
	if err != nil {
		return Schedule{}, fmt.Errorf("the schedule is %q, but must be a time such as 06:30", at)
	}
	place, err := time.LoadLocation(zone)
	if err != nil {
		return Schedule{}, fmt.Errorf("the time zone %q is unknown: use one such as Europe/Berlin or UTC", zone)
	}
	if daysBack < 0 || daysBack > 31 {
		return Schedule{}, fmt.Errorf("--days-back is %d, but must be 0 to 31", daysBack)
	}
	return Schedule{daily.Time{Hour: clock.Hour(), Minute: clock.Minute(), Zone: place}, daysBack}, nil
}

// Day returns the day whose files are requested by the batch that is due at a time.
func (s Schedule) Day(now time.Time) string {
	_, day := s.Due(now)
	return day.AddDate(0, 0, -s.DaysBack).Format(time.DateOnly)
}
