package admission

import "container/heap"

// line is a heap of those who wait for something, the next one first.
type waitQueue[W queued[W]] []W

// waits is who may stand in a line.
type queued[W any] interface {
	before(W) bool
	// moved tells where it stands now.
	setIndex(index int)
}

// notQueued is the place of one who waits no more.
const notQueued = -1

func (q *waitQueue[W]) add(w W) { heap.Push((*waitHeap[W])(q), w) }

// next takes the first one out.
func (q *waitQueue[W]) next() W { return heap.Pop((*waitHeap[W])(q)).(W) }

func (q *waitQueue[W]) remove(index int) { heap.Remove((*waitHeap[W])(q), index) }

// changed lets one move up or back that compares differently now.
func (q *waitQueue[W]) changed(index int) { heap.Fix((*waitHeap[W])(q), index) }

// ordered is a line as package heap wants it.
type waitHeap[W queued[W]] []W

func (l waitHeap[W]) Len() int { return len(l) }

func (l waitHeap[W]) Less(i, j int) bool { return l[i].before(l[j]) }

func (l waitHeap[W]) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].setIndex(i)
	l[j].setIndex(j)
}

func (l *waitHeap[W]) Push(w any) {
	w.(W).setIndex(len(*l))
	*l = append(*l, w.(W))
}

func (l *waitHeap[W]) Pop() any {
	last := len(*l) - 1
	w := (*l)[last]
	clear((*l)[last:])
	*l = (*l)[:last]
	w.setIndex(notQueued)
	return w
}
