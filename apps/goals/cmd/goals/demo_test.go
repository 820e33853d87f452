package main

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/gold"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// A deposit through all parts: pending, then rejected or confirmed.
func TestDemonstration(t *testing.T) {
	c := start(t, "demo", "--listen", "127.0.0.1:0", "--customers", "30", "--deposits-per-second", "0", "--dynamodb", "127.0.0.1:0")
	endpoint, front, person := c.says(`endpoint=(\S+)`), c.says(`serving url=(\S+)`), gold.Person(1, 4).String()
	post := func(what string, form url.Values) {
		t.Helper()
		answer, err := http.PostForm(front+"/demo/"+person+"/"+what, form)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d", what, answer.StatusCode)
		}
	}
	until := func(what string, holds func(body string) bool) {
		t.Helper()
		for {
			_, body := get(t, front, person)
			if holds(body) {
				return
			}
			select {
			case <-t.Context().Done():
				t.Fatalf("timed out waiting until %s; the reply is %s", what, body)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	pending := func(body string) bool { return strings.Contains(body, "PENDING_CONFIRMATION") }
	_, before := get(t, front, person)
	goal := url.Values{"goal": {"CERTIFICATE_OF_DEPOSIT"}, "amount": {"6000.00"}}

	post("deposit", goal)
	until("the deposit is pending", pending)
	_, one := get(t, front, person)
	post("deposit", goal)
	until("two are pending", func(body string) bool { return body != one })
	post("fail", goal)
	until("the second is rejected and the first is still pending", func(body string) bool { return body == one })
	post("fail", goal)
	until("both are rejected", func(body string) bool { return body == before })

	post("deposit", goal)
	until("the second deposit is pending", pending)
	post("night", nil)
	until("it is confirmed", func(body string) bool {
		return !pending(body) && strings.Contains(body, `"goalId":"CERTIFICATE_OF_DEPOSIT"`) && strings.Contains(body, "COMPLETED") && body != before
	})
	post("deposit", goal)
	until("another is pending", pending)
	hometest.NoScan(t, http.DefaultClient, endpoint)
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"load"}, {"load", "--day", "2026-05-15"}, {"load", "--dya", "x"}, {"serve", "now"}, {"consume"}, {"generate", "--day", "soon", "--data", t.TempDir()}, {"deposit", "--balance", "1"}, {"deposit", "--kafka", "127.0.0.1:1", "--balance", "-1"}, {"bench"}, {"rules", "init"}, {"bogus"}, {"load", "--day", "x", "--bucket", "mem://"}, {"dead"}, {"serve", "--load-at", "noon"}, {"consume", "--kafka", "b:1", "--kafka-sasl", "plain"}} {
		if code := run(t.Context(), args); code != 2 {
			t.Errorf("goals %s ends with %d, want 2", strings.Join(args, " "), code)
		}
	}
	if code := run(t.Context(), []string{"rules", "--json"}); code != 0 {
		t.Errorf("goals rules ends with %d", code)
	}
	if code := run(t.Context(), []string{"load", "--day", "2026-05-15", "--bucket", "mem://"}); code != 1 {
		t.Errorf("goals load of an empty bucket ends with %d, want 1", code)
	}
	if code := run(t.Context(), []string{"serve", "--listen", "0.0.0.0:0"}); code != 1 {
		t.Errorf("goals serve on all addresses ends with %d, want 1", code)
	}
}

// The requests of the benchmark are those of the model: make drift compares them.
func TestTrafficOfBench(t *testing.T) {
	p := &parts{data: t.TempDir()}
	took, units, err := p.measure(t.Context(), hometest.Start(t, goals.Model).DB, 20, 30, slog.New(slog.DiscardHandler))
	if err != nil || len(took) != 30 || units != 1 {
		t.Errorf("%d events, %.2f units a request, %v", len(took), units, err)
	}
}
