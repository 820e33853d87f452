package stream

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db"
)

// Iterator is the position of a reader in a stream.
type Iterator struct {
	Shard  ShardKey
	At     Position
	Oldest bool // start at the oldest change that exists when the iterator is used
	Made   time.Time
}

// format is the version of the binary form of an iterator.
const format = 1

// iteratorBytes is the length of the binary form of an iterator.
const iteratorBytes = 1 + 2 + 4 + 8 + 2 + 8 + 4

// Encode returns the iterator as text for the customer. The result is valid only
// for the named stream.
func (it Iterator) Encode(stream string) string {
	b := make([]byte, 0, iteratorBytes)
	b = append(b, format, flag(it.Oldest)|byte(it.Shard.Span>>8<<1), byte(it.Shard.Span))
	b = binary.BigEndian.AppendUint32(b, it.Shard.Epoch)
	b = binary.BigEndian.AppendUint64(b, it.At.Stamp)
	b = binary.BigEndian.AppendUint16(b, uint16(it.At.N))
	b = binary.BigEndian.AppendUint64(b, uint64(it.Made.UnixMilli()))
	b = binary.BigEndian.AppendUint32(b, checksum(stream, b))
	return base64.RawURLEncoding.EncodeToString(b)
}

// DecodeIterator decodes an iterator of the named stream. Reader.Read validates it
// against the shards of the stream.
func DecodeIterator(stream, text string) (Iterator, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != iteratorBytes || b[0] != format {
		return Iterator{}, errIterator
	}
	body := b[:iteratorBytes-4]
	if binary.BigEndian.Uint32(b[len(body):]) != checksum(stream, body) {
		return Iterator{}, errIterator
	}
	return Iterator{
		Oldest: b[1]&1 == 1,
		Shard:  ShardKey{Span: int(b[1]>>1)<<8 | int(b[2]), Epoch: binary.BigEndian.Uint32(b[3:]) & maxEpoch},
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

// checksum detects iterators that are corrupt or of another stream. It is not a
// signature: a forged iterator gives no access that a genuine one does not give.
func checksum(stream string, body []byte) uint32 {
	return crc32.ChecksumIEEE(bytes.Join([][]byte{[]byte(stream), body}, []byte{0}))
}

// The positions at which an iterator can start.

// AtOldest returns an iterator that starts at the oldest change of a shard that can
// still be read.
func (r *Reader) AtOldest(shard Shard) Iterator {
	return Iterator{Shard: shard.ShardKey, At: shard.First(), Oldest: true, Made: r.DB.Now()}
}

// AtLatest returns an iterator that starts after all changes that a shard had when it
// was computed.
func (r *Reader) AtLatest(shard Shard) Iterator {
	at := Position{Stamp: min(max(shard.horizon, shard.From), shard.To)}
	return Iterator{Shard: shard.ShardKey, At: at, Made: r.DB.Now()}
}

// AtSequence returns an iterator that starts at the change with a sequence number,
// or immediately after it if after is set.
func (r *Reader) AtSequence(shard Shard, number string, after bool) (Iterator, error) {
	at, ok := ParseSequence(number)
	switch {
	case !ok:
		return Iterator{}, errSequence
	case at.Stamp < r.DB.TrimHorizon():
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

// AtTime returns an iterator that starts at the first change at a time or later.
func (r *Reader) AtTime(shard Shard, t time.Time) Iterator {
	it := r.AtOldest(shard)
	if stamp := db.StampAt(t); stamp > shard.From {
		it.At.Stamp = min(stamp, shard.To)
	}
	return it
}
