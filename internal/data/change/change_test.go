package change

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
)

var (
	small = item.Make(map[string]item.Value{"id": item.String("1")})
	large = small.With("n", item.Bool(true))
	at    = time.UnixMilli(1_700_000_000_123).UTC()
)

func TestRoundTrip(t *testing.T) {
	for _, c := range []struct {
		record Record
		kind   string
		image  item.Item
	}{
		{Record{At: at, After: small}, "INSERT", small},
		{Record{At: at, Before: small, After: large}, "MODIFY", large},
		{Record{At: at, By: "arn:aws:iam::000000000000:user/me", Before: small, After: large}, "MODIFY", large},
		{Record{At: at, Actor: Expiry, Before: large}, "REMOVE", large},
	} {
		t.Run(c.kind, func(t *testing.T) {
			got, err := Decode(c.record.Encode())
			if err != nil || !reflect.DeepEqual(got, c.record) {
				t.Errorf("got %+v, %v, want %+v", got, err, c.record)
			}
			if got.Kind() != c.kind || !got.Image().Equal(c.image) {
				t.Errorf("it is a %s of %v", got.Kind(), got.Image())
			}
		})
	}
}

// What Decode accepts is the stored form of what it returns.
func FuzzDecode(f *testing.F) {
	f.Add((&Record{At: at, Before: small, After: large}).Encode())
	f.Add(unchecked((&Record{At: at, Before: small, After: large}).Encode()))
	f.Add([]byte{1, 0})
	f.Add([]byte("\x0100000000\x00\x80\x00\x010")) // a length that is not in its shortest form
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err != nil {
			return
		}
		want := r.Encode()
		if b[0] == formatUnchecked {
			want = unchecked(want)
		}
		if !bytes.Equal(want, b) {
			t.Errorf("%x is read as %+v, which is stored as %x", b, r, want)
		}
	})
}

// unchecked returns a record in the form that it had before it had a checksum.
func unchecked(b []byte) []byte { return append([]byte{formatUnchecked}, b[checked:]...) }

// Any flipped bit is noticed. In a record without a checksum, some are not.
func TestFlippedBit(t *testing.T) {
	r := Record{At: at, Before: small, After: large}
	by := r
	by.By = "arn:aws:iam::000000000000:user/me"
	for _, c := range []struct {
		name  string
		b     []byte
		found bool
	}{{"with a checksum", r.Encode(), true}, {"with a principal", by.Encode(), true}, {"control: without", unchecked(r.Encode()), false}} {
		t.Run(c.name, func(t *testing.T) {
			unnoticed := 0
			for i := range 8 * len(c.b) {
				b := bytes.Clone(c.b)
				b[i/8] ^= 1 << (i % 8)
				if _, err := Decode(b); err == nil {
					unnoticed++
				}
			}
			if (unnoticed == 0) != c.found {
				t.Errorf("%d of %d are not noticed", unnoticed, 8*len(c.b))
			}
		})
	}
}
