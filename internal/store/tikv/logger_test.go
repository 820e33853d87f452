package tikv_test

import (
	"log/slog"
	"os"
	"testing"

	"github.com/stator-db/stator/internal/store/tikv"
)

// testLog returns a logger that writes to the output of a test.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

func TestMain(m *testing.M) {
	tikv.RouteLogs(slog.New(slog.DiscardHandler)) // the client logs every attempt
	os.Exit(m.Run())
}
