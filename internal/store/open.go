package store

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// An Opener opens the engine at a URL. It logs to log.
type Opener func(ctx context.Context, url string, log *slog.Logger) (Engine, error)

var openers = map[string]Opener{}

// Register makes Open use open for URLs that have this scheme. It is called by the init
// function of an engine's package, so that only programs that import the package depend on
// the engine's modules.
func Register(scheme string, open Opener) { openers[scheme] = open }

// Open opens the engine of a cluster by its URL, such as tikv://pd1:2379,pd2:2379.
func Open(ctx context.Context, url string, log *slog.Logger) (Engine, error) {
	scheme, _, isURL := strings.Cut(url, "://")
	switch {
	case !isURL || scheme != "tikv":
		return nil, fmt.Errorf("engine address %q is not the URL of a cluster, such as tikv://pd1:2379,pd2:2379", url)
	case openers[scheme] == nil:
		return nil, fmt.Errorf("engine address %s: this program was built without TiKV: build stator with `go build -tags tikv ./cmd/stator` or `make build-tikv`, or import github.com/stator-db/stator/tikv in a program that embeds it", url)
	}
	return openers[scheme](ctx, url, log)
}
