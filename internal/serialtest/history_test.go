package serialtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A history has the requests and replies of clients. Their transactions
// append numbers to lists, each number once, and read whole lists. So each
// read shows the order of all appends before it, and with it the order of
// transactions. If that order and the order of the clock together have a
// cycle, the history is not serialisable.
//
// This is the method of Elle (Kingsbury and Alvaro, VLDB 2020), for lists.

// txnOutcome is what a client knows about its transaction.
type txnOutcome int

const (
	committed txnOutcome = iota
	aborted
	unknown
)

// txn is one transaction of a client.
type txn struct {
	begin, end int64 // on one clock; an unknown outcome has no end
	outcome    txnOutcome
	appends    []appended
	reads      []read
}

// appended is what a transaction appends to a list, atomically.
type appended struct {
	key      int
	elements []int
}

// read is a list as a transaction saw it.
type read struct {
	key  int
	list []int
}

func (x txn) String() string {
	var parts []string
	for _, a := range x.appends {
		parts = append(parts, fmt.Sprintf("append %v to %d", a.elements, a.key))
	}
	for _, r := range x.reads {
		parts = append(parts, fmt.Sprintf("read %d as %v", r.key, r.list))
	}
	return fmt.Sprintf("[%d, %d] %s", x.begin, x.end, strings.Join(parts, ", "))
}

// The anomalies, by their usual names.
const (
	dirtyWrite        = "G0"          // a cycle of writes
	abortedRead       = "G1a"         // of an aborted write
	intermediateRead  = "G1b"         // of a part of one append
	circularFlow      = "G1c"         // a cycle of writes and reads of them
	antiDependency    = "G2"          // a cycle with reads that are overwritten, such as write skew
	realTime          = "real time"   // a cycle with the clock, such as a stale read
	lostUpdate        = "lost update" // an acknowledged append that is missing
	incompatibleOrder = "incompatible order"
	duplicate         = "duplicate"
	phantom           = "phantom" // an element that was never appended
)

type anomaly struct{ kind, detail string }

func (a anomaly) String() string { return a.kind + ": " + a.detail }

// check looks for anomalies. It takes about linear time.
func check(history []txn) []anomaly {
	c := historyChecker{history: history, writer: make(map[int]elementOrigin), longest: make(map[int][]int)}
	c.findWriters()
	c.findOrders()
	if len(c.found) == 0 {
		c.findLost()
		c.findCycles()
	}
	return c.found
}

// elementOrigin is the append that an element is from.
type elementOrigin struct {
	txn  int
	last bool // the last element of its append
}

type historyChecker struct {
	history []txn
	writer  map[int]elementOrigin // of each element
	longest map[int][]int         // of each key, the longest list read: its order
	found   []anomaly
}

func (c *historyChecker) note(kind, format string, args ...any) {
	c.found = append(c.found, anomaly{kind, fmt.Sprintf(format, args...)})
}

func (c *historyChecker) findWriters() {
	for i, x := range c.history {
		for _, a := range x.appends {
			for n, e := range a.elements {
				c.writer[e] = elementOrigin{i, n == len(a.elements)-1}
			}
		}
	}
}

// findOrders finds the order of each list, and reads that do not fit it.
func (c *historyChecker) findOrders() {
	for _, x := range c.history {
		for _, r := range x.reads {
			if len(r.list) > len(c.longest[r.key]) {
				c.longest[r.key] = r.list
			}
		}
	}
	for key, order := range c.longest {
		seen := make(map[int]bool, len(order))
		for _, e := range order {
			w, ok := c.writer[e]
			switch {
			case seen[e]:
				c.note(duplicate, "list %d has %d twice", key, e)
			case !ok:
				c.note(phantom, "list %d has %d, which was never appended", key, e)
			case c.history[w.txn].outcome == aborted:
				c.note(abortedRead, "list %d has %d of the aborted %v", key, e, c.history[w.txn])
			}
			seen[e] = true
		}
	}
	for _, x := range c.history {
		for _, r := range x.reads {
			if !slices.Equal(r.list, c.longest[r.key][:len(r.list)]) {
				c.note(incompatibleOrder, "list %d was read as %v and as %v", r.key, r.list, c.longest[r.key])
			} else if n := len(r.list); n > 0 && !c.writer[r.list[n-1]].last {
				c.note(intermediateRead, "list %d was read in the middle of an append: %v", r.key, x)
			}
		}
	}
}

// findLost finds acknowledged appends that a later read does not have.
func (c *historyChecker) findLost() {
	lastRead := make(map[int]int64) // of each list, when the last read of it began
	for _, x := range c.history {
		for _, r := range x.reads {
			lastRead[r.key] = max(lastRead[r.key], x.begin)
		}
	}
	there := make(map[int]bool)
	for _, order := range c.longest {
		for _, e := range order {
			there[e] = true
		}
	}
	for _, x := range c.history {
		for _, a := range x.appends {
			if x.outcome == committed && !there[a.elements[0]] && x.end < lastRead[a.key] {
				c.note(lostUpdate, "no read has what was appended by %v", x)
			}
		}
	}
}

// edge says that one transaction is before another.
type edge struct {
	to   int
	kind string
}

