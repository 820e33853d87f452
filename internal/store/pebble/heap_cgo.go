//go:build cgo

package pebble

// blocksOffHeap is whether Pebble's blocks are outside of Go's heap.
const blocksOffHeap = true
