package server

import "container/heap"

// line is a heap of those who wait for something, the next one first.
type line[W waits[W]] []W

// waits is who may stand in a line.
type waits[W any] interface {
	before(W) bool
	// moved tells where it stands now.
	moved(place int)
}

// gone is the place of one who waits no more.
const gone = -1

func (l *line[W]) add(w W) { heap.Push((*ordered[W])(l), w) }

// next takes the first one out.
func (l *line[W]) next() W { return heap.Pop((*ordered[W])(l)).(W) }

func (l *line[W]) remove(place int) { heap.Remove((*ordered[W])(l), place) }

// changed lets one move up or back that compares differently now.
func (l *line[W]) changed(place int) { heap.Fix((*ordered[W])(l), place) }

// ordered is a line as package heap wants it.
type ordered[W waits[W]] []W

func (l ordered[W]) Len() int { return len(l) }

func (l ordered[W]) Less(i, j int) bool { return l[i].before(l[j]) }

func (l ordered[W]) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].moved(i)
	l[j].moved(j)
}

func (l *ordered[W]) Push(w any) {
	w.(W).moved(len(*l))
	*l = append(*l, w.(W))
}

func (l *ordered[W]) Pop() any {
	last := len(*l) - 1
	w := (*l)[last]
	clear((*l)[last:])
	*l = (*l)[:last]
	w.moved(gone)
	return w
}
