package expr

import (
	"cmp"

	"github.com/stator-db/stator/internal/data/item"
)

// checkApart returns the fault of two paths in one update or projection that
// are equal or lead one into the other (they overlap), or that use one value
// both as a list and as a map (they conflict). DynamoDB adds the paths of an
// expression from the last to the first, those of a statement from the first
// to the last, and reports the first that does not fit those added before.
func checkApart(kind Kind, paths []item.Path) error {
	if kind == Statement {
		for i, p := range paths {
			if err := checkAdded(kind, p, paths[:i]); err != nil {
				return err
			}
		}
		return nil
	}
	for i := len(paths) - 1; i >= 0; i-- {
		if err := checkAdded(kind, paths[i], paths[i+1:]); err != nil {
			return err
		}
	}
	return nil
}

// checkAdded compares a path with those added before it. Of several that do
// not fit, DynamoDB names one by the order of a hash table; we name the last.
func checkAdded(kind Kind, one item.Path, others []item.Path) error {
	const message = "Two document paths %s with each other; must remove or rewrite one of these paths; path one: %s, path two: %s"
	for i := len(others) - 1; i >= 0; i-- {
		switch two := others[i]; relationOf(one, two) {
		case overlap:
			return kind.invalid(message, "overlap", one, two)
		case conflicting:
			return kind.invalid(message, "conflict", one, two)
		}
	}
	return nil
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
