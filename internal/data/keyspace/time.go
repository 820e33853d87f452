package keyspace

import "encoding/binary"

// What is kept by time: the changes of a table, and when its items expire.

// Slots is into how many parts the changes of a table are divided, by the hash
// of the partition. Each is a row of shards of its stream.
const Slots = 4

// Slot is the part that the changes of an item belong to; key is the item's.
func Slot(key []byte) int { return int(key[1+4+2] >> 6) }

// Change is the key of the change record of an item. Of one item they sort in
// the order of the changes; n tells those of one update apart.
func Change(table uint32, slot int, stamp uint64, n int) []byte {
	key := append(binary.BigEndian.AppendUint32([]byte{kindChange}, table), byte(slot))
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(key, stamp), uint16(n))
}

// ChangeSpan holds the changes of one slot with stamps from one up to, and
// without, another.
func ChangeSpan(table uint32, slot int, from, to uint64) (start, end []byte) {
	return Change(table, slot, from, 0), Change(table, slot, to, 0)
}

// ChangesSpan holds all changes of a table.
func ChangesSpan(table uint32) (start, end []byte) {
	start = binary.BigEndian.AppendUint32([]byte{kindChange}, table)
	return start, successor(start)
}

// ChangeOf takes the key of a change record apart.
func ChangeOf(key []byte) (slot int, stamp uint64, n int) {
	return int(key[5]), binary.BigEndian.Uint64(key[6:]), int(binary.BigEndian.Uint16(key[14:]))
}

const signBit = 1 << 63

// Expiry is the key of the note that an item expires at a second. It contains
// the item's own key, so that no two items write the same.
func Expiry(table uint32, at int64, item []byte) []byte {
	key := binary.BigEndian.AppendUint32([]byte{kindExpiry}, table)
	key = binary.BigEndian.AppendUint64(key, uint64(at)^signBit) // negative seconds first
	return append(key, item...)
}

// ExpirySpan holds the notes of seconds from one up to, and without, another.
func ExpirySpan(table uint32, from, to int64) (start, end []byte) {
	return Expiry(table, from, nil), Expiry(table, to, nil)
}

// ExpiriesSpan holds all such notes of a table.
func ExpiriesSpan(table uint32) (start, end []byte) {
	start = binary.BigEndian.AppendUint32([]byte{kindExpiry}, table)
	return start, successor(start)
}

// ExpiryOf takes the key of such a note apart.
func ExpiryOf(key []byte) (at int64, item []byte) {
	return int64(binary.BigEndian.Uint64(key[5:]) ^ signBit), key[13:]
}

// Lane divides the keys of items among n, by the hash of the partition; key is
// the item's.
func Lane(key []byte, n int) int { return int(key[1+4+2]) * n >> 8 }
