package store_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/store"
)

// A URL that no engine of this program can open is refused with what to do.
func TestOpenWithoutEngine(t *testing.T) {
	for url, want := range map[string]string{
		"tikv://pd1:2379":   "built without TiKV",
		"redis://pd1:2379":  "not the URL of a cluster",
		"pd1:2379,pd2:2379": "not the URL of a cluster",
		"":                  "not the URL of a cluster",
	} {
		_, err := store.Open(t.Context(), url, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%q): %v, want an error with %q", url, err, want)
		}
	}
}

func TestOpenRegistered(t *testing.T) {
	var opened string
	store.Register("tikv", func(_ context.Context, url string, _ *slog.Logger) (store.Engine, error) {
		opened = url
		return nil, nil
	})
	t.Cleanup(func() { store.Register("tikv", nil) })
	if _, err := store.Open(t.Context(), "tikv://pd1:2379", slog.New(slog.DiscardHandler)); err != nil || opened != "tikv://pd1:2379" {
		t.Errorf("Open: %v, the opener got %q", err, opened)
	}
}
