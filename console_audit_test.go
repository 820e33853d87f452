package stator

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever signs in to the console is written down, and whoever tries. What is not an access key of the
// server may be a secret in the wrong field, and is not written down.
func TestSignInIsAudited(t *testing.T) {
	audit := filepath.Join(t.TempDir(), "audit")
	s := openAccessServer(t, Options{Dir: t.TempDir(), Console: ConsoleRead, Audit: audit}, rootFile(t))
	signIn := func(accessKey, secret string) int {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/console/api/session", strings.NewReader(`{"accessKey":"`+accessKey+`","secret":"`+secret+`"}`))
		r.RemoteAddr = "127.0.0.1:5000"
		for name, value := range map[string]string{"X-Stator-Console": "read", "Sec-Fetch-Site": "same-origin", "User-Agent": "a browser"} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		s.db.Handler().ServeHTTP(w, r)
		return w.Code
	}
	alice := s.newKey(rootKey, "alice")
	for _, c := range []struct {
		accessKey, secret string
		want              int
	}{{alice.AccessKey, alice.Secret, 200}, {alice.AccessKey, "planted-guess", 401}, {"planted-unknown", "planted-guess", 401}} {
		if got := signIn(c.accessKey, c.secret); got != c.want {
			t.Fatalf("%s: %d, want %d", c.accessKey, got, c.want)
		}
	}
	s.close()
	text, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "planted") || strings.Contains(string(text), alice.Secret) {
		t.Errorf("a secret is written down:\n%s", text)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		var record struct {
			EventName, EventSource, SourceIPAddress, UserAgent, ErrorCode, EventCategory string
			UserIdentity                                                                 struct{ Type, Arn, AccessKeyId string }
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if record.EventName != "ConsoleLogin" {
			continue
		}
		if record.EventSource != "stator" || record.SourceIPAddress != "127.0.0.1" || record.UserAgent != "a browser" || record.EventCategory != "Management" {
			t.Errorf("the record is %s", line)
		}
		id := record.UserIdentity
		got = append(got, strings.Join([]string{record.ErrorCode, id.Type, id.Arn, id.AccessKeyId}, " "))
	}
	want := []string{" IAMUser " + userARN("alice") + " " + alice.AccessKey, "UnrecognizedClientException Unverified  " + alice.AccessKey, "UnrecognizedClientException Unverified  "}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the records are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
