// Package schema describes tables, and checks whether an item or a key fits
// one.
package schema

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/partition"
)

// Table is the catalog's description of one table. It is stored as JSON
// (docs/formats/catalog.md), so its field names must not change.
type Table struct {
	Name    string    `json:"name"`
	ID      uint32    `json:"id"`   // part of the keys of its items; never reused
	UUID    string    `json:"uuid"` // TableId
	Created time.Time `json:"created"`

	// Key is the table's own primary key. Attributes holds the type of every
	// attribute of a key of the table or of an index, in the order in which
	// the customer declared them.
	Key        Key         `json:"key"`
	Attributes []Attribute `json:"attributes"`
	Indexes    []Index     `json:"indexes,omitempty"`
	LastIndex  uint16      `json:"lastIndex,omitempty"` // the largest id that an index ever had

	// State is the table's transitional state, until SettledAt.
	State     State     `json:"state,omitempty"`
	SettledAt time.Time `json:"settledAt,omitzero"`

	OnDemand           bool       `json:"onDemand,omitempty"`
	OnDemandSince      time.Time  `json:"onDemandSince,omitzero"`
	Throughput         Throughput `json:"throughput"`
	MaxRequests        Throughput `json:"maxRequests,omitzero"` // on-demand limits; 0 is no limit
	Warm               Throughput `json:"warm,omitzero"`
	Class              string     `json:"class,omitempty"`
	ClassChanged       time.Time  `json:"classChanged,omitzero"`
	ClassChangedBefore time.Time  `json:"classChangedBefore,omitzero"` // the change before the last
	DeletionProtection bool       `json:"deletionProtection,omitempty"`
	Encryption         Encryption `json:"encryption,omitzero"`
	Tags               []Tag      `json:"tags,omitempty"`
	Throttling         Throttling `json:"throttling,omitempty"`

	// Policies are resource policies: of the table with an empty name, and of its streams
	// with their labels.
	Policies map[string]ResourcePolicy `json:"policies,omitempty"`

	// Features that read the table's changes, or remove its items.
	Streams    []Stream   `json:"streams,omitempty"` // the last may be enabled, earlier ones are disabled
	TimeToLive TimeToLive `json:"timeToLive,omitzero"`
	Recovery   Recovery   `json:"recovery,omitzero"`
	Insights   Insights   `json:"insights,omitzero"`

	// Recording is set shortly before a feature starts to read the changes:
	// the feature may rely on them once every server records them. RecordingID
	// differs each time that Recording is set.
	Recording   bool   `json:"recording,omitempty"`
	RecordingID string `json:"recordingId,omitempty"`

	Restored Restored `json:"restored,omitzero"` // what the table was restored from
}

// Throttling says whether requests to a table are throttled.
type Throttling string

// The values of Throttling.
const (
	ThrottlingDefault Throttling = "" // as the server throttles all tables
	ThrottlingOn      Throttling = "on"
	ThrottlingOff     Throttling = "off"
)

// Insights is the setting of Contributor Insights of a table or a global index.
type Insights struct {
	Mode    string    `json:"mode,omitempty"`   // empty if it is disabled
	Enabled time.Time `json:"enabled,omitzero"` // when it was enabled last
	Changed time.Time `json:"changed,omitzero"` // when it was enabled or disabled last
	Failed  bool      `json:"failed,omitempty"` // it could not be enabled, as there are too many rules
}

// Stream is a view of a table's changes for customers.
type Stream struct {
	Label   string    `json:"label"` // distinguishes the streams of one table
	View    string    `json:"view"`  // KEYS_ONLY, NEW_IMAGE, OLD_IMAGE or NEW_AND_OLD_IMAGES
	Created time.Time `json:"created"`
	Start   uint64    `json:"start"`          // the first stamp in it
	Ended   time.Time `json:"ended,omitzero"` // when it was disabled
	End     uint64    `json:"end,omitempty"`  // the first stamp after it; 0 while it is enabled

	// Roll is how long a shard takes changes before the next one is opened.
	Roll time.Duration `json:"roll"`

	// Shards is how many shards take changes at a time: the number of the table's
	// partitions when the stream was enabled. Streams of earlier versions have 0.
	Shards int `json:"shards,omitempty"`

	// Splits are the shards that were split since, in their order.
	Splits []ShardSplit `json:"splits,omitempty"`
}

// Stream is the table's enabled stream.
func (t *Table) Stream() (*Stream, bool) {
	if n := len(t.Streams); n > 0 && t.Streams[n-1].End == 0 {
		return &t.Streams[n-1], true
	}
	return nil, false
}

