package db

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/insights"
)

// tableRules are the rules of Contributor Insights of a table, by index id; the table
// has the key 0. It is nil if none are enabled.
type tableRules map[uint16]*enabledRules

// enabledRules are rules and the setting that they were made for.
type enabledRules struct {
	*insights.Rules
	set schema.Insights
}

// rulesOf returns the rules of a table that is new or was changed. Rules whose setting
// has not changed continue.
func rulesOf(t *schema.Table, before tableRules) tableRules {
	var rules tableRules
	add := func(id uint16, key *schema.Key, set schema.Insights) {
		if set.Mode == "" || set.Failed {
			return
		}
		if rules == nil {
			rules = make(tableRules)
		}
		if was := before[id]; was != nil && was.set == set {
			rules[id] = was
			return
		}
		rules[id] = &enabledRules{insights.NewRules(set.Mode, len(key.Sort) > 0), set}
	}
	add(0, &t.Key, t.Insights)
	for i := range t.Indexes {
		if x := &t.Indexes[i]; x.Global {
			add(x.ID, &x.Key, x.Insights)
		}
	}
	return rules
}

// Insights returns the rules of a table, or of a global index, and nil if none are
// enabled.
func (d *DB) Insights(table, index string) *insights.Rules {
	t, ok := d.find(table)
	if !ok {
		return nil
	}
	id := uint16(0)
	if index != "" {
		x, ok := t.Index(index)
		if !ok {
			return nil
		}
		id = x.ID
	}
	if rules := t.rules[id]; rules != nil {
		return rules.Rules
	}
	return nil
}

// rulesOf returns the rules of an index. A local index shares those of its table.
func (t *table) rulesOf(index uint16) *enabledRules {
	if t.rules == nil {
		return nil
	}
	for i := range t.Indexes {
		if x := &t.Indexes[i]; x.ID == index && x.Global {
			return t.rules[index]
		}
	}
	return t.rules[0]
}

// accessed counts a request of a customer by its key.
func (d *DB) accessed(t *table, a access, units float64) {
	if a.isScan() {
		return
	}
	if rules := t.rulesOf(a.index); rules != nil {
		key, single := a.insightsKey(t.Table)
		rules.Accessed(d.Now(), key, single, units)
	}
}

// throttled counts a request that exceeds a limit when it ends.
func (d *DB) throttled(b *Bill, t *table, a access, err error) {
	if b == nil {
		d.countExceeded(t, a, err)
		return
	}
	b.add(d, billLine{table: t, access: &a, exceeded: err})
}

// countExceeded counts a request that exceeds a limit, by its key.
func (d *DB) countExceeded(t *table, a access, err error) {
	e, ok := errors.AsType[*Throttled](err)
	if !ok {
		return
	}
	d.countThrottled(t, e)
	if e.Index != "" && a.index == 0 {
		return // an index delays a write of its table: that is not counted
	}
	if rules := t.rulesOf(a.index); rules != nil && !a.isScan() {
		key, single := a.insightsKey(t.Table)
		rules.Throttled(d.Now(), key, single)
	}
}

// access is what a request reads or writes: an item or an index entry, or the items of
// a partition.
type access struct {
	index  uint16 // 0 for the table itself
	stored []byte // the stored key, or a prefix of it

	item      item.Item    // it contains the key; nil if it is not to a single item
	partition []item.Value // of a query

	scanned hashSpan // of a scan, what its page has read; zero for everything
}

// hashes returns the hashes of what is accessed.
func (a *access) hashes() hashSpan {
	switch {
	case !a.isScan():
		at := keyspace.Hash(a.stored)
		return hashSpan{at, at}
	case a.scanned != hashSpan{}:
		return a.scanned
	}
	return allHashes
}

// isScan reports whether it is to all partitions.
func (a *access) isScan() bool { return a.item == nil && a.partition == nil }

