package infer

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model"
)

const (
	maxAttributes = 300  // attributes of an entity
	maxValues     = 16   // values of an enumeration
	perValue      = 4    // items for each value of an enumeration, at least
	maxShards     = 64   // shards that are recognized
	margin        = 1.25 // by how much the largest item may exceed those of the sample
)

// attributes describes the attributes of a group that are not built from
// templates.
func (g *itemGroup) attributes(e *Entity) {
	counts := make(map[string]int)
	for _, r := range g.rows {
		for name := range r.values {
			counts[name]++
		}
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if n := counts[b] - counts[a]; n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	parts := e.Attributes
	e.Attributes = nil
	for _, name := range names {
		if name == "_" || name == "" || e.key(name) != nil || len(e.Attributes) == maxAttributes && !e.inKey(name) {
			continue
		}
		e.Attributes = append(e.Attributes, g.stored(name))
	}
	slices.SortStableFunc(e.Attributes, func(a, b *Attribute) int { return e.rank(a.Name) - e.rank(b.Name) })
	for _, a := range parts {
		g.describePart(e, a)
		e.Attributes = append(e.Attributes, a)
	}
	for _, a := range e.Attributes {
		g.cardinality(e, a)
		g.keyDigits(e, a)
	}
	for _, a := range e.Attributes {
		if !a.Unstored && a.Shards == 0 {
			a.When = g.presence(e, a.Name)
		}
	}
	for _, k := range e.Keys {
		if !slices.Contains(primaryKey(g.sample.Table), k.Name) {
			k.When = g.presence(e, k.Name)
		}
	}
}

// keyDigits removes the digits of a number that a sort key contains as text if the numbers of the
// sample have several lengths, with which the key is not in their order.
func (g *itemGroup) keyDigits(e *Entity, a *Attribute) {
	if a.Digits == 0 || !slices.ContainsFunc(e.Keys, func(k *Key) bool { return g.sorts(k.Name) && slices.Contains(e.leaves(k.Name), a.Name) }) {
		return
	}
	least, most, short, long := math.MaxInt, 0, math.MaxInt, 0 // digits, and characters
	negative, fractions := false, false
	for _, r := range g.rows {
		if v := r.values[a.Name]; v != nil && v.Type() == item.N {
			text := v.Number().String()
			whole, _, fraction := strings.Cut(text, ".")
			negative, fractions = negative || whole[0] == '-', fractions || fraction
			least, most = min(least, len(whole)), max(most, len(whole))
			short, long = min(short, len(text)), max(long, len(text))
		}
	}
	switch {
	case negative:
		a.Guess += "; some are negative"
	case least < most:
		a.Guess += fmt.Sprintf("; it has %d to %d digits", least, most)
	case fractions && short < long: // 10.5| sorts before 10|
		a.Guess += "; fractions have several lengths"
	default:
		return
	}
	a.Digits = 0
}

// sorts reports whether a key is a sort key, of the table or of an index.
func (g *itemGroup) sorts(key string) bool {
	t := g.sample.Table
	return key == t.Key.Sort || slices.ContainsFunc(t.Indexes, func(x *model.Index) bool { return slices.Contains(x.Sort, key) })
}

// rank puts attributes of keys first.
func (e *Entity) rank(name string) int {
	if e.inKey(name) {
		return 0
	}
	return 1
}

// inKey reports whether a key of the table or of an index is built from an
// attribute.
func (e *Entity) inKey(name string) bool {
	return slices.ContainsFunc(e.group.sample.Table.KeyAttributes(), func(key string) bool { return slices.Contains(e.leaves(key), name) })
}

// stored describes an attribute by its values.
func (g *itemGroup) stored(name string) *Attribute {
	byType := make(map[item.Type][]item.Value)
	all := 0
	for _, r := range g.rows {
		if v, ok := r.values[name]; ok {
			byType[v.Type()] = append(byType[v.Type()], v)
			all++
		}
	}
	types := slices.SortedFunc(maps.Keys(byType), func(a, b item.Type) int {
		if n := len(byType[b]) - len(byType[a]); n != 0 {
			return n
		}
		return int(a) - int(b)
	})
	a := &Attribute{Name: name, Type: types[0].String(), Guess: "in all items", allValues: g.sample.AllValues}
	if all < len(g.rows) {
		a.Guess = fmt.Sprintf("%s of %s items have it", figure(all), figure(len(g.rows)))
	}
	for _, t := range types[1:] {
		a.Guess += fmt.Sprintf("; it is %s in %s", t, figure(len(byType[t])))
	}
	a.measure(types[0], byType[types[0]])
	if name == g.sample.Table.TTL && types[0] == item.N {
		a.Format, a.Digits = "epoch-seconds", 0
	}
	return a
}

// measure sets format, values and sizes.
func (a *Attribute) measure(t item.Type, values []item.Value) {
	switch t {
	case item.S, item.N:
		var texts []string
		for _, v := range values {
			text, _ := textOf(v)
			texts = append(texts, text)
		}
		a.measureTexts(texts)
	case item.B:
		a.sizes(values, func(v item.Value) (int, int) { return 1, v.Size() })
		a.Count, a.Most = 0, 0
	case item.SS, item.NS, item.BS:
		a.sizes(values, func(v item.Value) (int, int) { return v.Len(), v.Size() })
		if t == item.NS {
			a.Size, a.Largest = 0, 0
		}
	case item.L: // a list has three bytes, and one for each element
		a.sizes(values, func(v item.Value) (int, int) { return v.Len(), v.Size() - 3 - v.Len() })
	case item.M: // the format names members member0, member1 and so on
		a.sizes(values, func(v item.Value) (int, int) { return v.Len(), v.Size() - 3 - 8*v.Len() })
	}
}

// sizes sets the number of members and their size.
func (a *Attribute) sizes(values []item.Value, of func(item.Value) (members, bytes int)) {
	var counts, sizes []int
	for _, v := range values {
		members, bytes := of(v)
		counts = append(counts, max(1, members))
		sizes = append(sizes, max(1, bytes/max(1, members)))
	}
	a.Count, a.Size = median(counts), median(sizes)
	a.Most, a.Largest = withMargin(a.Count, slices.Max(counts)), withMargin(a.Size, slices.Max(sizes))
}

// withMargin is a most or a largest value; 0 if it is the typical one.
func withMargin(typical, most int) int {
	if most == typical {
		return 0
	}
	return int(math.Ceil(float64(most) * margin))
}

// measureTexts describes strings and numbers.
func (a *Attribute) measureTexts(texts []string) {
	if a.Type == "N" {
		if a.Format = epochFormat(a.Name, texts); a.Format != "" {
			return
		}
		var digits []int
		for _, text := range texts {
			digits = append(digits, min(38, max(1, len(strings.Trim(strings.NewReplacer("-", "", ".", "").Replace(text), "0")))))
		}
		a.Digits = median(digits)
		return
	}
	if a.Format = formatOf(texts); a.Format != "" {
		return
	}
	if width := sequenceWidth(texts); width > 0 {
		a.Format, a.Size = "sequence", width
		return
	}
	if a.enumerate(texts) {
		return
	}
	var sizes []int
	for _, text := range texts {
		sizes = append(sizes, len(text))
	}
	a.Size = max(1, median(sizes))
	a.Largest = withMargin(a.Size, slices.Max(sizes))
}

// enumerate lists the values, if they are few and each is in several items.
func (a *Attribute) enumerate(texts []string) bool {
	counts := make(map[string]int)
	for _, text := range texts {
		if counts[text]++; len(counts) > maxValues || len(text) > 40 || text == "" {
			return false
		}
	}
	if len(texts) < perValue*len(counts) || len(counts) == 1 && len(texts) < 5 {
		return false
	}
	if numbered := shareOf(texts, func(text string) bool { return strings.ContainsAny(text, "0123456789") }); numbered > 0 && identifierName().MatchString(a.Name) {
		return false // identifiers of few things
	}
	if !a.allValues && !mayList(a.Name, counts) {
		a.Guess += fmt.Sprintf("; %s not listed", plural(len(counts), "value"))
		return false
	}
	a.Values = slices.SortedFunc(maps.Keys(counts), func(x, y string) int {
		if n := counts[y] - counts[x]; n != 0 {
			return n
		}
		return strings.Compare(x, y)
	})
	if len(counts) == 1 {
		a.Guess += "; always the same"
		return true
	}
	rest := 1.0
	for _, v := range a.Values[1:] {
		part := round(float64(counts[v]) / float64(len(texts)))
		a.Mix = append(a.Mix, part)
		rest -= part
	}
	a.Mix = append([]float64{round(rest)}, a.Mix...)
	a.Guess += fmt.Sprintf("; %d values in %s items", len(a.Values), figure(len(texts)))
	return true
}

// round keeps four decimals.
func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }

