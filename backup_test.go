package stator

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
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
	if err := SaveBackup(t.Context(), &stream, from, "", func(TableBackup) {}); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(t.Context())
	started, ended := make(chan struct{}), make(chan error, 1)
	another := func() {
		first := true
		ended <- RestoreBackup(ctx, from, data, RestoreOptions{}, log, func(TableBackup) {
			if first {
				first = false
				close(started)
				<-ctx.Done() // a slow restore
			}
		})
	}
	tables := 0
	err = RestoreBackup(t.Context(), from, data, RestoreOptions{}, log, func(TableBackup) {
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

// An unfinished folder of an earlier restore is replaced, and a folder that is not a
// restore's is left alone.
func TestUnfinishedRestore(t *testing.T) {
	d, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var stream bytes.Buffer
	if err := d.backups.WriteAll(t.Context(), &stream); err != nil {
		t.Fatal(err)
	}
	from, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	if err := SaveBackup(t.Context(), &stream, from, "", func(TableBackup) {}); err != nil {
		t.Fatal(err)
	}
	restore := func() error {
		return RestoreBackup(t.Context(), from, data, RestoreOptions{}, slog.New(slog.DiscardHandler), func(TableBackup) {})
	}
	part := data + ".restoring"
	file := filepath.Join(part, "notes.txt")
	if err := errors.Join(os.Mkdir(part, 0o700), os.WriteFile(file, []byte("mine"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := restore(); err == nil || !strings.Contains(err.Error(), "move or remove it") {
		t.Errorf("with a folder of another program the restore returns %v", err)
	}
	if text, err := os.ReadFile(file); string(text) != "mine" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(part, restoringName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{part, filepath.Join(data, "notes.txt"), filepath.Join(data, restoringName)} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there after the restore: %v", name, err)
		}
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