// EnableStream adds a stream to the table. Its label and start are set when
// the description is stored.
func (t *Table) EnableStream(view string, now time.Time) {
	t.Streams = append(slices.Clip(t.Streams), Stream{View: view, Created: now, Shards: min(t.Partitions(), MaxShards/2)})
}

// DisableStream ends the table's stream, if it has one, once the description
// is stored.
func (t *Table) DisableStream(now time.Time) {
	if _, ok := t.Stream(); ok {
		t.Streams = slices.Clone(t.Streams)
		t.Streams[len(t.Streams)-1].Ended = now
	}
}

// Sealed returns the description with the stamp of the update that stores it:
// the streams and the recovery that it enables start there, the streams that it
// disables end there, and shards are split there.
func (t *Table) Sealed(stamp uint64) *Table {
	sealed := *t
	if t.Recovery.Enabled && t.Recovery.Start == 0 {
		sealed.Recovery.Start = stamp
	}
	sealed.Streams = slices.Clone(t.Streams)
	for i := range sealed.Streams {
		s := &sealed.Streams[i]
		if s.Start == 0 {
			s.Start = stamp
		}
		if s.End == 0 && !s.Ended.IsZero() {
			s.End = stamp
		}
		s.Splits = slices.Clone(s.Splits)
		for j := range s.Splits {
			s.Splits[j].Stamp = cmp.Or(s.Splits[j].Stamp, stamp)
		}
	}
	return &sealed
}

// Clone returns a copy that can be changed without changing the description.
func (t *Table) Clone() *Table {
	c := *t
	c.Attributes = slices.Clone(t.Attributes)
	c.Indexes = slices.Clone(t.Indexes)
	for i := range c.Indexes {
		c.Indexes[i].Projection.Names = slices.Clone(c.Indexes[i].Projection.Names)
	}
	c.Tags = slices.Clone(t.Tags)
	c.Policies = maps.Clone(t.Policies)
	c.Streams = slices.Clone(t.Streams)
	return &c
}

// TimeToLive says that items expire at the second in one of their attributes.
type TimeToLive struct {
	Attribute string    `json:"attribute,omitempty"` // empty if items do not expire
	Changed   time.Time `json:"changed,omitzero"`
	Filling   bool      `json:"filling,omitempty"` // entries for older items are being added
	Changes   uint16    `json:"changes,omitempty"` // how many times this was changed
}

