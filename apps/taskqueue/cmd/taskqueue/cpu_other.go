//go:build !linux

package main

import "time"

// cpuTime returns 0: the processor time is known on Linux only.
func cpuTime() time.Duration { return 0 }
