package keyspace

import "encoding/binary"

// Keys that are ordered by time: the changes of a table, and when its items
// expire.

// Slots is how many parts the changes of a table are divided into, by the
// hash of the partition.
const Slots = 1 << slotBits

const slotBits = 2

// Slot is the part that the changes of an item belong to; key is the item's.
func Slot(key []byte) int { return SlotOf(Hash(key)) }

// SlotOf is the part that the changes of items with a hash belong to.
func SlotOf(hash uint64) int { return int(hash >> (64 - slotBits)) }

// FirstOf is the smallest hash of a part. That of the part after the last one is 0.
func FirstOf(slot int) uint64 { return uint64(slot) << (64 - slotBits) }

// Change is the key of the change record of an item. The records of one item
// sort in the order of the changes; n distinguishes those of one update.
func Change(table uint32, slot int, stamp uint64, n int) []byte {
	key := append(binary.BigEndian.AppendUint32([]byte{KindChange}, table), byte(slot))
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(key, stamp), uint16(n))
}

// ChangeSpan holds the changes of one slot with stamps in [from, to).
func ChangeSpan(table uint32, slot int, from, to uint64) (start, end []byte) {
	return Change(table, slot, from, 0), Change(table, slot, to, 0)
}

// ChangesSpan holds all changes of a table.
func ChangesSpan(table uint32) (start, end []byte) {
	start = binary.BigEndian.AppendUint32([]byte{KindChange}, table)
	return start, successor(start)
}

// ChangeOf splits the key of a change record.
func ChangeOf(key []byte) (slot int, stamp uint64, n int) {
	return int(key[5]), binary.BigEndian.Uint64(key[6:]), int(binary.BigEndian.Uint16(key[14:]))
}

const signBit = 1 << 63

// Expiry is the key of the entry that says that an item expires at a second.
// It contains the item's own key, so that no two items share an entry.
func Expiry(table uint32, at int64, item []byte) []byte {
	key := binary.BigEndian.AppendUint32([]byte{KindExpiry}, table)
	key = binary.BigEndian.AppendUint64(key, uint64(at)^signBit) // negative seconds first
	return append(key, item...)
}

// ExpirySpan holds the entries of the seconds in [from, to).
func ExpirySpan(table uint32, from, to int64) (start, end []byte) {
	return Expiry(table, from, nil), Expiry(table, to, nil)
}

// ExpiriesSpan holds all such entries of a table.
func ExpiriesSpan(table uint32) (start, end []byte) {
	start = binary.BigEndian.AppendUint32([]byte{KindExpiry}, table)
	return start, successor(start)
}

// ExpiryOf splits the key of such an entry.
func ExpiryOf(key []byte) (at int64, item []byte) {
	return int64(binary.BigEndian.Uint64(key[5:]) ^ signBit), key[13:]
}

// Lane assigns the key of an item to one of n writers, by the hash of the
// partition.
func Lane(key []byte, n int) int { return int(key[1+4+2]) * n >> 8 }
