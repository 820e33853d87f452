package cli

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/virtualtime"
)

// startServe runs serve until the test ends, and returns the lines that it prints until it
// serves requests.
func startServe(t *testing.T, f *serveFlags) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	printed, stderr := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, f, stderr) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	var lines []string
	for scanner := bufio.NewScanner(printed); scanner.Scan(); {
		lines = append(lines, scanner.Text())
		if strings.HasPrefix(scanner.Text(), "data is in ") {
			break
		}
	}
	go io.Copy(io.Discard, printed) //nolint:errcheck // it ends with the test
	return lines
}

// urlIn returns the URL after some words of a line.
func urlIn(t *testing.T, lines []string, words string) string {
	t.Helper()
	for _, line := range lines {
		if _, url, ok := strings.Cut(line, words); ok {
			return url
		}
	}
	t.Fatalf("no line has %q:\n%s", words, strings.Join(lines, "\n"))
	return ""
}

func get(t *testing.T, url, host, origin string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(body)
}

// Profiles are served on their own address only, and not to pages of other sites.
func TestProfiles(t *testing.T) {
	lines := startServe(t, &serveFlags{addr: "127.0.0.1:0", inMemory: true, cacheMB: 64, log: "error", durability: "strict", pprof: "127.0.0.1:0"})
	profiles, main := urlIn(t, lines, "profiles are on "), urlIn(t, lines, "stator listens on ")
	for _, c := range []struct {
		url, host, origin string
		status            int
		want              string
	}{
		{profiles, "", "", 200, "goroutine"},
		{profiles + "goroutine?debug=1", "", "", 200, "goroutine profile"},
		{profiles + "cmdline", "localhost:6060", "", 200, ""},
		{profiles + "heap?debug=1", "evil.example", "", 403, "rejected"},
		{profiles, "", "http://evil.example", 403, "rejected"},
		{main + "/debug/pprof/", "", "", 404, ""},
		{main + "/readyz", "", "", 200, "ready\n"},
		{main + "/livez", "", "", 200, "ok\n"},
	} {
		if status, text := get(t, c.url, c.host, c.origin); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s for %q from %q: %d %.100s", c.url, c.host, c.origin, status, text)
		}
	}
}

// With --stop-with-stdin, the server stops without an error when the program that holds the other
// end of its standard input ends.
func TestStopWithStdin(t *testing.T) {
	stdin, starter := io.Pipe()
	printed, stderr := io.Pipe()
	cmd := serveCommand()
	cmd.SetArgs([]string{"--in-memory", "--addr", "127.0.0.1:0", "--stop-with-stdin"})
	cmd.SetIn(stdin)
	cmd.SetErr(stderr)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(t.Context()); stderr.Close() }()
	var announced bool
	for scanner := bufio.NewScanner(printed); scanner.Scan(); {
		if strings.HasPrefix(scanner.Text(), "data is in ") {
			announced = true
			starter.Close()
		}
	}
	if err := <-ended; err != nil || !announced {
		t.Errorf("the server ended with %v; announced: %v", err, announced)
	}
}

// A server that is stopped while it opens its data ends without an error.
func TestServeIsStoppedWhileItOpens(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := serve(ctx, &serveFlags{addr: "127.0.0.1:0", data: t.TempDir(), cacheMB: 64, log: "error", durability: "strict"}, io.Discard); err != nil {
		t.Error(err)
	}
}

func TestServeFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--pprof", "0.0.0.0:6060"}, "must be a loopback address"},
		{[]string{"--pprof", "10.0.0.1:6060"}, "kubectl port-forward"},
		{[]string{"--pprof", "[::]:6060", "--allow-anyone"}, "must be a loopback address"},
		{[]string{"--pprof", ":6060"}, "must be a loopback address"},
		{[]string{"--pprof", "db.example.org:6060"}, "must be a loopback address"},
		{[]string{"--pprof", "6060"}, "must be host:port"},
		{[]string{"--otlp-endpoint", "127.0.0.1:4318"}, "--otlp-endpoint must be a URL"},
		{[]string{"--otlp-endpoint", "http://127.0.0.1:4318", "--trace-sample", "1.5"}, "--trace-sample is 1.5, but must be from 0 to 1"},
		{[]string{"--trace-sample", "1"}, "--trace-sample requires --otlp-endpoint"},
		{[]string{"--shutdown-delay", "-1s"}, "must not be negative"},
		{[]string{"--http-cache", "on"}, "use dax, coherent or off"},
		{[]string{"--http-cache", "dax", "--dax-cache-size", "0"}, "--dax-cache-size is 0, but must be at least 1 MB"},
		{[]string{"--http-cache", "dax", "--dax-cache-size", "100000000000"}, "three quarters of the machine's memory"},
		{[]string{"--dax-item-ttl", "1s"}, "--dax-item-ttl requires a cache"},
		{[]string{"--dax-mode", "dax"}, "--dax-mode requires --dax or --dax-tls"},
		{[]string{"--dax", "127.0.0.1:0", "--dax-mode", "on"}, "use dax, coherent or off"},
		{[]string{"--dax", "127.0.0.1:0", "--dax-mode", "dax", "--http-cache", "coherent"}, "there is one cache"},
		{[]string{"--dax", "127.0.0.1:0", "--dax-mode", "off", "--dax-query-ttl", "1s"}, "--dax-query-ttl requires a cache"},
	} {
		code, _, stderr := runStator(t, append([]string{"serve", "--in-memory", "--addr", "127.0.0.1:0"}, c.args...)...)
		if code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d, %s", c.args, code, stderr)
		}
	}
}

// A server exports the spans of its requests.
func TestServeExportsSpans(t *testing.T) {
	spans := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		spans <- r.URL.Path + " " + string(text)
	}))
	defer receiver.Close()
	lines := startServe(t, &serveFlags{addr: "127.0.0.1:0", inMemory: true, cacheMB: 64, log: "error", durability: "strict", otlpEndpoint: receiver.URL, traceSample: 1})
	if _, err := clientOf(urlIn(t, lines, "stator listens on "), "us-east-1").Send(t.Context(), "ListTables", struct{}{}); err != nil {
		t.Fatal(err)
	}
	if got := <-spans; !strings.HasPrefix(got, "/v1/traces {") || !strings.Contains(got, `"name":"DynamoDB.ListTables"`) {
		t.Errorf("the receiver gets %s", got)
	}
}

// When it stops, a server is not ready, but serves requests until the delay is over or another
// signal comes. One that serves none has no delay.
func TestDrain(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name          string
			serves        bool
			delay, signal time.Duration // signal is when another one comes, or 0
			want          time.Duration
		}{
			{"no delay", true, 0, 0, 0},
			{"a delay", true, 10 * time.Second, 0, 10 * time.Second},
			{"another signal", true, 10 * time.Second, 2 * time.Second, 2 * time.Second},
			{"a standby", false, 10 * time.Second, 0, 0},
		} {
			reported, again := false, make(chan os.Signal, 1)
			if c.signal > 0 {
				time.AfterFunc(c.signal, func() { again <- os.Interrupt })
			}
			began := time.Now()
			drain(func() bool { reported = true; return c.serves }, c.delay, again, slog.New(slog.DiscardHandler))
			if took := time.Since(began); !reported || took != c.want {
				t.Errorf("%s: it takes %v, want %v; reported: %v", c.name, took, c.want, reported)
			}
		}
	})
}
