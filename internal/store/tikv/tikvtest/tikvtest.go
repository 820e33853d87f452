// Package tikvtest runs a TiKV cluster in the process of a test: the mock of the client
// library.
package tikvtest

import (
	"context"
	"testing"
	"time"

	"github.com/tikv/client-go/v2/testutils"
	client "github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	pd "github.com/tikv/pd/client"
	"github.com/tikv/pd/client/clients/tso"
	"github.com/tikv/pd/client/pkg/caller"

	"github.com/stator-db/stator/internal/store/tikv"
)

// Prefix is the prefix of the keys of all engines.
const Prefix = "stator"

// Cluster is a cluster of one store.
type Cluster struct {
	Ahead time.Duration // of the cluster's clock before that of this machine; set before Open

	rpc *testutils.MockClient
	pd  pd.Client
}

// New returns a cluster whose regions are split at the given keys.
func New(t testing.TB, splits ...string) *Cluster {
	t.Helper()
	rpc, mock, drivers, err := testutils.NewMockTiKV("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(splits) == 0 {
		testutils.BootstrapWithSingleStore(mock)
	} else {
		var keys [][]byte
		for _, s := range splits {
			keys = append(keys, []byte(Prefix+"\x00"+s))
		}
		testutils.BootstrapWithMultiRegions(mock, keys...)
	}
	return &Cluster{rpc: rpc, pd: drivers}
}

// Open joins the cluster as another process. Its heartbeats are frequent and its lease is
// short.
func (c *Cluster) Open(t testing.TB, o tikv.Options) *tikv.Engine {
	t.Helper()
	return c.OpenOver(t, c.Client(), o)
}

// Client returns a connection to the store.
func (c *Cluster) Client() client.Client { return sharedClient{c.rpc} }

// OpenOver is like Open with a given connection.
func (c *Cluster) OpenOver(t testing.TB, over client.Client, o tikv.Options) *tikv.Engine {
	t.Helper()
	e, err := c.TryOpen(over, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TryOpen is like OpenOver, and returns the error.
func (c *Cluster) TryOpen(over client.Client, o tikv.Options) (*tikv.Engine, error) {
	kv, err := client.NewTestTiKVStore(over, sharedPD{c.pd, c.Ahead}, nil, nil, 0)
	if err != nil {
		return nil, err
	}
	o.Prefix = Prefix
	if o.Lease == 0 {
		o.Lease = 2 * time.Second
	}
	if o.Beat == 0 {
		o.Beat = 10 * time.Millisecond
	}
	return tikv.Join(context.Background(), kv, o, kv.Close)
}

// sharedClient is a connection that stays open when one of its users closes it.
type sharedClient struct{ client.Client }

func (sharedClient) Close() error { return nil }

// SendRequest sends a request to the store.
func (c sharedClient) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	if ctx.Err() != nil {
		return nil, ErrEnded
	}
	return c.Client.SendRequest(ctx, addr, req, timeout)
}

// ErrEnded is returned for a request whose context has ended. The client takes a store for dead
// if a request has timed out, and then looks for it in the network, where the mock is not; it
// does not if the request was cancelled.
var ErrEnded = context.Canceled

type sharedPD struct {
	pd.Client
	ahead time.Duration
}

func (sharedPD) Close() {}

func (p sharedPD) WithCallerComponent(caller.Component) pd.Client { return p }

func (p sharedPD) GetTS(ctx context.Context) (physical, logical int64, err error) {
	physical, logical, err = p.Client.GetTS(ctx)
	return physical + p.ahead.Milliseconds(), logical, err
}

func (p sharedPD) GetTSAsync(ctx context.Context) tso.TSFuture { return futureTS{p, ctx} }

// futureTS is a timestamp that is requested when it is waited for.
type futureTS struct {
	pd  sharedPD
	ctx context.Context
}

func (f futureTS) Wait() (physical, logical int64, err error) { return f.pd.GetTS(f.ctx) }
