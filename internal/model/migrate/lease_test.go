package migrate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/virtualtime"
)

// A process whose lease cannot be renewed stops before another one may begin,
// however long a request is repeated or stays without a reply.
func TestLeaseEndsInTime(t *testing.T) {
	m, err := model.Parse("m.model.yaml", []byte("model: 1\ntables: {users: {key: {partition: id}}}\nentities:\n  user: {attributes: {id: S}}\npatterns: [{name: get, get: user, given: [id], rate: 1/s}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, fail := range map[string]func(ctx context.Context) error{
		"fails":    func(context.Context) error { return errors.New("no connection") },
		"no reply": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				renewals := 0
				var last time.Time
				send := func(ctx context.Context, _ string, _ any) ([]byte, error) {
					if renewals < 3 {
						renewals++
						last = time.Now()
						return []byte("{}"), nil
					}
					return nil, fail(ctx)
				}
				mig := New(send, send, m, m, Options{ID: "x", Owner: "o"})
				r := mig.newRun(&State{})
				r.owned.since = time.Now()
				err := r.renew(t.Context())
				if stopped := time.Since(last); !errors.Is(err, errLost) || stopped >= 30*time.Second || stopped < 15*time.Second {
					t.Errorf("it stopped %s after the last renewal: %v", stopped, err)
				}
			})
		})
	}
}
