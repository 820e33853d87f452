package doc

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stator-db/stator/internal/model"
)

// Machine is one status machine with its diagram.
type Machine struct {
	Name        string
	Description string
	Of          string // entity.attribute
	States      []string
	Initial     []string
	Transitions []Transition
	Diagram     Diagram
}

// Transition is one arrow. Its number is also in the diagram.
type Transition struct {
	Number    int
	From, To  string
	Condition string
	Patterns  []Link
}

func machineOf(m *model.Model, k *model.Machine) Machine {
	shown := Machine{Name: k.Name, Description: k.Description, Of: k.Entity + "." + k.Attribute, Initial: k.Initial}
	state := func(name string) {
		if !slices.Contains(shown.States, name) {
			shown.States = append(shown.States, name)
		}
	}
	for _, s := range k.Initial {
		state(s)
	}
	for _, t := range k.Transitions {
		for _, from := range t.From {
			state(from)
			state(t.To)
			shown.Transitions = append(shown.Transitions, Transition{
				Number: len(shown.Transitions) + 1, From: from, To: t.To, Condition: t.Condition, Patterns: transitionPatterns(m, k, from, t.To),
			})
		}
	}
	shown.Diagram = draw(shown.States, shown.Initial, shown.Transitions)
	return shown
}

// transitionPatterns returns the patterns that make a transition.
func transitionPatterns(m *model.Model, k *model.Machine, from, to string) (links []Link) {
	setting := func(list []*model.Setting) string {
		for _, s := range list {
			if s.Name == k.Attribute {
				return s.Value.Text()
			}
		}
		return ""
	}
	for i, p := range m.Patterns {
		for _, a := range p.Actions() {
			if a.Entity().Name != k.Entity || a.Verb() != model.Update || setting(a.Set) != to {
				continue
			}
			before := setting(a.From)
			if before == "" {
				before = onlySource(k, to)
			}
			if before == "" || before == from {
				links = append(links, Link{ID: patternID(i), Name: p.Name})
				break
			}
		}
	}
	return links
}

// onlySource is the only state that has a transition to another, "" if there
// are several.
func onlySource(k *model.Machine, to string) (from string) {
	for _, t := range k.Transitions {
		for _, f := range t.From {
			if t.To == to && from != "" && from != f {
				return ""
			} else if t.To == to {
				from = f
			}
		}
	}
	return from
}

// Diagram is the layout of a status machine: initial states at the top, each
// other state one row below the first that leads to it.
type Diagram struct {
	Width, Height int
	Nodes         []Node
	Edges         []Edge
	Starts        []Edge
}

// Node is a state.
type Node struct {
	X, Y, Width, Height int // the upper left corner
	TextX, TextY        int
	Name                string
	Final               bool // no transition leaves it
}

// Edge is an arrow with a number at a point on it.
type Edge struct {
	Path   string
	Number int
	X, Y   int

	bend [4]point // control points of a curve, which its number is placed on
}

const (
	nodeHeight  = 38
	rowHeight   = 100
	columnGap   = 40
	laneWidth   = 30
	margin      = 14
	startHeight = 34
	letterWidth = 9
	mostStates  = 60 // a larger diagram is unreadable
	mostLetters = 24
)

func draw(states, initial []string, transitions []Transition) Diagram {
	if len(states) > mostStates || len(states) == 0 {
		return Diagram{}
	}
	l := &layout{row: make(map[string]int), node: make(map[string]*Node)}
	l.rows(states, initial, transitions)
	l.place()
	d := Diagram{}
	for _, s := range states {
		n := l.node[s]
		n.Final = !slices.ContainsFunc(transitions, func(t Transition) bool { return t.From == s })
		d.Nodes = append(d.Nodes, *n)
	}
	for _, s := range initial {
		if n := l.node[s]; n != nil && l.row[s] == 0 {
			d.Starts = append(d.Starts, Edge{Path: line(point{n.TextX, margin + 5}, point{n.TextX, n.Y}), X: n.TextX, Y: margin})
		}
	}
	l.edges(&d, transitions)
	d.Width, d.Height = l.right+l.lanes*laneWidth+2*margin+l.loops, margin+startHeight+len(l.levels)*rowHeight-(rowHeight-nodeHeight)+margin+l.dip
	return d
}

type layout struct {
	row    map[string]int
	levels [][]string
	node   map[string]*Node
	right  int // of the widest row
	lanes  int // arrows that are routed at the right
	loops  int // space for loops at the right
	dip    int // how far arrows extend below the last row
}

