package stator

import (
	"errors"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/inject"
)

// FaultPlan says which faults a database injects into requests, see Options.Faults. The kinds of faults
// and the members of rules are described in docs/faults.md.
type FaultPlan = inject.Plan

// FaultRule is one rule of a FaultPlan.
type FaultRule = inject.Rule

// InjectedFault is a fault that was injected into a request.
type InjectedFault = inject.Injected

// ParseFaults parses a plan in YAML or JSON. name is that of the file, which errors begin with.
func ParseFaults(name string, text []byte) (*FaultPlan, error) { return inject.Parse(name, text) }

// ErrNoFaults is returned by DB.SetFaults for a database without Options.AllowFaults.
var ErrNoFaults = errors.New("the database was opened without AllowFaults")

// SetFaults replaces the faults that are injected into requests from now on. Their times, counts
// and log begin again.
func (d *DB) SetFaults(p FaultPlan) error {
	if d.faults == nil {
		return ErrNoFaults
	}
	if err := p.Check(); err != nil {
		return err
	}
	d.faults.Set(p)
	return nil
}

// InjectedFaults returns the faults that were injected since the plan was set, in order. Of more than
// 10,000 only the newest are kept.
func (d *DB) InjectedFaults() []InjectedFault {
	if d.faults == nil {
		return nil
	}
	found, _ := d.faults.Log(0, inject.Kept)
	return found
}

// RequestsSeen returns how many requests there were with each id of InjectedFault.Request since the plan was set, and whether
// these are all.
func (d *DB) RequestsSeen() (map[string]int, bool) {
	if d.faults == nil {
		return nil, true
	}
	return d.faults.Seen()
}

// checkFaults checks the options of injected faults.
func (o *Options) checkFaults() error {
	switch {
	case !o.allowsFaults():
		return nil
	case o.Engine != "":
		return errors.New("a database on a cluster cannot inject faults: its other servers would not record what stale reads return")
	case o.Faults != nil:
		return o.Faults.Check()
	}
	return nil
}

func (o *Options) allowsFaults() bool { return o.AllowFaults || o.Faults != nil }

// injector returns what decides on faults; nil if none are allowed.
func (o *Options) injector(now *clock.Clock) *inject.Injector {
	if !o.allowsFaults() {
		return nil
	}
	in := inject.New(now.Elapsed)
	if o.Faults != nil {
		in.Set(*o.Faults)
	}
	return in
}