// Recovery says that the table can be restored as it was at any second of the
// last days.
type Recovery struct {
	Enabled bool      `json:"enabled,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Days    int       `json:"days,omitempty"`

	// Start is a stamp from which on all changes are recorded; 0 if it is not
	// known.
	Start uint64 `json:"start,omitempty"`
}

// Restored says what a table was created from: an earlier state of another
// table, a backup or files.
type Restored struct {
	Table   string    `json:"table,omitempty"`   // the name of the other table
	TableID uint32    `json:"tableId,omitempty"` // its id, for a restore of a table of this database
	Backup  string    `json:"backup,omitempty"`  // the id of the backup, for a restore of one
	Import  string    `json:"import,omitempty"`  // the id of the import, for an import of files
	At      time.Time `json:"at,omitzero"`       // the restored second, or when the backup was made
	Running bool      `json:"running,omitempty"` // items are still being added
}

// Logs reports whether the table's changes are recorded.
func (t *Table) Logs() bool { return t.LogIsRead() || t.Recording }

// LogIsRead reports whether a feature reads the table's changes. All of them are
// recorded then.
func (t *Table) LogIsRead() bool {
	_, streams := t.Stream()
	return streams || t.Recovery.Enabled
}

// maxExpired is how long ago an item may have expired to be removed: an
// earlier time is more likely a mistake.
const maxExpired = 5 * 365 * 24 * time.Hour

// Expiry returns the second at which an item expires. It is not ok if the
// item does not expire.
func (t *Table) Expiry(it item.Item) (at int64, ok bool) {
	if t.TimeToLive.Attribute == "" || it == nil {
		return 0, false
	}
	v, ok := it.Get(t.TimeToLive.Attribute)
	if !ok || v.Type() != item.N {
		return 0, false
	}
	return v.Number().Int64()
}

// Expired reports whether an item has expired, recently enough to be removed.
func (t *Table) Expired(it item.Item, now time.Time) bool {
	at, ok := t.Expiry(it)
	return ok && at < now.Unix() && at >= OldestExpiry(now)
}

// OldestExpiry is the earliest second of expiry that is not considered a
// mistake.
func OldestExpiry(now time.Time) int64 { return now.Add(-maxExpired).Unix() }

// State is the transitional state of a table or an index; empty means active.
type State string

// The states of a table.
const (
	Creating State = "CREATING"
	Updating State = "UPDATING"
	Deleting State = "DELETING"
	Active   State = "ACTIVE"
)

// Status is the table's state at a moment, when a state lasts for delay.
func (t *Table) Status(now time.Time, delay time.Duration) State {
	if t.State == "" || t.SettlesIn(now, delay) == 0 && t.State != Deleting && !t.Restored.Running {
		return Active
	}
	return t.State
}

// SettlesIn is how long the table's state lasts from now on. SettledAt is at most
// delay later than the time at which it was set: if it is later than that, the
// clock has gone back since, and the state is over.
func (t *Table) SettlesIn(now time.Time, delay time.Duration) time.Duration {
	left := t.SettledAt.Sub(now)
	if left < 0 || left > delay {
		return 0
	}
	return left
}

// Tag is one tag of a table.
type Tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Index returns a secondary index by name.
func (t *Table) Index(name string) (*Index, bool) {
	for i := range t.Indexes {
		if t.Indexes[i].Name == name {
			return &t.Indexes[i], true
		}
	}
	return nil, false
}

// AddIndex adds an index with a new id.
func (t *Table) AddIndex(x Index) {
	t.LastIndex++
	x.ID = t.LastIndex
	t.Indexes = append(t.Indexes, x)
}

// Uses reports whether an attribute is part of a key of the table or of an
// index.
func (t *Table) Uses(name string) bool {
	return t.Key.Has(name) || slices.ContainsFunc(t.Indexes, func(x Index) bool { return x.Key.Has(name) })
}

// HasLocal reports whether the table has local secondary indexes, and so item
// collections.
func (t *Table) HasLocal() bool {
	for i := range t.Indexes {
		if !t.Indexes[i].Global {
			return true
		}
	}
	return false
}

// Index is a secondary index.
type Index struct {
	Name        string     `json:"name"`
	ID          uint16     `json:"id"` // the table itself is 0
	Global      bool       `json:"global,omitempty"`
	State       State      `json:"state,omitempty"`       // Creating or Deleting, while it is
	Backfilling bool       `json:"backfilling,omitempty"` // older items are being added
	Key         Key        `json:"key"`
	Projection  Projection `json:"projection"`
	Throughput  Throughput `json:"throughput,omitzero"`
	MaxRequests Throughput `json:"maxRequests,omitzero"`
	Warm        Throughput `json:"warm,omitzero"`
	Insights    Insights   `json:"insights,omitzero"`
}

// Projection is which attributes an index copies.
type Projection struct {
	Kind  string   `json:"kind"` // ALL, KEYS_ONLY or INCLUDE
	Names []string `json:"names,omitempty"`
}

// Kinds of projection.
const (
	ProjectAll     = "ALL"
	ProjectKeys    = "KEYS_ONLY"
	ProjectInclude = "INCLUDE"
)

// Projects reports whether an index of this table has an attribute.
func (t *Table) Projects(x *Index, name string) bool {
	if x.Projection.Kind == ProjectAll || t.Key.Has(name) || x.Key.Has(name) {
		return true
	}
	for _, n := range x.Projection.Names {
		if n == name {
			return true
		}
	}
	return false
}

// Entry is the part of an item that an index of this table holds.
func (t *Table) Entry(x *Index, it item.Item) item.Item {
	if x.Projection.Kind == ProjectAll {
		return it
	}
	var b item.Builder
	for name, v := range it.Names() {
		if t.Projects(x, string(name)) {
			b.Add(name, v)
		}
	}
	return b.Item()
}

// Partitions is how many partitions the table has by its throughput. A scan of a
// table that is empty costs one read for each (conformance/scan/capacity.txt).
func (t *Table) Partitions() int {
	ready := ReadyFor(t.OnDemand, t.Throughput, t.Warm)
	return partition.Count(ready.Read, ready.Write, 0)
}

// ReadyFor returns the throughput that a table or an index serves at once.
func ReadyFor(onDemand bool, provisioned, warm Throughput) Throughput {
	ready := Throughput{Read: max(provisioned.Read, warm.Read), Write: max(provisioned.Write, warm.Write)}
	if onDemand {
		ready.Read, ready.Write = max(ready.Read, partition.InitialRead), max(ready.Write, partition.InitialWrite)
	}
	return ready
}
