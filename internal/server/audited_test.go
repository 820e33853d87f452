package server_test

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/audit"
	"github.com/stator-db/stator/internal/server/door"
)

// The audit log has the version and the cipher suite of TLS, as CloudTrail does, whether the door or
// net/http reads a request.
func TestTLSIsAudited(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	path := filepath.Join(t.TempDir(), "audit")
	log, err := audit.Open(audit.Options{Path: path, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	h, _ := newFailing(t)
	h.Audit(log)
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front := door.New(h, &http.Server{Handler: h}, quiet) //nolint:gosec // a test
	config := certified.TLS.Clone()
	config.NextProtos = []string{"http/1.1"}
	go front.Serve(tls.NewListener(l, config)) //nolint:errcheck // Close ends it
	defer front.Close()

	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MaxVersion: version, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384}}}} //nolint:gosec // a test
		for _, target := range []string{listTables, "Stator.GetShapes"} {
			for range 2 {
				r := httptest.NewRequest("POST", "https://"+l.Addr().String(), strings.NewReader("{}"))
				r.RequestURI, r.Header = "", signed(target)
				if target != listTables { // a method that the door leaves to net/http
					r.Method, r.URL.Path, r.Body, r.ContentLength = "GET", "/shapes", nil, 0
				}
				reply, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, reply.Body)
				if _ = reply.Body.Close(); reply.StatusCode != http.StatusOK {
					t.Fatal(reply.Status)
				}
			}
		}
		client.CloseIdleConnections()
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	count := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		var record struct {
			EventName  string
			TLSDetails struct{ TLSVersion, CipherSuite, ClientProvidedHostHeader string }
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		d := record.TLSDetails
		if d.ClientProvidedHostHeader != l.Addr().String() || !strings.HasPrefix(d.CipherSuite, "TLS_") {
			t.Errorf("the record is %s", line)
		}
		if d.TLSVersion == "TLSv1.2" && d.CipherSuite != "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384" {
			t.Errorf("the cipher suite of %s", line)
		}
		count[record.EventName+" "+d.TLSVersion]++
	}
	for _, name := range []string{"ListTables TLSv1.2", "ListTables TLSv1.3", "GetShapes TLSv1.2", "GetShapes TLSv1.3"} {
		if count[name] != 2 {
			t.Errorf("%d records of %s, want 2: %v", count[name], name, count)
		}
	}
}
