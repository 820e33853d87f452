package tikv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tikv/client-go/v2/config"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/util"
	pd "github.com/tikv/pd/client"
	"github.com/tikv/pd/client/opt"
	"github.com/tikv/pd/client/pkg/caller"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/stator-db/stator/internal/store"
)

// connect finds the cluster through its placement drivers. It fails with ErrUnavailable when
// none of them answers.
func connect(ctx context.Context, o Options) (*tikv.KVStore, error) {
	routeLogs(o.Log)
	security := config.NewSecurity(o.CA, o.Cert, o.Key, nil)
	tls, err := security.ToTLSConfig()
	if err != nil {
		return nil, fmt.Errorf("load the TLS files for %s: %w", strings.Join(o.PD, ","), err)
	}
	// The client retries for as long as its context lives, which must outlive this call.
	client, err := pd.NewClientWithContext(context.WithoutCancel(ctx), caller.Component("stator"), o.PD,
		pd.SecurityOption{CAPath: o.CA, CertPath: o.Cert, KeyPath: o.Key},
		opt.WithGRPCDialOptions(grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second})),
		opt.WithCustomTimeoutOption(3*time.Second),
		opt.WithMaxErrorRetry(3),
		// Older placement drivers lack this newer way to request regions, which saves
		// little: regions are cached.
		opt.WithEnableRouterClient(false),
	)
	if err != nil {
		return nil, fmt.Errorf("no placement driver answers at %s: %w: %w", strings.Join(o.PD, ", "), store.ErrUnavailable, err)
	}
	codec := tikv.NewCodecPDClient(tikv.ModeTxn, util.NewInterceptedPDClient(client))
	safePoint, err := tikv.NewEtcdSafePointKV(o.PD, tls)
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("connect to the etcd of the placement drivers: %w: %w", store.ErrUnavailable, err)
	}
	rpc := tikv.NewRPCClient(tikv.WithSecurity(security), tikv.WithCodec(codec.GetCodec()))
	kv, err := tikv.NewKVStore(fmt.Sprintf("tikv-%d", client.GetClusterID(ctx)), codec, safePoint, rpc)
	if err != nil {
		client.Close()
		return nil, errors.Join(fmt.Errorf("open the cluster: %w: %w", store.ErrUnavailable, err), safePoint.Close(), rpc.Close())
	}
	return kv, nil
}

// startTS is the option of a transaction that begins at a timestamp.
func startTS(ts uint64) tikv.TxnOption { return tikv.WithStartTS(ts) }
