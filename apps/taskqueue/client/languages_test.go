package client_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stator-db/stator/apps/internal/hometest"
	"github.com/stator-db/stator/apps/internal/web"
	"github.com/stator-db/stator/apps/taskqueue"
	"github.com/stator-db/stator/apps/taskqueue/client"
	"github.com/stator-db/stator/apps/taskqueue/front"
	"github.com/stator-db/stator/apps/taskqueue/queue"
	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// serve serves a queue with tables in memory. Every seventh request, except for
// claims, is executed, but its connection is closed without a reply: a client must
// repeat it, and nothing must happen twice. (A claim without a reply ends with its
// lease, and counts as an attempt.)
func serve(t *testing.T) string {
	t.Helper()
	h := hometest.Start(t, taskqueue.Model)
	registry := prometheus.NewRegistry()
	service := queue.New(queue.Options{Table: &table.Table{DB: h.DB, Streams: h.Streams}, Metrics: registry, Poll: 5 * time.Millisecond})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	if err := service.Started(t.Context()); err != nil {
		t.Fatal(err)
	}
	handler := (&front.Front{Queue: service, Live: new(web.Live), Log: slog.New(slog.DiscardHandler), Metrics: registry}).Handler()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/claim") && requests.Add(1)%7 == 0 {
			handler.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return server.URL
}

// language runs the tests of a client in another language, and then compares every
// task with the replay of its events.
func language(t *testing.T, folder string, command ...string) {
	t.Helper()
	if _, err := exec.LookPath(command[0]); err != nil {
		t.Skipf("%s is not installed, so its client is not tested", command[0])
	}
	url := serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir = folder
	c.Env = append(os.Environ(), "TASKQUEUE_URL="+url, "PYTHONDONTWRITEBYTECODE=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	tasks := 0
	server := client.New(url)
	for _, status := range task.Statuses {
		page, err := server.List(t.Context(), task.Selection{Status: status}, "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, listed := range page.Tasks {
			tasks++
			got, err := server.Get(t.Context(), listed.ID)
			if err != nil {
				t.Fatal(err)
			}
			events, err := server.History(t.Context(), listed.ID)
			if err != nil {
				t.Fatal(err)
			}
			if err := task.Matches(got, events); err != nil {
				t.Error(err)
			}
		}
	}
	if tasks != 7 {
		t.Errorf("%d tasks exist, want 7: none lost, none submitted twice", tasks)
	}
}

func TestJavaScript(t *testing.T) { language(t, "javascript", "node", "test.mjs") }

func TestPython(t *testing.T) {
	language(t, "python", "python3", "-m", "unittest", "-v", "test_taskqueue")
}

// The types are valid TypeScript, and reject wrong requests.
func TestTypeScript(t *testing.T) {
	compiler, err := filepath.Abs("../../../clients/model-code/node_modules/.bin/tsc")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(compiler); err != nil {
		t.Skip("the TypeScript compiler is not installed; 'npm ci' in clients/model-code installs it")
	}
	types, err := filepath.Abs("javascript/taskqueue.js")
	if err != nil {
		t.Fatal(err)
	}
	// The compiler reports a line that it accepts after @ts-expect-error.
	text := `import { TaskQueue, Worker, type Claim, type Task } from "` + types + `";
const c = new TaskQueue("http://127.0.0.1:8070");
export const t: Task = await c.submit("q", { type: "t", payload: { a: 1 }, priority: 3 });
export const x: Claim | null = await c.claim("q", { worker: "w" });
await new Worker({ client: c, queue: "q", id: "w", handler: async (t, { signal }) => t.type + signal.aborted }).run();
// @ts-expect-error the type is missing
await c.submit("q", { payload: 1 });
// @ts-expect-error there is no member prio
await c.submit("q", { type: "t", prio: 1 });
// @ts-expect-error there is no such status
await c.tasks({ status: "ASLEEP" });
// @ts-expect-error there may be no task
(await c.claim("q", { worker: "w" })).id;
`
	file := filepath.Join(t.TempDir(), "use.mts")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(compiler, "--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
