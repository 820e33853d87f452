package chaos

import (
	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/inject"
)

// DefaultPlan is the faults that are tried if there is no other plan: all kinds, so seldom that a
// program makes progress. A request is rejected at most twice in a row, which SDKs with their
// three attempts hide.
const DefaultPlan = `# The faults of stator chaos without --faults.
consecutive: 2
faults:
  - {fault: latency, delay: 50ms, share: 0.02}
  - {fault: lost-answer, share: 0.03}
  - {fault: lost-answer, as: connection-closed, share: 0.02}
  - {fault: throttle, share: 0.04}
  - {fault: internal-error, share: 0.03}
  - {fault: conflict, share: 0.03}
  - {fault: unprocessed, share: 0.2}
  - {fault: stale-read, lag: 1s, share: 0.15}
  - {fault: index-lag, lag: 1s, share: 0.15}
  - {fault: short-page, share: 0.1}
  - {fault: late-records, share: 0.15}
  - {fault: expired-iterator, share: 0.02}
  - {fault: split-shard, share: 0.01}
`

// Defaults returns DefaultPlan.
func Defaults() stator.FaultPlan {
	p, err := inject.Parse("default", []byte(DefaultPlan))
	if err != nil {
		panic(err)
	}
	return *p
}
