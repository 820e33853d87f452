//go:build !linux

package cli

func releaseProgram() {}
