package dax

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// Whatever the bytes of a value are, it is valid in its stored form, and is read again from
// our encoding.
func FuzzValue(f *testing.F) {
	for _, line := range readLines(f, "values.txt") {
		f.Add(unhex(f, fields(f, line, 2)[1]))
	}
	f.Fuzz(checkValue)
}

func checkValue(t *testing.T, b []byte) {
	r := cborReader{Decoder: cbor.NewDecoder(b), maxSet: item.MaxSize}
	v, err := r.value(nil, 0)
	if err != nil {
		return
	}
	checkItem(t, item.Make(map[string]item.Value{"v": v}))
	if r.fault != nil {
		return
	}
	ours := appendValue(nil, v)
	again, err := readValue(ours)
	if err != nil || !item.Equal(again, v) {
		t.Errorf("%x is read as %s, encoded as %x, which is read as %s, %v", b, item.Value(v), ours, again, err)
	}
}

func checkItem(t *testing.T, it item.Item) {
	t.Helper()
	if err := item.Check(it); err != nil {
		t.Fatalf("%x: %v", []byte(it), err)
	}
}

// Whatever the bytes of a key are, it is a key of the table, and is read again from our
// encoding.
func FuzzKey(f *testing.F) {
	for _, line := range readLines(f, "keys.txt") {
		columns := fields(f, line, 5)
		p, _ := item.TypeNamed(columns[0])
		s, _ := item.TypeNamed(columns[1])
		f.Add(byte(p)-1, byte(s), unhex(f, columns[4]))
	}
	f.Fuzz(checkKey)
}

func checkKey(t *testing.T, partition, sort byte, b []byte) {
	kinds := []item.Type{0, item.S, item.N, item.B}
	key := schema.Key{Partition: attribute("p", kinds[1+int(partition)%3])}
	if s := kinds[int(sort)%4]; s != 0 {
		key.Sort = attribute("s", s)
	}
	got, err := new(cborReader).key(b, key)
	if err != nil {
		return
	}
	checkItem(t, got.Item)
	for _, a := range key.All() {
		if v, ok := got.Item.Get(a.Name); !ok || v.Type() != a.Type {
			t.Fatalf("%x is read as %s, without %s of type %s", b, item.Map(got.Item), a.Name, a.Type)
		}
	}
	if got.Fault != nil {
		return
	}
	d := cbor.NewDecoder(appendKey(nil, got.Item, key))
	ours, err := d.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	again, err := new(cborReader).key(ours, key)
	if err != nil || !again.Item.Equal(got.Item) {
		t.Errorf("%x is read as %s, encoded as %x, which is read as %s, %v", b, item.Map(got.Item), ours, item.Map(again.Item), err)
	}
}

// Whatever the bytes of an expression are, its nodes can be evaluated.
func FuzzExpression(f *testing.F) {
	for _, line := range readLines(f, "expressions.txt") {
		columns := fields(f, line, 5)
		for i, k := range expressionKinds {
			if k == columns[0] {
				f.Add(byte(i), unhex(f, columns[4]))
			}
		}
	}
	f.Fuzz(checkExpression)
}

var expressionKinds = []string{"condition", "filter", "key", "update", "projection"}

func checkExpression(t *testing.T, kind byte, b []byte) {
	it := itemOf(t, `{"a":{"S":"x"},"b":{"N":"1"},"c":{"L":[{"N":"1"}]},"d":{"M":{"e":{"SS":["x"]}}}}`)
	node, err := compiled(expressionKinds[int(kind)%len(expressionKinds)], b)
	if err != nil {
		return
	}
	switch e := node.(type) {
	case *expr.Condition:
		if e.CheckAs(expr.ConditionExpression) == nil {
			e.Holds(it)
		}
	case *expr.KeyCondition:
		if e.CheckAs(expr.KeyConditionExpression) == nil && e.Check() == nil {
			_, _ = e.Keys(attribute("id", item.S), attribute("at", item.N))
		}
	case *expr.Update:
		if e.CheckExpression() == nil {
			_, _ = e.Apply(it)
		}
	case []item.Path:
		if expr.CheckProjection(e) == nil {
			newProjection(e).append(nil, it.Project(e))
		}
	}
}

// Whatever the bytes of a connection are, they are a hello and requests that can be answered,
// or an error.
func FuzzConnection(f *testing.F) {
	for _, rec := range recordings(f) {
		f.Add(unhex(f, rec.bytes))
	}
	f.Add(unhex(f, "674a37796e65354700f6a000"))
	c := newTestCatalog()
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = ReadHello(NewReader(bytes.NewReader(b)))
		r := NewReader(bytes.NewReader(b))
		for {
			raw, err := ReadRequest(r)
			if err != nil {
				return
			}
			request, err := raw.Decode(c)
			if err == nil {
				show(request.In)
			} else if _, ok := err.(*apierror.Error); !ok {
				t.Fatalf("%x: %v is not a fault", b, err)
			}
		}
	})
}

// What FuzzValue, FuzzKey and FuzzExpression check holds for recorded bytes of which one is
// changed, or which are cut.
func TestDamagedParts(t *testing.T) {
	for _, line := range readLines(t, "values.txt") {
		if whole := unhex(t, fields(t, line, 2)[1]); len(whole) < 100 {
			damage(whole, func(b []byte) { checkValue(t, b) })
		}
	}
	for _, line := range readLines(t, "keys.txt") {
		f := fields(t, line, 5)
		p, _ := item.TypeNamed(f[0])
		s, _ := item.TypeNamed(f[1])
		damage(unhex(t, f[4]), func(b []byte) { checkKey(t, byte(p)-1, byte(s), b) })
	}
	for _, line := range readLines(t, "expressions.txt") {
		f := fields(t, line, 5)
		kind := slices.Index(expressionKinds, f[0])
		damage(unhex(t, f[4]), func(b []byte) { checkExpression(t, byte(kind), b) })
	}
}

// damage calls a function with bytes that are cut, and with bytes of which one is changed.
func damage(whole []byte, check func([]byte)) {
	for n := range whole {
		check(whole[:n])
	}
	for i := range whole {
		for _, flip := range []byte{0x01, 0x02, 0x08, 0x20, 0x80, 0xff} {
			damaged := bytes.Clone(whole)
			damaged[i] ^= flip
			check(damaged)
		}
	}
}
