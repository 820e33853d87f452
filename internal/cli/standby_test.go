package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stator-db/stator"
)

func TestStandbyErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"standby"}, exitUsage, "--of is"},
		{[]string{"standby", "--of", "here"}, exitUsage, "--of is"},
		{[]string{"standby", "--of", "http://127.0.0.1:1", "--addr", "0.0.0.0:0"}, exitFailed, "--allow-anyone"},
		{[]string{"standby", "--of", "http://127.0.0.1:1", "--pprof", "0.0.0.0:6060"}, exitUsage, "must be a loopback address"},
		{[]string{"standby", "--of", "http://127.0.0.1:1", "--otlp-endpoint", "here"}, exitUsage, "--otlp-endpoint must be a URL"},
		{[]string{"standby", "--of", "http://127.0.0.1:1", "--trace-sample", "1"}, exitUsage, "--trace-sample requires --otlp-endpoint"},
		{[]string{"promote", "--endpoint", "here"}, exitUsage, "--endpoint is"},
		{[]string{"promote", "--endpoint", "http://127.0.0.1:1"}, exitFailed, "cannot promote"},
	} {
		if code, out := run(c.args...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v exits with %d:\n%s", c.args, code, out)
		}
	}
}

// One command promotes a standby.
func TestPromote(t *testing.T) {
	db, err := stator.Open(t.Context(), stator.Options{Dir: filepath.Join(t.TempDir(), "primary")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	primary := httptest.NewServer(db.Handler())
	defer primary.Close()
	dir := filepath.Join(t.TempDir(), "standby")
	s, err := stator.OpenStandby(t.Context(), stator.StandbyOptions{Options: stator.Options{Dir: dir}, Of: primary.URL, Sign: signFor("us-east-1")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	for s.Status().State != "FOLLOWING" {
		time.Sleep(time.Millisecond)
	}
	if code, out := run("verify", "--data", dir); code != exitFailed {
		t.Errorf("verify of the data of a standby exits with %d:\n%s", code, out)
	}
	if code, out := run("promote", "--endpoint", web.URL); code != exitDone || !strings.Contains(out, "promoted: it was FOLLOWING") {
		t.Errorf("promote exits with %d:\n%s", code, out)
	}
	if code, out := run("promote", "--endpoint", web.URL); code != exitDone || !strings.Contains(out, "is not a standby (any more), and serves requests") {
		t.Errorf("a second promotion exits with %d:\n%s", code, out)
	}
	if code, out := run("backup", "--endpoint", web.URL, "--to", t.TempDir()); code != exitDone {
		t.Errorf("a backup of the promoted standby exits with %d:\n%s", code, out)
	}
}

// A promoted standby exports spans, and drains like any server: it is not ready, and serves
// requests until the delay is over or a second signal comes.
func TestPromotedStandbyDrains(t *testing.T) {
	db, err := stator.Open(t.Context(), stator.Options{Dir: filepath.Join(t.TempDir(), "primary")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	primary := httptest.NewServer(db.Handler())
	defer primary.Close()
	spans := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		spans <- string(text)
	}))
	defer receiver.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	printed, stderr := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- followServer(ctx, &serveFlags{addr: "127.0.0.1:0", data: filepath.Join(t.TempDir(), "standby"), cacheMB: 64, log: "error",
			pprof: "127.0.0.1:0", otlpEndpoint: receiver.URL, traceSample: 1, shutdownDelay: time.Hour}, primary.URL, "us-east-1", stderr)
	}()
	var lines []string
	for scanner := bufio.NewScanner(printed); scanner.Scan(); {
		if lines = append(lines, scanner.Text()); strings.HasPrefix(scanner.Text(), "standby of ") {
			break
		}
	}
	go io.Copy(io.Discard, printed) //nolint:errcheck // it ends with the test
	url := urlIn(t, lines, " listens on ")
	if status, _ := get(t, urlIn(t, lines, "profiles are on "), "", ""); status != 200 {
		t.Errorf("the profiles answer with %d", status)
	}
	server := clientOf(url, "us-east-1")
	for {
		text, err := server.Get(t.Context(), "/standby")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "FOLLOWING") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if code, out := run("promote", "--endpoint", url); code != exitDone {
		t.Fatalf("promote exits with %d: %s", code, out)
	}
	cancel()
	for status := 200; status != 503; time.Sleep(time.Millisecond) {
		status, _ = get(t, url+"/readyz", "", "")
	}
	if _, err := server.Send(t.Context(), "ListTables", struct{}{}); err != nil {
		t.Errorf("while it drains: %v", err)
	}
	if got := <-spans; !strings.Contains(got, `"name":"DynamoDB.ListTables"`) {
		t.Errorf("the receiver gets %s", got)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil { // it is caught since the server drains
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The report of a promotion names the lag only if it is known.
func TestPromotionReport(t *testing.T) {
	for _, c := range []struct {
		s    stator.StandbyStatus
		want string
	}{
		{stator.StandbyStatus{State: "FOLLOWING", Of: "x", LagSeconds: 1.5}, "had acknowledged 1.5 seconds before"},
		{stator.StandbyStatus{State: "DISCONNECTED", Of: "x", LagUnknown: true}, "is unknown, as the clock was set back"},
	} {
		if got := promotionReport(c.s); !strings.Contains(got, c.want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%+v is reported as %s", c.s, got)
		}
	}
}

// A status without a lag is not reported as a lag of 0 seconds.
func TestPromotionReportWithoutALag(t *testing.T) {
	if got := promotionReport(stator.StandbyStatus{State: "COPYING", Of: "x"}); strings.Contains(got, " seconds") {
		t.Errorf("it is reported as %s", got)
	}
}
