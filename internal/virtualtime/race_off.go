//go:build !race

package virtualtime

// race reports whether the race detector is on.
const race = false
