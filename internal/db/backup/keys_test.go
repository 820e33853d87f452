package backup

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/encryption"
	"github.com/stator-db/stator/internal/virtualtime"
)

// testKey returns a master key that a number determines; nil for 0.
func testKey(t *testing.T, n byte) *encryption.MasterKey {
	t.Helper()
	if n == 0 {
		return nil
	}
	k, err := encryption.NewMasterKey(bytes.Repeat([]byte{n}, encryption.KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// keyedServers are scheduled servers whose key changes. Each set has one item more than the set
// before it.
type keyedServers struct {
	*scheduledServers
	files blob.Place // as they are stored
	items int
}

func newKeyedServers(t *testing.T, s Schedule) *keyedServers {
	f := newScheduledServers(t, s)
	return &keyedServers{scheduledServers: f, files: f.place.Place}
}

// use sets the key.
func (f *keyedServers) use(key byte, allowPlain bool) {
	f.place.Place = blob.Encrypted(f.files, testKey(f.t, key), allowPlain)
}

// run runs a server with a key for some minutes, and returns the numbers of items of the sets that it
// lists, the newest first. It makes a set at once, unless it can read one that is less than a minute
// old.
func (f *keyedServers) run(key byte, allowPlain bool, minutes int) (items []int64) {
	f.t.Helper()
	f.use(key, allowPlain)
	h, server := f.start(false)
	defer h.close()
	if f.items == 0 {
		h.fill(f.t, "Orders", 0, 10)
	}
	for range minutes {
		f.items++
		h.put(f.t, "Orders", f.items, 10)
		server.Lead(true)
		time.Sleep(61 * time.Second)
	}
	server.Lead(false)
	status, err := h.ScheduleStatus(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, set := range status.Sets {
		items = append(items, set.Items)
	}
	return items
}

// newest returns the items of the set that would be restored, and how many newer ones are skipped.
func (f *keyedServers) newest(key byte, allowPlain bool) (items int64, skipped int, err error) {
	f.use(key, allowPlain)
	set, skippedSets, err := newestSet(f.t.Context(), f.place, "")
	if err != nil {
		return 0, 0, err
	}
	return set.Items, len(skippedSets), nil
}

func (f *keyedServers) expectNewest(key byte, allowPlain bool, items int64, skipped int) {
	f.t.Helper()
	if got, others, err := f.newest(key, allowPlain); err != nil || got != items || others != skipped {
		f.t.Errorf("with key %d, the set with %d items is the newest, and %d are skipped, %v, want %d and %d", key, got, others, err, items, skipped)
	}
}

// Sets that were made with a key, without one, and with a key again are counted and restored in the
// order in which they were made, and none is removed by a server that cannot read others.
func TestSetsOfSeveralKeys(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newKeyedServers(t, Schedule{Every: time.Minute, Keep: 3})
		expect := func(what string, got []int64, want ...int64) {
			t.Helper()
			if !slices.Equal(got, want) {
				t.Errorf("%s, the sets have %v items, want %v", what, got, want)
			}
		}
		expect("with a key", f.run(1, false, 5), 5, 4, 3)
		expect("without a key", f.run(0, false, 2), 7, 6, 6)
		f.expectNewest(0, false, 7, 0)
		f.expectNewest(1, false, 5, 3)
		f.expectNewest(1, true, 7, 0)
		if _, _, err := f.newest(2, false); !encryption.IsKeyError(err) {
			t.Errorf("with another key: %v", err)
		}
		expect("with the key again", f.run(1, false, 1), 8, 8, 5)
		f.expectNewest(1, false, 8, 0)
		f.expectNewest(0, false, 7, 2)
		expect("with another key", f.run(2, false, 1), 9, 9)
		f.expectNewest(1, false, 8, 2)
		f.expectNewest(2, false, 9, 0)
		expect("with the key, and plain ones", f.run(1, true, 1), 10, 10, 8)
		f.expectNewest(1, true, 10, 0)
		if !strings.Contains(f.log.String(), "not of the present encryption key") || strings.Contains(f.log.String(), "level=ERROR") {
			t.Errorf("the log is\n%s", &f.log)
		}
	})
}

// A set that needs a key is named with that key if there is no other.
func TestNewestSetNeedsKey(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newKeyedServers(t, Schedule{Every: time.Minute, Keep: 3})
		f.run(1, false, 1)
		var needs *encryption.NeedsKeyError
		if _, _, err := f.newest(0, false); !errors.As(err, &needs) || needs.Used != testKey(t, 1).ID() {
			t.Errorf("without a key: %v", err)
		}
		var wrong *encryption.WrongKeyError
		if _, _, err := f.newest(2, false); !errors.As(err, &wrong) || wrong.Used != testKey(t, 1).ID() {
			t.Errorf("with another key: %v", err)
		}
	})
}

