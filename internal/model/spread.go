package model

import (
	"math"
	"slices"

	"github.com/stator-db/stator/internal/data/schema"
)

// spreading is the attributes whose values have the declared distribution, by name.
type spreading map[string]spreadOf

// spreadOf is the distribution of an attribute.
type spreadOf struct {
	attribute *Attribute
	skew      float64 // share of the hot values; 0 if none are
}

// spreadAttributes returns the attributes of a step that are spread: those of the
// partition key that a query reads, and else those of all partition keys of the
// entity.
func (p *Plan) spreadAttributes(s *Step) spreading {
	all := make(spreading)
	add := func(key schema.Key) {
		for _, a := range key.Partition {
			if s.Entity.byName[a.Name] == nil {
				continue
			}
			for _, leaf := range s.Entity.leaves(a.Name) {
				of := s.Entity.byName[leaf].Attribute
				all[leaf] = spreadOf{of, declaredSkew(p.Pattern, s.Action, of)}
			}
		}
	}
	t := s.Table.schema
	switch {
	case s.Action.verb == Scan:
	case s.Action.verb == Query && s.Index != nil:
		add(s.Index.schema.Key)
	case s.Action.verb == Query:
		add(t.Key)
	default:
		add(t.Key)
		for i := range t.Indexes {
			if t.Indexes[i].Global {
				add(t.Indexes[i].Key)
			}
		}
	}
	return all
}

// currentSeconds is the shortest period of a time that counts as current: what is
// written in a minute has one value of it. Shorter ones differ for each item.
const currentSeconds = 60

// spread returns the ordinal of a value such that the values of many ordinals have
// the declared distribution. All identifiers of an item use the same quantile: they
// are mostly correlated (a project has one tenant), as the forecast of heat assumes.
func (s *sample) spread(f *Field, of spreadOf, ordinal int) int {
	a := of.attribute
	if f.Attribute.Shards > 0 || len(f.Attribute.Values) > 0 {
		return ordinal
	}
	if period := formats[f.Attribute.Format].period; period != nil && s.entering && of.skew == 0 && period(f.Attribute) >= currentSeconds {
		return 0
	}
	u, hot, distinct := quantile(ordinal, math.Phi), a.HotValues(), int(a.Distinct)
	switch {
	case of.skew > 0 && (u < of.skew || distinct == hot):
		return min(hot-1, int(u/of.skew*float64(hot)))
	case of.skew > 0 && distinct > 0:
		return hot + int((u-of.skew)/(1-of.skew)*float64(distinct-hot))
	case of.skew > 0:
		return hot + ordinal
	case distinct > 0:
		return int(u * float64(distinct))
	}
	return ordinal
}

// spreadShard returns a shard number: all are equally frequent.
func spreadShard(a *Attribute, ordinal int) int {
	return int(quantile(ordinal, math.Sqrt2) * float64(a.Shards))
}

// spreadListed returns a listed value: each is as frequent as the mix or the skew says.
func spreadListed(a *Attribute, of spreadOf, ordinal int) string {
	u, sum := quantile(ordinal, math.SqrtE), 0.0
	shares := a.shares(of.skew)
	for i, share := range shares {
		if sum += share; u < sum {
			return a.Values[i]
		}
	}
	return a.Values[slices.Index(shares, slices.Max(shares))]
}

// quantile returns a number from 0 to 1. The multiples of an irrational number spread
// evenly, however many there are; those of different numbers are independent.
func quantile(ordinal int, of float64) float64 {
	_, u := math.Modf((float64(ordinal) + 0.5) * of)
	return u
}
