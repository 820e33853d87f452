package statortest

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/inject"
)

// FaultSeed is the environment variable with the seed of tests with Faults.
const FaultSeed = "STATOR_FAULT_SEED"

// Faults is Start with faults that are injected into requests:
//
//	share := 0.1
//	client := statortest.Faults(t, stator.FaultPlan{Rules: []stator.FaultRule{{Fault: "throttle", Share: &share}}})
//
// A plan without a seed has that of the environment variable STATOR_FAULT_SEED, or a random one.
// When the test fails, its log has the seed and a timeline of the injected faults. See docs/faults.md.
func Faults(t testing.TB, plan stator.FaultPlan) *dynamodb.Client {
	t.Helper()
	return FaultsWith(t, plan, stator.Options{})
}

// FaultsWith is Faults with options.
func FaultsWith(t testing.TB, plan stator.FaultPlan, o stator.Options) *dynamodb.Client {
	t.Helper()
	if plan.Seed == 0 {
		plan.Seed = uint64(rand.Int64())
		if text := os.Getenv(FaultSeed); text != "" {
			seed, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				t.Fatalf("%s is %q, but must be a number", FaultSeed, text)
			}
			plan.Seed = seed
		}
	}
	o.Faults = &plan
	db, client := open(t, o)
	t.Cleanup(func() { // before the database is closed
		if !t.Failed() {
			return
		}
		var timeline bytes.Buffer
		_ = inject.WriteTimeline(&timeline, db.db.InjectedFaults()) // to memory
		t.Logf("injected faults, with the seed %d (repeat with %s=%d):\n%s", plan.Seed, FaultSeed, plan.Seed, &timeline)
	})
	return client
}
