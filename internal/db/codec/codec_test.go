package codec

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

var one = item.Make(map[string]item.Value{"id": item.String("1"), "text": item.String("some text")})

// Any flipped bit of a stored item is an error, and so is any truncation.
func TestDamagedItem(t *testing.T) {
	stored := EncodeItem(one)
	if it, err := DecodeItem(stored); err != nil || !it.Equal(one) {
		t.Fatalf("the item is %v, %v", it, err)
	}
	for i := range 8 * len(stored) {
		b := bytes.Clone(stored)
		b[i/8] ^= 1 << (i % 8)
		if it, err := DecodeItem(b); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("bit %d: %v, %v", i, it, err)
		}
	}
	for n := range len(stored) {
		if it, err := DecodeItem(stored[:n:n]); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%d bytes: %v, %v", n, it, err)
		}
	}
}

// Values without a checksum, as older versions wrote them, are read.
func TestItemWithoutChecksum(t *testing.T) {
	if it, err := DecodeItem(append([]byte{formatItemUnchecked}, one...)); err != nil || !it.Equal(one) {
		t.Errorf("the item is %v, %v", it, err)
	}
}

// An item has at least one byte: a value that ends after its head is damaged.
func TestEmptyItemIsDamaged(t *testing.T) {
	for _, value := range [][]byte{EncodeItem(nil), {formatItemUnchecked}, {}} {
		if it, err := DecodeItem(value); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%x is read as %v, %v", value, it, err)
		}
	}
	if it, err := DecodeItem(nil); it != nil || err != nil {
		t.Errorf("no value is read as %v, %v", it, err)
	}
}

func TestTableIsReadAsWritten(t *testing.T) {
	table := &schema.Table{Name: "Orders", ID: 7}
	stored := EncodeTable(table)
	if got, err := DecodeTable(stored); err != nil || got.Name != "Orders" || got.ID != 7 {
		t.Errorf("the table is %+v, %v", got, err)
	}
	for name, value := range map[string][]byte{
		"nothing": nil, "another format": append([]byte{formatTable + 1}, stored[1:]...), "half": stored[:len(stored)/2],
	} {
		if got, err := DecodeTable(value); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s is read as %+v, %v", name, got, err)
		}
	}
}

func TestTokenIsReadAsWritten(t *testing.T) {
	token := Token{At: time.UnixMilli(1e12).UTC(), Request: make([]byte, sha256.Size), Sizes: []int{3, 5}}
	stored := EncodeToken(token)
	if got, err := DecodeToken(stored); err != nil || !got.At.Equal(token.At) || !bytes.Equal(got.Request, token.Request) || !slices.Equal(got.Sizes, token.Sizes) {
		t.Errorf("the token is %+v, %v, want %+v", got, err, token)
	}
	for name, value := range map[string][]byte{
		"nothing": nil, "another format": append([]byte{FormatToken + 1}, stored[1:]...), "half": stored[:len(stored)/2],
		"no time":        EncodeToken(Token{Request: token.Request}),
		"a short digest": EncodeToken(Token{At: token.At, Request: token.Request[1:]}),
	} {
		if got, err := DecodeToken(value); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s is read as %+v, %v", name, got, err)
		}
	}
}

func TestCountsAreReadAsWritten(t *testing.T) {
	counts := map[uint16]Count{0: {3, 500}, 2: {1, 70}}
	stored := EncodeCounts(counts)
	if got, err := DecodeCounts(stored); err != nil || !maps.Equal(got, counts) {
		t.Errorf("the counts are %v, %v, want %v", got, err, counts)
	}
	if got, err := DecodeCounts(nil); err != nil || len(got) != 0 {
		t.Errorf("no counts are read as %v, %v", got, err)
	}
	if got, err := DecodeCounts(stored[1:]); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a part is read as %v, %v", got, err)
	}
}
