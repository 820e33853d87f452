package stream

import (
	"fmt"
	"strconv"
)

// maxN is the largest number within one update that a sequence number can
// tell; a transaction has a hundred writes.
const maxN = 999

// sequenceLength is that of DynamoDB's shortest: 18 digits of the stamp, 3 of
// the number.
const sequenceLength = 21

// Sequence is the sequence number of the change at a position. They sort as
// the positions do, as numbers and as texts.
func (p Position) Sequence() string { return fmt.Sprintf("%018d%03d", p.Stamp, p.N) }

// ParseSequence reads a sequence number.
func ParseSequence(text string) (Position, bool) {
	if len(text) != sequenceLength {
		return Position{}, false
	}
	stamp, err1 := strconv.ParseUint(text[:18], 10, 64)
	n, err2 := strconv.ParseUint(text[18:], 10, 16)
	return Position{stamp, int(n)}, err1 == nil && err2 == nil
}
