package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
)

// lines is a log that a server writes while a test reads it.
type lines struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

func breakDown() { panic("the cause") }

// A handler that panics is logged with its stack at the default level, and its client
// receives an internal error without the cause, or a reply that is cut off if it had begun.
func TestPanics(t *testing.T) {
	listener, err := Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /before", func(http.ResponseWriter, *http.Request) { breakDown() })
	mux.HandleFunc("GET /amid", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Repeat("x", 10_000))
		breakDown()
	})
	mux.HandleFunc("GET /abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("GET /well", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "well") })
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	log := new(lines)
	go func() { served <- Serve(ctx, listener, mux, slog.New(slog.NewTextHandler(log, nil))) }()
	get := func(path string) (int, string, error) {
		answer, err := http.Get("http://" + listener.Addr().String() + path)
		if err != nil {
			return 0, "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text), err
	}
	logged := 0
	for _, c := range []struct {
		path   string
		status int
		panics bool
		cut    bool
	}{
		{"/before", 500, true, false},
		{"/amid", 200, true, true},
		{"/abort", 0, false, true},
		{"/well", 200, false, false},
	} {
		status, text, err := get(c.path)
		if status != c.status || (err != nil) != c.cut || strings.Contains(text, "the cause") {
			t.Errorf("%s: %d %.200s, %v", c.path, status, text, err)
		}
		if c.panics {
			logged++
			for _, part := range []string{"level=ERROR", "the cause", "path=" + c.path, "web.breakDown", "panic_test.go"} {
				if !strings.Contains(log.String(), part) {
					t.Errorf("after %s the log has no %q: %s", c.path, part, log)
				}
			}
		}
		if n := strings.Count(log.String(), "level="); n != logged {
			t.Errorf("after %s the log has %d entries, want %d: %s", c.path, n, logged, log)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// The applications serve by Serve and in no other way, so what it does holds for all.
func TestAllServeHere(t *testing.T) {
	for _, application := range []string{"taskqueue", "downloads", "goals", "documents"} {
		here := 0
		err := fs.WalkDir(os.DirFS("../../"+application), ".", func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile("../../" + application + "/" + path)
			here += strings.Count(string(text), "web.Serve(")
			for _, other := range []string{"http.Server{", "http.Serve(", "ListenAndServe(", "httptest.NewServer("} {
				if strings.Contains(string(text), other) {
					t.Errorf("%s/%s serves by %s…)", application, path, other)
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if here == 0 {
			t.Errorf("%s does not serve by web.Serve", application)
		}
	}
}
