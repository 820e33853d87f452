package item

import "github.com/stator-db/stator/internal/apierror"

// MaxName is the largest size of an attribute's name in bytes.
const MaxName = 1<<16 - 1

// The faults of an attribute's name.
var (
	ErrEmptyName = apierror.Validation("Empty attribute name")
	ErrLongName  = apierror.Validation("Attribute name is too large, must be less than %d bytes", MaxName+1)
)

// CheckName returns the fault of an attribute's name.
func CheckName[T string | []byte](name T) error {
	switch {
	case len(name) == 0:
		return ErrEmptyName
	case len(name) > MaxName:
		return ErrLongName
	}
	return nil
}
