package model

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// Generator generates items of entities. The same seed and ordinal make the
// same item, on every machine and at any time.
type Generator struct {
	Seed uint64

	// Quantile is between 0 and 1. If it is not 0, listed attributes of partition keys that
	// have a mix take the value at this quantile of it.
	Quantile float64

	// Spread gives the attributes of partition keys values that are as frequent as
	// declared: by distinct, hottest, hot, skew, mix and shards, and the current one
	// of a time that a write sets.
	Spread bool
}

// epoch is the time of ordinal 0. It is far in the future, so that no generated
// item expires, and its numbers have as many digits as today's.
var epoch = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// Item returns the ordinal-th item of an entity, of typical size.
func (g Generator) Item(e *Entity, ordinal int) item.Item {
	s := &sample{gen: g, entity: e, ordinal: ordinal}
	return s.item()
}

// Example returns an item with the example values that the model declares, and
// else those of the first item.
func (g Generator) Example(e *Entity) item.Item {
	s := &sample{gen: g, entity: e, fixed: make(map[string]item.Value)}
	for _, f := range e.fields {
		if f.example != nil && f.template == nil {
			s.fixed[f.Name] = f.example
		}
	}
	return s.item()
}

// largest generates an item of an entity with everything at its largest.
func (g Generator) largest(e *Entity) item.Item {
	s := &sample{gen: g, entity: e, full: true}
	return s.item()
}

// sample generates one item.
type sample struct {
	gen     Generator
	entity  *Entity
	ordinal int
	shared  map[string]int        // attributes with an ordinal of their own
	fixed   map[string]item.Value // attributes with a value of their own
	full    bool                  // everything at its largest, with all attributes
	whole   bool                  // with all attributes
	known   map[string]item.Value // values that do not depend on the ordinal

	spreading spreading // attributes whose values have the declared distribution
	entering  bool      // the item is new, or its values are
}

// item generates the whole item.
func (s *sample) item() item.Item {
	var b item.Builder
	size := 0
	for _, f := range s.entity.fields {
		if !f.Stored || !s.present(f) {
			continue
		}
		if size > 4*item.MaxSize {
			break // already larger than any item
		}
		v := s.value(f)
		size += len(f.Name) + v.Size()
		b.Add([]byte(f.Name), v)
	}
	if want := s.wanted(); size+len(filler) < want {
		b.Add([]byte(filler), item.String(strings.Repeat("x", want-size-len(filler))))
	}
	return b.Item()
}

// wanted is the declared size of the item, 0 for none.
func (s *sample) wanted() int {
	sizes := s.entity.Size
	switch {
	case sizes == nil:
		return 0
	case s.full && sizes.Largest != 0:
		return min(int(sizes.Largest), 2*item.MaxSize)
	}
	return min(int(sizes.Typical), 2*item.MaxSize)
}

// present reports whether the item has the field, by its when.
func (s *sample) present(f *Field) bool {
	if s.full || s.whole {
		return true
	}
	for _, w := range f.requires {
		v := s.value(s.entity.byName[w.Name])
		if !slices.Contains(w.Value.Texts(), plain(v)) {
			return false
		}
	}
	return true
}

// value returns the item's value of a field.
func (s *sample) value(f *Field) item.Value {
	if v, ok := s.fixed[f.Name]; ok {
		return v
	}
	if v, ok := s.known[f.Name]; ok {
		return v
	}
	if f.template != nil {
		if name, single := f.template.single(); single {
			return s.value(s.entity.byName[name])
		}
		return item.String(s.fill(f.template))
	}
	return s.generate(f, s.ordinalOf(f.Name))
}

// remember computes the values that are the same for all ordinals, before many items are
// generated.
func (s *sample) remember() {
	known := make(map[string]item.Value)
	for _, f := range s.entity.fields {
		varies := slices.ContainsFunc(s.entity.dependencies(f.Name), func(name string) bool {
			_, shared := s.shared[name]
			_, fixed := s.fixed[name]
			return !shared && !fixed
		})
		if !varies {
			known[f.Name] = s.value(f)
		}
	}
	s.known = known
}

// at returns the sample of another ordinal.
func (s *sample) at(ordinal int) *sample {
	other := *s
	other.ordinal = ordinal
	return &other
}

func (s *sample) ordinalOf(name string) int {
	if n, ok := s.shared[name]; ok {
		return n
	}
	return s.ordinal
}

// fill returns a template with the item's values.
func (s *sample) fill(t *template) string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.name == "" {
			b.WriteString(p.text)
		} else {
			b.WriteString(plain(s.value(s.entity.byName[p.name])))
		}
	}
	return b.String()
}

