//go:build cgo

package pebble

// blocksOutside tells that Pebble's blocks lie outside of Go's heap.
const blocksOutside = true
