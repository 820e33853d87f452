package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// A control plants faults in stator's answers, and counts how many of them the
// list of known faults does not hide.
type control struct {
	Planted  map[string]int            `json:"planted"`  // by the kind of fault
	Reported map[string]int            `json:"reported"` // by the kind of fault
	Hidden   map[string]map[string]int `json:"hidden"`   // by the kind of fault, and by the names of the entries that hide it
	Examples map[string]exchange       `json:"-"`        // by the kind and the names

	// Orders counts planted faults that the list does not hide, and that could be
	// the order of two faults; Taken counts those that were taken for it.
	Orders int `json:"orders"`
	Taken  int `json:"taken"`

	last   map[string]answer // the last errors by operation
	orders []*exchange       // planted faults of the last exchange that could be the order of two faults
}

func newControl() *control {
	return &control{Planted: make(map[string]int), Reported: make(map[string]int), Hidden: make(map[string]map[string]int),
		Examples: make(map[string]exchange), last: make(map[string]answer)}
}

// count plants each kind of fault in stator's answer of an exchange that has no
// unexplained difference.
func (c *control) count(e exchange) {
	c.orders = nil
	if e.Answers == nil || slices.ContainsFunc(e.compare(), func(f *finding) bool { return explain(f) == nil }) {
		return
	}
	for _, p := range plants {
		planted := e.withFault(p, c.last[e.Step.Op])
		if planted == nil {
			continue
		}
		found := planted.compare()
		if len(found) == 0 {
			continue // both others have this answer
		}
		c.Planted[p.name]++
		if hiders, hidden := hiders(found); hidden {
			if c.Hidden[p.name] == nil {
				c.Hidden[p.name] = make(map[string]int)
			}
			c.Hidden[p.name][hiders]++
			c.Examples[p.name+": "+hiders] = *planted
			continue
		}
		c.Reported[p.name]++
		if slices.ContainsFunc(found, (*finding).reducible) {
			c.orders = append(c.orders, planted)
		}
	}
	if a := e.Answers[0]; !a.ok() {
		c.last[e.Step.Op] = *a
	}
}

// withFault returns a copy of an exchange with a fault in stator's answer, or
// nil if the answer cannot have it.
func (e exchange) withFault(p plant, other answer) *exchange {
	a := *e.Answers[0]
	a.Body, _ = cloneJSON(a.Body).(object)
	if a.Body == nil {
		a.Body = object{}
	}
	if !p.alter(&a, e.Step, other) {
		return nil
	}
	answers := slices.Clone(e.Answers)
	answers[0] = &a
	return &exchange{e.Step, answers}
}

// reduce counts whether a planted fault, which is in the answer to the last of some
// steps, is taken for the order of two faults.
func (c *control) reduce(ctx context.Context, g group, steps []step, planted *exchange) error {
	request := planted.Step.text()
	alter := func(a *answer, st step) {
		if st.text() == request {
			*a = *planted.Answers[0]
		}
	}
	c.Orders++
	for _, f := range planted.compare() {
		if explain(f) != nil {
			continue
		}
		sq, err := g.reduce(ctx, steps, f, alter)
		if err != nil || sq == nil {
			return err
		}
	}
	c.Taken++
	c.Examples["order of two faults: "+request] = *planted
	return nil
}

// hiders returns the names of the entries that explain all findings, and
// whether there are such.
func hiders(found []*finding) (names string, hidden bool) {
	set := make(map[string]bool)
	for _, f := range found {
		ks := explain(f)
		if ks == nil {
			return "", false
		}
		for _, k := range ks {
			set[k.name] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(set)), " + "), true
}

// print writes a table of the kinds of faults, and what hides them.
func (c *control) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PLANTED\tREPORTED\tFAULT")
	planted, reported := 0, 0
	for _, p := range plants {
		fmt.Fprintf(t, "%d\t%.2f %%\t%s\n", c.Planted[p.name], share(c.Reported[p.name], c.Planted[p.name]), p.name)
		planted += c.Planted[p.name]
		reported += c.Reported[p.name]
	}
	fmt.Fprintf(t, "%d\t%.2f %%\tall\n", planted, share(reported, planted))
	_ = t.Flush()
	fmt.Fprintf(w, "%d of %d planted faults that were reduced were taken for the order of two faults\n", c.Taken, c.Orders)
	byName := make(map[string]int)
	for kind, hidden := range c.Hidden {
		for names, n := range hidden {
			byName[kind+"\t"+names] += n
		}
	}
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HIDDEN\tFAULT\tBY")
	for _, names := range slices.SortedFunc(maps.Keys(byName), func(a, b string) int {
		return cmp.Or(cmp.Compare(byName[b], byName[a]), cmp.Compare(a, b))
	}) {
		fmt.Fprintf(t, "%d\t%s\n", byName[names], names)
	}
	_ = t.Flush()
}

func share(part, all int) float64 { return 100 * float64(part) / float64(max(all, 1)) }
