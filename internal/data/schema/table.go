// Package schema is what a table is, and whether an item or a key fits it.
package schema

import (
	"slices"
	"time"

	"github.com/stator-db/stator/internal/data/item"
)

// Table is everything the catalog knows of one table. It is stored as JSON
// (docs/formats/catalog.md), so its field names are for ever.
type Table struct {
	Name    string    `json:"name"`
	ID      uint32    `json:"id"`   // where its items lie; never used again
	UUID    string    `json:"uuid"` // TableId
	Created time.Time `json:"created"`

	// Key is the table's own primary key. Attributes holds the type of every
	// attribute that a key of the table or of an index is made of, in the
	// order in which the customer declared them.
	Key        Key         `json:"key"`
	Attributes []Attribute `json:"attributes"`
	Indexes    []Index     `json:"indexes,omitempty"`
	LastIndex  uint16      `json:"lastIndex,omitempty"` // the largest id an index ever had

	// State is what the table is passing through, until SettledAt.
	State     State     `json:"state,omitempty"`
	SettledAt time.Time `json:"settledAt,omitzero"`

	OnDemand           bool       `json:"onDemand,omitempty"`
	OnDemandSince      time.Time  `json:"onDemandSince,omitzero"`
	Throughput         Throughput `json:"throughput"`
	MaxRequests        Throughput `json:"maxRequests,omitzero"` // on-demand ceilings; 0 is none
	Warm               Throughput `json:"warm,omitzero"`
	Class              string     `json:"class,omitempty"`
	ClassChanged       time.Time  `json:"classChanged,omitzero"`
	DeletionProtection bool       `json:"deletionProtection,omitempty"`
	Encryption         Encryption `json:"encryption,omitzero"`
	Tags               []Tag      `json:"tags,omitempty"`

	// What looks back at the table's changes, or ahead to their end.
	Streams    []Stream   `json:"streams,omitempty"` // the last may be enabled, the others were once
	TimeToLive TimeToLive `json:"timeToLive,omitzero"`
	Recovery   Recovery   `json:"recovery,omitzero"`

	// Recording is set for a moment before something begins to look back: once
	// every server records the changes, it may rely on them.
	Recording bool `json:"recording,omitempty"`

	Restored Restored `json:"restored,omitzero"` // what the table was made from, if from another
}

// Stream is a view of a table's changes for customers.
type Stream struct {
	Label   string    `json:"label"` // tells the streams of one table apart
	View    string    `json:"view"`  // KEYS_ONLY, NEW_IMAGE, OLD_IMAGE or NEW_AND_OLD_IMAGES
	Created time.Time `json:"created"`
	Start   uint64    `json:"start"`          // the first stamp in it
	Ended   time.Time `json:"ended,omitzero"` // when it was disabled
	End     uint64    `json:"end,omitempty"`  // the first stamp no more in it; 0: it is enabled

	// Roll is how long a shard takes changes before another follows it.
	Roll time.Duration `json:"roll"`
}

// Stream is the table's enabled stream.
func (t *Table) Stream() (*Stream, bool) {
	if n := len(t.Streams); n > 0 && t.Streams[n-1].End == 0 {
		return &t.Streams[n-1], true
	}
	return nil, false
}

// EnableStream gives the table a stream. Its label and where it starts are
// known when the description is stored.
func (t *Table) EnableStream(view string, now time.Time) {
	t.Streams = append(slices.Clip(t.Streams), Stream{View: view, Created: now})
}

// DisableStream ends the table's stream, if it has one, once the description
// is stored.
func (t *Table) DisableStream(now time.Time) {
	if _, ok := t.Stream(); ok {
		t.Streams = slices.Clone(t.Streams)
		t.Streams[len(t.Streams)-1].Ended = now
	}
}

// Sealed is the description with the stamp of the update that stores it: the
// streams that it enables start there, and those that it disables end there.
func (t *Table) Sealed(stamp uint64) *Table {
	sealed := *t
	sealed.Streams = slices.Clone(t.Streams)
	for i := range sealed.Streams {
		s := &sealed.Streams[i]
		if s.Start == 0 {
			s.Start = stamp
		}
		if s.End == 0 && !s.Ended.IsZero() {
			s.End = stamp
		}
	}
	return &sealed
}

// Clone is a copy that can be changed without changing the description.
func (t *Table) Clone() *Table {
	c := *t
	c.Attributes = slices.Clone(t.Attributes)
	c.Indexes = slices.Clone(t.Indexes)
	for i := range c.Indexes {
		c.Indexes[i].Projection.Names = slices.Clone(c.Indexes[i].Projection.Names)
	}
	c.Tags = slices.Clone(t.Tags)
	c.Streams = slices.Clone(t.Streams)
	return &c
}

