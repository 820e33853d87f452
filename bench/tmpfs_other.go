//go:build !linux

package main

// inMemory reports whether a folder is on a file system in memory. It is known
// on Linux only.
func inMemory(string) bool { return false }