// describePart describes a part of keys that no attribute contains.
func (g *itemGroup) describePart(e *Entity, a *Attribute) {
	a.Type, a.Guess, a.allValues = "S", "it occurs only within keys", g.sample.AllValues
	var texts []string
	for _, r := range g.rows {
		if text, ok := r.text[a.Name]; ok {
			texts = append(texts, text)
		}
	}
	if n := shardsOf(texts); n > 0 && g.inPartition(e, a.Name) {
		a.Shards, a.Unstored = n, false
		a.Of = g.hashed(e, a)
		a.Guess = fmt.Sprintf("%d numbers in %s keys", n, figure(len(texts)))
		return
	}
	a.measureTexts(texts)
}

// shardsOf is the number of shards of which texts are the numbers; 0 if they are
// not shard numbers.
func shardsOf(texts []string) int {
	seen, most := make(map[string]bool), 0
	for _, text := range texts {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= maxShards {
			return 0
		}
		seen[text] = true
		most = max(most, n)
	}
	shards := most + 1
	width := len(strconv.Itoa(most))
	for text := range seen {
		if len(text) != width {
			return 0
		}
	}
	// All numbers must occur, each several times.
	if shards < 2 || len(seen) < shards || len(texts) < 3*shards {
		return 0
	}
	return shards
}

