package stator

import (
	"sync"
	"sync/atomic"

	"github.com/stator-db/stator/internal/language/policy"
	"github.com/stator-db/stator/internal/protocol/principals"
)

// Policies say what the principals of access keys may do.
type Policies struct {
	path    string
	current atomic.Pointer[identities]
}

// identities are the identities of one reading of the file, by their ARNs.
type identities struct {
	set   *principals.Set
	known sync.Map // *principals.Identity; as many as there are keys
}

// OpenPolicies reads a file of principals with their policies; see docs/policies.md.
func OpenPolicies(path string) (*Policies, error) {
	set, err := principals.Read(path)
	if err != nil {
		return nil, err
	}
	p := &Policies{path: path}
	p.current.Store(&identities{set: set})
	return p, nil
}

// identify returns the identity of a principal.
func (p *Policies) identify(arn string) *principals.Identity {
	current := p.current.Load()
	if found, ok := current.known.Load(arn); ok {
		return found.(*principals.Identity)
	}
	found, err := current.set.Identity(arn)
	if err != nil { // it has no policies, so that it may do nothing
		found = &principals.Identity{Principal: &policy.Principal{ARN: arn}}
	}
	current.known.Store(arn, found)
	return found
}
