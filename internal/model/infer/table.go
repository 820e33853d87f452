package infer

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/exchange"
)

// FromItems makes the sample of a table that only its items describe. key names
// the attributes of its key; without it, they are guessed.
func FromItems(table string, s *Reservoir, key []string) (*TableSample, error) {
	if s.Seen == 0 {
		return nil, fmt.Errorf("%s has no items", table)
	}
	t := &exchange.Table{}
	t.Name, t.Billing = tableName(table), "on-demand"
	columns := columnsOf(s.Items)
	if len(key) == 0 {
		if key = guessKey(columns, s.Items); key == nil {
			return nil, fmt.Errorf("no attributes identify the items of %s; name its key with --key PARTITION,SORT", table)
		}
		t.Notes = append(t.Notes, fmt.Sprintf("guess: the key is %s, which is different in all %s sampled items; billing is not known",
			strings.Join(key, " and "), figure(len(s.Items))))
	} else {
		t.Notes = append(t.Notes, "guess: billing is not known")
	}
	for _, name := range key {
		if columns[name] == nil || columns[name].count < len(s.Items) || columns[name].kind == 0 {
			return nil, fmt.Errorf("%s cannot be in the key of %s: not all items have it, as a string, a number or binary", name, table)
		}
	}
	t.Key = &model.Key{Partition: key[0]}
	if len(key) > 1 {
		t.Key.Sort = key[1]
	}
	guessIndexes(t, columns)
	for _, name := range t.KeyAttributes() {
		if kind := columns[name].kind; kind != item.S {
			t.Types = append(t.Types, &model.KeyType{Name: name, Type: kind.String()})
		}
	}
	return &TableSample{Table: t, Items: s.Items, Count: s.Seen, Complete: s.Seen == int64(len(s.Items))}, nil
}

// tableName makes the name of a file one that a table can have.
func tableName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '-'
	}, text)
	for len(name) < 3 {
		name += "-table"
	}
	return name[:min(len(name), 255)]
}

// itemColumn is what the items of a table have under one name.
type itemColumn struct {
	count  int
	kind   item.Type // 0 if it cannot be in a key
	values map[string]bool
}

func columnsOf(items []item.Item) map[string]*itemColumn {
	columns := make(map[string]*itemColumn)
	for _, it := range items {
		for name, v := range it.All() {
			c := columns[name]
			if c == nil {
				c = &itemColumn{kind: v.Type(), values: make(map[string]bool)}
				columns[name] = c
			}
			c.count++
			if v.Type() != c.kind || v.Type() != item.S && v.Type() != item.N && v.Type() != item.B {
				c.kind = 0
				continue
			}
			c.values[string(v)] = true
		}
	}
	return columns
}

// usualKeys are names that many designs use.
var usualKeys = [][]string{{"PK", "SK"}, {"pk", "sk"}, {"Pk", "Sk"}, {"_pk", "_sk"}, {"partitionKey", "sortKey"}, {"hashKey", "rangeKey"}, {"PK"}, {"pk"}, {"id"}, {"Id"}, {"ID"}}

// guessKey returns the attributes that identify items: usual names, an
// attribute with another value in each item, or two of them together.
func guessKey(columns map[string]*itemColumn, items []item.Item) []string {
	var everywhere []string
	for name, c := range columns {
		if c.count == len(items) && c.kind != 0 {
			everywhere = append(everywhere, name)
		}
	}
	for _, key := range usualKeys {
		has := func(name string) bool { return slices.Contains(everywhere, name) }
		if !slices.ContainsFunc(key, func(name string) bool { return !has(name) }) && identifies(key, items) {
			return key
		}
	}
	slices.SortFunc(everywhere, func(a, b string) int {
		return cmp.Or(cmp.Compare(keyRank(a), keyRank(b)), strings.Compare(a, b))
	})
	for _, name := range everywhere {
		if len(columns[name].values) == len(items) {
			return []string{name}
		}
	}
	for _, a := range everywhere {
		for _, b := range everywhere {
			if a != b && keyRank(a) == 0 && identifies([]string{a, b}, items) {
				return []string{a, b}
			}
		}
	}
	return nil
}

var identifierName = form(`(?i)(id|key|uuid|code|number|no|name|email|sku|slug)$`)

func keyRank(name string) int {
	if identifierName().MatchString(name) {
		return 0
	}
	return 1
}

// identifies reports whether no two items have the same key.
func identifies(key []string, items []item.Item) bool {
	seen := make(map[string]bool)
	for _, it := range items {
		id := ""
		for _, name := range key {
			v, _ := it.Get(name)
			id += fmt.Sprintf("%q", []byte(v))
		}
		if seen[id] {
			return false
		}
		seen[id] = true
	}
	return true
}

var indexKeyName = form(`(?i)^_?((?:gsi|lsi)_?-?\d+)_?-?(pk|sk|hk|rk|partitionkey|sortkey|hash|range)$`)

// guessIndexes adds indexes whose key attributes have usual names, such as
// GSI1PK and GSI1SK.
func guessIndexes(t *exchange.Table, columns map[string]*itemColumn) {
	found := make(map[string]*model.Index)
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		m := indexKeyName().FindStringSubmatch(name)
		if m == nil || columns[name].kind == 0 {
			continue
		}
		index := strings.ToUpper(regexp.MustCompile(`[-_]`).ReplaceAllString(m[1], ""))
		if found[index] == nil {
			found[index] = &model.Index{Name: index, Local: strings.HasPrefix(index, "LSI")}
			found[index].Projection.Kind = "ALL"
		}
		if word := strings.ToLower(m[2]); word[0] == 'p' || word[0] == 'h' {
			found[index].Partition = model.Names{name}
		} else {
			found[index].Sort = model.Names{name}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		x := found[name]
		if x.Local {
			x.Partition = nil
		}
		if len(x.Partition) == 0 && (!x.Local || len(x.Sort) == 0) {
			continue
		}
		t.Indexes = append(t.Indexes, x)
		t.Notes = append(t.Notes, fmt.Sprintf("guess: the index %s exists, by the names of its key attributes", name))
	}
}
