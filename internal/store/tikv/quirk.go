package tikv

import (
	"sync"

	tikvkv "github.com/tikv/client-go/v2/kv"
)

// unistoreEntry is how many bytes a transaction may have for unistore to commit
// it as others are. TiKV commits a key without its value; unistore writes the
// values of all keys of a request once more, in one entry of its log, and that
// takes 8 MiB.
const unistoreEntry = 4 << 20

// large lets one transaction at a time change how the client batches, which is
// a setting of the process.
var large sync.Mutex

// oneKeyPerRequest has the client send each key by itself until it is restored.
func oneKeyPerRequest() (restore func()) {
	large.Lock()
	tikvkv.TxnCommitBatchSize.Store(1)
	return func() {
		tikvkv.TxnCommitBatchSize.Store(tikvkv.DefTxnCommitBatchSize)
		large.Unlock()
	}
}
