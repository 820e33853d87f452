package stator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/encryption"
)

// keyFile creates a file with a new key.
func keyFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, []byte(encryption.NewKeyText()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// request sends a request of the DynamoDB API and returns the body of its reply.
func request(t *testing.T, d *DB, operation, body string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	if err := signTest(r, nil); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", operation, w.Code, w.Body)
	}
	return w.Body.String()
}

const plantedText = "planted-plaintext"

// plant writes items with a known text in table names, attribute names, keys and values, and
// makes a backup of the table.
func plant(t *testing.T, d *DB) {
	t.Helper()
	request(t, d, "CreateTable", `{"TableName":"`+plantedText+`","KeySchema":[{"AttributeName":"id","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],"BillingMode":"PAY_PER_REQUEST","StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_AND_OLD_IMAGES"}}`)
	for _, id := range []string{"a", "b", "c"} {
		request(t, d, "PutItem", `{"TableName":"`+plantedText+`","Item":{"id":{"S":"`+plantedText+id+`"},"`+plantedText+`":{"S":"`+plantedText+`"}}}`)
	}
	request(t, d, "CreateBackup", `{"TableName":"`+plantedText+`","BackupName":"`+plantedText+`"}`)
	for !strings.Contains(request(t, d, "ListBackups", `{}`), "AVAILABLE") {
	}
}

