package stator_test

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator"
)

// A negative duration is refused. The control has none.
func TestNegativeOptionsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		o    stator.Options
	}{
		{"", stator.Options{TableDelay: time.Second}},
		{"TableDelay", stator.Options{TableDelay: -1}},
		{"ExpiryInterval", stator.Options{ExpiryInterval: -time.Second}},
		{"ShardDuration", stator.Options{ShardDuration: -time.Hour}},
	} {
		db, err := stator.Open(t.Context(), c.o)
		if err == nil {
			err = db.Close()
		}
		if (err != nil) != (c.name != "") || err != nil && !strings.Contains(err.Error(), c.name+" is -") {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

// An origin that no browser sends is refused.
func TestImpossibleOriginsAreRefused(t *testing.T) {
	for site, ok := range map[string]bool{"http://localhost:3000": true, "*": true, "http://localhost:3000/app": false, "": false} {
		db, err := stator.Open(t.Context(), stator.Options{AllowedOrigins: []string{site}})
		if err == nil {
			err = db.Close()
		}
		if (err == nil) != ok || err != nil && !strings.HasPrefix(err.Error(), "AllowedOrigins: ") {
			t.Errorf("%q: got %v", site, err)
		}
	}
}

// A folder with other files is refused unless they are allowed.
func TestOtherFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "photo.jpg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := stator.Open(t.Context(), stator.Options{Dir: dir})
	if other, ok := errors.AsType[*stator.OtherFilesError](err); !ok || other.Name != "photo.jpg" {
		t.Fatalf("got %v", err)
	}
	for _, allow := range []bool{true, false} { // the second time it has a database
		db, err := stator.Open(t.Context(), stator.Options{Dir: dir, AllowOtherFiles: allow})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Handler checks the host of a request, Client does not.
func TestAllowedHosts(t *testing.T) {
	db, err := stator.Open(t.Context(), stator.Options{AllowedHosts: []string{"db.example.org"}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for host, want := range map[string]int{"localhost:8000": 200, "db.example.org": 200, "evil.example": 403} {
		r := httptest.NewRequest("GET", "http://"+host+"/", nil)
		w := httptest.NewRecorder()
		db.Handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s gets %d, want %d", host, w.Code, want)
		}
	}
	reply, err := db.Client().Get("http://dynamodb.us-east-1.amazonaws.com/")
	if err != nil || reply.StatusCode != 200 {
		t.Errorf("the client gets %v, %v", reply, err)
	}
	reply.Body.Close()
}
