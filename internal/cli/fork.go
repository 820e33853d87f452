package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/server"
)

// forkFlags bound the forks of a server.
type forkFlags struct {
	most           int
	idle, lifetime time.Duration
	oneMB, allMB   int64
}

// defaultForksMB is the default of --forks-memory. The memory limit of the process has room
// for it.
const defaultForksMB = 512

func (f *forkFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.most, "forks", 1000, "forks and snapshots that requests may make, at once; 0 is none; see docs/forks.md")
	durationVar(cmd, &f.idle, "fork-idle", 30*time.Minute, "time without requests after which a fork is dropped")
	durationVar(cmd, &f.lifetime, "fork-lifetime", 24*time.Hour, "time after which a fork is dropped in any case")
	flags.Int64Var(&f.oneMB, "fork-memory", 256, "memory in MB for what is written to one fork")
	flags.Int64Var(&f.allMB, "forks-memory", defaultForksMB, "memory in MB for what is written to all forks")
}

func (f *forkFlags) check(cmd *cobra.Command) error {
	flags := cmd.Flags()
	switch {
	case f.most < 0:
		return usageError{fmt.Errorf("--forks is %d, but must be a number of forks, or 0", f.most)}
	case f.idle <= 0 || f.lifetime <= 0:
		return usageError{errors.New("--fork-idle and --fork-lifetime must be positive")}
	case f.oneMB < 1 || f.allMB < 1:
		return usageError{errors.New("--fork-memory and --forks-memory must be at least 1 MB")}
	case f.most == 0 && (flags.Changed("fork-idle") || flags.Changed("fork-lifetime") || flags.Changed("fork-memory") || flags.Changed("forks-memory")):
		return usageError{errors.New("--forks 0 makes no forks, and cannot be combined with other flags about forks")}
	}
	return nil
}

// more is the memory of forks beyond the default.
func (f *forkFlags) more() int64 { return max(0, f.allMB-defaultForksMB) << 20 }

// options returns the options of the server; nil for no forks.
func (f *forkFlags) options() *stator.ForkOptions {
	if f.most == 0 {
		return nil
	}
	return &stator.ForkOptions{Max: f.most, Bytes: f.oneMB << 20, AllBytes: f.allMB << 20, Idle: f.idle, Lifetime: f.lifetime}
}

// forkClient has the flags of commands about forks and snapshots.
type forkClient struct {
	endpointFlags
	fork string
	json bool
}

func (f *forkClient) add(cmd *cobra.Command) {
	f.endpointFlags.add(cmd, "URL of the server")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
}

func (f *forkClient) addFork(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.fork, "fork", "", usage)
}

// send sends a request to the server, or to a fork of it, and prints the reply as JSON if that
// is asked for, else as text does.
func (f *forkClient) send(cmd *cobra.Command, doing, operation string, in map[string]string, reply any, text func() error) error {
	endpoint, err := f.open()
	if err != nil {
		return err
	}
	if f.fork != "" {
		endpoint.Sign = signForFork(endpoint.Sign, f.fork)
	}
	body, err := endpoint.SendOwn(cmd.Context(), operation, in)
	if err != nil {
		return fmt.Errorf("cannot %s on %s: %w", doing, f.endpoint, err)
	}
	if f.json {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), string(body))
		return err
	}
	if err := json.Unmarshal(body, reply); err != nil {
		return fmt.Errorf("read the reply of %s: %w", f.endpoint, err)
	}
	return text()
}

// signForFork returns what signs requests to a fork: the signature covers the header that names it.
func signForFork(sign func(*http.Request, []byte) error, name string) func(*http.Request, []byte) error {
	return func(r *http.Request, body []byte) error {
		r.Header.Set(server.ForkHeader, name)
		return sign(r, body)
	}
}

func forkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fork",
		Short: "Make, list and delete forks of a running server",
		Long: `Make, list and delete forks of a running server: databases of their own that begin with all
that the server has, in milliseconds whatever the size of that. Requests reach a fork by
the path /fork/NAME of the endpoint URL, the header X-Stator-Fork, or the host name
NAME.localhost:

  stator fork create test1 --endpoint http://127.0.0.1:8000
  aws dynamodb list-tables --endpoint-url http://127.0.0.1:8000/fork/test1

What is written to a fork is kept in memory, and is dropped with the fork: by
stator fork delete, or after a time without requests (stator serve --fork-idle).`,
	}
	cmd.AddCommand(forkCreateCommand(), forkListCommand(), forkDeleteCommand())
	return cmd
}

func forkCreateCommand() *cobra.Command {
	var f forkClient
	var snapshot string
	cmd := &cobra.Command{
		Use:   "create [NAME]",
		Short: "Make a fork, with a random name unless one is given",
		Args:  atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := make(map[string]string)
			if len(args) > 0 {
				in["ForkName"] = args[0]
			}
			if snapshot != "" {
				in["SnapshotName"] = snapshot
			}
			var reply createdFork
			asJSON := f.json
			f.json = false // it has the endpoint, too, which the server does not know
			return f.send(cmd, "make a fork", "CreateFork", in, &reply, func() error {
				name := reply.Fork.ForkName
				reply.Endpoint = server.ForkURL(f.endpoint, reply.Fork.ForkOf, name)
				if asJSON {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(reply)
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "endpoint URL: %s\n", reply.Endpoint)
				_, err := fmt.Fprintln(cmd.OutOrStdout(), name)
				return err
			})
		},
	}
	f.add(cmd)
	f.addFork(cmd, "fork of which to make a fork; defaults to the server itself")
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "snapshot of which to make a fork; defaults to the present state")
	return cmd
}