// filesWithText returns the files below a folder that contain a text in their names or content.
func filesWithText(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) || strings.Contains(e.Name(), text) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Neither the data folder nor backups contain what was written, if there is a key. The control has
// none.
func TestNoPlaintextOnDisk(t *testing.T) {
	for _, key := range []string{"", keyFile(t)} {
		dir := t.TempDir()
		data, copied, restored := filepath.Join(dir, "data"), filepath.Join(dir, "copied"), filepath.Join(dir, "restored")
		d, err := Open(t.Context(), Options{Dir: data, EncryptionKey: key})
		if err != nil {
			t.Fatal(err)
		}
		plant(t, d)
		var stream bytes.Buffer
		if err := d.backups.WriteAll(t.Context(), &stream); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if err := SaveBackup(t.Context(), &stream, copied, key, func(TableBackup) {}); err != nil {
			t.Fatal(err)
		}
		if err := RestoreBackup(t.Context(), copied, restored, RestoreOptions{BackupKey: BackupKey{EncryptionKey: key}}, slog.New(slog.DiscardHandler), func(TableBackup) {}); err != nil {
			t.Fatal(err)
		}
		for _, folder := range []string{data, data + "-backups", copied, restored} {
			if found := filesWithText(t, folder, plantedText); (len(found) > 0) != (key == "") {
				t.Errorf("with a key: %v: the text is in %q", key != "", found)
			}
		}
		d, err = Open(t.Context(), Options{Dir: restored, Backups: data + "-backups", EncryptionKey: key})
		if err != nil {
			t.Fatal(err)
		}
		if got := request(t, d, "Scan", `{"TableName":"`+plantedText+`"}`); !strings.Contains(got, `"Count":3`) {
			t.Errorf("got %s", got)
		}
		if got := request(t, d, "ListBackups", `{}`); !strings.Contains(got, plantedText) {
			t.Errorf("got %s", got)
		}
		if (d.EncryptionKeyID() == "") != (key == "") {
			t.Errorf("the id of the key is %q", d.EncryptionKeyID())
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestEncryptionKeyIsChecked(t *testing.T) {
	one, two := keyFile(t), keyFile(t)
	dir := t.TempDir()
	data, plain := filepath.Join(dir, "data"), filepath.Join(dir, "plain")
	for folder, key := range map[string]string{data: one, plain: ""} {
		d, err := Open(t.Context(), Options{Dir: folder, EncryptionKey: key})
		if err != nil {
			t.Fatal(err)
		}
		plant(t, d)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	restore := func(key string) error {
		return RestoreBackup(t.Context(), data+"-backups", filepath.Join(dir, "restored"), RestoreOptions{BackupKey: BackupKey{EncryptionKey: key}}, slog.New(slog.DiscardHandler), func(TableBackup) {})
	}
	open := func(o Options) error {
		d, err := Open(context.Background(), o)
		if err == nil {
			err = d.Close()
		}
		return err
	}
	for _, c := range []struct{ name, got, want string }{
		{"wrong key", text(open(Options{Dir: data, EncryptionKey: two})), "encrypted with another key"},
		{"no key", text(open(Options{Dir: data})), "name the key with --encryption-key"},
		{"a key for a plain folder", text(open(Options{Dir: plain, EncryptionKey: one})), "stator encryption enable"},
		{"in memory", text(open(Options{EncryptionKey: one})), "in memory"},
		{"on a cluster", text(open(Options{Engine: "tikv://127.0.0.1:1", Backups: dir, EncryptionKey: one})), "TiKV has an encryption at rest of its own"},
		{"no such file", text(open(Options{Dir: data, EncryptionKey: filepath.Join(dir, "none")})), "no such file"},
		{"backups of another key", text(open(Options{Dir: filepath.Join(dir, "new"), Backups: data + "-backups", EncryptionKey: two})), "no error"},
		{"backups that cannot be reached", text(open(Options{Dir: filepath.Join(dir, "other"), Backups: "unreachable://place", EncryptionKey: two})), "no error"},
		{"restore without a set", text(restore(one)), "there is no backup of a whole server"},
		{"the control", text(open(Options{Dir: data, EncryptionKey: one})), "no error"},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "restored.restoring")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unfinished restore is left: %v", err)
	}
	for _, c := range []struct{ from, key, want string }{
		{data, one, ""},
		{data, two, "encrypted with another key"},
		{data, "", "name the key with --encryption-key"},
		{plain, one, "--allow-plain-backups"},
		{plain, "", ""},
	} {
		n := 0
		err := VerifyBackups(t.Context(), c.from+"-backups", BackupKey{EncryptionKey: c.key}, func(r BackupReport) {
			if n++; r.Fault != "" || (r.Key == "") != (c.want == "") || !strings.Contains(r.Key, c.want) {
				t.Errorf("got %+v, want %q", r, c.want)
			}
		})
		if n != 1 || err != nil {
			t.Errorf("%d backups are verified, %v", n, err)
		}
	}
}

func init() {
	blob.Register("unreachable", func(context.Context, *url.URL) (blob.Place, error) { return unreachablePlace{}, nil })
}

var errUnreachable = errors.New("the place cannot be reached")

// unreachablePlace is a place of backups of which nothing works.
type unreachablePlace struct{}

func (unreachablePlace) Create(context.Context, string) (blob.Writer, error) {
	return nil, errUnreachable
}
func (unreachablePlace) Open(context.Context, string) (io.ReadCloser, error) {
	return nil, errUnreachable
}
func (unreachablePlace) Names(context.Context) ([]string, error) { return nil, errUnreachable }
func (unreachablePlace) Find(context.Context, string) ([]blob.File, error) {
	return nil, errUnreachable
}
func (unreachablePlace) Remove(context.Context, string) error { return errUnreachable }
func (unreachablePlace) String() string                       { return "unreachable://" }
func (unreachablePlace) Close() error                         { return nil }

// A backup that somebody without the key has put at the place is not restored.
func TestPlantedBackupIsNotRestored(t *testing.T) {
	dir, key := t.TempDir(), keyFile(t)
	from := filepath.Join(dir, "backups")
	for _, c := range []struct{ folder, key string }{{"own", key}, {"planted", ""}} {
		d, err := Open(t.Context(), Options{Dir: filepath.Join(dir, c.folder), EncryptionKey: c.key})
		if err != nil {
			t.Fatal(err)
		}
		plant(t, d)
		if c.key == "" {
			request(t, d, "DeleteItem", `{"TableName":"`+plantedText+`","Key":{"id":{"S":"`+plantedText+`a"}}}`)
		}
		var stream bytes.Buffer
		if err := errors.Join(d.backups.WriteAll(t.Context(), &stream), d.Close()); err != nil {
			t.Fatal(err)
		}
		if err := SaveBackup(t.Context(), &stream, from, c.key, func(TableBackup) {}); err != nil {
			t.Fatal(err)
		}
	}
	for allow, want := range map[bool]int64{false: 3, true: 2} {
		var log bytes.Buffer
		items := int64(0)
		restored := filepath.Join(dir, fmt.Sprintf("restored-%v", allow))
		err := RestoreBackup(t.Context(), from, restored, RestoreOptions{BackupKey: BackupKey{key, allow}}, slog.New(slog.NewTextHandler(&log, nil)), func(b TableBackup) { items += b.Items })
		if err != nil || items != want || strings.Contains(log.String(), "newer backups are not restored") == allow {
			t.Errorf("allowed: %v: %d items, %v, the log is\n%s", allow, items, err, &log)
		}
	}
}

func text(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// A server that does not encrypt logs at its start which tables ask for it, as DescribeTable shows that
// they do.
func TestTablesThatAskForEncryptionAreLogged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	var log bytes.Buffer
	for range 2 {
		log.Reset()
		d, err := Open(t.Context(), Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(request(t, d, "ListTables", `{}`), "Orders") {
			request(t, d, "CreateTable", `{"TableName":"Orders","KeySchema":[{"AttributeName":"id","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],"BillingMode":"PAY_PER_REQUEST","SSESpecification":{"Enabled":true}}`)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), "the data folder is not encrypted") {
			t.Errorf("the log is\n%s", &log)
		}
	}
}

// A standby encrypts its copy with its own key, continues with it after a restart, and serves with
// it once it is promoted, also if the place of its backups cannot be reached.
func TestEncryptedStandby(t *testing.T) {
	p := startPrimary(t) // which does not encrypt
	plant(t, p.db.Load())
	dir := filepath.Join(t.TempDir(), "standby")
	open := func(key string) (*Standby, error) {
		return OpenStandby(t.Context(), StandbyOptions{Options: Options{Dir: dir, Backups: "unreachable://", EncryptionKey: key}, Of: p.web.URL, Sign: signTest})
	}
	key := keyFile(t)
	s, err := open(key)
	if err != nil {
		t.Fatal(err)
	}
	for s.Status().State != "FOLLOWING" {
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if found := filesWithText(t, dir, plantedText); len(found) > 0 {
		t.Errorf("the text is in %q", found)
	}
	if _, err := open(""); !errors.As(err, new(*NeedsKeyError)) {
		t.Errorf("without a key: %v", err)
	}
	if s, err = open(key); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := s.Promote(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := request(t, d, "Scan", `{"TableName":"`+plantedText+`"}`); !strings.Contains(got, `"Count":3`) || d.EncryptionKeyID() == "" {
		t.Errorf("got %s, key %q", got, d.EncryptionKeyID())
	}
}
