package ops

import (
	"testing"
	"time"

	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/cache"
	"github.com/stator-db/stator/internal/inject"
)

// A fault concerns the requests that it is injected into: what they have read is not cached, in any mode.
func TestFaultsAreNotCached(t *testing.T) {
	const (
		batch = `{"RequestItems":{"Items":{"Keys":[{"pk":{"S":"p"},"sk":{"N":"1"}},{"pk":{"S":"p"},"sk":{"N":"2"}}]}}}`
		scan  = `{"TableName":"Items"}`
		byV   = `{"TableName":"Items","IndexName":"by-v","KeyConditionExpression":"v = :v","ExpressionAttributeValues":{":v":{"S":"new"}}}`
	)
	for _, o := range []cache.Options{dax(), coherent()} {
		for _, f := range []struct {
			fault           inject.Fault
			operation, body string
		}{
			{inject.StaleRead, "GetItem", getRequest(1)},
			{inject.StaleRead, "BatchGetItem", batch},
			{inject.StaleRead, "Query", queryItems},
			{inject.StaleRead, "Scan", scan},
			{inject.IndexLag, "Query", byV},
			{inject.ShortPage, "Query", queryItems},
			{inject.ShortPage, "Scan", scan},
		} {
			t.Run(string(o.Mode)+" "+string(f.fault)+" "+f.operation, func(t *testing.T) {
				c := newCachedTest(t, o, func(o *db.Options) { o.KeepChanges = true })
				c.s.faults = inject.New(func() time.Duration { return 0 })
				for sk := range 10 {
					c.around("PutItem", putRequest(sk, "old"))
				}
				c.advance(time.Minute)
				for sk := range 10 {
					c.around("PutItem", putRequest(sk, "new"))
				}
				present := c.around(f.operation, f.body)
				c.s.faults.Set(inject.Plan{Seed: 1, Rules: []inject.Rule{{Fault: f.fault, Lag: lagFor(f.fault), Count: 1}}})
				if got := c.through(CacheMiss, f.operation, f.body); got == present {
					t.Fatalf("the fault has no effect: %s", got)
				}
				for _, use := range []CacheUse{CacheMiss, CacheHit} {
					if got := c.through(use, f.operation, f.body); got != present {
						t.Errorf("after the fault %s, want %s", got, present)
					}
				}
			})
		}
	}
}

func lagFor(f inject.Fault) time.Duration {
	if f == inject.ShortPage {
		return 0
	}
	return time.Second
}
