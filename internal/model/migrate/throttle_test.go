package migrate

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/virtualtime"
)

const limitedUsers = `
tables: {users: {key: {partition: id}}}
entities:
  user: {attributes: {id: S, email: S}}
patterns: [{name: get, get: user, given: [id], rate: 1/s}]
`

// limitedRun returns a run with a limit of one unit a minute, on a server that
// has one item.
func limitedRun(t *testing.T, new string) (r *phaseRun, user item.Item) {
	user = item.Make(map[string]item.Value{"id": item.String("1"), "email": item.String("e")})
	send := func(_ context.Context, operation string, _ any) ([]byte, error) {
		switch operation {
		case "GetItem":
			return []byte(`{"Item": {"id": {"S": "1"}, "email": {"S": "e"}}, "ConsumedCapacity": {"CapacityUnits": 1}}`), nil
		case "PutItem", "UpdateItem":
			return []byte(`{"ConsumedCapacity": {"CapacityUnits": 1}}`), nil
		}
		return []byte("{}"), nil
	}
	m := New(send, send, parseModel(t, limitedUsers), parseModel(t, new), Options{ID: "x", Owner: "o", ReadUnits: 1.0 / 60, WriteUnits: 1.0 / 60})
	return m.newRun(&State{}), user
}

const (
	copiedUsers = `
tables: {users2: {key: {partition: PK}}}
entities:
  user: {keys: {PK: "U#{id}"}, attributes: {id: S, email: S}}
patterns: [{name: get, get: user, given: [id], rate: 1/s}]
`
	indexedUsers = `
tables: {users: {key: {partition: id}, indexes: {byEmail: {partition: GSI}}}}
entities:
  user: {keys: {GSI: "E#{email}"}, attributes: {id: S, email: S}}
patterns: [{name: get, get: user, given: [id], rate: 1/s}]
`
)

// The limits slow the backfill and the verification, and not the following, also
// of the same items.
func TestLimits(t *testing.T) {
	t.Run("following", func(t *testing.T) {
		virtualtime.Test(t, func(t *testing.T) {
			r, user := limitedRun(t, copiedUsers)
			began := time.Now()
			var group sync.WaitGroup
			group.Go(func() {
				if err := r.forward.copyScanned(t.Context(), "users", user, 0); err != nil || time.Since(began) < time.Minute {
					t.Errorf("the backfill took %s, %v", time.Since(began), err)
				}
			})
			time.Sleep(time.Second)
			key := r.m.plan.forward.sources["users"].Schema().Key.Of(user)
			if err := r.forward.sync(t.Context(), "users", key, nil); err != nil || time.Since(began) > 2*time.Second {
				t.Errorf("the follower took %s, %v", time.Since(began), err)
			}
			group.Wait()
		})
	})
	t.Run("following in place", func(t *testing.T) {
		virtualtime.Test(t, func(t *testing.T) {
			r, user := limitedRun(t, indexedUsers)
			began := time.Now()
			records := []changeRecord{{keys: user}, {keys: user}, {keys: user}}
			if err := r.rewriteChanged(t.Context(), "users", records); err != nil || time.Since(began) > time.Second {
				t.Errorf("the follower took %s, %v", time.Since(began), err)
			}
		})
	})
	t.Run("comparing", func(t *testing.T) {
		virtualtime.Test(t, func(t *testing.T) {
			r, user := limitedRun(t, copiedUsers)
			v := &verifier{phaseRun: r}
			began := time.Now()
			if _, err := v.compareSource(t.Context(), "users", r.m.plan.forward.sources["users"].Schema().Key.Of(user)); err != nil || time.Since(began) < time.Minute {
				t.Errorf("the comparison took %s, %v", time.Since(began), err)
			}
		})
	})
}
