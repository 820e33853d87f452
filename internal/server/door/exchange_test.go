package door

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stator-db/stator/internal/buffer"
)

// A body is read as it came, whatever size its memory has, and a large one
// gives its memory back when it is dropped. What is asked for is what is taken.
func TestBodiesOfAllSizes(t *testing.T) {
	const limit = 16 << 20
	for _, size := range []int{0, 1, 4095, 4096, 100_000, 1 << 20, 1<<20 + 1, 3 << 20, limit} {
		for _, length := range []int64{int64(size), -1} {
			t.Run(fmt.Sprintf("%d of %d", size, length), func(t *testing.T) {
				want := bytes.Repeat([]byte("body "), size/5+1)[:size]
				var taken int64
				r := &Request{Length: length, rest: bytes.NewReader(want)}
				got, err := r.Read(limit, func(bytes int64) error { taken += bytes; return nil })
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%d bytes are read (%v)", len(got), err)
				}
				if int64(cap(got)) != taken {
					t.Errorf("%d bytes are taken, and %d asked for", cap(got), taken)
				}
				if r.Drop(); cap(r.buf) > buffer.Small {
					t.Errorf("%d bytes are kept", cap(r.buf))
				}
			})
		}
	}
}