// createdFork is what stator fork create prints as JSON.
type createdFork struct {
	api.CreateForkReply
	Endpoint string // the URL that clients of the fork have
}

func forkListCommand() *cobra.Command {
	var f forkClient
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the forks of a server",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var reply api.ListForksReply
			return f.send(cmd, "list forks", "ListForks", map[string]string{}, &reply, func() error {
				table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "NAME\tOF\tWRITTEN\tSNAPSHOTS\tCREATED\tLAST USED\tEXPIRES")
				for _, k := range reply.Forks {
					of := k.ForkOf
					if of == "" {
						of = "-"
					}
					fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", k.ForkName, of, sizeText(k.BytesWritten), k.SnapshotCount, k.Created, k.LastUsed, k.Expires)
				}
				return table.Flush()
			})
		},
	}
	f.add(cmd)
	return cmd
}

func forkDeleteCommand() *cobra.Command {
	var f forkClient
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a fork with its snapshots",
		Args:  arguments(1, "the name of a fork"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.send(cmd, "delete fork "+args[0], "DeleteFork", map[string]string{"ForkName": args[0]}, new(api.DeleteForkReply), func() error {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "deleted fork %s\n", args[0])
				return err
			})
		},
	}
	f.add(cmd)
	return cmd
}

const ofFork = "fork whose snapshots they are; defaults to the server itself, which then must serve with --in-memory"

func snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Keep states of a running server or a fork, to rewind it to",
		Long: `Keep states of a running server or a fork, to rewind it to:

  stator serve --in-memory
  stator snapshot create loaded --endpoint http://127.0.0.1:8000
  stator rewind loaded --endpoint http://127.0.0.1:8000

A server that keeps its data in a folder cannot be rewound, but a fork of it can.`,
	}
	cmd.AddCommand(snapshotCreateCommand(), snapshotListCommand(), snapshotDeleteCommand())
	return cmd
}

func snapshotCreateCommand() *cobra.Command {
	var f forkClient
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Keep the present state",
		Args:  arguments(1, "a name for the snapshot"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var reply api.CreateSnapshotReply
			return f.send(cmd, "make snapshot "+args[0], "CreateSnapshot", map[string]string{"SnapshotName": args[0]}, &reply, func() error {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), reply.Snapshot.SnapshotName)
				return err
			})
		},
	}
	f.add(cmd)
	f.addFork(cmd, ofFork)
	return cmd
}

func snapshotListCommand() *cobra.Command {
	var f forkClient
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the snapshots",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var reply api.ListSnapshotsReply
			return f.send(cmd, "list snapshots", "ListSnapshots", map[string]string{}, &reply, func() error {
				table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "NAME\tCREATED")
				for _, s := range reply.Snapshots {
					fmt.Fprintf(table, "%s\t%s\n", s.SnapshotName, s.Created)
				}
				return table.Flush()
			})
		},
	}
	f.add(cmd)
	f.addFork(cmd, ofFork)
	return cmd
}

func snapshotDeleteCommand() *cobra.Command {
	var f forkClient
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a snapshot",
		Args:  arguments(1, "the name of a snapshot"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.send(cmd, "delete snapshot "+args[0], "DeleteSnapshot", map[string]string{"SnapshotName": args[0]}, new(api.DeleteSnapshotReply), func() error {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "deleted snapshot %s\n", args[0])
				return err
			})
		},
	}
	f.add(cmd)
	f.addFork(cmd, ofFork)
	return cmd
}

func rewindCommand() *cobra.Command {
	var f forkClient
	cmd := &cobra.Command{
		Use:   "rewind SNAPSHOT",
		Short: "Give a running server or a fork the state of a snapshot",
		Long: `Give a running server or a fork the state of a snapshot (stator snapshot create). All that was
written since is lost; the snapshot is kept. Requests in progress are answered as before the
rewind. Iterators of streams remain valid: they return what is written after the rewind.

  stator rewind loaded --endpoint http://127.0.0.1:8000`,
		Args: arguments(1, "the name of a snapshot"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var reply api.RewindReply
			return f.send(cmd, "rewind to snapshot "+args[0], "Rewind", map[string]string{"SnapshotName": args[0]}, &reply, func() error {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "rewound to %s of %s\n", reply.Snapshot.SnapshotName, reply.Snapshot.Created)
				return err
			})
		},
	}
	f.add(cmd)
	f.addFork(cmd, "fork to rewind; defaults to the server itself, which then must serve with --in-memory")
	return cmd
}

// sizeText returns a number of bytes in the largest unit of which there is one.
func sizeText(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	size, units := float64(n), "KMGT"
	for size >= 1<<10 && units != "" {
		size /= 1 << 10
		if size < 1<<10 || len(units) == 1 {
			break
		}
		units = units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", size, units[0])
}

// atMostOne rejects more than one argument.
func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{fmt.Errorf("%s takes at most one name, but got %q", cmd.CommandPath(), args)}
	}
	return nil
}
