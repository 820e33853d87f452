package admission

import "container/heap"

// waitQueue is a priority queue of waiters, as a heap.
type waitQueue[W queued[W]] []W

// queued is an element of a waitQueue.
type queued[W any] interface {
	before(W) bool
	// setIndex records the position in the queue.
	setIndex(index int)
}

// notQueued is the index of a waiter that has left the queue.
const notQueued = -1

func (q *waitQueue[W]) push(w W) { heap.Push((*waitHeap[W])(q), w) }

// pop removes the first waiter.
func (q *waitQueue[W]) pop() W { return heap.Pop((*waitHeap[W])(q)).(W) }

func (q *waitQueue[W]) remove(index int) { heap.Remove((*waitHeap[W])(q), index) }

// fix restores the order after the waiter at index has changed.
func (q *waitQueue[W]) fix(index int) { heap.Fix((*waitHeap[W])(q), index) }

// waitHeap implements heap.Interface for a waitQueue.
type waitHeap[W queued[W]] []W

func (h waitHeap[W]) Len() int { return len(h) }

func (h waitHeap[W]) Less(i, j int) bool { return h[i].before(h[j]) }

func (h waitHeap[W]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].setIndex(i)
	h[j].setIndex(j)
}

func (h *waitHeap[W]) Push(w any) {
	w.(W).setIndex(len(*h))
	*h = append(*h, w.(W))
}

func (h *waitHeap[W]) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	clear((*h)[last:])
	*h = (*h)[:last]
	w.setIndex(notQueued)
	return w
}
