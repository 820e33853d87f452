package trigger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/store/pebble"
)

// BenchmarkDeliver reads records, posts them over loopback and saves checkpoints on
// disk, in batches of 100.
func BenchmarkDeliver(b *testing.B) {
	for _, filters := range [][]Pattern{nil, {`{"dynamodb": {"NewImage": {"n": {"N": [{"numeric": [">=", 0]}]}}}}`}} {
		b.Run(fmt.Sprintf("filters=%d", len(filters)), func(b *testing.B) {
			engine, err := pebble.Open(pebble.Options{Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			d, err := db.Open(b.Context(), engine, db.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { errors.Join(d.Close(), engine.Close()) }()
			w := &triggerTest{service: ops.New(ops.Parts{DB: d})}
			do := func(operation, body string) {
				if err := w.execute(b.Context(), operation, []byte(body)); err != nil {
					b.Error(err)
				}
			}
			do("CreateTable", `{"TableName": "Orders", "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
				"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}], "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"}}`)
			var writers sync.WaitGroup
			for writer := range 64 {
				writers.Go(func() {
					for n := writer; n < b.N; n += 64 {
						do("PutItem", fmt.Sprintf(`{"TableName": "Orders", "Item": {"id": {"S": "%d"}, "n": {"N": "%d"}, "pad": {"S": "%0100d"}}}`, n%1000, n, n))
					}
				})
			}
			writers.Wait()
			var records atomic.Int64
			endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				records.Add(int64(bytes.Count(body, []byte(`"eventID":`))))
			}))
			defer endpoint.Close()
			b.ResetTimer()
			set, err := Start(b.Context(), Options{Service: w.service, Log: slog.New(slog.DiscardHandler)},
				Config{Name: "t", Table: "Orders", URL: endpoint.URL, StartingPosition: TrimHorizon, Filters: filters})
			if err != nil {
				b.Fatal(err)
			}
			for records.Load() < int64(b.N) {
				time.Sleep(time.Millisecond)
			}
			b.StopTimer()
			if err := set.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}
