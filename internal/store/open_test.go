package store_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/store"
)

// Without the package of the engine, the error says how to get it.
func TestOpenClusterWithoutEngine(t *testing.T) {
	_, err := store.OpenCluster(t.Context(), "tikv://pd1:2379", slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "built without TiKV") {
		t.Errorf("OpenCluster: %v", err)
	}
}

func TestOpenRegisteredCluster(t *testing.T) {
	var opened string
	store.RegisterCluster(func(_ context.Context, url string, _ *slog.Logger) (store.Engine, error) {
		opened = url
		return nil, nil
	})
	t.Cleanup(func() { store.RegisterCluster(nil) })
	if _, err := store.OpenCluster(t.Context(), "tikv://pd1:2379", slog.New(slog.DiscardHandler)); err != nil || opened != "tikv://pd1:2379" {
		t.Errorf("OpenCluster: %v, the opener got %q", err, opened)
	}
}
