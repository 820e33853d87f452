package verify

import (
	"maps"
	"slices"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

// Kind is what a finding is about.
type Kind string

// The kinds of findings.
const (
	KindItem       Kind = "item"       // an item is not well formed, or at the wrong key
	KindIndex      Kind = "index"      // an index and the items disagree
	KindCollection Kind = "collection" // the size of an item collection is wrong
	KindExpiry     Kind = "expiry"     // an expiry entry and its item disagree
	KindChange     Kind = "change"     // a change record is damaged, or does not fit the item
	KindToken      Kind = "token"      // the record of a transaction's token
	KindCount      Kind = "count"      // the saved item count
	KindCatalog    Kind = "catalog"    // the description of a table
	KindRecord     Kind = "record"     // another record of the database
	KindUnknown    Kind = "unknown"    // a key that belongs to nothing
	KindUnreadable Kind = "unreadable" // data that the engine cannot read
	KindEngine     Kind = "engine"     // the engine's own records and files
)

// Kinds are all kinds of findings.
var Kinds = []Kind{
	KindItem, KindIndex, KindCollection, KindExpiry, KindChange, KindToken, KindCount,
	KindCatalog, KindRecord, KindUnknown, KindUnreadable, KindEngine,
}

// Finding is one inconsistency.
type Finding struct {
	Kind  Kind
	Table string // empty if it belongs to no table
	Key   []byte
	Text  string
	Note  bool // something that a crash may cause and that harms no data
}

// Report is what was found in one table, or outside of tables if Table is empty.
type Report struct {
	Table   string           `json:"table"`
	Items   int64            `json:"items"`
	Entries map[string]int64 `json:"entries"` // by index
	Changes int64            `json:"changes"` // change records
	Records int64            `json:"records"` // other keys
	Faults  int64            `json:"faults"`
	First   []string         `json:"first"` // descriptions of the first faults
	Notes   []string         `json:"notes"` // differences that a crash may cause, such as in item counts
}

// MaxDescribed bounds how many faults of a table are described.
const MaxDescribed = 20

// reports collects what a walk finds.
type reports struct {
	byTable map[string]*Report
	notify  func(Finding)
}

func newReports(notify func(Finding)) *reports {
	r := &reports{byTable: make(map[string]*Report), notify: notify}
	r.of("")
	return r
}

func (r *reports) of(table string) *Report {
	if r.byTable[table] == nil {
		r.byTable[table] = &Report{Table: table, Entries: make(map[string]int64)}
	}
	return r.byTable[table]
}

func (r *reports) sorted() (all []Report) {
	for _, name := range slices.Sorted(maps.Keys(r.byTable)) {
		if name != "" {
			all = append(all, *r.byTable[name])
		}
	}
	return append(all, *r.of(""))
}

func (r *reports) add(found []Finding) {
	for _, f := range found {
		report := r.of(f.Table)
		switch {
		case f.Note:
			if len(report.Notes) < MaxDescribed {
				report.Notes = append(report.Notes, f.Text)
			}
		default:
			if report.Faults++; len(report.First) < MaxDescribed {
				report.First = append(report.First, f.Text)
			}
		}
		if r.notify != nil {
			r.notify(f)
		}
	}
}

// count counts a key that was checked.
func (r *reports) count(p *part, pair store.Pair) {
	id, _ := keyspace.TableOf(pair.Key)
	s, known := p.tables[id]
	if !known || s.Table == nil {
		r.of("").Records++
		return
	}
	report := r.of(s.Name)
	if pair.Key[0] != keyspace.KindItem {
		report.Records++
		return
	}
	index := keyspace.IndexOf(pair.Key)
	if index == 0 {
		report.Items++
	} else if x := s.index(index); x != nil {
		report.Entries[x.Name]++
	}
	counts := p.w.actual[id]
	if counts == nil {
		counts = make(map[uint16]codec.Count)
		p.w.actual[id] = counts
	}
	c := counts[index]
	counts[index] = codec.Count{Items: c.Items + 1, Bytes: c.Bytes + p.size}
}
