package item

// MaxSize is the largest size of an item, in DynamoDB's bytes.
const MaxSize = 400 * 1024

// MaxRequestValues is the largest size of all values of a request that are not part of
// an item.
const MaxRequestValues = 2 << 20

// MaxDepth is how many levels of lists and maps a value may have.
const MaxDepth = 32

// Size is the item's size in DynamoDB's bytes: the names and values of its
// attributes.
func (it Item) Size() int {
	if it == nil {
		return 0
	}
	size, _ := sizeOfEntries(it)
	return size
}

// Size is the value's size in DynamoDB's bytes. A list or a map costs three
// bytes and one more for each element.
func (v Value) Size() int {
	size, _ := sizeOfValue(v)
	return size
}

// RowSize is the size of values that follow one another in row.
func RowSize(row []byte) (size int) {
	for len(row) > 0 {
		n, end := sizeOfValue(row)
		size, row = size+n, row[end:]
	}
	return size
}

// sizeOfEntries returns the size and the number of the attributes in b, which
// begins with their count. Reading a page calls it for each item, so it
// passes over the bytes once.
func sizeOfEntries(b []byte) (size, count int) {
	count, at := length(b, 0)
	for range count {
		n, begin := length(b, at)
		value, end := sizeOfValue(b[begin+n:])
		size += n + value
		at = begin + n + end
	}
	return size, count
}

// sizeOfValue returns the size of the value that b begins with, and where it
// ends.
func sizeOfValue(b []byte) (size, end int) {
	switch t := Type(b[0]); t {
	case NULL:
		return 1, 1
	case BOOL:
		return 1, 2
	case N:
		end = 2 + int(b[1])
		return sizeOfNumber(b[2:end]), end
	case S, B:
		n, begin := length(b, 1)
		return n, begin + n
	case M:
		n, begin := length(b, 1)
		size, count := sizeOfEntries(b[begin:])
		return 3 + count + size, begin + n
	default:
		n, begin := length(b, 1)
		count, at := length(b[begin:], 0)
		for range count {
			s, e := sizeOfValue(b[begin+at:])
			size += s
			at += e
		}
		if t == L {
			size += 3 + count
		}
		return size, begin + n
	}
}

// Depth is how many levels of lists and maps an item has, itself included.
func (it Item) Depth() int {
	deepest := 0
	for _, v := range it.Names() {
		deepest = max(deepest, v.depth())
	}
	return 1 + deepest
}

func (v Value) depth() int {
	switch v.Type() {
	case M:
		return v.Item().Depth()
	case L:
		deepest := 0
		for e := range v.Elements() {
			deepest = max(deepest, e.depth())
		}
		return 1 + deepest
	}
	return 0
}

// SizeBound returns a bound of the size that takes no time to compute. A value is
// stored in at least half as many bytes as it counts.
func (it Item) SizeBound() int { return 2 * len(it) }
