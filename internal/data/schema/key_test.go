package schema

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

// orders has a key of two attributes, a local index and two global ones.
func orders() *Table {
	return &Table{
		Name: "Orders",
		Key:  Key{Partition: []Attribute{{"id", item.S}}, Sort: []Attribute{{"at", item.N}}},
		Indexes: []Index{
			{Name: "by-total", ID: 1, Key: Key{Partition: []Attribute{{"id", item.S}}, Sort: []Attribute{{"total", item.N}}},
				Projection: Projection{Kind: ProjectAll}},
			{Name: "by-place", ID: 2, Global: true,
				Key:        Key{Partition: []Attribute{{"city", item.S}, {"zip", item.B}}, Sort: []Attribute{{"street", item.S}, {"house", item.S}}},
				Projection: Projection{Kind: ProjectKeys}},
			{Name: "by-state", ID: 3, Global: true, Key: Key{Partition: []Attribute{{"state", item.S}}},
				Projection: Projection{Kind: ProjectInclude, Names: []string{"note"}}},
		},
	}
}

func num(t testing.TB, text string) item.Value {
	t.Helper()
	n, err := item.ParseNumber(text)
	if err != nil {
		t.Fatal(err)
	}
	return item.Num(n)
}

func text(n int) item.Value { return item.String(strings.Repeat("x", n)) }

func binary(n int) item.Value { return item.Binary(bytes.Repeat([]byte{0xff}, n)) }

// expect fails unless err is a ValidationException with this message; an
// empty one stands for no error.
func expect(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("the error is %v, want none", err)
	case want != "" && (err == nil || err.Error() != "ValidationException: "+want):
		t.Errorf("the error is\n%v, want\n%s", err, want)
	}
}

const (
	mismatch    = "The provided key element does not match the schema"
	emptyString = "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: id"
	longHash    = "One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes"
	longRange   = "One or more parameter values were invalid: Aggregated size of all range keys has exceeded the size limit of 1024 bytes"
)

type attrs = map[string]item.Value

func TestCheckKey(t *testing.T) {
	one := num(t, "1")
	for _, c := range []struct {
		name string
		key  attrs
		want string
	}{
		{"the key's attributes are a key", attrs{"id": text(1), "at": one}, ""},
		{"a missing attribute is a mismatch", attrs{"id": text(1)}, mismatch},
		{"an additional attribute is a mismatch", attrs{"id": text(1), "at": one, "x": one}, mismatch},
		{"no attributes are a mismatch", nil, mismatch},
		{"another attribute is a mismatch", attrs{"id": text(1), "x": one}, mismatch},
		{"a partition of another type is a mismatch", attrs{"id": one, "at": one}, mismatch},
		{"a sort key of another type is a mismatch", attrs{"id": text(1), "at": text(1)}, mismatch},
		{"a set is a mismatch", attrs{"id": item.Set(item.SS, text(1)), "at": one}, mismatch},
		{"an empty string is not a key", attrs{"id": text(0), "at": one}, emptyString},
		{"an empty partition is reported before a sort key of another type", attrs{"id": text(0), "at": text(1)}, emptyString},
		{"2048 bytes fit", attrs{"id": text(2048), "at": one}, ""},
		{"2049 bytes do not", attrs{"id": text(2049), "at": one}, longHash},
		{"bytes count, not characters", attrs{"id": item.String(strings.Repeat("é", 1025)), "at": one}, longHash},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, orders().CheckKey(item.Make(c.key)), c.want) })
	}
}

func TestCheckKeyOfBinaries(t *testing.T) {
	table := &Table{Key: Key{Partition: []Attribute{{"p", item.B}}, Sort: []Attribute{{"s", item.B}}}}
	empty := "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty binary value. Key: "
	for _, c := range []struct {
		name string
		key  attrs
		want string
	}{
		{"2048 and 1024 bytes fit", attrs{"p": binary(2048), "s": binary(1024)}, ""},
		{"a long partition does not fit", attrs{"p": binary(2049), "s": binary(1)}, longHash},
		{"a long sort key does not fit", attrs{"p": binary(1), "s": binary(1025)}, longRange},
		{"an empty partition is rejected", attrs{"p": binary(0), "s": binary(1)}, empty + "p"},
		{"an empty sort key is rejected", attrs{"p": binary(1), "s": binary(0)}, empty + "s"},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, table.CheckKey(item.Make(c.key)), c.want) })
	}
}