// plain is a string, a number or a boolean as text.
func plain(v item.Value) string {
	switch v.Type() {
	case item.N:
		return v.Number().String()
	case item.BOOL:
		return strconv.FormatBool(v.Bool())
	}
	return string(v.Bytes())
}

// generate returns the value of a field that has no template.
func (s *sample) generate(f *Field, ordinal int) item.Value {
	a := f.Attribute
	if of, ok := s.spreading[f.Name]; ok {
		ordinal = s.spread(f, of, ordinal)
	}
	switch {
	case a.Shards > 0:
		return s.shard(f, ordinal)
	case len(a.Values) > 0:
		return s.listed(f, ordinal)
	case a.Format != "":
		return formats[a.Format].value(f, ordinal)
	case f.example != nil && !s.full:
		return s.vary(f, ordinal)
	case f.example != nil && a.Largest == 0 && a.Most == 0:
		return f.example
	}
	return s.plainValue(f, ordinal)
}

// shard returns the shard number of an item.
func (s *sample) shard(f *Field, ordinal int) item.Value {
	n := ordinal % f.Attribute.Shards
	if _, ok := s.spreading[f.Name]; ok {
		n = spreadShard(f.Attribute, ordinal)
	}
	if of := f.Attribute.Of; of != "" {
		h := fnv.New64a()
		_, _ = h.Write([]byte(plain(s.value(s.entity.byName[of]))))
		n = int(h.Sum64() % uint64(f.Attribute.Shards))
	}
	return shardValue(f, n)
}

// shardValue is a shard number; as text, all have the same width.
func shardValue(f *Field, n int) item.Value {
	if f.Type == item.N {
		return number(strconv.Itoa(n))
	}
	return item.String(fmt.Sprintf("%0*d", len(strconv.Itoa(f.Attribute.Shards-1)), n))
}

// listed returns one of the declared values: the most common one, unless the
// field distinguishes items or the longest is needed.
func (s *sample) listed(f *Field, ordinal int) item.Value {
	values := f.Attribute.Values
	text := f.Attribute.usual()
	of, spread := s.spreading[f.Name]
	switch {
	case spread:
		text = spreadListed(f.Attribute, of, ordinal)
	case s.full:
		text = slices.MaxFunc(values, func(a, b string) int { return len(a) - len(b) })
	case s.gen.Quantile > 0 && len(f.Attribute.Mix) > 0 && s.entity.inPartition(f.Name):
		text = f.Attribute.at(s.gen.Quantile)
	case slices.Contains(s.entity.keyLeaves(), f.Name):
		text = values[ordinal%len(values)]
	}
	v, err := listedLiteral(f, text).value(f.Type)
	if err != nil {
		panic(fmt.Sprintf("convert a listed value that was checked: %v", err))
	}
	return v
}

// listedLiteral is a listed value as a literal of the field's type.
func listedLiteral(f *Field, text string) Literal {
	if f.Type == item.BOOL {
		return Literal{kind: literalBool, text: text}
	}
	return StringLiteral(text)
}

// usual is the most common value, or the first.
func (a *Attribute) usual() string {
	shares := a.shares(0)
	return a.Values[slices.Index(shares, slices.Max(shares))]
}

// at returns the value at a quantile of the mix.
func (a *Attribute) at(quantile float64) string {
	sum := 0.0
	for i, share := range a.shares(0) {
		if sum += share; quantile < sum {
			return a.Values[i]
		}
	}
	return a.usual()
}

// inPartition reports whether a partition key of the table or of a global index is built
// from an attribute.
func (e *Entity) inPartition(name string) bool {
	keys := []schema.Key{e.table.schema.Key}
	for i := range e.table.schema.Indexes {
		keys = append(keys, e.table.schema.Indexes[i].Key)
	}
	return slices.ContainsFunc(keys, func(k schema.Key) bool {
		return slices.ContainsFunc(k.Partition, func(a schema.Attribute) bool {
			return e.byName[a.Name] != nil && slices.Contains(e.leaves(a.Name), name)
		})
	})
}

// keyLeaves returns the attributes that the table's key of an entity is built
// from.
func (e *Entity) keyLeaves() (leaves []string) {
	for _, a := range e.table.schema.Key.All() {
		leaves = append(leaves, e.leaves(a.Name)...)
	}
	return leaves
}

// Leaves returns the attributes with values of their own that an attribute is
// built from: the attribute itself if it has no template.
func (e *Entity) Leaves(name string) (all []*Field) {
	if _, ok := e.byName[name]; !ok {
		return nil
	}
	for _, leaf := range e.leaves(name) {
		all = append(all, e.byName[leaf])
	}
	return all
}

