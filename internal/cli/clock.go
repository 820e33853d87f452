package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"
)

// clockFlags are the flags of the commands of the clock.
type clockFlags struct {
	endpointFlags
	json bool
}

func clockCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "clock",
		Short: "Set and advance the clock of a server for tests",
		Long: `Set and advance the clock of a server that was started with --test-clock. Time to live,
tokens, streams, point-in-time recovery, auto scaling, scheduled backups, caches,
throttling and triggers follow it. A command that moves the clock ends when all that
became due has happened.

  stator serve --in-memory --test-clock
  stator clock advance 25h --endpoint http://127.0.0.1:8000`,
	}
	cmd.AddCommand(
		clockCall("show", "Show the time of a server", "GetClock", 0, nil),
		clockCall("set TIME", "Move the clock to a time, such as 2026-11-18T14:03:07Z or 1794924187", "SetClock", 1, func(text string) (any, error) {
			to, err := parseClockTime("the time", text)
			return map[string]float64{"Time": float64(to.UnixMilli()) / 1000}, err
		}),
		clockCall("advance DURATION", "Move the clock forward, by 90s, 25h or 40d", "AdvanceClock", 1, func(text string) (any, error) {
			by, err := parseDuration(text)
			if err == nil && by < 0 {
				err = errNegative
			}
			if err != nil {
				return nil, usageError{fmt.Errorf("the duration is %q, but must be one such as 90s, 25h or 40d", text)}
			}
			return map[string]float64{"Seconds": by.Seconds()}, nil
		}),
		clockCall("freeze", "Make the clock stand still", "FreezeClock", 0, nil),
		clockCall("run", "Let the time of the clock pass", "RunClock", 0, nil),
	)
	return cmd
}

// clockCall is a command that sends one request.
func clockCall(use, short, operation string, arity int, body func(argument string) (any, error)) *cobra.Command {
	var f clockFlags
	args := noArguments
	if arity > 0 {
		args = arguments(arity, "a time or a duration")
	}
	cmd := &cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
		var in any = struct{}{}
		if arity > 0 {
			var err error
			if in, err = body(args[0]); err != nil {
				return err
			}
		}
		return f.send(cmd.Context(), operation, in, cmd.OutOrStdout())
	}}
	f.add(cmd, "URL of the server")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	return cmd
}

// parseClockTime parses a time, without those that are relative to now.
func parseClockTime(what, text string) (time.Time, error) {
	if _, err := time.ParseDuration(text); err == nil && text != "0" || text == "" {
		return time.Time{}, usageError{fmt.Errorf("%s is %q, but must be one such as 2026-11-18T14:03:07Z or 1794924187", what, text)}
	}
	return parseTime(what, text, time.Time{})
}

func (f *clockFlags) send(ctx context.Context, operation string, in any, stdout io.Writer) error {
	server, err := f.open()
	if err != nil {
		return err
	}
	server.Client = serverClient(0) // what becomes due may take long
	reply, err := server.SendOwn(ctx, operation, in)
	if err != nil {
		return fmt.Errorf("%s on %s: %w", operation, f.endpoint, err)
	}
	var clock struct {
		Time float64
		Mode string
	}
	if err := json.Unmarshal(reply, &clock); err != nil {
		return fmt.Errorf("read the reply of %s: %w", f.endpoint, err)
	}
	at := time.UnixMilli(int64(math.Round(clock.Time * 1000))).UTC()
	if f.json {
		return json.NewEncoder(stdout).Encode(map[string]any{"time": at, "mode": clock.Mode})
	}
	_, err = fmt.Fprintf(stdout, "%s  %s\n", at.Format(time.RFC3339Nano), clock.Mode)
	return err
}
