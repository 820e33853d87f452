package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
)

func tableCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "table", Short: "Change what only stator's tables have"}
	cmd.AddCommand(tableThrottleCommand())
	return cmd
}

// throttleFlags are the flags of stator table throttle.
type throttleFlags struct {
	endpointFlags
	json bool
}

var throttlings = []string{"on", "off", "default"}

func tableThrottleCommand() *cobra.Command {
	var f throttleFlags
	cmd := &cobra.Command{
		Use:   "throttle TABLE on|off|default",
		Short: "Set whether requests to a table are throttled",
		Long: `Set whether requests that exceed the throughput of a table, of its global indexes or
of a partition are rejected, as DynamoDB does. The setting is stored with the table;
default is what the server does: see stator serve --throttle.

  stator table throttle Orders on --endpoint http://127.0.0.1:8000`,
		Args: arguments(2, "a table, and on, off or default"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(throttlings, args[1]) {
				return usageError{fmt.Errorf("the setting is %q, but must be on, off or default", args[1])}
			}
			return f.set(cmd.Context(), args[0], args[1], cmd.OutOrStdout())
		},
	}
	f.add(cmd, "URL of the server")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	return cmd
}

func (f *throttleFlags) set(ctx context.Context, table, to string, stdout io.Writer) error {
	server, err := f.open()
	if err != nil {
		return err
	}
	reply, err := server.SendOwn(ctx, "SetThrottling", map[string]string{"TableName": table, "Throttling": to})
	if err != nil {
		return fmt.Errorf("cannot set the throttling of table %s on %s: %w", table, f.endpoint, err)
	}
	if f.json {
		_, err := fmt.Fprintln(stdout, string(reply))
		return err
	}
	var set struct{ TableName, Throttling string }
	if err := json.Unmarshal(reply, &set); err != nil {
		return fmt.Errorf("read the reply of %s: %w", f.endpoint, err)
	}
	_, err = fmt.Fprintf(stdout, "throttling of table %s: %s\n", set.TableName, set.Throttling)
	return err
}