// insightsKey returns the text of the key, and whether it is of a single item.
func (a *access) insightsKey(t *schema.Table) (key insights.Key, single bool) {
	if a.item == nil {
		return insights.Key{Partition: textOf(a.partition)}, false
	}
	of := &t.Key
	for i := range t.Indexes {
		if t.Indexes[i].ID == a.index {
			of = &t.Indexes[i].Key
		}
	}
	values := func(attrs []schema.Attribute) (all []item.Value) {
		for _, attr := range attrs {
			if v, ok := a.item.Get(attr.Name); ok {
				all = append(all, v)
			}
		}
		return all
	}
	return insights.Key{Partition: textOf(values(of.Partition)), Sort: textOf(values(of.Sort))}, true
}

// textOf returns values as text: a key of several attributes has commas.
func textOf(values []item.Value) string {
	parts := make([]string, len(values))
	for i, v := range values {
		switch v.Type() {
		case item.N:
			parts[i] = v.Number().String()
		case item.B:
			parts[i] = base64.StdEncoding.EncodeToString(v.Bytes())
		default:
			parts[i] = string(v.Bytes())
		}
	}
	return insights.Text(strings.Join(parts, ","))
}

// MaxInsightsRules is how many rules all tables and indexes may have together.
const MaxInsightsRules = 100

// SetInsights sets the mode of Contributor Insights of a table or of a global index; ""
// disables it. If there would be too many rules, it is stored as failed.
func (d *DB) SetInsights(ctx context.Context, table, index, mode string) (schema.Insights, error) {
	var set schema.Insights
	others := d.rulesOfOthers(table, index)
	_, err := d.alter(ctx, table, func(t *schema.Table) error {
		if d.status(t) != schema.Active {
			return invalidForInsights("TableStatus")
		}
		at, key, err := insightsOf(t, index)
		if err != nil {
			return err
		}
		if x, ok := t.Index(index); ok && x.State != "" {
			return invalidForInsights("IndexStatus")
		}
		if set = *at; set.Mode == mode && !set.Failed {
			return nil
		}
		set.Mode, set.Changed, set.Failed = mode, d.Now(), false
		if mode != "" {
			set.Enabled = set.Changed
			set.Failed = others+len(insights.KindsOf(mode, len(key.Sort) > 0)) > MaxInsightsRules
		}
		*at = set
		return nil
	})
	return set, err
}

func invalidForInsights(status string) error {
	return apierror.Validation("Table or Index is not in a valid state to update Key Access Insights: %s must be ACTIVE to enable ContributorInsights.", status)
}

// insightsOf returns the setting of a table or of a global index, and its key.
func insightsOf(t *schema.Table, index string) (*schema.Insights, *schema.Key, error) {
	if index == "" {
		return &t.Insights, &t.Key, nil
	}
	x, ok := t.Index(index)
	if !ok || !x.Global {
		return nil, nil, NoInsightsIndex(t.Name, index)
	}
	return &x.Insights, &x.Key, nil
}

// NoInsightsIndex is the fault of a request for the insights of an index that does not
// exist, or is a local one.
func NoInsightsIndex(table, index string) error {
	return apierror.NotFound("Requested resource not found: Index: %s not found for table: %s", index, table)
}

// rulesOfOthers returns how many rules other tables and indexes have.
func (d *DB) rulesOfOthers(table, index string) (n int) {
	for _, t := range d.all() {
		for id, rules := range t.rules {
			name := ""
			for i := range t.Indexes {
				if t.Indexes[i].ID == id {
					name = t.Indexes[i].Name
				}
			}
			if t.Name != table || name != index {
				n += rules.Len()
			}
		}
	}
	return n
}

// InsightsSettled reports whether a change of the setting is complete: it takes as long
// as a change of a table.
func (d *DB) InsightsSettled(set schema.Insights) bool {
	return !d.Now().Before(set.Changed.Add(d.delay))
}
