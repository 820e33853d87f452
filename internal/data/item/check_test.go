package item

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// Check accepts every item that is built.
func TestCheckAccepts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		it := Make(randomAttributes(t, 3))
		if err := Check(it); err != nil {
			t.Fatalf("%v, %x: %v", Map(it), []byte(it), err)
		}
		if got := rebuiltItem(it); !got.Equal(it) {
			t.Errorf("%x is rebuilt as %x", []byte(it), []byte(got))
		}
	})
}

// A changed byte makes another item, or an invalid one.
func TestCheckRejectsMutations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		it := Make(randomAttributes(t, 2))
		at := rapid.IntRange(0, len(it)-1).Draw(t, "at")
		for c := range 256 {
			mutated := Item(bytes.Clone(it))
			mutated[at] = byte(c)
			checkCanonical(t, mutated)
		}
		checkCanonical(t, it[:at])
		checkCanonical(t, append(bytes.Clone(it), it[at]))
	})
}

// checkCanonical fails when Check accepts bytes that are not the canonical
// form of their item.
func checkCanonical(t interface{ Errorf(string, ...any) }, b []byte) {
	if err := Check(b); err != nil {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%x: %v", b, err)
		}
		return
	}
	if got := rebuiltItem(b); !bytes.Equal(got, b) {
		t.Errorf("%x is accepted, but stored as %x", b, []byte(got))
	}
	_, _ = Item(b).Size(), Map(b).String()
}

func FuzzCheck(f *testing.F) {
	for _, b := range []string{
		"", "\x00", "\x01\x01a\x05", "\x01\x01a\x02\x00\x00", "\x01\x01a\x02\x01\x02", "\x01\x01a\x04\x01",
		"\x02\x01a\x05\x01b\x05", "\x01\x01a\x06\x03\x01\x01\x00", "\x01\x01a\x09\x02\x01\x05", "\x01\x01a\x0a\x04\x01\x00\x01\x00",
	} {
		f.Add([]byte(b))
	}
	f.Add([]byte(Make(map[string]Value{"n": Num(mustParse(f, "-12.345")), "s": Set(NS, Num(mustParse(f, "1")), Num(mustParse(f, "2")))})))
	f.Fuzz(func(t *testing.T, b []byte) { checkCanonical(t, b) })
}

func TestCheck(t *testing.T) {
	deep := func(levels int) []byte {
		v := Null()
		for range levels {
			v = List(v)
		}
		return Make(map[string]Value{"a": v})
	}
	for _, c := range []struct {
		name string
		in   []byte
		ok   bool
	}{
		{"no bytes are not an item", nil, false},
		{"an item may have no attributes", []byte{0}, true},
		{"bytes after the item are rejected", []byte{0, 0}, false},
		{"a count in a long form is not canonical", []byte{0x80, 0}, false},
		{"a count beyond all bytes is rejected", []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, false},
		{"a name that is not UTF-8 is rejected", []byte{1, 1, 0xff, byte(NULL)}, false},
		{"names are in order", []byte{2, 1, 'b', byte(NULL), 1, 'a', byte(NULL)}, false},
		{"names are different", []byte{2, 1, 'a', byte(NULL), 1, 'a', byte(NULL)}, false},
		{"a string that is not UTF-8 is rejected", []byte{1, 0, byte(S), 1, 0xff}, false},
		{"a binary may be anything", []byte{1, 0, byte(B), 1, 0xff}, true},
		{"there is no type 0", []byte{1, 0, 0}, false},
		{"there is no type 11", []byte{1, 0, 11}, false},
		{"a boolean is 0 or 1", []byte{1, 0, byte(BOOL), 2}, false},
		{"a number has a sign", []byte{1, 0, byte(N), 0, 0}, false},
		{"a number has one of three signs", []byte{1, 0, byte(N), 1, 9}, false},
		{"a number has digits", []byte{1, 0, byte(N), 3, signPositive, 130, 0}, false},
		{"a number has an end mark", []byte{1, 0, byte(N), 3, signPositive, 130, 11}, false},
		{"a number begins with a digit other than zero", []byte{1, 0, byte(N), 4, signPositive, 130, 2, 0}, false},
		{"a number ends with a digit other than zero", []byte{1, 0, byte(N), 5, signPositive, 130, 11, 1, 0}, false},
		{"a number in canonical form is accepted", []byte{1, 0, byte(N), 4, signPositive, 130, 11, 0}, true},
		{"a set has members", []byte{1, 0, byte(SS), 1, 0}, false},
		{"the members of a set are of its type", []byte{1, 0, byte(SS), 4, 1, byte(B), 1, 'a'}, false},
		{"the members of a set are different", []byte{1, 0, byte(BS), 5, 2, byte(B), 0, byte(B), 0}, false},
		{"a list may be empty", []byte{1, 0, byte(L), 1, 0}, true},
		{"a list is no longer than its elements", []byte{1, 0, byte(L), 2, 0, byte(NULL)}, false},
		{"a list is no shorter than its elements", []byte{1, 0, byte(L), 1, 1, byte(NULL)}, false},
		{"32 levels are accepted", deep(MaxDepth), true},
		{"a hundred levels are rejected", deep(100), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := Check(c.in); (err == nil) != c.ok {
				t.Errorf("Check(%x) = %v", c.in, err)
			}
			checkCanonical(t, c.in)
		})
	}
}

// A length of gigabytes allocates nothing.
func TestCheckIsCheap(t *testing.T) {
	body := append([]byte{1, 0, byte(L), 0xff, 0xff, 0xff, 0xff, 0x0f}, bytes.Repeat([]byte{byte(L)}, 1<<20)...)
	if Check(body) == nil {
		t.Error("a list longer than its bytes is accepted")
	}
}

// A number that has no digit other than 0 is not the stored form of one.
func TestCheckRejectsZerosOnly(t *testing.T) {
	for _, pairs := range [][]byte{{1}, {1, 1}} {
		if checkNumber(append(append([]byte{signPositive, 128}, pairs...), 0)) {
			t.Errorf("a number with the pairs %v is accepted", pairs)
		}
	}
}
