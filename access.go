package stator

import (
	"log/slog"

	"github.com/stator-db/stator/internal/db/access"
)

// AccessOptions say which access keys requests must be signed with, and what the principals of the
// keys may do; see docs/access.md.
type AccessOptions struct {
	// Keys is the path of a file of access keys, which stator key new writes.
	Keys string

	// Policies is the path of a file of principals with their policies. Without Policies and
	// DatabasePolicies, whoever has a key may do everything.
	Policies string

	// DatabaseKeys and DatabasePolicies use the access keys, and the principals, that are stored in
	// the database, in addition to those of the files, which take precedence. All servers of a
	// cluster use a change when the request that makes it returns.
	DatabaseKeys     bool
	DatabasePolicies bool

	// Log shows at the level debug what the client of a wrong signature should have signed. It
	// defaults to a logger that discards everything.
	Log *slog.Logger
}

// Access has the access keys and policies of one database.
type Access struct {
	store      *access.Store
	inDatabase bool // keys or policies
}

// AccessCounts say how many access keys, principals, and files of policies are in use.
type AccessCounts = access.Counts

// OpenAccess reads the files of access keys and of policies.
func OpenAccess(o AccessOptions) (*Access, error) {
	s, err := access.Open(access.Options{Keys: o.Keys, Policies: o.Policies, DatabaseKeys: o.DatabaseKeys, DatabasePolicies: o.DatabasePolicies, Log: o.Log})
	if err != nil {
		return nil, err
	}
	return &Access{store: s, inDatabase: o.DatabaseKeys || o.DatabasePolicies}, nil
}

// Reload reads the files again. It replaces both or, after an error, neither: a new key is never used
// with the policies of before. Requests in flight are not disturbed.
func (a *Access) Reload() (AccessCounts, error) { return a.store.Reload() }