// findCycles looks for cycles, the gravest kind first.
func (c *historyChecker) findCycles() {
	g := make(graph, len(c.history))
	g = c.dependencies(g)
	g = c.clock(g)
	for _, level := range []struct {
		kind  string
		edges []string
	}{
		{dirtyWrite, []string{"ww"}},
		{circularFlow, []string{"ww", "wr"}},
		{antiDependency, []string{"ww", "wr", "rw"}},
		{realTime, []string{"ww", "wr", "rw", "rt"}},
	} {
		if cycle := g.cycle(level.edges); cycle != nil {
			c.note(level.kind, "%s", c.describe(cycle))
			return
		}
	}
}

// dependencies adds edges between transactions by what they wrote and read.
func (c *historyChecker) dependencies(g graph) graph {
	join := func(from, to int, kind string) {
		if from != to {
			g[from] = append(g[from], edge{to, kind})
		}
	}
	for _, order := range c.longest {
		for i := 1; i < len(order); i++ {
			join(c.writer[order[i-1]].txn, c.writer[order[i]].txn, "ww")
		}
	}
	for i, x := range c.history {
		for _, r := range x.reads {
			n, order := len(r.list), c.longest[r.key]
			if n > 0 {
				join(c.writer[r.list[n-1]].txn, i, "wr")
			}
			if n < len(order) {
				join(i, c.writer[order[n]].txn, "rw")
			}
		}
	}
	return g
}

// clock adds edges from each transaction to those that began after its end.
// Moments are nodes of their own, each with an edge to the next, so that
// there are few edges.
func (c *historyChecker) clock(g graph) graph {
	type event struct {
		at    int64
		txn   int
		begin bool
	}
	var events []event
	for i, x := range c.history {
		if x.outcome == aborted {
			continue // it had no effect, so it has no position
		}
		events = append(events, event{x.begin, i, true})
		if x.outcome == committed {
			events = append(events, event{x.end, i, false})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	now := -1
	for _, e := range events {
		switch {
		case !e.begin:
			g = append(g, nil)
			moment := len(g) - 1
			if now >= 0 {
				g[now] = append(g[now], edge{moment, "rt"})
			}
			now = moment
			g[e.txn] = append(g[e.txn], edge{now, "rt"})
		case now >= 0:
			g[now] = append(g[now], edge{e.txn, "rt"})
		}
	}
	return g
}

// describe formats a cycle.
func (c *historyChecker) describe(cycle []edge) string {
	var b strings.Builder
	for _, e := range cycle {
		if e.to < len(c.history) {
			fmt.Fprintf(&b, "\n  -%s-> %v", e.kind, c.history[e.to])
		}
	}
	return b.String()
}

// graph is the edges from each node.
type graph [][]edge

// cycle returns the edges of one cycle of these kinds; nil if there is none.
func (g graph) cycle(kinds []string) []edge {
	use := make(map[string]bool)
	for _, k := range kinds {
		use[k] = true
	}
	component, circular := g.components(use)
	if circular < 0 {
		return nil
	}
	return g.shortest(circular, use, component)
}

// components numbers the strongly connected components, by Tarjan's algorithm
// without recursion, and returns a node of one that has a cycle; -1 for none.
func (g graph) components(use map[string]bool) (component []int, circular int) {
	const none = -1
	index, low := make([]int, len(g)), make([]int, len(g))
	component = make([]int, len(g))
	next := make([]int, len(g)) // the next edge to visit
	for i := range g {
		index[i], component[i] = none, none
	}
	var stack, path []int
	count, components := 0, 0
	circular = none
	for root := range g {
		if index[root] != none {
			continue
		}
		path = append(path, root)
		for len(path) > 0 {
			v := path[len(path)-1]
			if index[v] == none {
				index[v], low[v] = count, count
				count++
				stack = append(stack, v)
			}
			descended := false
			for next[v] < len(g[v]) {
				e := g[v][next[v]]
				if !use[e.kind] {
					next[v]++
					continue
				}
				if index[e.to] == none {
					path = append(path, e.to)
					descended = true
					break
				}
				if component[e.to] == none {
					low[v] = min(low[v], low[e.to])
				}
				next[v]++
			}
			if descended {
				continue
			}
			path = path[:len(path)-1]
			if low[v] != index[v] {
				continue
			}
			size := 0
			for {
				w := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				component[w] = components
				size++
				if w == v {
					break
				}
			}
			if size > 1 {
				circular = v
			}
			components++
		}
	}
	return component, circular
}

// shortest returns a shortest cycle through a node.
func (g graph) shortest(from int, use map[string]bool, component []int) []edge {
	type step struct {
		from int
		edge edge
	}
	came := map[int]step{}
	queue := []int{from}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		for _, e := range g[v] {
			if !use[e.kind] || component[e.to] != component[from] {
				continue
			}
			if e.to == from {
				cycle := []edge{e}
				for v != from {
					cycle = append(cycle, came[v].edge)
					v = came[v].from
				}
				slices.Reverse(cycle)
				return cycle
			}
			if _, seen := came[e.to]; !seen {
				came[e.to] = step{v, e}
				queue = append(queue, e.to)
			}
		}
	}
	panic("a component with a cycle has none")
}
