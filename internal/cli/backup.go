package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/server"
)

func backupCommand() *cobra.Command {
	var endpoint, to, region, key string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Back up all tables of a running server",
		Long: `Back up all tables of a running server, as they are at one moment.

The server keeps serving meanwhile. The folder is created if it does not exist,
and files that are already in it are kept. A server that is started with
--backups on this folder can restore single tables from it; stator restore
creates a new data folder from it.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return usageError{errors.New("--to must name a folder or URL for the backup")}
			}
			u, err := url.Parse(endpoint)
			if err != nil || u.Host == "" {
				return usageError{fmt.Errorf("--endpoint is %q, but must be a URL such as http://127.0.0.1:8000", endpoint)}
			}
			var tables []stator.TableBackup
			serverKey, err := saveBackup(cmd.Context(), endpoint, region, to, key, func(t stator.TableBackup) { tables = append(tables, t) })
			if err != nil {
				return fmt.Errorf("cannot back up %s: %w\n        no part of the backup was stored in %s", endpoint, err, to)
			}
			if serverKey != "" && key == "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: the server encrypts its data with key %s, but this backup is not encrypted\n         to encrypt backups, add --encryption-key\n", serverKey)
			}
			return printBackup(cmd.OutOrStdout(), tables, asJSON)
		},
	}
	cmd.Flags().StringVar(&endpoint, "endpoint", "http://127.0.0.1:8000", "URL of the server")
	cmd.Flags().StringVar(&to, "to", "", "folder or URL (file://, s3://) for the backup")
	cmd.Flags().StringVar(&region, "region", "us-east-1", "region to sign the request for")
	encryptionKeyVar(cmd, &key, "encrypt the backup with a key")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// saveBackup requests a backup of all tables from a server and stores it. It returns the id of the key
// that the server encrypts its own data with, if it does.
func saveBackup(ctx context.Context, endpoint, region, to, key string, progress func(stator.TableBackup)) (serverKey string, err error) {
	reply, err := postSigned(ctx, endpoint, region, server.TargetBackup, []byte("{}"))
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	return reply.Header.Get(server.EncryptionKeyHeader), stator.SaveBackup(ctx, reply.Body, to, key, progress)
}

func restoreCommand() *cobra.Command {
	var from, data string
	var o stator.RestoreOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Create a data folder from a backup",
		Long: `Create a data folder from the newest backup in a folder, as made by
stator backup or a schedule. If several databases have scheduled backups there, such
as a server and its promoted standby, it lists them, and --database chooses one. All
files of the backup are verified first. Then serve it:

  stator restore --from my-backup --data stator-data
  stator serve --data stator-data`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" || data == "" {
				return usageError{errors.New("--from must name the backup, and --data the folder to create")}
			}
			if err := checkAllowPlain(o.AllowPlain, o.EncryptionKey); err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
			var tables []stator.TableBackup
			err := stator.RestoreBackup(cmd.Context(), from, data, o, log, func(t stator.TableBackup) { tables = append(tables, t) })
			if err != nil {
				return fmt.Errorf("cannot restore %s into %s: %w", from, data, err)
			}
			return printBackup(cmd.OutOrStdout(), tables, asJSON)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "folder or URL (file://, s3://) with the backup")
	cmd.Flags().StringVar(&data, "data", "", "data folder to create")
	cmd.Flags().StringVar(&o.Database, "database", "", "id of the database whose newest scheduled backup is restored")
	encryptionKeyVar(cmd, &o.EncryptionKey, "decrypt the backup with a key, and encrypt the data folder with it")
	allowPlainVar(cmd, &o.AllowPlain)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func printBackup(w io.Writer, tables []stator.TableBackup, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(tables)
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "TABLE\tITEMS\tBYTES\tFILE")
	for _, t := range tables {
		fmt.Fprintf(out, "%s\t%d\t%d\t%s\n", t.Table, t.Items, t.Bytes, t.File)
	}
	return out.Flush()
}
