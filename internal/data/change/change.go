// Package change is the record of one committed write.
//
// The form in which it is stored is described in docs/formats/change.md.
package change

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/stator-db/stator/internal/data/item"
)

// Record is what a write did to one item.
type Record struct {
	At            time.Time // when, to the millisecond
	Actor         Actor
	By            string    // the ARN of the customer's principal; empty if it is not known
	Before, After item.Item // nil if the item did not exist, or no longer exists
}

// Actor is the cause of a change.
type Actor byte

// The actors.
const (
	Customer Actor = iota // a request
	Expiry                // the end of the item's time to live
)

// Kind is the name of a change in a stream.
func (r *Record) Kind() string {
	switch {
	case r.Before == nil:
		return "INSERT"
	case r.After == nil:
		return "REMOVE"
	}
	return "MODIFY"
}

// Image is the item after the change, or before it if it was deleted. Either
// has the item's key.
func (r *Record) Image() item.Item {
	if r.After != nil {
		return r.After
	}
	return r.Before
}

// The numbers of the formats of a stored record.
const (
	formatUnchecked = 1 // without a checksum
	format          = 2
	formatBy        = 3 // with the principal, after the items
)

const (
	checked = 1 + 4 // format, CRC-32C of what follows
	head    = 1 + 8 // actor, milliseconds
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode is the record in its stored form.
func (r *Record) Encode() []byte {
	b := make([]byte, checked, checked+head+2*binary.MaxVarintLen32+len(r.Before)+len(r.After)+len(r.By))
	b = append(b, byte(r.Actor))
	b = binary.BigEndian.AppendUint64(b, uint64(r.At.UnixMilli()))
	// An item has at least one byte, so 0 can stand for no item.
	b = binary.AppendUvarint(b, uint64(len(r.Before)))
	b = append(b, r.Before...)
	b = binary.AppendUvarint(b, uint64(len(r.After)))
	b = append(b, r.After...)
	b[0] = format
	if r.By != "" {
		b = append(b, r.By...)
		b[0] = formatBy
	}
	binary.BigEndian.PutUint32(b[1:], crc32.Checksum(b[checked:], castagnoli))
	return b
}

// ErrCorrupt is returned by Decode for bytes that are not a record.
var ErrCorrupt = errors.New("not a change record in stored form")

// Decode reads a record. Its items share the memory of b.
func Decode(b []byte) (Record, error) {
	hasBy := len(b) > 0 && b[0] == formatBy
	b, ok := content(b)
	if !ok || len(b) < head {
		return Record{}, ErrCorrupt
	}
	r := Record{Actor: Actor(b[0]), At: time.UnixMilli(int64(binary.BigEndian.Uint64(b[1:]))).UTC()}
	b = b[head:]
	if r.Before, b, ok = cut(b); !ok {
		return Record{}, ErrCorrupt
	}
	if r.After, b, ok = cut(b); !ok || len(b) > 0 != hasBy || r.Before == nil && r.After == nil {
		return Record{}, ErrCorrupt
	}
	r.By = string(b)
	return r, nil
}

// content returns what follows the format and the checksum, which must be right.
func content(b []byte) ([]byte, bool) {
	switch {
	case len(b) > checked && (b[0] == format || b[0] == formatBy):
		return b[checked:], crc32.Checksum(b[checked:], castagnoli) == binary.BigEndian.Uint32(b[1:])
	case len(b) > 1 && b[0] == formatUnchecked:
		return b[1:], true
	}
	return nil, false
}

func cut(b []byte) (it item.Item, rest []byte, ok bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 || w > 1 && b[w-1] == 0 || n > uint64(len(b)-w) { // the last: not its shortest form
		return nil, nil, false
	}
	b = b[w:]
	if n > 0 {
		it = item.Item(b[:n:n])
	}
	return it, b[n:], true
}
