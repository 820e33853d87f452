//go:build !cgo

package pebble

const blocksOutside = false
