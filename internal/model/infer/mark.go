package infer

import (
	"maps"
	"slices"
	"strings"
)

// markStrength says whether an attribute names the entity of an item.
type markStrength int

const (
	noMark     markStrength = iota
	weakMark                // it may also be an ordinary attribute
	strongMark              // mapping libraries and conventions use it for nothing else
)

var (
	strongMarks = []string{"entity", "entitytype", "entityname", "__edb_e__", "_et", "_type", "__typename", "_entity", "recordtype", "itemtype"}
	weakMarks   = []string{"type", "kind", "model", "class", "objecttype"}
)

// markOf says whether an attribute of this name may name the entity.
func markOf(name string) markStrength {
	name = strings.ToLower(name)
	switch plain := strings.ReplaceAll(name, "_", ""); {
	case slices.Contains(strongMarks, name) || slices.Contains(strongMarks, plain):
		return strongMark
	case slices.Contains(weakMarks, plain):
		return weakMark
	}
	return noMark
}

const (
	unlike = 0.5  // entities whose sets of attributes have less in common are different
	alike  = 0.75 // groups whose sets have this much in common may be one entity
	maxSet = 400  // sets of attributes that are compared
)

// divideByMark divides a group by the attribute that names the entity, or else
// by sets of attributes that have little in common.
func (g *itemGroup) divideByMark() []*itemGroup {
	names := slices.Sorted(maps.Keys(g.rows[0].text))
	for _, strength := range []markStrength{strongMark, weakMark} {
		for _, name := range names {
			if markOf(name) != strength {
				continue
			}
			if parts := g.byValue(name); parts != nil && (strength == strongMark || differ(parts)) {
				return parts
			}
		}
	}
	return g.byAttributes()
}

