//go:build !race

package stator

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stator-db/stator/conformance"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/store/tikv"
	"github.com/stator-db/stator/internal/store/tikv/tikvtest"
)

// Two servers on one cluster give the same replies as a single server, whichever
// of them a request goes to.
func TestTranscriptsThroughTwoServers(t *testing.T) {
	all, err := conformance.All()
	if err != nil {
		t.Fatal(err)
	}
	server := &conformance.Server{Client: &http.Client{Transport: openServers(t, 2)}, Endpoint: "http://stator.invalid/", Sign: sign}
	t.Run("all", func(t *testing.T) { // returns when the parallel subtests have ended
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

// sharedServers are servers that share a database. A request goes to a random
// one.
type sharedServers []*DB

func openServers(t *testing.T, n int) sharedServers {
	t.Helper()
	cluster := tikvtest.New(t)
	backups := t.TempDir()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	var servers sharedServers
	for range n {
		engine := cluster.Open(t, tikv.Options{Log: log})
		o := Options{Backups: backups, Log: log}
		d, err := openOn(context.Background(), engine, o, o.clock(engine))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		servers = append(servers, d)
	}
	return servers
}

// A server whose wall clock is not that of the cluster uses the time of the cluster. The
// control is a server that uses its own, which is trusted.
func TestServerWithAnotherTime(t *testing.T) {
	for _, ahead := range []time.Duration{23 * time.Hour, -11 * time.Minute} {
		for _, cluster := range []bool{true, false} {
			mock := tikvtest.New(t)
			mock.Ahead = -ahead
			engine := mock.Open(t, tikv.Options{})
			o := Options{Backups: t.TempDir()}
			c := o.clock(engine)
			if !cluster {
				c = clock.New(clock.Options{Shared: true})
			}
			d, err := openOn(t.Context(), engine, o, c)
			if err != nil {
				t.Fatal(err)
			}
			off := d.db.Now().Sub(time.Now().Add(-ahead))
			if right := off.Abs() < 5*time.Minute; right != cluster || !c.Shared() || !c.Trusted() {
				t.Errorf("a server that is ahead by %v, cluster %v: its time is off by %v, trusted %v", ahead, cluster, off, c.Trusted())
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// RoundTrip sends the request to a random server.
func (s sharedServers) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	s[rand.N(len(s))].Handler().ServeHTTP(w, r)
	return w.Result(), nil
}
