// Command documents is a document extraction service for many tenants.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/documents"
	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/web"
)

func main() {
	extract.ChildMain()
	os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
}

// usage is an error of who typed the command.
type usage struct{ error }

// Main runs a command and returns its exit code: 0 done, 1 it did not work, 2
// wrong usage.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "documents", Short: "A document extraction service for many tenants", SilenceErrors: true, SilenceUsage: true}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage{err} })
	root.AddCommand(serve(), process(), batch(), recovering(), tenant())
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "documents: %v\n", err)
	var u usage
	if errors.As(err, &u) {
		fmt.Fprintln(stderr, "           see documents --help")
		return 2
	}
	return 1
}

func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.ExactArgs(n)(cmd, args); err != nil {
			return usage{err}
		}
		return nil
	}
}

// options are the usual ones with a log.
func options(cmd *cobra.Command) documents.Options {
	o := documents.Defaults()
	o.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	return o
}

func serve() *cobra.Command {
	var address string
	var anyone, demo bool
	elsewhere := false
	cmd := &cobra.Command{Use: "serve", Short: "Answer the API and the pages, take files from the inbox, and process", Args: exactly(0)}
	o := options(cmd)
	o.StoreFlags(cmd.Flags())
	o.WorkFlags(cmd.Flags())
	cmd.Flags().StringVar(&address, "listen", "127.0.0.1:8100", "address of the API and the pages")
	cmd.Flags().BoolVar(&anyone, "allow-anyone", false, "listen where other machines reach it; needs --jwks")
	cmd.Flags().StringVar(&o.JWKS, "jwks", "", "URL of the identity provider's keys; without it a built-in issuer believes everybody")
	cmd.Flags().StringVar(&o.Issuer, "issuer", "", "what the identity provider calls itself in its tokens")
	cmd.Flags().BoolVar(&demo, "demo", false, "make two tenants with invoices to look at")
	cmd.Flags().BoolVar(&elsewhere, "process-elsewhere", false, "leave the processing to processes started with documents process")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if anyone && o.JWKS == "" {
			return usage{errors.New("will not let other machines in: the built-in issuer believes everybody; name an identity provider with --jwks and --issuer")}
		}
		if demo && o.JWKS != "" {
			return usage{errors.New("--demo makes people of the built-in issuer, which is not used with --jwks")}
		}
		if o.Home.Endpoint != "" && o.Bucket == "" {
			return usage{errors.New("--bucket is missing: tables that stay need files that stay")}
		}
		listener, err := web.Listen(address, anyone)
		if err != nil {
			return err
		}
		defer listener.Close()
		s, err := documents.Open(cmd.Context(), o)
		if err != nil {
			return err
		}
		if demo {
			if err := s.Demo(cmd.Context()); err != nil {
				return errors.Join(err, s.Close())
			}
		}
		o.Log.Info("ready", "url", "http://"+listener.Addr().String(), "dynamodb", s.Home.Address)
		return errors.Join(s.Serve(cmd.Context(), listener, !elsewhere), s.Close())
	}
	return cmd
}

func process() *cobra.Command {
	cmd := &cobra.Command{Use: "process", Short: "Take files from the inbox and process, beside others that do", Args: exactly(0)}
	o := options(cmd)
	o.StoreFlags(cmd.Flags())
	o.WorkFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Home.Endpoint == "" {
			return usage{errors.New("--endpoint is missing: documents process works beside a server, whose tables it must reach")}
		}
		if o.Bucket == "" {
			return usage{errors.New("--bucket is missing: it must be the server's")}
		}
		s, err := documents.Open(cmd.Context(), o)
		if err != nil {
			return err
		}
		o.Log.Info("ready")
		return errors.Join(s.Process(cmd.Context()), s.Close())
	}
	return cmd
}

func batch() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "batch ID", Short: "Show a batch, found by its id alone, and count its documents", Args: exactly(1)}
	o := options(cmd)
	o.StoreFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := keys.ParseID[keys.BatchID](args[0])
		if err != nil {
			return usage{err}
		}
		return with(cmd.Context(), o, func(s *documents.System) error {
			b, err := s.Store.FindBatch(cmd.Context(), id)
			if errors.Is(err, table.ErrNotFound) {
				return fmt.Errorf("there is no batch %s in these tables", id)
			}
			if err != nil {
				return err
			}
			counted, err := s.Store.Recount(cmd.Context(), b)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(struct {
					table.Batch
					Counted table.Counts `json:"counted"`
				}{b, counted})
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "\tDOCUMENTS\tPROCESSING\tSUCCEEDED\tREVIEW\tFAILED\tSTATUS")
			fmt.Fprintf(w, "batch says\t%d\t%d\t%d\t%d\t%d\t%s\n", b.Documents, b.Processing, b.Succeeded, b.Review, b.Failed, b.Status)
			fmt.Fprintf(w, "counted\t%d\t%d\t%d\t%d\t%d\t\n", counted.Processing+counted.Succeeded+counted.Review+counted.Failed, counted.Processing, counted.Succeeded, counted.Review, counted.Failed)
			return w.Flush()
		})
	}
	return cmd
}

// with opens the system for a command that is over soon.
func with(ctx context.Context, o documents.Options, do func(*documents.System) error) error {
	if o.Home.Endpoint == "" && o.Home.Data == "" {
		return usage{errors.New("say where the tables are: --endpoint with the URL of a server, or --data with the folder of one that is stopped")}
	}
	s, err := documents.Open(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}
