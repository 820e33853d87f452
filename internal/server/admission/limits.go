package admission

// Limits are the figures of a server's admission control.
type Limits struct {
	Requests int // that are executed at once

	// Memory is the memory of requests that need more than buffer.Small, and of
	// their replies until these are sent.
	Memory int64

	// SmallBodies is the memory for the first LargeBytes of each body, and
	// LargeBodies the memory for the rest of large bodies.
	SmallBodies, LargeBodies int64
}

// MaxBackups is how many backups of all tables a server sends at once. Each has a
// view of the data, and reads all of it.
const MaxBackups = 4

// MaxWatchers is how many requests to CloudWatch are executed at once.
const MaxWatchers = 2

// MaxFollowers is how many replies with changes a server sends to a standby at once: one,
// and one more that the standby has given up. Each holds its changes in memory.
const MaxFollowers = 2

// fullMemory is the memory of a process from which it has the largest Limits.
const fullMemory = 2 << 30

// maxLimits are the largest Limits. More requests at once would not be faster.
var maxLimits = Limits{Requests: 512, Memory: fullMemory / 8, SmallBodies: fullMemory / 32, LargeBodies: fullMemory / 64 * 3}

// LimitsFor returns the limits of a process that may use this many bytes; 0 is
// unknown. One body of the largest size, also if it is decoded from another one of that
// size, and one reply are always possible.
func LimitsFor(memory int64) Limits {
	if memory <= 0 || memory >= fullMemory {
		return maxLimits
	}
	part := func(of, least int64) int64 { return max(least, of*(memory>>20)/(fullMemory>>20)) }
	return Limits{
		Requests:    int(part(int64(maxLimits.Requests), 32)),
		Memory:      part(maxLimits.Memory, 32<<20),
		SmallBodies: part(maxLimits.SmallBodies, 8<<20),
		LargeBodies: part(maxLimits.LargeBodies, 2*maxBodyMemory),
	}
}
