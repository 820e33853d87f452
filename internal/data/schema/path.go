package schema

import (
	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
)

// CheckPaths returns a fault if a path of an expression leads into a key
// attribute of the table or of an index, which are scalars.
func (t *Table) CheckPaths(paths []item.Path) error {
	for _, p := range paths {
		if len(p) == 1 {
			continue
		}
		if t.Key.Has(p[0].Name) {
			return intoKey("Key", p[0].Name)
		}
		if err := t.CheckIndexPaths([]item.Path{p}); err != nil {
			return err
		}
	}
	return nil
}

// CheckIndexPaths is CheckPaths for the keys of indexes only.
func (t *Table) CheckIndexPaths(paths []item.Path) error {
	for _, p := range paths {
		for i := range t.Indexes {
			if len(p) > 1 && t.Indexes[i].Key.Has(p[0].Name) {
				return intoKey("IndexKey", p[0].Name)
			}
		}
	}
	return nil
}

func intoKey(kind, name string) error {
	fault := apierror.Validation("Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: %s: %s", kind, name)
	fault.Whole = true // a transaction is rejected for it, not cancelled
	return fault
}