func TestCheckItem(t *testing.T) {
	one := num(t, "1")
	const invalid = "One or more parameter values were invalid: "
	for _, c := range []struct {
		name        string
		more        attrs  // in addition to a valid key; a nil value removes an attribute
		want, batch string // batch: where BatchWriteItem has another message
	}{
		{"an item with its key fits", nil, "", ""},
		{"other attributes may be anything", attrs{"x": item.Null(), "y": item.List()}, "", ""},
		{"a missing key is named", attrs{"at": nil}, invalid + "Missing the key at in the item", ""},
		{"the partition is reported first", attrs{"id": nil, "at": nil}, invalid + "Missing the key id in the item", ""},
		{"a key of another type is named", attrs{"at": text(1)}, invalid + "Type mismatch for key at expected: N actual: S", mismatch},
		{"an empty key is named", attrs{"id": text(0)}, emptyString, ""},
		{"a long key is rejected", attrs{"id": text(2049)}, longHash, ""},
		{"an index key of another type is named", attrs{"total": text(1)},
			invalid + "Type mismatch for Index Key total Expected: N Actual: S IndexName: by-total", ""},
		{"an index key of another type is rejected even if the index would not hold the item", attrs{"zip": one},
			invalid + "Type mismatch for Index Key zip Expected: B Actual: N IndexName: by-place", ""},
		{"an empty index key is named", attrs{"state": text(0)},
			"One or more parameter values are not valid. A value specified for a secondary index key is not supported. " +
				"The AttributeValue for a key attribute cannot contain an empty string value. IndexName: by-state, IndexKey: state", ""},
		{"an empty binary index key is named", attrs{"zip": binary(0)},
			"One or more parameter values are not valid. A value specified for a secondary index key is not supported. " +
				"The AttributeValue for a key attribute cannot contain an empty binary value. IndexName: by-place, IndexKey: zip", ""},
		{"2048 bytes fit an index", attrs{"state": text(2048)}, "", ""},
		{"2049 bytes do not", attrs{"state": text(2049)}, longHash, ""},
		{"the attributes of an index key fit together", attrs{"city": text(2000), "zip": binary(48)}, "", ""},
		{"the attributes of an index key are summed up", attrs{"city": text(2000), "zip": binary(49)}, longHash, ""},
		{"the sort attributes fit together", attrs{"street": text(1000), "house": text(24)}, "", ""},
		{"the sort attributes are summed up", attrs{"street": text(1000), "house": text(25)}, longRange, ""},
		{"the key is reported before the indexes", attrs{"total": text(1), "at": nil}, invalid + "Missing the key at in the item", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			it := item.Make(attrs{"id": text(1), "at": one})
			for name, v := range c.more {
				if it = it.Without(name); v != nil {
					it = it.With(name, v)
				}
			}
			expect(t, orders().CheckItem(it), c.want)
			if c.batch == "" {
				c.batch = c.want
			}
			expect(t, orders().CheckBatchItem(it), c.batch)
		})
	}
}

// Only what an update changes is checked, with messages of its own.
func TestCheckIndexKeysOfUpdates(t *testing.T) {
	before := item.Make(attrs{"id": text(1), "at": num(t, "1"), "state": num(t, "5"), "city": text(2049)})
	for _, c := range []struct {
		name  string
		after item.Item
		want  string
	}{
		{"unchanged attributes are not checked", before.With("x", text(1)), ""},
		{"removed attributes are not checked", before.Without("state"), ""},
		{"a new wrong type is reported", before.With("state", item.Null()),
			"One or more parameter values were invalid: Type mismatch for Index Key state Expected: S Actual: NULL IndexName: by-state"},
		{"an empty string is reported", before.With("state", text(0)),
			"One or more parameter values are not valid. The update expression attempted to update a secondary index key to a value that is not supported. " +
				"The AttributeValue for a key attribute cannot contain an empty string value."},
		{"an empty binary is reported", before.With("zip", binary(0)),
			"One or more parameter values are not valid. The update expression attempted to update a secondary index key to a value that is not supported. " +
				"The AttributeValue for a key attribute cannot contain an empty binary value."},
		{"a changed part causes a check of the whole size", before.With("zip", binary(1)), longHash},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, orders().CheckIndexKeys(before, c.after), c.want) })
	}
}

func TestKeyIn(t *testing.T) {
	place := orders().Indexes[1].Key
	whole := item.Make(attrs{"city": text(1), "zip": binary(1), "street": text(1), "house": text(1)})
	for _, c := range []struct {
		name string
		it   item.Item
		want bool
	}{
		{"an item with all attributes is in", whole, true},
		{"an item with more is in", whole.With("x", item.Null()), true},
		{"an absent item is not", nil, false},
		{"one without a partition attribute is not", whole.Without("zip"), false},
		{"one without a sort attribute is not", whole.Without("house"), false},
		{"one with another type is not", whole.With("zip", text(1)), false},
		{"one with an empty value is not", whole.With("street", text(0)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := place.In(c.it); got != c.want {
				t.Errorf("In is %v", got)
			}
		})
	}
}

func TestKeyOf(t *testing.T) {
	key := orders().Key
	want := item.Make(attrs{"id": text(1), "at": num(t, "1")})
	if got := key.Of(want.With("x", item.Null())); !got.Equal(want) {
		t.Errorf("the key is %v, want %v", item.Map(got), item.Map(want))
	}
	if got := key.Of(nil); got.Len() != 0 {
		t.Errorf("the key of no item is %v", item.Map(got))
	}
	if !key.Has("id") || !key.Has("at") || key.Has("total") || key.Has("") {
		t.Error("Has reports attributes that are not the key's")
	}
	// All returns a new slice: appending to it does not change the key.
	all := orders().Indexes[1].Key
	if got := all.All(); len(got) != 4 || got[0].Name != "city" || got[3].Name != "house" {
		t.Errorf("All are %v", got)
	}
	_ = append(all.All()[:2], Attribute{"other", item.S})
	if all.Sort[0].Name != "street" {
		t.Errorf("the key became %v", all)
	}
}
