package insights

import (
	"cmp"
	"slices"
)

// counters is how many keys a topK counts at a time: its counts are too high by at
// most the sum of all divided by it.
const counters = 4096

// Key is the partition key of requests and, in rules for items, their sort key.
type Key struct{ Partition, Sort string }

// Contributor is a key and what its requests add up to.
type Contributor struct {
	Key   Key
	Value float64
}

// topK finds the keys with the largest sums in bounded memory, by the space-saving
// algorithm (Metwally et al., 2005): a key that is not counted takes the place of the
// one with the smallest sum, and continues from that.
type topK struct {
	at   map[Key]int // positions in heap
	heap []counted   // the smallest first
	sum  float64
}

type counted struct {
	Contributor
	over float64 // Value may be too high by this much
}

// add adds to the sum of a key.
func (k *topK) add(key Key, value float64) {
	if k.at == nil {
		k.at = make(map[Key]int)
	}
	k.sum += value
	i, ok := k.at[key]
	switch {
	case ok:
		k.heap[i].Value += value
	case len(k.heap) < counters:
		i = len(k.heap)
		k.heap = append(k.heap, counted{Contributor: Contributor{key, value}})
		k.at[key] = i
		k.up(i)
		return
	default:
		least := &k.heap[0]
		delete(k.at, least.Key)
		least.Key, least.over = key, least.Value
		least.Value += value
		k.at[key] = 0
		i = 0
	}
	k.down(i)
}

func (k *topK) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if k.heap[parent].Value <= k.heap[i].Value {
			return
		}
		k.swap(i, parent)
		i = parent
	}
}

func (k *topK) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(k.heap) {
			return
		}
		if child+1 < len(k.heap) && k.heap[child+1].Value < k.heap[child].Value {
			child++
		}
		if k.heap[i].Value <= k.heap[child].Value {
			return
		}
		k.swap(i, child)
		i = child
	}
}

func (k *topK) swap(i, j int) {
	k.heap[i], k.heap[j] = k.heap[j], k.heap[i]
	k.at[k.heap[i].Key], k.at[k.heap[j].Key] = i, j
}

// top returns the n keys with the largest sums, the largest first. A key that may
// belong there only because of the error of its sum is left out.
func (k *topK) top(n int) []Contributor {
	all := slices.Clone(k.heap)
	slices.SortFunc(all, func(a, b counted) int { return cmp.Compare(b.Value, a.Value) })
	var top []Contributor
	for _, c := range all {
		if len(top) == n {
			break
		}
		if c.over > c.Value/2 {
			continue // most of it belongs to other keys
		}
		top = append(top, Contributor{c.Key, c.Value})
	}
	return top
}
