package stator

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// Of two restores into the same folder at the same time, neither takes over the
// unfinished folder of the other.
func TestTwoRestoresAtOnce(t *testing.T) {
	d, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"Carts", "Orders"} {
		id := []schema.Attribute{{Name: "id", Type: item.S}}
		if _, err := d.db.CreateTable(t.Context(), schema.Table{Name: name, Key: schema.Key{Partition: id}, Attributes: id}); err != nil {
			t.Fatal(err)
		}
	}
	var stream bytes.Buffer
	if err := d.backups.WriteAll(t.Context(), &stream); err != nil {
		t.Fatal(err)
	}
	from, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	if err := SaveBackup(t.Context(), &stream, from, func(TableBackup) {}); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(t.Context())
	started, ended := make(chan struct{}), make(chan error, 1)
	another := func() {
		first := true
		ended <- RestoreBackup(ctx, from, data, log, func(TableBackup) {
			if first {
				first = false
				close(started)
				<-ctx.Done() // a slow restore
			}
		})
	}
	tables := 0
	err = RestoreBackup(t.Context(), from, data, log, func(TableBackup) {
		if tables++; tables < 2 {
			return
		}
		go another()
		select {
		case <-started:
		case err := <-ended:
			ended <- err
		}
	})
	stop()
	if other := <-ended; err != nil || other == nil {
		t.Fatalf("the first restore returned %v, the second %v; want nil and an error", err, other)
	}
	restored, err := Open(t.Context(), Options{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	if names, _ := restored.db.Tables("", 10); len(names) != 2 {
		t.Errorf("the completed restore has the tables %v, want 2", names)
	}
}

// GET /backups reports the scheduled backups to a signed request.
func TestBackupsReport(t *testing.T) {
	get := func(d *DB, signed bool) (code int, text string) {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/backups", nil)
		if signed {
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=00")
			r.Header.Set("X-Amz-Date", "20260101T000000Z")
		}
		w := httptest.NewRecorder()
		d.Handler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	open := func(o Options) *DB {
		d, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	if code, text := get(open(Options{}), true); code != 404 || !strings.Contains(text, "--backup-every") {
		t.Errorf("without a schedule the reply is %d %s", code, text)
	}
	d := open(Options{BackupEvery: time.Hour})
	if code, text := get(d, false); code != 400 || !strings.Contains(text, "MissingAuthenticationTokenException") {
		t.Errorf("without a signature the reply is %d %s", code, text)
	}
	for {
		code, text := get(d, true)
		if code != 200 || !strings.HasPrefix(text, `{"every":"1h0m0s","keep":24,"sets":[`) {
			t.Fatalf("the reply is %d %s", code, text)
		}
		if strings.Contains(text, `"verified":`) {
			break
		}
		time.Sleep(time.Millisecond)
	}
}
