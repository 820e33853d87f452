package store

import (
	"context"
	"fmt"
	"log/slog"
)

// An Opener opens the engine of a cluster by its URL. It logs to log.
type Opener func(ctx context.Context, url string, log *slog.Logger) (Engine, error)

var openCluster Opener

// RegisterCluster makes OpenCluster use open. It is called by the init function of the engine's
// package, as a driver of database/sql is registered, so that only programs that import the package
// depend on the engine's modules.
func RegisterCluster(open Opener) { openCluster = open }

// OpenCluster opens the engine of a cluster by its URL, such as tikv://pd1:2379,pd2:2379.
func OpenCluster(ctx context.Context, url string, log *slog.Logger) (Engine, error) {
	if openCluster == nil {
		return nil, fmt.Errorf("engine address %s: this program was built without TiKV: build stator with `go build -tags tikv ./cmd/stator` or `make build-tikv`, or import github.com/stator-db/stator/tikv in a program that embeds it", url)
	}
	return openCluster(ctx, url, log)
}