// inPartition reports whether an attribute is a part of a partition key.
func (g *itemGroup) inPartition(e *Entity, name string) bool {
	t := g.sample.Table
	if slices.Contains(e.leaves(t.Key.Partition), name) {
		return true
	}
	for _, x := range t.Indexes {
		for _, key := range x.Partition {
			if slices.Contains(e.leaves(key), name) {
				return true
			}
		}
	}
	return false
}

// hashed returns the attribute whose hash, as models compute it, is the shard
// number; "" if the application uses another hash.
func (g *itemGroup) hashed(e *Entity, shard *Attribute) string {
	for _, a := range e.Attributes {
		if a.Type != "S" || a.Shards > 0 {
			continue
		}
		matches := func(r *sampleRow) bool {
			text, ok := r.text[shard.Name]
			if !ok {
				return true
			}
			h := fnv.New64a()
			_, _ = h.Write([]byte(r.text[a.Name]))
			n, err := strconv.Atoi(text)
			return err == nil && h.Sum64()%uint64(shard.Shards) == uint64(n)
		}
		if share(g.rows, matches) == 1 {
			return a.Name
		}
	}
	return ""
}

// presence returns the values of an enumeration with which an attribute is
// present; nil if it is in all items, or no enumeration decides it.
func (g *itemGroup) presence(e *Entity, name string) *Presence {
	if share(g.rows, func(r *sampleRow) bool { return r.values[name] != nil }) == 1 {
		return nil
	}
	for _, by := range e.Attributes {
		if len(by.Values) < 2 || by.Name == name || by.Unstored {
			continue
		}
		with, without := make(map[string]bool), make(map[string]bool)
		for _, r := range g.rows {
			if r.values[name] != nil {
				with[r.text[by.Name]] = true
			} else {
				without[r.text[by.Name]] = true
			}
		}
		decides := !with[""] && !without[""]
		for text := range with {
			decides = decides && !without[text]
		}
		if decides {
			var values []string
			for _, v := range by.Values {
				if with[v] {
					values = append(values, v)
				}
			}
			return &Presence{by.Name, values}
		}
	}
	return nil
}
