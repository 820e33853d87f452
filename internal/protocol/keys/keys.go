// Package keys has access keys, and reads and writes files of them.
//
// It leaves what a key proves to package auth.
package keys

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// Key is an access key with its secret.
type Key struct {
	AccessKey string
	Secret    Secret
	Token     Secret    // of a temporary key; others have none
	Expires   time.Time // of a temporary key
	Principal string    // the ARN of a user or of an assumed role
	Created   time.Time // zero if unknown
	Comment   string
}

// Temporary reports whether a key is valid with its session token only, and until it expires.
func (k *Key) Temporary() bool { return !k.Token.Empty() }

// Set is a set of keys. It does not change.
type Set struct {
	list []*Key
	byID map[string]*Key
}

// NewSet returns a set of keys, whose access keys differ.
func NewSet(list ...*Key) *Set {
	s := &Set{list: list, byID: make(map[string]*Key, len(list))}
	for _, k := range list {
		s.byID[k.AccessKey] = k
	}
	return s
}

// Unite returns the keys of two sets. Those of the first take precedence: shadowed are the access keys
// of the second that the first has, too.
func Unite(first, second *Set) (united *Set, shadowed []string) {
	list := slices.Clone(first.list)
	for _, k := range second.list {
		if first.byID[k.AccessKey] != nil {
			shadowed = append(shadowed, k.AccessKey)
			continue
		}
		list = append(list, k)
	}
	return NewSet(list...), shadowed
}

// Find returns the key with an access key, or nil.
func (s *Set) Find(accessKey []byte) *Key { return s.byID[string(accessKey)] }

// All returns the keys in the order in which they were given.
func (s *Set) All() []*Key { return s.list }

// Account is the account of principals that are not named.
const Account = "000000000000"

// DefaultPrincipal is the principal of a key that does not name one: a user of its own.
func DefaultPrincipal(accessKey string) string {
	return "arn:aws:iam::" + Account + ":user/" + accessKey
}

// principal matches the ARN of a user, of the root of an account, or of an assumed role.
var principal = regexp.MustCompile(`^arn:aws[a-z-]*:(iam::[0-9]{12}:(root|user/[\w+=,.@/-]+)|sts::[0-9]{12}:assumed-role/[\w+=,.@-]+/[\w+=,.@-]+)$`)

// CheckPrincipal returns what is wrong with the ARN of a principal; empty if nothing is.
func CheckPrincipal(arn string) string {
	if !principal.MatchString(arn) {
		return "must be the ARN of a user (arn:aws:iam::" + Account + ":user/NAME) or of an assumed role (arn:aws:sts::" + Account + ":assumed-role/ROLE/SESSION)"
	}
	return ""
}

const (
	maxAccessKey = 128
	maxSecret    = 4096
)

// form is that of the access keys of AWS, and of Generate. Secrets have lower-case letters.
var form = regexp.MustCompile(`^[A-Z0-9]{16,128}$`)

// HasForm reports whether text has the form of access keys, which no secret has.
func HasForm(text string) bool { return form.MatchString(text) }

// checkAccessKey returns what is wrong with an access key: it must fit in the Credential of a
// signature.
func checkAccessKey(text string) string {
	switch {
	case len(text) > maxAccessKey:
		return "is too long"
	case strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune("/,=\"", c) }):
		return "must be printable ASCII without spaces, slashes, commas, quotes and equal signs"
	}
	return ""
}