// TimeToLive says that items expire at the second in one of their attributes.
type TimeToLive struct {
	Attribute string    `json:"attribute,omitempty"` // none: items do not expire
	Changed   time.Time `json:"changed,omitzero"`
	Filling   bool      `json:"filling,omitempty"` // notes of items that were there before are being made
	Changes   uint16    `json:"changes,omitempty"` // how often this was changed
}

// Recovery says that the table can be restored as it was at any second of the
// last days.
type Recovery struct {
	Enabled bool      `json:"enabled,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Days    int       `json:"days,omitempty"`
}

// Window is the seconds that a table can be restored to, if it can.
func (r Recovery) Window(now time.Time) (earliest, latest time.Time) {
	earliest = now.AddDate(0, 0, -r.Days)
	if earliest.Before(r.Since) {
		earliest = r.Since
	}
	// A second stands for its end, so that of the first none is missing; the
	// last is over.
	earliest, latest = earliest.Truncate(time.Second), now.Truncate(time.Second).Add(-time.Second)
	if latest.Before(earliest) {
		latest = earliest
	}
	return earliest, latest
}

// Restored says that a table is a copy of another as it was once.
type Restored struct {
	Table   string    `json:"table,omitempty"`   // the name of the other
	TableID uint32    `json:"tableId,omitempty"` // its id, when the copy is of a table here
	Backup  string    `json:"backup,omitempty"`  // the id of the backup, when it is of one
	Import  string    `json:"import,omitempty"`  // the id of the import, when it is made of files
	At      time.Time `json:"at,omitzero"`       // the second it is of, or when the backup was made
	Running bool      `json:"running,omitempty"` // items are still being put in
}

// Logs tells whether the table's changes are recorded.
func (t *Table) Logs() bool {
	_, streams := t.Stream()
	return streams || t.Recovery.Enabled || t.Recording
}

// maxExpired is how long ago an item may have expired to be removed: a number
// that means an earlier time is more likely a mistake.
const maxExpired = 5 * 365 * 24 * time.Hour

// Expiry is the second at which an item expires; not ok if it does not.
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

// Expired tells whether an item has expired, and recently enough to be
// removed.
func (t *Table) Expired(it item.Item, now time.Time) bool {
	at, ok := t.Expiry(it)
	return ok && at < now.Unix() && at >= OldestExpiry(now)
}

// OldestExpiry is the earliest second of expiry that is taken for one.
func OldestExpiry(now time.Time) int64 { return now.Add(-maxExpired).Unix() }

// State is what a table or an index is passing through; none means active.
type State string

// The states of a table.
const (
	Creating State = "CREATING"
	Updating State = "UPDATING"
	Deleting State = "DELETING"
	Active   State = "ACTIVE"
)

// Status is the table's state at a moment.
func (t *Table) Status(now time.Time) State {
	if t.State == "" || !now.Before(t.SettledAt) && t.State != Deleting && !t.Restored.Running {
		return Active
	}
	return t.State
}

// Throughput is a pair of read and write units a second.
type Throughput struct {
	Read      int64     `json:"read,omitempty"`
	Write     int64     `json:"write,omitempty"`
	Increased time.Time `json:"increased,omitzero"`
	Decreased time.Time `json:"decreased,omitzero"`
	Decreases int64     `json:"decreases,omitempty"`
}

// Encryption is the customer's wish for encryption with a key of his own.
type Encryption struct {
	Enabled bool   `json:"enabled,omitempty"`
	KeyARN  string `json:"keyArn,omitempty"`
}

// Tag is one tag of a table.
type Tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Index finds a secondary index by name.
func (t *Table) Index(name string) (*Index, bool) {
	for i := range t.Indexes {
		if t.Indexes[i].Name == name {
			return &t.Indexes[i], true
		}
	}
	return nil, false
}

// AddIndex adds an index and gives it an id that none had before.
func (t *Table) AddIndex(x Index) {
	t.LastIndex++
	x.ID = t.LastIndex
	t.Indexes = append(t.Indexes, x)
}

// Uses tells whether a key of the table or of an index is made of an
// attribute.
func (t *Table) Uses(name string) bool {
	return t.Key.Has(name) || slices.ContainsFunc(t.Indexes, func(x Index) bool { return x.Key.Has(name) })
}

// HasLocal tells whether the table has local secondary indexes, and so item
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
	Backfilling bool       `json:"backfilling,omitempty"` // what was there before it is being put in
	Key         Key        `json:"key"`
	Projection  Projection `json:"projection"`
	Throughput  Throughput `json:"throughput,omitzero"`
	MaxRequests Throughput `json:"maxRequests,omitzero"`
	Warm        Throughput `json:"warm,omitzero"`
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

// Projects tells whether an index of this table carries an attribute.
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

// Entry is what an index of this table holds of an item.
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
