package expr

import (
	"cmp"

	"github.com/stator-db/stator/internal/data/item"
)

// checkApart returns the fault of two paths in one update or projection that
// are equal or lead one into the other (they overlap), or that use one value
// both as a list and as a map (they conflict). An overlap anywhere is
// reported before a conflict anywhere.
func checkApart(kind Kind, paths []item.Path) error {
	var conflict error
	for i, two := range paths {
		for _, one := range paths[:i] {
			switch relationOf(one, two) {
			case overlap:
				return together(kind, "overlap", one, two)
			case conflicting:
				setFirst(&conflict, together(kind, "conflict", one, two))
			}
		}
	}
	return conflict
}

func together(kind Kind, how string, one, two item.Path) error {
	if kind == Statement {
		one, two = two, one // a statement's faults name the later path first
	}
	return kind.invalid("Two document paths %s with each other; must remove or rewrite one of these paths; path one: %s, path two: %s", how, one, two)
}

type relation byte

const (
	apart relation = iota
	overlap
	conflicting
)

func relationOf(a, b item.Path) relation {
	for i := range min(len(a), len(b)) {
		switch {
		case a[i].IsIndex != b[i].IsIndex:
			return conflicting
		case a[i] != b[i]:
			return apart
		}
	}
	return overlap
}

// comparePaths orders paths; elements of one list are in the order of their
// indexes.
func comparePaths(a, b item.Path) int {
	for i := range min(len(a), len(b)) {
		if c := cmp.Or(cmp.Compare(a[i].Name, b[i].Name), cmp.Compare(a[i].Index, b[i].Index)); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}
