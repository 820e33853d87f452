//go:build !unix

package stator_test

import "time"

// processorTime is not known.
func processorTime() time.Duration { return 0 }
