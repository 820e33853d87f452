package cli

import (
	"net/http/httptest"
	"path/filepath"
	"strings"
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
