package tikv

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/stator-db/stator/internal/store"
)

func init() { store.RegisterCluster(openURL) }

// openURL joins the servers of the cluster at a URL.
func openURL(ctx context.Context, url string, log *slog.Logger) (store.Engine, error) {
	address, err := ParseAddress(url)
	if err != nil {
		return nil, fmt.Errorf("engine address: %w", err)
	}
	return Open(ctx, Options{Address: address, Log: log})
}
