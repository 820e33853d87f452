package tikv

import (
	"context"
	"time"

	"github.com/tikv/client-go/v2/txnkv/transaction"
)

// ErrLapsed is the error of an expired lease.
var ErrLapsed = errLapsed

// DeleteMessages deletes the messages that all processes have handled.
func (e *Engine) DeleteMessages(ctx context.Context) error { return e.membership.deleteMessages(ctx) }

// CollectVersions removes old versions.
func (e *Engine) CollectVersions(ctx context.Context, keep time.Duration) error {
	return e.collectVersions(ctx, keep)
}

// SetFormat writes a format version.
func (e *Engine) SetFormat(ctx context.Context, n uint64) error {
	return e.transact(ctx, func(txn *transaction.KVTxn) error { return txn.Set(e.own(nameFormat), number(n)) })
}

// FormatVersion is the format version of this program.
const FormatVersion = formatVersion

// CommitAt commits a key, with the lease checked at a timestamp that is larger by later.
func (e *Engine) CommitAt(ctx context.Context, key, value []byte, later uint64) error {
	start, err := e.now(ctx)
	if err != nil {
		return err
	}
	txn, err := e.begin(start)
	if err != nil {
		return err
	}
	if err := txn.Set(e.key(key), value); err != nil {
		return err
	}
	txn.SetSchemaLeaseChecker(lapsedLease{e.membership, later})
	return e.commit(ctx, txn)
}

type lapsedLease struct {
	*membership
	later uint64
}

func (l lapsedLease) CheckBySchemaVer(ts uint64, v transaction.SchemaVer) (*transaction.RelatedSchemaChange, error) {
	return l.membership.CheckBySchemaVer(ts+l.later, v)
}

// RouteLogs redirects the client's log.
var RouteLogs = routeLogs

// Connect connects to a cluster.
var Connect = connect