// rows assigns each state to a row: one below the first state that leads to it.
func (l *layout) rows(states, initial []string, transitions []Transition) {
	queue := slices.Clone(initial)
	for _, s := range initial {
		l.row[s] = 0
	}
	visit := func() {
		for len(queue) > 0 {
			s := queue[0]
			queue = queue[1:]
			for _, t := range transitions {
				if _, seen := l.row[t.To]; t.From == s && !seen {
					l.row[t.To] = l.row[s] + 1
					queue = append(queue, t.To)
				}
			}
		}
	}
	visit()
	for _, s := range states { // states that no transition leads to
		if _, seen := l.row[s]; !seen {
			l.row[s] = 0
			queue = append(queue, s)
			visit()
		}
	}
	for _, s := range states {
		for len(l.levels) <= l.row[s] {
			l.levels = append(l.levels, nil)
		}
		l.levels[l.row[s]] = append(l.levels[l.row[s]], s)
	}
}

// place gives each state its box; rows are centred.
func (l *layout) place() {
	widths := make([]int, len(l.levels))
	for i, level := range l.levels {
		for _, s := range level {
			widths[i] += boxWidth(s) + columnGap
		}
		widths[i] -= columnGap
		l.right = max(l.right, widths[i])
	}
	for i, level := range l.levels {
		x := margin + (l.right-widths[i])/2
		for _, s := range level {
			n := &Node{X: x, Y: margin + startHeight + i*rowHeight, Width: boxWidth(s), Height: nodeHeight, Name: ellipsis(s)}
			n.TextX, n.TextY = n.X+n.Width/2, n.Y+nodeHeight/2+5
			l.node[s] = n
			x += n.Width + columnGap
		}
	}
}

func boxWidth(s string) int { return max(64, len([]rune(ellipsis(s)))*letterWidth+28) }

func ellipsis(s string) string {
	if r := []rune(s); len(r) > mostLetters {
		return string(r[:mostLetters-1]) + "…"
	}
	return s
}

// edges draws the arrows: directly between neighbouring rows, below the row
// within a row, and all others at the right.
func (l *layout) edges(d *Diagram, transitions []Transition) {
	// Sorting by target keeps arrows from crossing.
	order := slices.Clone(transitions)
	slices.SortStableFunc(order, func(a, b Transition) int {
		return cmp.Or(cmp.Compare(l.node[a.To].TextX, l.node[b.To].TextX), cmp.Compare(l.node[a.From].TextX, l.node[b.From].TextX))
	})
	all := make(map[side]*ports)
	at := func(s string, below bool) *ports { return portsAt(all, l.node[s], s, below) }
	for _, t := range order {
		if down, ok := l.direct(t); ok {
			at(t.From, down).n++
			at(t.To, !down).n++
		}
	}
	for _, t := range order {
		from, to := l.node[t.From], l.node[t.To]
		down, direct := l.direct(t)
		var e Edge
		switch {
		case direct:
			e = straight(at(t.From, down).next(), at(t.To, !down).next())
		case from == to:
			e = loop(from)
			l.loops = laneWidth
		case l.row[t.From] == l.row[t.To]:
			e = l.below(from, to)
		default:
			e = l.round(from, to)
		}
		e.Number = t.Number
		d.Edges = append(d.Edges, e)
	}
	slices.SortFunc(d.Edges, func(a, b Edge) int { return cmp.Compare(a.Number, b.Number) })
	for i := range d.Edges {
		d.Edges[i].number(d.Edges[:i])
	}
}

// number places the number of a curve: in its middle, or where it is not too
// close to other numbers.
func (e *Edge) number(others []Edge) {
	if e.bend == ([4]point{}) {
		return
	}
	const near = 21
	for _, t := range []float64{0.5, 0.36, 0.64, 0.24, 0.76, 0.16, 0.84, 0.5} {
		p := e.at(t)
		e.X, e.Y = p.x, p.y
		if !slices.ContainsFunc(others, func(o Edge) bool { return max(o.X-p.x, p.x-o.X, o.Y-p.y, p.y-o.Y) < near }) {
			return
		}
	}
}

// at is the point of a curve at parameter t.
func (e *Edge) at(t float64) point {
	u := 1 - t
	mix := func(a, b, c, d int) int {
		return int(math.Round(u*u*u*float64(a) + 3*u*u*t*float64(b) + 3*u*t*t*float64(c) + t*t*t*float64(d)))
	}
	b := e.bend
	return point{mix(b[0].x, b[1].x, b[2].x, b[3].x), mix(b[0].y, b[1].y, b[2].y, b[3].y)}
}

