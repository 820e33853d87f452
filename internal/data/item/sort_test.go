package item

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// memberKinds make n members in random order, of the forms that take the
// longest to sort.
var memberKinds = map[string]func(r *rand.Rand, n int) []Value{
	"numbers": func(r *rand.Rand, n int) (all []Value) {
		for _, i := range r.Perm(n) {
			v, err := ParseNumber(fmt.Sprint(i - n/2))
			if err != nil {
				panic(err)
			}
			all = append(all, Num(v))
		}
		return all
	},
	"short strings": func(r *rand.Rand, n int) (all []Value) {
		for _, i := range r.Perm(n) {
			all = append(all, String(fmt.Sprint(i)))
		}
		return all
	},
	"strings with a common prefix": func(r *rand.Rand, n int) (all []Value) {
		for _, i := range r.Perm(n) {
			all = append(all, String("customer/order/"+fmt.Sprint(i)))
		}
		return all
	},
	"zeros": func(r *rand.Rand, n int) (all []Value) {
		for range n {
			all = append(all, Binary(make([]byte, r.IntN(24))))
		}
		return all
	},
	"duplicates": func(r *rand.Rand, n int) (all []Value) {
		for range n {
			all = append(all, String(fmt.Sprint("a member with one of few values ", r.IntN(9))))
		}
		return all
	},
}

// A set has its members in the order of Compare and each once, however many
// there are.
func TestAppendSetSorts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	kinds := map[string]func(*rand.Rand, int) []Value{
		"bytes": func(r *rand.Rand, n int) (all []Value) {
			for range n {
				b := make([]byte, r.IntN(40))
				for i := range b {
					b[i] = byte(r.IntN(3) * 127)
				}
				all = append(all, Binary(b))
			}
			return all
		},
		"prefixes of one another": func(r *rand.Rand, n int) (all []Value) {
			for _, i := range r.Perm(n) {
				all = append(all, String(strings.Repeat("a", i)))
			}
			return all
		},
	}
	kinds["sorted numbers"] = func(r *rand.Rand, n int) []Value {
		all := memberKinds["numbers"](r, n)
		slices.SortFunc(all, Compare)
		return all
	}
	maps.Copy(kinds, memberKinds)
	for name, kind := range kinds {
		for _, n := range []int{1, 2, fewKeys, ManyMembers - 1, ManyMembers, 3000} {
			members := kind(r, n)
			want := slices.Clone(members)
			slices.SortFunc(want, Compare)
			want = slices.CompactFunc(want, Equal)
			typ := members[0].Type() - S + SS
			expected := AppendContainer([]byte("before"), typ, len(want), slices.Concat(want...))
			set, double := AppendSet([]byte("before"), typ, members)
			if !bytes.Equal(set, expected) {
				t.Errorf("%d members, %s: the set is wrong", n, name)
			}
			if double != (len(want) < n) {
				t.Errorf("%d members, %s: AppendSet reports duplicates: %t", n, name, double)
			}
		}
	}
}

// The number of times that a sort reads a member does not grow with the set. The
// control is a sort by comparison, for which it does.
func TestLargeSetsAreSortedInLinearTime(t *testing.T) {
	const n = 4096
	radix := func(members []Value) int {
		s := memberSorter{row: slices.Concat(members...)}
		s.sort(members[0].Type(), len(members))
		return s.reads
	}
	comparison := func(members []Value) (reads int) {
		slices.SortFunc(members, func(a, b Value) int {
			reads += 2
			return Compare(a, b)
		})
		return reads
	}
	// growth is how many more reads 16 times as many members take.
	growth := func(kind func(*rand.Rand, int) []Value, sort func([]Value) int) float64 {
		r := rand.New(rand.NewPCG(1, 2))
		few, many := sort(kind(r, n)), sort(kind(r, 16*n))
		t.Logf("%d and %d reads", few, many)
		return float64(many) / float64(few)
	}
	for name, kind := range memberKinds {
		if g := growth(kind, radix); g > 18 {
			t.Errorf("%s: 16 times as many members take %.1f times as many reads", name, g)
		}
	}
	if g := growth(memberKinds["numbers"], comparison); g <= 18 {
		t.Errorf("control: a sort by comparison takes only %.1f times as many reads", g)
	}
}
