package inject

import "slices"

// Minimize returns a smallest part of a list with which fails still reports true: without
// any one of its elements it does not. It is delta debugging (ddmin, Zeller and Hildebrandt).
// A caller that has no time left lets fails return false: that ends it soon.
//
// fails must report true for the whole list, and false for an empty one.
func Minimize[T any](all []T, fails func([]T) bool) []T {
	parts := 2
	for len(all) > 1 {
		parts = min(parts, len(all))
		smaller, found := reduce(all, parts, fails)
		switch {
		case found && len(smaller) <= (len(all)+parts-1)/parts: // one part is enough
			all, parts = smaller, 2
		case found:
			all, parts = smaller, max(2, parts-1)
		case parts == len(all):
			return all
		default:
			parts *= 2
		}
	}
	return all
}

// reduce returns the first of some parts of a list, or of the lists without one part, with
// which fails reports true.
func reduce[T any](all []T, parts int, fails func([]T) bool) (smaller []T, found bool) {
	bound := func(i int) int { return i * len(all) / parts }
	for i := range parts {
		if part := slices.Clone(all[bound(i):bound(i+1)]); fails(part) {
			return part, true
		}
	}
	if parts == 2 {
		return nil, false // the complements are the parts
	}
	for i := range parts {
		if rest := slices.Concat(all[:bound(i)], all[bound(i+1):]); fails(rest) {
			return rest, true
		}
	}
	return nil, false
}