// direct reports whether a transition leads to a neighbouring row, and whether
// that is the row below.
func (l *layout) direct(t Transition) (down, direct bool) {
	step := l.row[t.To] - l.row[t.From]
	return step == 1, step == 1 || step == -1
}

// ports are the points where arrows meet one side of a box, from left to right.
type ports struct {
	node  *Node
	below bool
	n     int // number of ports
	used  int
}

// side is the upper or the lower side of a state's box.
type side struct {
	state string
	below bool
}

func portsAt(all map[side]*ports, n *Node, state string, below bool) *ports {
	key := side{state, below}
	if all[key] == nil {
		all[key] = &ports{node: n, below: below}
	}
	return all[key]
}

// next returns the next port.
func (p *ports) next() point {
	step := 0
	if p.n > 1 {
		step = min(26, (p.node.Width-24)/(p.n-1))
	}
	at := point{p.node.TextX + p.used*step - (p.n-1)*step/2, p.node.Y}
	if p.below {
		at.y += p.node.Height
	}
	p.used++
	return at
}

// straight draws an arrow between neighbouring rows.
func straight(a, b point) Edge {
	bend := 30
	if b.y < a.y {
		bend = -bend
	}
	return Edge{Path: curve(a, point{a.x, a.y + bend}, point{b.x, b.y - bend}, b), bend: [4]point{a, {a.x, a.y + bend}, {b.x, b.y - bend}, b}}
}

// loop draws an arrow from a state to itself.
func loop(n *Node) Edge {
	x := n.X + n.Width
	return Edge{Path: curve(point{x, n.Y + 28}, point{x + 34, n.Y + 34}, point{x + 34, n.Y + 4}, point{x, n.Y + 10}), X: x + 25, Y: n.Y + nodeHeight/2}
}

// below draws an arrow within a row, below the boxes between its ends.
func (l *layout) below(from, to *Node) Edge {
	const dip = 44
	a, b := point{from.X + 16, from.Y + from.Height}, point{to.X + to.Width - 16, to.Y + to.Height}
	if to.X > from.X {
		a.x, b.x = from.X+from.Width-16, to.X+16
	}
	l.dip = max(l.dip, l.bottom(from))
	return Edge{Path: curve(a, point{a.x, a.y + dip}, point{b.x, b.y + dip}, b), X: (a.x + b.x) / 2, Y: a.y + dip*3/4}
}

// bottom is the space that an arrow below a box needs at the bottom of the
// diagram.
func (l *layout) bottom(n *Node) int {
	if last := margin + startHeight + (len(l.levels)-1)*rowHeight; n.Y < last {
		return 0
	}
	return nodeHeight
}

// round draws an arrow that skips rows, in its own lane at the right of all
// boxes.
func (l *layout) round(from, to *Node) Edge {
	l.lanes++
	lane := margin + l.right + l.lanes*laneWidth - 6
	near := 12 + 4*(l.lanes%4)
	l.dip = max(l.dip, l.bottom(from)-8)
	a, b := point{from.X + from.Width - 12, from.Y + from.Height}, point{to.X + to.Width - 12, to.Y}
	path := corners(a, point{a.x, a.y + near}, point{lane, a.y + near}, point{lane, b.y - near}, point{b.x, b.y - near}, b)
	return Edge{Path: path, X: lane, Y: (a.y + b.y) / 2}
}

type point struct{ x, y int }

// curve returns the SVG path of a curve.
func curve(a, b, c, d point) string { return fmt.Sprintf("M%s C%s %s %s", a, b, c, d) }

// line returns the SVG path of a straight line.
func line(a, b point) string { return fmt.Sprintf("M%s L%s", a, b) }

// corners returns the SVG path of a polyline with rounded corners.
func corners(points ...point) string {
	var b strings.Builder
	fmt.Fprintf(&b, "M%s", points[0])
	for i := 1; i < len(points)-1; i++ {
		p := points[i]
		fmt.Fprintf(&b, " L%s Q%s %s", p.toward(points[i-1]), p, p.toward(points[i+1]))
	}
	fmt.Fprintf(&b, " L%s", points[len(points)-1])
	return b.String()
}

// toward moves a point a little towards another on the same horizontal or
// vertical line.
func (p point) toward(to point) point {
	const radius = 8
	step := func(from, to int) int { return from + min(radius, max(-radius, (to-from)/2)) }
	return point{step(p.x, to.x), step(p.y, to.y)}
}

func (p point) String() string { return fmt.Sprintf("%d %d", p.x, p.y) }

func patternID(i int) string { return "pattern-" + strconv.Itoa(i+1) }
