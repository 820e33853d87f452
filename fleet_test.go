//go:build !race

package stator

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stator-db/stator/conformance"
	"github.com/stator-db/stator/internal/store/tikv"
	"github.com/stator-db/stator/internal/store/tikv/tikvtest"
)

// Two servers over one cluster answer as one does, whichever of them is asked.
func TestTranscriptsThroughTwoServers(t *testing.T) {
	all, err := conformance.All()
	if err != nil {
		t.Fatal(err)
	}
	server := &conformance.Server{Client: &http.Client{Transport: openFleet(t, 2)}, Endpoint: "http://stator.invalid/", Sign: sign}
	t.Run("all", func(t *testing.T) { // ends when the parallel ones have
		for _, transcript := range all {
			t.Run(transcript.Topic(), func(t *testing.T) {
				t.Parallel()
				failures, err := server.Run(t.Context(), transcript)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range failures {
					t.Errorf("%s:%s", transcript.Name, f)
				}
			})
		}
	})
}

func sign(r *http.Request, _ []byte) error {
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	return nil
}

// fleet are servers that share a database. A request goes to any of them.
type fleet []*DB

func openFleet(t *testing.T, n int) fleet {
	t.Helper()
	cluster := tikvtest.New(t)
	backups := t.TempDir()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	var f fleet
	for range n {
		engine := cluster.Open(t, tikv.Options{Log: log})
		s, err := join(context.Background(), engine, Options{Backups: backups, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		f = append(f, s)
	}
	return f
}

// RoundTrip has one of the servers answer.
func (f fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	f[rand.N(len(f))].Handler().ServeHTTP(w, r)
	return w.Result(), nil
}
