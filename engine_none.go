//go:build !tikv

package stator

import (
	"context"
	"errors"
	"log/slog"

	"github.com/stator-db/stator/internal/store"
)

// openCluster returns an error: this program was built without the TiKV client, which would
// make it a third larger.
func openCluster(context.Context, string, *slog.Logger) (store.Engine, error) {
	return nil, errors.New("this stator was built without TiKV: build it with `go build -tags tikv ./cmd/stator` or `make build-tikv`")
}
