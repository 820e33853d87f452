//go:build !linux

package pebble

import "errors"

// allocate is not implemented: the reserve is free space that other programs can use.
func allocate(uintptr, int64) error { return errors.ErrUnsupported }

func isUnsupported(err error) bool { return errors.Is(err, errors.ErrUnsupported) }
