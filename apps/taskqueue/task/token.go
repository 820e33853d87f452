package task

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Token is the content of a claim's token. It needs no signature: the conditions of
// writes compare all of it.
type Token struct {
	Seq   int // number of the event that created the claim; unique within the task
	Slot  int
	Queue string
}

func (k Token) String() string { return fmt.Sprintf("%d.%d.%s", k.Seq, k.Slot, k.Queue) }

// ParseToken parses a token.
func ParseToken(s string) (Token, error) {
	parts := strings.SplitN(s, ".", 3)
	if len(parts) == 3 {
		seq, err1 := strconv.Atoi(parts[0])
		slot, err2 := strconv.Atoi(parts[1])
		if err1 == nil && err2 == nil && seq > 1 && seq < MaxSeq && slot >= 0 && slot <= MaxSeq && CheckName("queue", parts[2]) == nil {
			return Token{seq, slot, parts[2]}, nil
		}
	}
	return Token{}, fault("claim", "is %q, which is not a token of a claim", s)
}

// NewID returns the id of a task created at a time: a UUID of version 7, which
// contains the time in milliseconds.
func NewID(created time.Time) string {
	var b [16]byte
	rand.Read(b[6:]) // never fails
	ms := uint64(created.UnixMilli())
	for i := range 6 {
		b[i] = byte(ms >> (8 * (5 - i)))
	}
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// CreatedAt returns the time in the id of a task.
func CreatedAt(id string) (time.Time, error) {
	h := strings.ReplaceAll(id, "-", "")
	b, err := hex.DecodeString(h)
	if err != nil || len(id) != 36 || len(b) != 16 || b[6]>>4 != 7 || id != strings.ToLower(id) ||
		id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		return time.Time{}, fault("id", "is %q, which is not the id of a task", id)
	}
	var ms int64
	for _, x := range b[:6] {
		ms = ms<<8 | int64(x)
	}
	return time.UnixMilli(ms).UTC(), nil
}
