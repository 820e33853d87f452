package dax

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// longNames has six names of 60,000 bytes, in the first list.
func longNames() *testCatalog {
	c := new(testCatalog)
	var names []string
	for _, first := range "abcdef" {
		names = append(names, string(first)+strings.Repeat("x", 59_999))
	}
	c.lists = [][]string{names}
	return c
}

// batchOfNulls is a BatchWriteItem of n items whose attributes, of the first list, are null.
func batchOfNulls(n int) []byte {
	b := cbor.AppendMap(cbor.AppendInt(cbor.AppendInt(nil, service), 116217951), 1)
	b = cbor.AppendArray(cbor.AppendText(b, "Users"), 2*n)
	for i := range n {
		b = cbor.AppendBytes(b, []byte{byte('a' + i/26), byte('a' + i%26)})
		b = cbor.AppendBytes(b, []byte{2, 0xf6, 0xf6, 0xf6, 0xf6, 0xf6, 0xf6})
	}
	return cbor.AppendNull(b)
}

// The names of an attribute list are memory each time that a request refers to them: it is
// reserved, and bounded.
func TestReferencesToNamesNeedMemory(t *testing.T) {
	decode := func(b []byte, reserve func(int) error) (Request, error) {
		r := NewReader(bytes.NewReader(b))
		r.Reserve = reserve
		raw, err := ReadRequest(r)
		if err != nil {
			t.Fatal(err)
		}
		return raw.Decode(longNames())
	}
	reserved := 0
	note := func(bytes int) error { reserved = bytes; return nil }
	t.Run("reserved", func(t *testing.T) {
		if _, err := decode(batchOfNulls(25), note); err != nil || reserved < 25*360_000 {
			t.Errorf("25 items with names of 360,000 bytes reserve %d bytes (%v)", reserved, err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		none := errors.New("no memory")
		refuse := func(bytes int) error {
			if bytes > 1<<20 {
				return none
			}
			return nil
		}
		if _, err := decode(batchOfNulls(25), refuse); !errors.Is(err, none) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("bounded", func(t *testing.T) {
		b := batchOfNulls(600)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decode(b, note)
		runtime.ReadMemStats(&after)
		if fault := (*apierror.Error)(nil); !errors.As(err, &fault) || reserved > MaxRequest {
			t.Errorf("a request of %d bytes reserves %d bytes (%v)", len(b), reserved, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 8*MaxRequest {
			t.Errorf("a request of %d bytes allocates %d bytes", len(b), used)
		}
	})
}

// The names of a list that a client defines are memory, too, and their number is not trusted.
func TestDefinedNamesNeedMemory(t *testing.T) {
	define := func(n int, name func(dst []byte, i int) []byte) (reserved, used int, err error) {
		b := cbor.AppendArray(cbor.AppendInt(cbor.AppendInt(nil, service), -1230579644), n)
		for i := range n {
			b = name(b, i)
		}
		r := NewReader(bytes.NewReader(b))
		r.Reserve = func(bytes int) error { reserved = bytes; return nil }
		raw, err := ReadRequest(r)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = raw.Decode(new(testCatalog))
		runtime.ReadMemStats(&after)
		return reserved, int(after.TotalAlloc - before.TotalAlloc), err
	}
	const n = 150_000
	reserved, _, err := define(n, func(dst []byte, i int) []byte {
		return cbor.AppendText(dst, []byte{byte('A' + i/4096), byte('0' + i/64%64), byte('0' + i%64)})
	})
	if err != nil || reserved < 100*n {
		t.Errorf("%d names reserve %d bytes (%v)", n, reserved, err)
	}
	_, used, err := define(5*n, func(dst []byte, _ int) []byte { return cbor.AppendText(dst, "") })
	if err == nil || used > 1<<20 {
		t.Errorf("an array of %d names, of which the first is wrong, allocates %d bytes (%v)", 5*n, used, err)
	}
}

// An item whose names alone are too large is rejected before its values are read.
func TestNamesAreLargerThanItem(t *testing.T) {
	c := longNames()
	c.lists[0] = append(c.lists[0], strings.Repeat("y", 60_000))
	_, err := new(cborReader).item(c, []byte("k"), []byte{2}, testKeys["Users"])
	if fault := (*apierror.Error)(nil); !errors.As(err, &fault) || fault.Message != apierror.ItemTooLarge().Message {
		t.Errorf("got %v", err)
	}
}

// Of a set that is larger than an item, only so much is kept that it is rejected for its size.
func TestLargeSet(t *testing.T) {
	const members = 1 << 20
	b := cbor.AppendArray(cbor.AppendTag(nil, tagNumberSet), members)
	for i := range members {
		b = cbor.AppendInt(b, int64(members-i))
	}
	r := cborReader{Decoder: cbor.NewDecoder(b), maxSet: item.MaxSize}
	v, err := r.value(nil, 0)
	if err != nil || r.fault != nil || len(r.Rest()) > 0 {
		t.Fatal(err, r.fault, len(r.Rest()))
	}
	if size := item.Value(v).Size(); size <= item.MaxSize || size > 2*item.MaxSize {
		t.Errorf("the set has a size of %d", size)
	}
}

// The reader does not hold a copy of a large value for each list and map around it.
func TestNestedValueIsNotHeldAtEachDepth(t *testing.T) {
	b := []byte{}
	for range (item.MaxDepth - 2) / 2 {
		b = cbor.AppendText(cbor.AppendMap(cbor.AppendArray(b, 1), 1), "m")
	}
	b = cbor.AppendText(b, strings.Repeat("x", 300_000))
	r := cborReader{Decoder: cbor.NewDecoder(b)}
	if v, err := r.value(nil, 0); err != nil || r.fault != nil || len(v) < 300_000 {
		t.Fatal(err, r.fault, len(v))
	}
	held := 0
	for i := range r.nested.rows {
		held += cap(r.nested.rows[i])
	}
	for i := range r.nested.builders {
		held += r.nested.builders[i].Cap()
	}
	if held > 300_000 {
		t.Errorf("the reader holds %d bytes", held)
	}
}

// The names and values of an expression have the limit of a text's placeholders.
func TestExpressionSize(t *testing.T) {
	const limit = "Combined size of ExpressionAttributeNames and ExpressionAttributeValues exceeds max size"
	text := strings.Repeat("x", item.MaxRequestValues/2)
	equal := func(names, values int) []byte {
		b := cbor.AppendInt(cbor.AppendArray(nil, 3), treeVersion)
		b = cbor.AppendInt(cbor.AppendArray(b, 3), nodeEqual)
		b = cbor.AppendInt(cbor.AppendArray(b, 1+names), nodePath)
		for range names {
			b = cbor.AppendText(b, text)
		}
		b = cbor.AppendInt(cbor.AppendInt(cbor.AppendArray(b, 2), nodeValue), 0)
		b = cbor.AppendArray(b, values)
		for range values {
			b = cbor.AppendText(b, text)
		}
		return b
	}
	for _, c := range []struct {
		names, values int
		want          string
	}{
		{1, 1, ""}, {2, 1, limit}, {1, 2, limit}, {1, 3, limit},
	} {
		_, err := readCondition(equal(c.names, c.values), expr.ConditionExpression)
		var fault *apierror.Error
		if got := ""; errors.As(err, &fault) {
			if got = fault.Message; got != c.want {
				t.Errorf("%d names and %d values: %s", c.names, c.values, got)
			}
		} else if err != nil || c.want != "" {
			t.Errorf("%d names and %d values: got %v, want %q", c.names, c.values, err, c.want)
		}
	}
}

// A part of a BatchGetItem without keys has an empty list of them.
func TestNoKeys(t *testing.T) {
	b := cbor.AppendMap(cbor.AppendInt(cbor.AppendInt(nil, service), -697851100), 1)
	b = cbor.AppendArray(cbor.AppendText(b, "Users"), 3)
	b = cbor.AppendNull(cbor.AppendArray(cbor.AppendNull(cbor.AppendBool(b, false)), 0))
	request, err := decodeBytes(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if keys := request.In.(*api.BatchGetItem).RequestItems["Users"].Keys; keys == nil || len(keys) > 0 {
		t.Errorf("the keys are %v", keys)
	}
}

// An element of a list is not copied for each path that it does not belong to.
func TestProjectionCopiesValuesOnce(t *testing.T) {
	var paths []item.Path
	path := func(i int, name string) {
		paths = append(paths, item.Path{{Name: "l"}, {Index: i, IsIndex: true}, {Name: name}})
	}
	for i := range 1000 {
		path(i, "a")
	}
	path(1000, "a")
	path(1000, "b")
	it := itemOf(t, `{"l":{"L":[{"M":{"a":{"S":"`+strings.Repeat("x", 1000)+`"},"b":{"BOOL":true}}}]}}`)
	dst := newProjection(paths).append(make([]byte, 0, 2000), it)
	if got, want := notation(t, dst), `{1000: "`+strings.Repeat("x", 1000)+`", 1001: true}`; strings.ReplaceAll(got, "_ ", "") != want {
		t.Errorf("got %.40s … %s", got, got[len(got)-20:])
	}
	// Nothing of an element that belongs to no path is written.
	dst = newProjection(paths[:1000]).append(make([]byte, 0, 2000), it)
	if len(dst) != 2 || bytes.Contains(dst[:cap(dst)], []byte("xx")) {
		t.Errorf("got %d bytes, or more were written", len(dst))
	}
}

// Clients do not repeat a request for whose reply there is no attribute list: a write has been
// executed.
func TestNoAttributeListIsNotRepeated(t *testing.T) {
	got := notation(t, AppendError(nil, "id", apierror.LimitExceeded("too many")))
	if !strings.HasPrefix(got, "[4, 37, 38, 39] ") || !strings.Contains(got, `"LimitExceededException"`) {
		t.Error(got)
	}
}
