package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/store/pebble"
)

// verifyFlags are the flags of stator verify.
type verifyFlags struct {
	data, endpoint, region, backups string
	key                             stator.BackupKey
	rate                            int
	asJSON                          bool
}

func verifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that all stored data is consistent",
		Long: `Read everything that is stored and check that it is consistent: items, index
entries, change records, sizes of collections, expiry entries, tokens, item
counts, descriptions of tables and internal records. It changes nothing.

By default it reads a data folder, which no server may be using. With --endpoint
a running server verifies its data, at a limited rate, while it keeps serving.
With --backups all backups in a folder are compared with their checksums; then
data is verified only if --data or --endpoint is given, too.

The exit code is 1 if there are faults, or backups that cannot be verified as they
need another encryption key. Notes are differences that a crash may
cause and that harm no data; they do not change the exit code.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			onlyBackups := f.backups != "" && !cmd.Flags().Changed("data") && f.endpoint == ""
			if err := f.check(cmd); err != nil {
				return err
			}
			return f.run(cmd, onlyBackups)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.data, "data", "stator-data", "data folder")
	flags.StringVar(&f.endpoint, "endpoint", "", "URL of a running server that verifies its data")
	flags.StringVar(&f.region, "region", "us-east-1", "region to sign the request for")
	flags.IntVar(&f.rate, "rate", server.DefaultVerifyRate, "keys that a running server reads per second")
	flags.StringVar(&f.backups, "backups", "", "folder or URL (file://, s3://) with backups to verify")
	encryptionKeyVar(cmd, &f.key.EncryptionKey, "key of an encrypted data folder, and of encrypted backups")
	allowPlainVar(cmd, &f.key.AllowPlain)
	flags.BoolVar(&f.asJSON, "json", false, "print as JSON")
	return cmd
}

func (f *verifyFlags) check(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	switch {
	case f.endpoint != "" && changed("data"):
		return usageError{errors.New("--data and --endpoint cannot be combined")}
	case changed("rate") && f.endpoint == "":
		return usageError{errors.New("--rate applies to --endpoint only")}
	case f.key.EncryptionKey != "" && f.endpoint != "" && f.backups == "":
		return usageError{errors.New("--encryption-key does not apply to --endpoint: the server has its key")}
	case f.rate < 1:
		return usageError{fmt.Errorf("--rate is %d, but must be at least 1", f.rate)}
	}
	if err := checkAllowPlain(f.key.AllowPlain, f.key.EncryptionKey); err != nil {
		return err
	}
	if f.key.AllowPlain && f.backups == "" {
		return usageError{errors.New("--allow-plain-backups applies to --backups only")}
	}
	if u, err := url.Parse(f.endpoint); f.endpoint != "" && (err != nil || u.Host == "") {
		return usageError{fmt.Errorf("--endpoint is %q, but must be a URL such as http://127.0.0.1:8000", f.endpoint)}
	}
	return nil
}

// verification is the result of stator verify.
type verification struct {
	Tables  []stator.TableReport  `json:"tables"`
	Backups []stator.BackupReport `json:"backups,omitempty"`
}

func (f *verifyFlags) run(cmd *cobra.Command, onlyBackups bool) error {
	var v verification
	var err error
	progress := newProgress(cmd.ErrOrStderr())
	switch {
	case onlyBackups:
	case f.endpoint != "":
		v.Tables, err = verifyServer(cmd.Context(), f, progress)
	default:
		v.Tables, err = verifyFolder(cmd, f, progress)
	}
	if err == nil && f.backups != "" {
		v.Backups, err = verifyBackups(cmd.Context(), f, progress)
	}
	if err != nil {
		return err
	}
	return v.print(cmd.OutOrStdout(), f.asJSON)
}

// newProgress returns a function that prints progress, at most once a second.
func newProgress(w io.Writer) func(table string, keys int64) {
	last := time.Now()
	return func(table string, keys int64) {
		if time.Since(last) < time.Second {
			return
		}
		last = time.Now()
		if table != "" {
			table = ", now in table " + table
		}
		fmt.Fprintf(w, "%d keys verified%s\n", keys, table)
	}
}

// verifyFolder verifies a data folder, which must exist.
func verifyFolder(cmd *cobra.Command, f *verifyFlags, progress func(string, int64)) ([]stator.TableReport, error) {
	data := f.data
	exists, err := pebble.Exists(data)
	if err != nil {
		return nil, fmt.Errorf("cannot verify data in %s: %w", data, err)
	}
	if !exists {
		return nil, fmt.Errorf("cannot verify data in %s: there is none\n        name the folder that stator serve uses with --data", data)
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	db, err := stator.Open(cmd.Context(), stator.Options{Dir: data, EncryptionKey: f.key.EncryptionKey, NoBackground: true, Log: log})
	if err != nil {
		return nil, cannotOpen(data, err)
	}
	reports, err := db.Verify(cmd.Context(), progress)
	return reports, errors.Join(err, db.Close())
}

// verifyServer requests that a server verifies its data.
func verifyServer(ctx context.Context, f *verifyFlags, progress func(string, int64)) ([]stator.TableReport, error) {
	body, err := json.Marshal(server.VerifyRequest{Rate: f.rate})
	if err != nil {
		return nil, err
	}
	reply, err := postSigned(ctx, f.endpoint, f.region, server.TargetVerify, body)
	if err != nil {
		return nil, fmt.Errorf("cannot verify the data of %s: %w", f.endpoint, err)
	}
	defer reply.Body.Close()
	lines := json.NewDecoder(bufio.NewReader(reply.Body))
	for {
		var line server.VerifyLine
		if err := lines.Decode(&line); err != nil {
			return nil, fmt.Errorf("cannot verify the data of %s: the server stopped before it was complete: %w", f.endpoint, err)
		}
		if line.Reports == nil {
			progress(line.Table, line.Keys)
			continue
		}
		reports := make([]stator.TableReport, len(line.Reports))
		for i, r := range line.Reports {
			reports[i] = stator.TableReport(r)
		}
		return reports, nil
	}
}

// postSigned sends a request that is answered with a stream.
func postSigned(ctx context.Context, endpoint, region, target string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Amz-Target", target)
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	if err := signFor(region)(req, body); err != nil {
		return nil, err
	}
	resp, err := serverClient(0).Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return nil, fmt.Errorf("the server answers %s: %s", resp.Status, bytes.TrimSpace(text))
	}
	return resp, nil
}

// verifyBackups verifies the backups in a folder or at a URL.
func verifyBackups(ctx context.Context, f *verifyFlags, progress func(string, int64)) ([]stator.BackupReport, error) {
	from := f.backups
	if u, err := url.Parse(from); err == nil && u.Scheme == "" || err != nil {
		if _, err := os.Stat(from); err != nil {
			return nil, fmt.Errorf("cannot verify backups in %s: %w", from, err)
		}
	}
	reports := []stator.BackupReport{}
	items := int64(0)
	err := stator.VerifyBackups(ctx, from, f.key, func(r stator.BackupReport) {
		reports, items = append(reports, r), items+r.Items
		progress(r.Table, items)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot verify backups in %s: %w", from, err)
	}
	return reports, nil
}

// print prints the result. It returns an error if there are faults.
func (v *verification) print(w io.Writer, asJSON bool) error {
	print := v.printTables
	if asJSON {
		print = func(w io.Writer) error { return json.NewEncoder(w).Encode(v) }
	}
	if err := print(w); err != nil {
		return err
	}
	tables, backups, unverified := int64(0), 0, 0
	for _, r := range v.Tables {
		tables += r.Faults
	}
	for _, r := range v.Backups {
		if r.Fault != "" {
			backups++
		}
		if r.Key != "" {
			unverified++
		}
	}
	switch {
	case tables > 0 && backups > 0:
		return fmt.Errorf("%d faults in the data, and %d damaged backups: keep both as they are, and restore the tables from an undamaged backup", tables, backups)
	case tables > 0:
		return fmt.Errorf("%d faults: restore the tables from a backup, or rewrite the affected items", tables)
	case backups > 0:
		return fmt.Errorf("%d damaged backups: make new ones", backups)
	case unverified > 0:
		return fmt.Errorf("%d backups and sets could not be verified with this encryption key, or without one: verify them with the key that each one names", unverified)
	}
	return nil
}

func (v *verification) printTables(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if v.Tables != nil {
		fmt.Fprintln(out, "TABLE\tITEMS\tINDEX ENTRIES\tCHANGES\tOTHER RECORDS\tFAULTS")
	}
	for _, r := range v.Tables {
		entries := int64(0)
		for _, n := range r.Entries {
			entries += n
		}
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t%d\n", tableName(r.Table), r.Items, entries, r.Changes, r.Records, r.Faults)
	}
	if v.Backups != nil {
		fmt.Fprintln(out, "BACKUP\tTABLE\tITEMS\tSTATE")
	}
	for _, r := range v.Backups {
		state := "ok"
		if r.Fault != "" || r.Key != "" {
			state = r.Fault + r.Key // never both
		}
		fmt.Fprintf(out, "%s\t%s\t%d\t%s\n", r.File, r.Table, r.Items, state)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, r := range v.Tables {
		for _, fault := range r.First {
			fmt.Fprintf(w, "%s: %s\n", tableName(r.Table), fault)
		}
		for _, note := range r.Notes {
			fmt.Fprintf(w, "%s: note: %s\n", tableName(r.Table), note)
		}
	}
	return nil
}

// tableName is the name of a table in the output; the report without a name is
// that of what belongs to no table.
func tableName(name string) string {
	if name == "" {
		return "(database)"
	}
	return name
}
