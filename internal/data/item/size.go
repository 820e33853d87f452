package item

// MaxSize is the largest an item may be, in DynamoDB's bytes.
const MaxSize = 400 * 1024

// MaxDepth is how many levels of lists and maps a value may have.
const MaxDepth = 32

// Size is the item's size in DynamoDB's bytes: of each attribute its name and
// its value.
func (it Item) Size() int {
	size := 0
	rest, count := it.entries()
	for range count {
		var name []byte
		var v Value
		name, v, rest = cutEntry(rest)
		size += len(name) + v.Size()
	}
	return size
}

// Size is the value's size in DynamoDB's bytes. A list or a map costs three
// bytes and one more for each element.
func (v Value) Size() int {
	switch v.Type() {
	case S, B:
		return len(v.Bytes())
	case N:
		return sizeOfNumber(v[2:])
	case BOOL, NULL:
		return 1
	case M:
		it := v.Item()
		return 3 + it.Len() + it.Size()
	}
	size := 0
	if v.Type() == L {
		size = 3 + v.Len()
	}
	for e := range v.Elements() {
		size += e.Size()
	}
	return size
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
