package stream

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db"
)

// Iterator is where a customer reads a stream.
type Iterator struct {
	Shard  ShardKey
	At     Position
	Oldest bool // starts at the oldest change that is there when it is used
	Made   time.Time
}

// format is the number of the form of an iterator.
const format = 1

// iteratorBytes is the length of an iterator in its binary form.
const iteratorBytes = 1 + 1 + 1 + 4 + 8 + 2 + 8 + 4

// Encode is the iterator as a customer gets it. of names the stream: the
// iterator is good for no other.
func (it Iterator) Encode(stream string) string {
	b := make([]byte, 0, iteratorBytes)
	b = append(b, format, flag(it.Oldest), byte(it.Shard.Slot))
	b = binary.BigEndian.AppendUint32(b, it.Shard.Epoch)
	b = binary.BigEndian.AppendUint64(b, it.At.Stamp)
	b = binary.BigEndian.AppendUint16(b, uint16(it.At.N))
	b = binary.BigEndian.AppendUint64(b, uint64(it.Made.UnixMilli()))
	b = binary.BigEndian.AppendUint32(b, checksum(stream, b))
	return base64.RawURLEncoding.EncodeToString(b)
}

// DecodeIterator reads an iterator of a stream. What it says is still to be
// held against the stream.
func DecodeIterator(stream, text string) (Iterator, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != iteratorBytes || b[0] != format || b[1] > 1 {
		return Iterator{}, errIterator
	}
	body := b[:iteratorBytes-4]
	if binary.BigEndian.Uint32(b[len(body):]) != checksum(stream, body) {
		return Iterator{}, errIterator
	}
	return Iterator{
		Oldest: b[1] == 1,
		Shard:  ShardKey{Slot: int(b[2]), Epoch: binary.BigEndian.Uint32(b[3:]) & maxEpoch},
		At:     Position{binary.BigEndian.Uint64(b[7:]), int(binary.BigEndian.Uint16(b[15:]))},
		Made:   time.UnixMilli(int64(binary.BigEndian.Uint64(b[17:]))).UTC(),
	}, nil
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// checksum finds iterators that were garbled, or taken for another stream. It
// is no signature: whoever makes an iterator can read no more than with one of
// ours.
func checksum(stream string, body []byte) uint32 {
	return crc32.ChecksumIEEE(bytes.Join([][]byte{[]byte(stream), body}, []byte{0}))
}

// The places where an iterator can start.

// AtOldest starts at the oldest change of a shard that can still be read.
func (r *Reader) AtOldest(shard Shard) Iterator {
	return Iterator{Shard: shard.ShardKey, At: shard.First(), Oldest: true, Made: r.DB.Now()}
}

// AtLatest starts behind all changes that were made so far.
func (r *Reader) AtLatest(ctx context.Context, shard Shard) (Iterator, error) {
	horizon, err := r.DB.Horizon(ctx)
	if err != nil {
		return Iterator{}, err
	}
	at := Position{Stamp: min(max(horizon, shard.From), shard.To)}
	return Iterator{Shard: shard.ShardKey, At: at, Made: r.DB.Now()}, nil
}

// AtSequence starts at the change with a sequence number, or with after right
// behind it.
func (r *Reader) AtSequence(shard Shard, number string, after bool) (Iterator, error) {
	at, ok := ParseSequence(number)
	switch {
	case !ok:
		return Iterator{}, errSequence
	case at.Stamp < r.trimHorizon():
		return Iterator{}, apierror.TrimmedData()
	case at.before(shard.First()) || shard.Last().before(at):
		return Iterator{}, errSequence
	}
	if after {
		at.N++
	}
	return Iterator{Shard: shard.ShardKey, At: at, Made: r.DB.Now()}, nil
}

var errSequence = apierror.InvalidValues("Invalid SequenceNumber")

// AtTime starts at the first change that was made at a time or later.
func (r *Reader) AtTime(shard Shard, t time.Time) Iterator {
	it := r.AtOldest(shard)
	if stamp := db.StampAt(t); stamp > shard.From {
		it.At.Stamp = min(stamp, shard.To)
	}
	return it
}
