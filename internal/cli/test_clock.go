package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
)

// testClockFlags are the flags of the clock for tests.
type testClockFlags struct {
	at         string // empty: none
	signatures bool
	clock      *stator.TestClock // nil: none
}

func (f *testClockFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.at, "test-clock", "", "let clients set and advance the clock: see stator clock. It begins at a `TIME`, or at now, and runs from there; requires --in-memory")
	cmd.Flags().Lookup("test-clock").NoOptDefVal = "now"
	cmd.Flags().BoolVar(&f.signatures, "test-clock-signatures", false, "compare the dates of signatures with the clock of --test-clock; SDKs sign by the real time")
}

// check parses the flags.
func (f *testClockFlags) check(inMemory bool) error {
	switch {
	case f.at == "" && f.signatures:
		return usageError{errors.New("--test-clock-signatures requires --test-clock")}
	case f.at == "":
		return nil
	case !inMemory:
		return usageError{errors.New("--test-clock requires --in-memory: in a folder or a cluster, what expires by a time that is not the real one would be lost")}
	}
	at := time.Now()
	if f.at != "now" {
		var err error
		if at, err = parseClockTime("--test-clock", f.at); err != nil {
			return err
		}
	}
	f.clock = stator.NewTestClock(at)
	f.clock.Run()
	return nil
}

// use sets the options of a database.
func (f *testClockFlags) use(o *stator.Options) {
	if f.clock != nil {
		o.Log.Warn("the clock is one for tests, which clients can set: see stator clock", "time", f.clock.Now())
	}
	o.TestClock, o.TestClockRequests, o.TestClockSignatures = f.clock, f.clock != nil, f.signatures
}
