package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/inject"
)

// faultFlags are the flags of serve for injected faults.
type faultFlags struct {
	file  string
	seed  uint64
	allow bool

	plan *stator.FaultPlan // of the file; nil for none
}

func (f *faultFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.file, "faults", "", "file of faults to inject into requests, for tests; see docs/faults.md")
	flags.Uint64Var(&f.seed, "fault-seed", 0, "seed of --faults; replaces that of the file")
	flags.BoolVar(&f.allow, "allow-faults", false, "let stator faults set inject faults into requests; implied by --faults")
}

// read reads the file.
func (f *faultFlags) read(cmd *cobra.Command) (err error) {
	if cmd.Flags().Changed("fault-seed") && f.file == "" {
		return usageError{errors.New("--fault-seed requires --faults, the file of faults")}
	}
	if f.file == "" {
		return nil
	}
	if f.plan, err = readFaults(f.file); err != nil {
		return err
	}
	if cmd.Flags().Changed("fault-seed") {
		f.plan.Seed = f.seed
	}
	return nil
}

// announce prints that faults are injected, or may be.
func (f *faultFlags) announce(w io.Writer) {
	switch {
	case f.plan != nil:
		fmt.Fprintf(w, "faults are injected into requests: rules: %d, seed: %d\n", len(f.plan.Rules), f.plan.Seed)
	case f.allow:
		fmt.Fprintln(w, "faults can be injected into requests with stator faults set")
	}
}

// readFaults reads a file of faults.
func readFaults(path string) (*stator.FaultPlan, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fileError{fmt.Errorf("cannot read the faults: %w", err)}
	}
	p, err := stator.ParseFaults(path, text)
	if err != nil {
		return nil, fileError{err}
	}
	return p, nil
}

func faultsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "faults",
		Short: "Show and change the faults that a server injects",
		Long: `Show and change the faults that a server injects into requests. The server has to be
started with --faults or --allow-faults.

  stator faults set faults.yaml --endpoint http://127.0.0.1:8000
  stator faults timeline --endpoint http://127.0.0.1:8000`,
	}
	cmd.AddCommand(faultsShowCommand(), faultsSetCommand(), faultsTimelineCommand())
	return cmd
}

// serverFaults are the flags of commands about the faults of a server.
type serverFaults struct {
	endpointFlags
	json bool
}

func (f *serverFaults) addTo(cmd *cobra.Command) *cobra.Command {
	f.add(cmd, "URL of the server")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	return cmd
}

func faultsShowCommand() *cobra.Command {
	var f serverFaults
	return f.addTo(&cobra.Command{
		Use:   "show",
		Short: "Print the faults that a server injects, as a file",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var reply struct {
				Plan     string
				Rules    int
				Seed     int64
				Injected int
			}
			if err := sendOwn(cmd.Context(), &f.endpointFlags, "GetFaults", struct{}{}, &reply); err != nil {
				return fmt.Errorf("cannot read the faults of %s: %w", f.endpoint, err)
			}
			if f.json {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"plan": reply.Plan, "rules": reply.Rules, "seed": reply.Seed, "injected": reply.Injected})
			}
			_, err := io.WriteString(cmd.OutOrStdout(), reply.Plan)
			return err
		},
	})
}

func faultsSetCommand() *cobra.Command {
	var f serverFaults
	var seed uint64
	cmd := f.addTo(&cobra.Command{
		Use:   "set FILE|off",
		Short: "Replace the faults that a server injects",
		Long: `Replace the faults that a server injects by those of a file. With off it injects none.
What it has injected before is forgotten.

  stator faults set faults.yaml --seed 7 --endpoint http://127.0.0.1:8000`,
		Args: arguments(1, "a file of faults, or off"),
		RunE: func(cmd *cobra.Command, args []string) error {
			plan := new(stator.FaultPlan)
			if args[0] != "off" {
				var err error
				if plan, err = readFaults(args[0]); err != nil {
					return err
				}
			}
			if cmd.Flags().Changed("seed") {
				plan.Seed = seed
			}
			var reply struct{ Rules int }
			if err := sendOwn(cmd.Context(), &f.endpointFlags, "SetFaults", map[string]string{"Plan": string(plan.Format())}, &reply); err != nil {
				return fmt.Errorf("cannot set the faults of %s: %w", f.endpoint, err)
			}
			if f.json {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"rules": reply.Rules, "seed": plan.Seed})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "rules: %d, seed: %d\n", reply.Rules, plan.Seed)
			return err
		},
	})
	cmd.Flags().Uint64Var(&seed, "seed", 0, "replaces the seed of the file")
	return cmd
}

func faultsTimelineCommand() *cobra.Command {
	var f serverFaults
	return f.addTo(&cobra.Command{
		Use:   "timeline",
		Short: "Print the faults that a server has injected",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, total, err := f.injected(cmd.Context())
			if err != nil {
				return fmt.Errorf("cannot read the injected faults of %s: %w", f.endpoint, err)
			}
			if f.json {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"injected": total, "faults": found})
			}
			if missing := total - len(found); missing > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "the first %d injected faults are no longer kept\n", missing)
			}
			return inject.WriteTimeline(cmd.OutOrStdout(), found)
		},
	})
}

// injected reads the faults that a server has injected, page by page.
func (f *serverFaults) injected(ctx context.Context) (all []stator.InjectedFault, total int, err error) {
	for after := 0; ; {
		var page struct {
			Faults []struct {
				Number, Rule, Occurrence int
				AtMilliseconds           float64
				Fault, Operation         string
				Tables                   []string
				IndexName, Key, Request  string
				Detail                   string
			}
			Injected int
		}
		if err := sendOwn(ctx, &f.endpointFlags, "ListInjectedFaults", map[string]int{"After": after}, &page); err != nil {
			return nil, 0, err
		}
		for _, i := range page.Faults {
			all = append(all, stator.InjectedFault{
				Number: i.Number, At: time.Duration(i.AtMilliseconds * float64(time.Millisecond)), Fault: inject.Fault(i.Fault), Rule: i.Rule, Operation: i.Operation, Tables: i.Tables,
				Index: i.IndexName, Key: i.Key, Request: i.Request, Occurrence: i.Occurrence, Detail: i.Detail,
			})
			after = i.Number
		}
		if total = page.Injected; len(page.Faults) == 0 {
			return all, total, nil
		}
	}
}
