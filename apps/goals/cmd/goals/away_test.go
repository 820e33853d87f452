package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/gold"
	"github.com/stator-db/stator/apps/goals/stream"
)

// page returns the status and the body of a page.
func page(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}

// waitFor waits for a page with or without a text.
func waitFor(t *testing.T, url, text string, has bool) {
	t.Helper()
	for {
		status, body := page(t, url)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", url, status, body)
		}
		if strings.Contains(body, text) == has {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("timed out: %s has %q is not %v: %s", url, text, has, body)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Without Kafka, serve starts, serves the batch view, and says that deposits are
// missing. It catches up when Kafka responds, and the same after Kafka was stopped.
func TestServeWhileKafkaIsAway(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	folder, log, person := t.TempDir(), t.TempDir(), gold.Person(1, 0).String()
	day := time.Now().UTC().Add(-time.Hour)
	start(t, "generate", "--data", folder, "--customers", "20", "--day", day.Format(time.DateOnly), "--as-of", day.Format(time.RFC3339)).succeeds()
	start(t, "load", "--data", folder, "--day", day.Format(time.DateOnly)).succeeds()
	c := start(t, "serve", "--data", folder, "--listen", "127.0.0.1:0", "--kafka", address, "--instance", "one")
	url := c.says(`serving url=(\S+)`)
	reply, health, phone := url+"/api/people/"+person+"/goals", url+"/healthz", url+"/people/"+person
	send := func(balance goals.Money) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		producer, err := stream.NewProducer(ctx, stream.At(address), stream.DefaultTopics)
		if err != nil {
			t.Fatal(err)
		}
		defer producer.Close()
		if err := producer.Send(ctx, goals.Event{Type: goals.Deposit, EventID: uuid.NewString(), PersonID: person, Product: "SAV", OccurredAt: time.Now(), Balance: &balance}); err != nil {
			t.Fatal(err)
		}
	}
	for _, balance := range []goals.Money{700001, 800001} {
		waitFor(t, health, "Kafka does not respond since", true)
		waitFor(t, reply, "streamDownSince", true)
		waitFor(t, phone, `class="notice"`, true)
		broker, err := stream.StartBroker(log, address, stream.DefaultTopics)
		if err != nil {
			t.Fatal(err)
		}
		defer broker.Close() // closing twice does no harm
		send(balance)
		waitFor(t, reply, `"savedAmount":`+balance.String()+`,"status":"PENDING_CONFIRMATION"`, true)
		waitFor(t, reply, "streamDownSince", false)
		waitFor(t, health, "0 events behind", true)
		waitFor(t, phone, `class="notice"`, false)
		broker.Close()
	}
}