// byValue divides a group by the values of an attribute; nil if it has many, or
// a part of a key has the same values.
func (g *itemGroup) byValue(name string) (all []*itemGroup) {
	byText := make(map[string][]*sampleRow)
	for _, r := range g.rows {
		byText[r.text[name]] = append(byText[r.text[name]], r)
	}
	if len(byText) > maxWords || len(byText[""]) > 0 || 2*len(byText) > len(g.rows) && len(byText) > 1 {
		return nil
	}
	for _, k := range g.keys {
		for at, p := range k.parts {
			if p.literal == "" && share(g.rows, func(r *sampleRow) bool {
				return len(r.tokens[k.name]) > at && r.tokens[k.name][at].text == r.text[name]
			}) >= mostly {
				return nil
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(byText)) {
		all = append(all, &itemGroup{sample: g.sample, rows: byText[text], keys: g.keys, mark: text})
	}
	return all
}

// differ reports whether groups have different sets of attributes. The value of
// a single group is a name if the keys agree.
func differ(groups []*itemGroup) bool {
	if g := groups[0]; len(groups) == 1 {
		// A word that the keys contain, or that is all there is to name them.
		words := append(g.words(0), g.words(1)...)
		return len(words) == 0 || slices.Contains(words, slugOf(g.mark))
	}
	for _, g := range groups[1:] {
		if inCommon(groups[0].usual(), g.usual()) < unlike {
			return true
		}
	}
	return false
}

// usual returns the attributes that half of a group's items have, without keys
// of indexes, in which only some items may be.
func (g *itemGroup) usual() map[string]bool {
	counts := make(map[string]int)
	for _, r := range g.rows {
		for name := range r.values {
			counts[name]++
		}
	}
	keys := g.sample.Table.KeyAttributes()
	maps.DeleteFunc(counts, func(name string, n int) bool { return 2*n < len(g.rows) || slices.Contains(keys, name) })
	set := make(map[string]bool)
	for name := range counts {
		set[name] = true
	}
	return set
}

// inCommon is the number of names in both sets divided by the number in either.
func inCommon(a, b map[string]bool) float64 {
	both := 0
	for name := range a {
		if b[name] {
			both++
		}
	}
	either := len(a) + len(b) - both
	if either == 0 {
		return 1
	}
	return float64(both) / float64(either)
}

// byAttributes divides a group whose items have sets of attributes without any
// resemblance, directly or through other items.
func (g *itemGroup) byAttributes() []*itemGroup {
	const little = 0.2
	type attributeSet struct {
		names map[string]bool
		rows  []*sampleRow
		into  int
	}
	var sets []*attributeSet
	known := make(map[string]*attributeSet)
	keys := g.sample.Table.KeyAttributes()
	for _, r := range g.rows {
		names := make(map[string]bool)
		for name := range r.values {
			if !slices.Contains(keys, name) {
				names[name] = true
			}
		}
		id := strings.Join(slices.Sorted(maps.Keys(names)), "\x00")
		if known[id] == nil {
			known[id] = &attributeSet{names: names, into: len(sets)}
			sets = append(sets, known[id])
		}
		known[id].rows = append(known[id].rows, r)
	}
	if len(sets) == 1 || len(sets) > maxSet {
		return []*itemGroup{g}
	}
	for i, a := range sets {
		for _, b := range sets[:i] {
			if a.into != b.into && (inCommon(a.names, b.names) > little || len(a.names) == 0 || len(b.names) == 0) {
				from, to := max(a.into, b.into), min(a.into, b.into)
				for _, s := range sets {
					if s.into == from {
						s.into = to
					}
				}
			}
		}
	}
	byRoot := make(map[int]*itemGroup)
	for _, s := range sets {
		if byRoot[s.into] == nil {
			byRoot[s.into] = &itemGroup{sample: g.sample, keys: g.keys, mark: g.mark}
		}
		byRoot[s.into].rows = append(byRoot[s.into].rows, s.rows...)
	}
	var all []*itemGroup
	for _, i := range slices.Sorted(maps.Keys(byRoot)) {
		all = append(all, byRoot[i])
	}
	return all
}

// mergeGroups merges groups that differ in one word of their keys, if the word
// seems to be a value.
func mergeGroups(groups []*itemGroup) []*itemGroup {
	for {
		merged := false
		for i := 0; i < len(groups) && !merged; i++ {
			for _, at := range groups[i].literals() {
				like := groups[i].variants(groups, at)
				if !groups[i].isWordAValue(at, len(like)) || len(like) < 2 {
					continue
				}
				one := groups[i].without(at)
				for _, x := range like {
					one.rows = append(one.rows, x.rows...)
				}
				one.mark = ""
				groups = slices.DeleteFunc(groups, func(g *itemGroup) bool { return slices.Contains(like, g) })
				groups, merged = append(groups, one), true
				break
			}
		}
		if !merged {
			return groups
		}
	}
}

// keyPlace is a part of one of the keys of a group.
type keyPlace struct{ key, part int }

func (g *itemGroup) literals() (all []keyPlace) {
	for i, k := range g.keys {
		for j, p := range k.parts {
			if p.literal != "" {
				all = append(all, keyPlace{i, j})
			}
		}
	}
	return all
}

// without returns the group with a part that varies, without rows.
func (g *itemGroup) without(at keyPlace) *itemGroup {
	x := &itemGroup{sample: g.sample, keys: slices.Clone(g.keys)}
	x.keys[at.key].parts = slices.Clone(x.keys[at.key].parts)
	x.keys[at.key].parts[at.part].literal = ""
	return x
}

// variants returns the groups whose keys differ at most in one part, and whose
// items have the same attributes.
func (g *itemGroup) variants(groups []*itemGroup, at keyPlace) (all []*itemGroup) {
	shape, own := g.without(at).shapeText(), g.usual()
	for _, x := range groups {
		if x == g {
			all = append(all, x)
			continue
		}
		if x.sample != g.sample || len(x.keys) != len(g.keys) || len(x.keys[at.key].parts) != len(g.keys[at.key].parts) {
			continue
		}
		if x.without(at).shapeText() == shape && g.sameMark(x) && inCommon(own, x.usual()) >= alike {
			all = append(all, x)
		}
	}
	return all
}

// sameMark reports whether two groups may be the same entity by the attribute
// that names it.
func (g *itemGroup) sameMark(x *itemGroup) bool {
	for name := range g.rows[0].text {
		if markOf(name) == strongMark && g.mark != "" && g.mark != x.mark {
			return false
		}
	}
	return true
}

// isWordAValue reports whether a word of a key that has so many variants is a
// value: if it is a whole key, if it follows a literal and is not in capitals,
// or if it precedes a literal and has several variants.
func (g *itemGroup) isWordAValue(at keyPlace, variants int) bool {
	parts := g.keys[at.key].parts
	if len(parts) == 1 {
		return true
	}
	if at.part > 0 && parts[at.part-1].literal != "" && !capitals().MatchString(parts[at.part].literal) {
		return true
	}
	following := slices.ContainsFunc(parts[at.part+1:], func(p groupPart) bool { return p.literal != "" })
	return following && variants >= 3
}
