//go:build !cgo

package pebble

const blocksOffHeap = false
