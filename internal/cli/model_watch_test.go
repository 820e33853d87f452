package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/virtualtime"
)

// watch checks the file at the start and after each change, also when the file
// is replaced or invalid for a while, and ends without an error.
func TestModelWatch(t *testing.T) {
	good, err := os.ReadFile(strings.Replace(faulty, "no-index", "no-index.fixed", 1))
	if err != nil {
		t.Fatal(err)
	}
	bad, err := os.ReadFile(faulty)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "a.model.yaml")
	write := func(path string, text []byte) {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(file, good)
	virtualtime.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var out watchOutput
		ended := make(chan error, 1)
		go func() { ended <- (&modelWatcher{file: file, every: time.Second, out: &out}).run(ctx) }()
		// next returns what is printed within two polls.
		next := func() string {
			time.Sleep(2 * time.Second)
			synctest.Wait()
			return out.take()
		}
		for _, c := range []struct {
			name   string
			change func()
			want   string // "" for no output
		}{
			{"the start", func() {}, "ok       2 of 2"},
			{"no change", func() {}, ""},
			{"a fault", func() { write(file, bad) }, `missing  ` + file + `:22:12: "orders by status"`},
			{"an invalid file", func() { write(file, []byte("model: 1\ntabels: {}\n")) }, "fault    " + file + ":2:1: unknown field tabels"},
			{"a file that is absent", func() { _ = os.Remove(file) }, "note     waiting for the file: stat " + file},
			{"a file that is still absent", func() {}, ""},
			{"a file that is replaced", func() {
				write(file+".new", good)
				if err := os.Rename(file+".new", file); err != nil {
					t.Fatal(err)
				}
			}, "ok       2 of 2"},
		} {
			c.change()
			if got := next(); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("after %s the output is %q, want %q", c.name, got, c.want)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the end is %v", err)
		}
	})
}

// watchOutput is what a watcher has printed since the last look.
type watchOutput struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *watchOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *watchOutput) take() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := o.text.String()
	o.text.Reset()
	return text
}

// watch rejects what it cannot watch.
func TestModelWatchUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"none.yaml"}, 2, "cannot read the model"},
		{[]string{}, 2, "needs one file"},
		{[]string{goodModel, "--every", "0s"}, 2, "must be positive"},
	} {
		if code, _, errs := runStator(t, append([]string{"model", "watch"}, c.args...)...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("for %v the exit code is %d: %s", c.args, code, errs)
		}
	}
}
