package stream

import (
	"fmt"
	"strconv"
)

// maxN is the largest number of a change within one update that a sequence number
// can express. A transaction has at most a hundred writes.
const maxN = 999

// sequenceLength is the length of DynamoDB's shortest sequence numbers: 18 digits
// of the stamp and 3 of the number.
const sequenceLength = 21

// Sequence returns the sequence number of the change at a position. Sequence
// numbers sort like positions, both as numbers and as text.
func (p Position) Sequence() string { return fmt.Sprintf("%018d%03d", p.Stamp, p.N) }

// ParseSequence parses a sequence number.
func ParseSequence(text string) (Position, bool) {
	if len(text) != sequenceLength {
		return Position{}, false
	}
	stamp, err1 := strconv.ParseUint(text[:18], 10, 64)
	n, err2 := strconv.ParseUint(text[18:], 10, 16)
	return Position{stamp, int(n)}, err1 == nil && err2 == nil
}
