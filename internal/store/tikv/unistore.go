package tikv

import (
	"sync"

	tikvkv "github.com/tikv/client-go/v2/kv"
)

// unistoreEntry is the largest transaction, in bytes, that unistore commits in batches. TiKV
// commits a key without its value; unistore writes the values of all keys of a request again,
// in one entry of its log, which is limited to 8 MiB.
const unistoreEntry = 4 << 20

// batchSize is held while a transaction changes the batch size of the client, which is a
// global of the process.
var batchSize sync.Mutex

// oneKeyPerRequest has the client send one key per request, until restore is called.
func oneKeyPerRequest() (restore func()) {
	batchSize.Lock()
	tikvkv.TxnCommitBatchSize.Store(1)
	return func() {
		tikvkv.TxnCommitBatchSize.Store(tikvkv.DefTxnCommitBatchSize)
		batchSize.Unlock()
	}
}
