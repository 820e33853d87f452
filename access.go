package stator

import (
	"sync"

	accesskeys "github.com/stator-db/stator/internal/protocol/keys"
	"github.com/stator-db/stator/internal/protocol/principals"
)

// Access says how many access keys and files of policies are in use.
type Access struct {
	Keys  int // access keys
	Files int // files of principals and policies
}

// reloading is held while access is read again, so that the keys and the policies are of one reading.
var reloading sync.Mutex

// ReloadAccess reads the files of keys and of policies again; each may be nil. It replaces both or,
// after an error, neither: a new key is never used with the policies of before. Requests in flight
// are not disturbed.
func ReloadAccess(k *Keys, p *Policies) (a Access, err error) {
	var set *accesskeys.Set
	var who *principals.Set
	reloading.Lock()
	defer reloading.Unlock()
	if k != nil {
		if set, err = accesskeys.Read(k.path); err != nil {
			return Access{}, err
		}
		a.Keys = len(set.All())
	}
	if p != nil {
		if who, err = principals.Read(p.path); err != nil {
			return Access{}, err
		}
		a.Files = len(who.Files())
		// The policies come first, so that they are those of a new key from its first request on.
		p.current.Store(&identities{set: who})
	}
	if k != nil {
		k.verifier.Replace(set)
	}
	return a, nil
}
