package tikv

import (
	"context"
	"time"

	"github.com/tikv/client-go/v2/txnkv/transaction"
)

// What tests of the fleet look at.
var ErrLapsed = errLapsed

// Forget removes the messages that all have heard.
func (e *Engine) Forget(ctx context.Context) error { return e.fleet.forget(ctx) }

// CollectVersions lets old versions go.
func (e *Engine) CollectVersions(ctx context.Context, keep time.Duration) error {
	return e.collectVersions(ctx, keep)
}

// SetFormat plants a format.
func (e *Engine) SetFormat(ctx context.Context, n uint64) error {
	return e.transact(ctx, func(txn *transaction.KVTxn) error { return txn.Set(e.own(nameFormat), number(n)) })
}

// FormatVersion is the format of this version.
const FormatVersion = formatVersion

// CommitAt commits a key as if the lease were asked about a moment that is so
// much later.
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
	txn.SetSchemaLeaseChecker(lapsed{e.fleet, later})
	return e.commit(ctx, txn)
}

type lapsed struct {
	*fleet
	later uint64
}

func (l lapsed) CheckBySchemaVer(ts uint64, v transaction.SchemaVer) (*transaction.RelatedSchemaChange, error) {
	return l.fleet.CheckBySchemaVer(ts+l.later, v)
}

// RouteLogs sends the client's log elsewhere.
var RouteLogs = routeLogs

// Connect finds a cluster.
var Connect = connect
