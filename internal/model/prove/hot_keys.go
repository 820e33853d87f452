package prove

import (
	"cmp"
	"container/heap"
	"slices"
)

// hotKeyCounter counts the most frequent keys in bounded space (Metwally's
// space-saving): when it is full, a new key replaces the rarest one and takes
// over its count. So no count is too small, and each is too large by at most
// all/size.
type hotKeyCounter struct {
	size int
	all  int
	keys keyCountHeap
	at   map[string]*keyCount
}

// keyCount is a key with its count, of which up to over belong to replaced
// keys.
type keyCount struct {
	key         string
	count, over int
	index       int // in the heap
}

func newHotKeyCounter(size int) *hotKeyCounter {
	return &hotKeyCounter{size: size, at: make(map[string]*keyCount, size)}
}

func (h *hotKeyCounter) add(key string) {
	h.all++
	if c := h.at[key]; c != nil {
		c.count++
		heap.Fix(&h.keys, c.index)
		return
	}
	if len(h.keys) < h.size {
		c := &keyCount{key: key, count: 1}
		h.at[key] = c
		heap.Push(&h.keys, c)
		return
	}
	c := h.keys[0]
	delete(h.at, c.key)
	c.key, c.over = key, c.count
	c.count++
	h.at[key] = c
	heap.Fix(&h.keys, 0)
}

// HotKey is a partition key and how often requests touched it.
type HotKey struct {
	Key      string  `json:"key"` // with its table, and its index if it belongs to one
	Requests int     `json:"requests"`
	Share    float64 `json:"share"` // of all touches of partitions
}

// top returns the most frequent keys, without those of which more than half the
// count is uncertain.
func (h *hotKeyCounter) top(n int) []HotKey {
	var all []HotKey
	for _, c := range h.keys {
		if 2*c.over <= c.count {
			all = append(all, HotKey{c.key, c.count, float64(c.count) / float64(h.all)})
		}
	}
	slices.SortFunc(all, func(a, b HotKey) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(n, len(all))]
}

// keyCountHeap is a heap with the rarest key first.
type keyCountHeap []*keyCount

func (r keyCountHeap) Len() int           { return len(r) }
func (r keyCountHeap) Less(i, j int) bool { return r[i].count < r[j].count }

func (r keyCountHeap) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].index, r[j].index = i, j
}

// Push implements heap.Interface.
func (r *keyCountHeap) Push(x any) {
	c := x.(*keyCount)
	c.index = len(*r)
	*r = append(*r, c)
}

// Pop implements heap.Interface; it is never called.
func (r *keyCountHeap) Pop() any { panic("keys are replaced, never removed") }
