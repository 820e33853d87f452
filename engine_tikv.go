//go:build tikv

package stator

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/tikv"
)

// openCluster joins the servers of a TiKV cluster.
func openCluster(ctx context.Context, url string, log *slog.Logger) (store.Engine, error) {
	address, err := tikv.ParseAddress(url)
	if err != nil {
		return nil, fmt.Errorf("engine address: %w", err)
	}
	return tikv.Open(ctx, tikv.Options{Address: address, Log: log})
}