// leaves returns the names of the attributes with values of their own that a
// field is built from.
func (e *Entity) leaves(name string) (all []string) {
	f := e.byName[name]
	if f.template == nil {
		return []string{name}
	}
	for _, part := range f.template.names() {
		all = append(all, e.leaves(part)...)
	}
	return all
}

// dependencies returns the names of the attributes that a field is built from, those
// that determine its shard number included.
func (e *Entity) dependencies(name string) (all []string) {
	for _, leaf := range e.leaves(name) {
		all = append(all, leaf)
		if a := e.byName[leaf].Attribute; a != nil && a.Of != "" {
			all = append(all, e.dependencies(a.Of)...)
		}
	}
	return all
}

// vary returns the example; if it must distinguish items, its end is replaced.
func (s *sample) vary(f *Field, ordinal int) item.Value {
	if !s.entity.inKey(f.Name) {
		return f.example
	}
	switch f.Type {
	case item.S:
		text := string(f.example.Bytes())
		return item.String(withOrdinal(text, len(text), ordinal))
	case item.N:
		return digits(len(strings.Trim(f.example.Number().String(), "-.")), ordinal)
	}
	return f.example
}

// inKey reports whether a key of the table or of an index is built from an
// attribute.
func (e *Entity) inKey(name string) bool {
	for _, a := range e.table.schema.Attributes {
		if _, ok := e.byName[a.Name]; ok && slices.Contains(e.leaves(a.Name), name) {
			return true
		}
	}
	return false
}

// withOrdinal returns a text of the given length that ends in the ordinal.
func withOrdinal(text string, length, ordinal int) string {
	const places = 6
	end := strconv.FormatInt(int64(ordinal), 36)
	if width := min(places, length); len(end) < width {
		end = strings.Repeat("0", width-len(end)) + end
	}
	if len(end) >= length {
		return end[len(end)-length:]
	}
	if len(text) < length {
		text += strings.Repeat("abcdefghijklmnopqrstuvwxyz", (length-len(text))/26+1)
	}
	begin := strings.ToValidUTF8(text[:length-len(end)], "")
	return begin + strings.Repeat("x", length-len(end)-len(begin)) + end
}

// digits returns a number with count digits that does not end in a zero. Larger
// ordinals make larger numbers, eventually with more digits.
func digits(count, ordinal int) item.Value {
	n := withoutZero(ordinal)
	text := strconv.Itoa(n)
	switch {
	case count == 1:
	case len(text) < count:
		text = "1" + strings.Repeat("0", count-1-len(text)) + text
	default:
		text = strconv.Itoa(n + int(math.Pow10(count-1)))
	}
	return number(text)
}

// wrapOrdinal limits an ordinal to those that make numbers with count digits.
func wrapOrdinal(count, ordinal int) int {
	switch {
	case count == 1:
		return ordinal % 9
	case count < 16:
		return ordinal % (81 * int(math.Pow10(count-2)))
	}
	return ordinal
}

func number(text string) item.Value {
	n, err := item.ParseNumber(text)
	if err != nil {
		panic(fmt.Sprintf("generated number %q: %v", text, err))
	}
	return item.Num(n)
}

// plainValue returns a value of which only type and size are declared.
func (s *sample) plainValue(f *Field, ordinal int) item.Value {
	a := f.Attribute
	size, count := cmp.Or(int(a.Size), 16), cmp.Or(a.Count, 3)
	if s.full {
		size, count = cmp.Or(int(a.Largest), size), cmp.Or(a.Most, count)
	}
	size, count = min(size, 2*item.MaxSize), min(count, 2*item.MaxSize/max(1, size)+1)
	text := func(n int) string { return withOrdinal(fmt.Sprintf("%s-%x-", f.Name, s.gen.Seed), size, n) }
	switch f.Type {
	case item.S:
		return item.String(text(ordinal))
	case item.N:
		count := cmp.Or(a.Digits, 4)
		if !s.entity.inKey(f.Name) {
			ordinal = wrapOrdinal(count, ordinal) // it need not distinguish items
		}
		return digits(count, ordinal)
	case item.B:
		return item.Binary([]byte(text(ordinal)))
	case item.BOOL:
		return item.Bool(true)
	case item.NULL:
		return item.Null()
	}
	var members []item.Value
	attrs := make(map[string]item.Value)
	for i := range count {
		switch f.Type {
		case item.NS:
			members = append(members, digits(cmp.Or(a.Digits, 4), i))
		case item.BS:
			members = append(members, item.Binary([]byte(text(i))))
		case item.M:
			attrs[fmt.Sprintf("member%d", i)] = item.String(text(i))
		default:
			members = append(members, item.String(text(i)))
		}
	}
	switch f.Type {
	case item.L:
		return item.List(members...)
	case item.M:
		return item.Map(item.Make(attrs))
	}
	return item.Set(f.Type, members...)
}