// A database that has not counted its sets yet begins above the numbers of sets that it cannot read.
func TestFirstNumberWithUnreadableSets(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newKeyedServers(t, Schedule{Every: time.Minute, Keep: 3})
		f.use(1, false)
		old := backupSet{Format: format, ID: "00000000000001-00000000", Number: 1000, Database: "unknown"}
		if err := writeRecord(t.Context(), f.place, old.ID+suffixSet, old); err != nil {
			t.Fatal(err)
		}
		f.run(0, false, 2)
		newest, _, err := newestSet(t.Context(), f.place, "")
		if err != nil || newest.Number <= old.Number || !newest.Counted {
			t.Errorf("the newest set is %+v, %v", newest, err)
		}
	})
}

func TestOrderOfSets(t *testing.T) {
	for _, c := range []struct {
		name string
		sets []backupSet // as they were made
	}{
		{"by number, whatever the clock said", []backupSet{{ID: "3", Number: 1}, {ID: "4", Number: 2}, {ID: "1", Number: 3}}},
		{"an older version began again without the key", []backupSet{{ID: "1", Number: 5, key: "a"}, {ID: "2", Number: 6, key: "a"}, {ID: "3", Number: 1}, {ID: "4", Number: 2}}},
		{"and the same number twice", []backupSet{{ID: "1", Number: 1, key: "a"}, {ID: "2", Number: 2, key: "a"}, {ID: "3", Number: 1}, {ID: "4", Number: 2}}},
		{"then this version continued", []backupSet{{ID: "2", Number: 6, key: "a"}, {ID: "3", Number: 1}, {ID: "4", Number: 7, key: "a", Counted: true}, {ID: "1", Number: 8, key: "a", Counted: true}}},
		{"several keys, the clock was set back", []backupSet{{ID: "5", Number: 1, key: "a", Counted: true}, {ID: "1", Number: 2, Counted: true}}},
		{"after an older version, the clock was set back", []backupSet{{ID: "5", Number: 1, key: "a"}, {ID: "1", Number: 2, Counted: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sets []*backupSet
			for i := range c.sets {
				sets = append(sets, &c.sets[i])
			}
			slices.SortFunc(sets, func(a, b *backupSet) int { return strings.Compare(a.ID, b.ID) })
			inOrder(sets)
			for i, set := range sets {
				if set != &c.sets[i] {
					t.Errorf("set %d is %+v, want %+v", i, *set, c.sets[i])
				}
			}
		})
	}
}

// Backups of another key, and those that are not encrypted, are reported as such, and the others are
// verified.
func TestVerifyAllWithSeveralKeys(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newKeyedServers(t, Schedule{Every: time.Minute, Keep: 3})
		for _, key := range []byte{2, 1, 0} {
			f.run(key, false, 1)
		}
		f.use(1, false)
		var verified, needs []string
		err := VerifyAll(t.Context(), f.place, func(v Verified) {
			switch {
			case v.Fault != "":
				t.Errorf("got %+v", v)
			case v.Key != "":
				needs = append(needs, v.Key)
			default:
				verified = append(verified, v.File)
			}
		})
		if err != nil || len(verified) != 4 || len(needs) != 8 || !strings.Contains(needs[0], testKey(t, 2).ID()) || !strings.Contains(needs[7], "--allow-plain-backups") {
			t.Errorf("verified %q, others %q, %v", verified, needs, err)
		}
	})
}
