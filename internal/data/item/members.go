package item

import "hash/maphash"

// Members is a hash table of values. It finds a value without comparing it
// with all others. The zero Members is empty and ready for use.
type Members struct {
	row   []byte   // the values, one after another
	slots []uint32 // where in row a value begins, plus one; 0 is free
	count int
	seed  maphash.Seed
}

// MembersOf returns the members of a set or the elements of a list. It shares
// the memory of v.
func MembersOf(v Value) *Members {
	m := new(Members)
	body := v.body()
	_, begin := length(body, 0)
	m.row = body[begin:]
	for rest := m.row; len(rest) > 0; {
		var e Value
		at := len(m.row) - len(rest)
		e, rest = cut(rest)
		if slot, ok := m.reserve(e); !ok {
			m.occupy(slot, at)
		}
	}
	return m
}

// Add adds a copy of a value, unless it is there already. It must not be used
// with MembersOf.
func (m *Members) Add(v Value) {
	if slot, ok := m.reserve(v); !ok {
		at := len(m.row)
		m.row = append(m.row, v...)
		m.occupy(slot, at)
	}
}

// Has reports whether a value equal to v is there.
func (m *Members) Has(v Value) bool {
	if m.count == 0 {
		return false
	}
	_, ok := m.find(v)
	return ok
}

// reserve is find, with room for one more value.
func (m *Members) reserve(v Value) (slot int, ok bool) {
	if 2*(m.count+1) > len(m.slots) {
		m.grow()
	}
	return m.find(v)
}

// find returns the slot of a value; not ok if it is free.
func (m *Members) find(v Value) (slot int, ok bool) {
	mask := len(m.slots) - 1
	for slot = int(maphash.Bytes(m.seed, v)) & mask; m.slots[slot] != 0; slot = (slot + 1) & mask {
		if e, _ := cut(m.row[m.slots[slot]-1:]); Equal(e, v) {
			return slot, true
		}
	}
	return slot, false
}

func (m *Members) occupy(slot, at int) {
	m.slots[slot] = uint32(at) + 1
	m.count++
}

func (m *Members) grow() {
	before := m.slots
	if before == nil {
		m.seed = maphash.MakeSeed()
	}
	m.slots = make([]uint32, max(64, 2*len(before)))
	m.count = 0
	for _, at := range before {
		if at != 0 {
			e, _ := cut(m.row[at-1:])
			slot, _ := m.find(e)
			m.occupy(slot, int(at-1))
		}
	}
}
