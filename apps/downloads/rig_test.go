package downloads_test

import (
	"context"
	"crypto/rsa"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	"gocloud.dev/blob"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/seal"
	"github.com/stator-db/stator/apps/downloads/upstream/stand"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// rsaKey returns a file with the pipeline's key. Creating one takes long, so all
// tests share it.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, string) {
	file := filepath.Join(keyFolder, "key.pem")
	key, err := seal.MakeKey(file)
	if err != nil {
		panic(err)
	}
	return key, file
})

// rig is a whole pipeline with an upstream.
type rig struct {
	*downloads.System
	t    *testing.T
	up   *stand.Stand
	date string
	stop func()
}

// start runs a pipeline with short intervals.
func start(t *testing.T, change func(*downloads.Options, *stand.Options)) *rig {
	t.Helper()
	r := open(t, change)
	r.start()
	return r
}

// start runs the pipeline until it is stopped or the test ends.
func (r *rig) start() {
	ctx, stop := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, nil) }()
	r.stop = sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil {
			r.t.Errorf("the pipeline ended: %v", err)
		}
	})
	r.t.Cleanup(r.stop)
}

// open is start without running the pipeline.
func open(t *testing.T, change func(*downloads.Options, *stand.Options)) *rig {
	t.Helper()
	key, file := rsaKey()
	o := downloads.Defaults()
	o.KeyFile = file
	o.Every, o.Timeout, o.Backoff, o.Stall = 20*time.Millisecond, time.Minute, time.Millisecond, 200*time.Millisecond
	o.Lease, o.Resend, o.Attempts = 10*time.Second, time.Minute, 3
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	u := stand.Options{Key: &key.PublicKey, Seed: t.Name(), Files: 10, Size: 40_000, Pause: time.Millisecond}
	if change != nil {
		change(&o, &u)
	}
	r := &rig{t: t, up: stand.New(u), date: time.Now().UTC().Format(time.DateOnly)}
	server := httptest.NewServer(r.up)
	t.Cleanup(server.Close)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	o.Upstream = server.URL
	hometest.Guard(t, &o.Home)
	s, err := downloads.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	r.System = s
	t.Cleanup(func() {
		hometest.NoScan(t, s.Home.Stator.Client(), "http://stator.invalid")
		if err := s.Close(); err != nil {
			t.Errorf("close the pipeline: %v", err)
		}
	})
	return r
}

// batch starts a batch of the day and waits until it ends.
func (r *rig) batch() *ledger.Batch {
	r.t.Helper()
	id, err := r.Keeper.Trigger(r.t.Context(), r.date)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.end(id)
}

func (r *rig) end(id string) *ledger.Batch {
	r.t.Helper()
	for {
		b, err := r.Batches.Get(r.t.Context(), id)
		if err != nil {
			r.t.Fatal(err)
		}
		if b.Over() {
			slices.Sort(b.ExpectedFiles)
			slices.Sort(b.CompletedFiles)
			slices.Sort(b.FailedFiles)
			return b
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (r *rig) ids(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = ledger.FileID(stand.Entity(i), r.date)
	}
	slices.Sort(ids)
	return ids
}

func (r *rig) job(entity string) *ledger.Job {
	r.t.Helper()
	j, err := r.Jobs.Get(r.t.Context(), ledger.FileID(entity, r.date))
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

// holds checks that the bucket has exactly these entities' files of the day, with
// the right bytes.
func (r *rig) holds(entities ...string) {
	r.t.Helper()
	want := make(map[string]bool)
	for _, e := range entities {
		want[r.date+"/"+e] = true
		got, err := r.Bucket.ReadAll(r.t.Context(), r.date+"/"+e)
		if err != nil || string(got) != string(r.up.Plain(r.date, e)) {
			r.t.Errorf("%s in the bucket has %d bytes, %v, and is not what the upstream has", e, len(got), err)
		}
	}
	list := r.Bucket.List(&blob.ListOptions{})
	for o, err := list.Next(r.t.Context()); err == nil; o, err = list.Next(r.t.Context()) {
		if !want[o.Key] {
			r.t.Errorf("the bucket has %s, which does not belong there", o.Key)
		}
	}
}

func all(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = stand.Entity(i)
	}
	return names
}

// meddle returns a client whose requests can be changed, rejected, or made to appear
// failed.
func meddle(db *dynamodb.Client, with func(in any, next func() error) error) *dynamodb.Client {
	return dynamodb.New(db.Options(), func(o *dynamodb.Options) {
		o.APIOptions = append(slices.Clone(o.APIOptions), func(s *middleware.Stack) error {
			return s.Initialize.Add(middleware.InitializeMiddlewareFunc("meddle", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (out middleware.InitializeOutput, m middleware.Metadata, err error) {
				err = with(in.Parameters, func() (err error) {
					out, m, err = next.HandleInitialize(ctx, in)
					return err
				})
				return out, m, err
			}), middleware.Before)
		})
	})
}

func get(t *testing.T, h http.Handler, method, target string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w.Code, w.Body.String()
}

func sealKey(t *testing.T) (string, error) {
	file := filepath.Join(t.TempDir(), "other.pem")
	_, err := seal.MakeKey(file)
	return file, err
}

// queueOnly drives a batch until it is queued, and no further.
func queueOnly(t *testing.T, r *rig, id string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { r.Keeper.Poller.Run(ctx, id); close(done) }()
	for {
		b, err := r.Batches.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if b.Status != ledger.Initiated {
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
}

// runFor runs the pipeline until the test ends.
func runFor(t *testing.T, r *rig) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, nil) }()
	t.Cleanup(func() { stop(); <-done })
}
