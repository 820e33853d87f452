// Package timeid makes the ids of backups, exports and imports: they sort by
// the time at which they were made.
package timeid

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"sync"
	"time"
)

// Pattern is the regular expression that an id matches as a whole.
const Pattern = `[0-9]{14}-[0-9a-f]{8}`

// New returns an id of the form that DynamoDB uses: milliseconds since 1970 and
// eight random hexadecimal digits.
func New(now time.Time) string { return fmt.Sprintf("%014d-%s", now.UnixMilli(), Suffix()) }

// Suffix returns eight random hexadecimal digits.
func Suffix() string {
	var b [4]byte
	rand.Read(b[:])
	return fmt.Sprintf("%x", b)
}

// Valid reports whether a text is an id.
func Valid(text string) bool { return pattern().MatchString(text) }

var pattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + Pattern + `$`) })
