package ops

import (
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/workload"
)

// Shapes returns the requests since the start, counted by shape.
func (s *Service) Shapes() workload.Report { return s.workload.Report() }

// usage is what a request did in one of its tables.
type usage struct {
	table             string // set by operations that use several
	returned, scanned int    // items
	consumed          capacity.Consumed

	// unmeasured is set by a GetItem that computed no units: measuring the item
	// takes a quarter of the request's time. Its units are sampled from got.
	unmeasured bool
	got        item.Item
	consistent bool
}

// count adds a usage to the counts of a shape.
func (u *usage) count(c *workload.Counter) {
	switch sampled := c.Observe(u.returned, u.scanned); {
	case !u.unmeasured:
		c.AddUnits(u.consumed.Total())
	case sampled:
		c.AddUnits(capacity.Read(u.got.Size(), u.consistent))
	}
}

// usages is what a request did in each of its tables, ordered by their names.
type usages []usage

// of returns the usage of a table, and adds it if it is missing.
func (u *usages) of(table string) *usage {
	i, ok := slices.BinarySearchFunc(*u, table, func(u usage, table string) int { return strings.Compare(u.table, table) })
	if !ok {
		*u = slices.Insert(*u, i, usage{table: table})
	}
	return &(*u)[i]
}

// total returns the usage of all tables together.
func (u usages) total() (sum usage) {
	for i := range u {
		sum.consumed.Add(u[i].consumed)
	}
	return sum
}

// shaping says which shape the requests of an operation have.
type shaping[In any] struct {
	// shape returns the shape of a request without its form.
	shape func(*In) workload.Shape

	// expression returns the expression that determines the form of a request,
	// and its names; not ok for legacy parameters, whose form is computed for
	// each request. form computes it. Both are nil for operations whose shapes
	// have no form.
	expression func(*In) (text string, names map[string]string, ok bool)
	form       func(*Service, *In) (form string, ok bool)
}

// counter returns the counter for the shape of a successful request; nil if the
// table has changed since and the shape can no longer be computed.
func (sh *shaping[In]) counter(s *Service, in *In) *workload.Counter {
	shape := sh.shape(in)
	var text string
	var names map[string]string
	cacheable := true
	if sh.expression != nil {
		text, names, cacheable = sh.expression(in)
	}
	var f workload.Fingerprint
	if cacheable {
		f = s.workload.Fingerprint(&shape, text, names)
		if c := s.workload.Cached(f); c != nil {
			return c
		}
	}
	if sh.form != nil {
		var ok bool
		if shape.Form, ok = sh.form(s, in); !ok {
			return nil
		}
	}
	c := s.workload.Counter(shape)
	if cacheable {
		s.workload.Cache(f, c)
	}
	return c
}

func isConditional(c *api.Conditional) bool { return c.ConditionExpression != nil || c.Expected != nil }

func orNone(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
