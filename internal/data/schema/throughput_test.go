package schema

import (
	"testing"
	"time"
)

// TestDecreasesAreLimited follows the decreases of a day as they were measured:
// four, one an hour after the last, and all again after midnight.
func TestDecreasesAreLimited(t *testing.T) {
	now := time.Date(2026, 10, 9, 0, 21, 34, 0, time.UTC)
	units := Throughput{Read: 10, Write: 10}
	try := func(to Throughput, want string) {
		t.Helper()
		after, err := units.Change(to, now)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Fatalf("at %v: %q, want %q", now, got, want)
		}
		if err == nil {
			units = after
		} else if after != units {
			t.Fatalf("a rejected change leaves %+v, want %+v", after, units)
		}
	}
	const limited = "LimitExceededException: Subscriber limit exceeded: Provisioned throughput decreases are limited within a given UTC day. " +
		"After the first 4 decreases, each subsequent decrease in the same UTC day can be performed at most once every 3600 seconds. "
	try(Throughput{Read: 9, Write: 9}, "") // both at once are one decrease
	try(Throughput{Read: 8, Write: 12}, "")
	try(Throughput{Read: 7, Write: 12}, "")
	try(Throughput{Read: 6, Write: 12}, "")
	if got := units.DecreasesOn(now); got != 4 {
		t.Fatalf("%d decreases, want 4", got)
	}
	first := limited + "Number of decreases today: 4. Last decrease at Friday, October 9, 2026 at 12:21:34 AM Coordinated Universal Time. " +
		"Next decrease can be made at Friday, October 9, 2026 at 1:21:34 AM Coordinated Universal Time"
	try(Throughput{Read: 5, Write: 12}, first)
	try(Throughput{Read: 5, Write: 20}, first) // a decrease, whatever the other does
	try(Throughput{Read: 7, Write: 12}, "")    // an increase
	now = now.Add(time.Hour - time.Second)
	try(Throughput{Read: 5, Write: 12}, first)
	now = now.Add(time.Second)
	try(Throughput{Read: 5, Write: 12}, "")
	try(Throughput{Read: 4, Write: 12}, limited+"Number of decreases today: 5. Last decrease at Friday, October 9, 2026 at 1:21:34 AM Coordinated Universal Time. "+
		"Next decrease can be made at Friday, October 9, 2026 at 2:21:34 AM Coordinated Universal Time")

	now = time.Date(2026, 10, 9, 23, 30, 0, 0, time.UTC)
	try(Throughput{Read: 4, Write: 12}, "")
	try(Throughput{Read: 3, Write: 12}, limited+"Number of decreases today: 6. Last decrease at Friday, October 9, 2026 at 11:30:00 PM Coordinated Universal Time. "+
		"Next decrease can be made at Saturday, October 10, 2026 at 12:00:00 AM Coordinated Universal Time")
	now = time.Date(2026, 10, 10, 0, 0, 0, 0, time.UTC)
	for write := range int64(4) {
		try(Throughput{Read: 4, Write: 4 - write}, "")
	}
	if got := units.DecreasesOn(now); got != 4 {
		t.Errorf("%d decreases on the next day, want 4", got)
	}
}

func TestEncryptionChangesAreLimited(t *testing.T) {
	now := time.Date(2026, 10, 8, 23, 25, 27, 800e6, time.UTC)
	var e Encryption
	change := func() (err error) {
		e, err = e.Change(!e.Enabled, "", now)
		return err
	}
	for i := range 4 {
		if err := change(); err != nil {
			t.Fatalf("change %d: %v", i+1, err)
		}
		now = now.Add(time.Minute)
	}
	const want = "LimitExceededException: Subscriber limit exceeded: Encryption mode changes are limited in the 24h window ending at 2026-10-09T23:25:27.800Z. " +
		"After the first 4 change, each subsequent change in the same window can be performed at most once every 21600 seconds. " +
		"Number of updates today: 4. Last change at 2026-10-08T23:28:27.800Z. Next changes can be made at 2026-10-09T05:28:27.800Z."
	if err := change(); err == nil || err.Error() != want {
		t.Errorf("the fifth change: %v, want %s", err, want)
	}
	now = e.Changed.Add(6 * time.Hour)
	if err := change(); err != nil {
		t.Errorf("six hours later: %v", err)
	}
	now = e.DayStart.Add(24 * time.Hour)
	if err := change(); err != nil || e.Changes != 1 {
		t.Errorf("on the next day: %v, %d changes, want 1", err, e.Changes)
	}
}

func TestClassChangesAreLimited(t *testing.T) {
	now := time.Date(2026, 10, 8, 0, 0, 0, 0, time.UTC)
	table := &Table{Class: "STANDARD"}
	change := func(to string) error { return table.ChangeClass(to, table.Class, now) }
	for _, to := range []string{"STANDARD", "STANDARD_INFREQUENT_ACCESS", "STANDARD_INFREQUENT_ACCESS", "STANDARD"} {
		if err := change(to); err != nil {
			t.Fatalf("to %s: %v", to, err)
		}
	}
	const want = "LimitExceededException: Subscriber limit exceeded: Updates to TableClass are limited to 2 times in 30 day(s)."
	now = now.Add(30*24*time.Hour - time.Second)
	for _, to := range []string{"STANDARD", "STANDARD_INFREQUENT_ACCESS"} {
		if err := change(to); err == nil || err.Error() != want {
			t.Errorf("to %s: %v, want %s", to, err, want)
		}
	}
	now = now.Add(time.Second)
	if err := change("STANDARD_INFREQUENT_ACCESS"); err != nil || table.Class != "STANDARD_INFREQUENT_ACCESS" {
		t.Errorf("after 30 days: %v, the class is %s", err, table.Class)
	}
}
