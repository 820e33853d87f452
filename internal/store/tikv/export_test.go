package tikv

import (
	"context"
	"log/slog"
	"time"

	"github.com/tikv/client-go/v2/oracle"
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

// AddMember writes the record of a process with a format, whose last heartbeat was this long
// ago.
func (e *Engine) AddMember(ctx context.Context, id uint64, format int, ago time.Duration) error {
	return e.transact(ctx, func(txn *transaction.KVTxn) error {
		r := memberRecord{Host: "old", Format: format, Renewed: txn.StartTS() - oracle.ComposeTS(ago.Milliseconds(), 0), Lease: e.o.Lease.Milliseconds()}
		return txn.Set(e.memberKey(id), r.encode())
	})
}

// StoredFormat returns the format version of the cluster.
func (e *Engine) StoredFormat(ctx context.Context) (uint64, error) {
	now, err := e.now(ctx)
	if err != nil {
		return 0, err
	}
	values, err := e.readOwn(ctx, now, nameFormat)
	if err != nil {
		return 0, err
	}
	return decodeNumber(values[0]), nil
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

// Clock is the time of a cluster.
type Clock struct{ *clusterClock }

// NewClock returns a clock without a timestamp.
func NewClock(log *slog.Logger) Clock { return Clock{&clusterClock{log: log}} }

// At returns the time of the cluster at a time of this machine.
func (c Clock) At(now time.Time) time.Time { return c.time(now) }

// Observe compares the clock with a timestamp.
func (c Clock) Observe(ts uint64, requested, received time.Time) { c.observe(ts, requested, received) }
