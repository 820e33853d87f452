// Command documents is a document extraction service for many tenants.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/documents"
	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/command"
	"github.com/stator-db/stator/apps/internal/web"
)

func main() {
	extract.ChildMain()
	command.Main(root())
}

func root() *cobra.Command {
	c := &cobra.Command{Use: "documents", Short: "A document extraction service for many tenants"}
	command.LogFlags(c)
	c.AddCommand(serve(), process(), batch(), recovering(), tenant(), plan(), deletion())
	return c
}

// options returns the defaults.
func options(*cobra.Command) documents.Options { return documents.Defaults() }

func serve() *cobra.Command {
	var address web.Address
	var demo, elsewhere bool
	cmd := &cobra.Command{Use: "serve", Short: "Serve the API and the pages, ingest files from the inbox, and process them", Args: command.NoArgs}
	o := options(cmd)
	o.StoreFlags(cmd.Flags())
	o.WorkFlags(cmd.Flags())
	address.Flags(cmd.Flags(), "127.0.0.1:8100")
	cmd.Flags().Lookup("allow-anyone").Usage += "; needs --oidc-issuer or --jwks, since the built-in issuer trusts every email"
	o.SignInFlags(cmd.Flags())
	cmd.Flags().BoolVar(&demo, "demo", false, "create two tenants with sample invoices")
	cmd.Flags().BoolVar(&elsewhere, "process-elsewhere", false, "leave processing to `documents process`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.OIDC.Secret = os.Getenv("DOCUMENTS_OIDC_SECRET")
		if address.Anyone && o.JWKS == "" && o.OIDC.Issuer == "" {
			return command.Usagef("--allow-anyone needs an identity provider (--oidc-issuer, or --jwks and --issuer), since the built-in issuer trusts every email")
		}
		if demo && (o.JWKS != "" || o.OIDC.Issuer != "") {
			return command.Usagef("--demo needs the built-in issuer and cannot be combined with --oidc-issuer or --jwks")
		}
		if o.Home.Endpoint != "" && o.Bucket == "" {
			return command.Usagef("--bucket is missing: persistent tables need persistent files")
		}
		o.Log = command.Logger(cmd)
		listener, err := address.Open()
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
	cmd := &cobra.Command{Use: "process", Short: "Ingest files from the inbox and process them, concurrently with other processes", Args: command.NoArgs}
	o := options(cmd)
	o.StoreFlags(cmd.Flags())
	o.WorkFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Home.Endpoint == "" {
			return command.Usagef("--endpoint is missing: documents process needs the tables of a server")
		}
		if o.Bucket == "" {
			return command.Usagef("--bucket is missing: it must be the bucket of the server")
		}
		o.Log = command.Logger(cmd)
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
	cmd := &cobra.Command{Use: "batch ID", Short: "Show a batch, found by its id alone, and count its documents", Args: command.Args(1, "the id of a batch")}
	o := options(cmd)
	o.StoreFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := keys.ParseID[keys.BatchID](args[0])
		if err != nil {
			return command.Usage(err)
		}
		o.Home.LookOnly = true
		return with(cmd.Context(), o, func(s *documents.System) error {
			b, err := s.Store.FindBatch(cmd.Context(), id)
			if errors.Is(err, table.ErrNotFound) {
				return fmt.Errorf("batch %s does not exist", id)
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
			fmt.Fprintf(w, "stored\t%d\t%d\t%d\t%d\t%d\t%s\n", b.Documents, b.Processing, b.Succeeded, b.Review, b.Failed, b.Status)
			fmt.Fprintf(w, "counted\t%d\t%d\t%d\t%d\t%d\t\n", counted.Processing+counted.Succeeded+counted.Review+counted.Failed, counted.Processing, counted.Succeeded, counted.Review, counted.Failed)
			return w.Flush()
		})
	}
	return cmd
}

// with opens the system for a short command.
func with(ctx context.Context, o documents.Options, do func(*documents.System) error) error {
	if o.Home.Endpoint == "" && o.Home.Data == "" {
		return command.Usagef("the tables are missing: --endpoint with the URL of a server, or --data with the folder of a stopped server")
	}
	s, err := documents.Open(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}
