package stator

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/standby"
)

// A promotion that is repeated, as the error of the first one asks for, reports the lag that the
// standby had. Meanwhile the standby is not said to follow.
func TestRepeatedPromotionReportsTheLag(t *testing.T) {
	p := startPrimary(t)
	var log logtest.Log
	s := openTestStandby(t, filepath.Join(t.TempDir(), "standby"), p.web.URL, &log)
	defer s.Close()
	waitEqual(t, p, s)
	p.web.CloseClientConnections()
	p.web.Close() // the server is lost
	const lag = 0.2
	for s.Status().State != standby.Disconnected || s.Status().LagSeconds < lag {
		time.Sleep(time.Millisecond)
	}
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	s.o.Backups = "nowhere://backups"
	if code, text := postPromote(t, web.URL); code == http.StatusOK {
		t.Fatalf("the promotion succeeds: %s", text)
	}
	if st := s.Status(); st.State != standby.Disconnected || st.LagSeconds < lag || !strings.Contains(st.Error, "promoted") {
		t.Errorf("after the failed promotion the status is %+v", st)
	}
	s.o.Backups = ""
	code, text := postPromote(t, web.URL)
	var st StandbyStatus
	if err := json.Unmarshal([]byte(text), &st); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s: %v", code, text, err)
	}
	if st.State != standby.Disconnected || st.LagSeconds < lag {
		t.Errorf("the repeated promotion reports %s", text)
	}
}

// postPromote requests the promotion of a standby, and returns the reply.
func postPromote(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", server.TargetPromote)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	_ = signTest(r, nil)
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(text)
}
