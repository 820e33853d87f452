package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/sqlite"
)

type importLocalFlags struct {
	endpoint, region, data string
	tables                 []string
	json                   bool
}

func importLocalCommand() *cobra.Command {
	var f importLocalFlags
	cmd := &cobra.Command{
		Use:   "import-local FILE.db",
		Short: "Import the tables in a file of DynamoDB Local",
		Long: `Import the tables in a file of DynamoDB Local: shared-local-instance.db, or
ACCESSKEY_REGION.db. Stop DynamoDB Local first.

All tables are created with their keys, indexes, capacity, time to live, stream and
protection from deletion, and all items are written. Records of streams are not imported.
Tables that exist already are left as they are, and nothing is imported. The file is only read.

  stator import-local shared-local-instance.db --data stator-data
  stator import-local shared-local-instance.db --endpoint http://127.0.0.1:8000`,
		Args: arguments(1, "the name of the file, such as shared-local-instance.db"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (f.endpoint == "") == (f.data == "") {
				return usageError{errors.New("either --data must name the data folder to import into, or --endpoint a running server")}
			}
			return f.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&f.endpoint, "endpoint", "", "URL of the server to import into")
	cmd.Flags().StringVar(&f.region, "region", "us-east-1", "region to sign requests for")
	cmd.Flags().StringVar(&f.data, "data", "", "data folder to import into; created if it does not exist")
	cmd.Flags().StringArrayVar(&f.tables, "table", nil, "table to import; can be repeated, and defaults to all")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	return cmd
}

// importedTable is a table that was imported.
type importedTable struct {
	Table string `json:"table"`
	Items int    `json:"items"`
	Bytes int64  `json:"bytes"` // of the items as JSON
}

func (f *importLocalFlags) run(ctx context.Context, name string, stdout, stderr io.Writer) (err error) {
	file, err := openLocalFile(name)
	if err != nil {
		return err
	}
	defer file.close()
	tables, err := file.choose(f.tables)
	if err != nil {
		return fmt.Errorf("cannot import %s: %w", name, err)
	}
	send, closeTarget, err := f.target(ctx, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeTarget()) }()
	for _, t := range tables {
		exists, err := apply.Exists(ctx, send, t.name)
		switch {
		case err != nil:
			return fmt.Errorf("cannot import into %s: %w", f.into(), err)
		case exists:
			return fmt.Errorf("cannot import %s: table %s exists in %s already\n        nothing was imported; delete the table, or choose others with --table", name, t.name, f.into())
		}
	}
	progress := newProgressLine(stderr)
	defer progress.end()
	done := []importedTable{}
	for _, t := range tables {
		one, err := t.importInto(ctx, send, progress)
		if err != nil {
			return fmt.Errorf("cannot import table %s of %s: %w\n        delete the table in %s before you import it again", t.name, name, err, f.into())
		}
		done = append(done, one)
	}
	progress.end()
	return printImported(stdout, done, f.json)
}

func printImported(w io.Writer, tables []importedTable, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(tables)
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "TABLE\tITEMS\tBYTES")
	for _, t := range tables {
		fmt.Fprintf(out, "%s\t%d\t%d\n", t.Table, t.Items, t.Bytes)
	}
	return out.Flush()
}

// into names what is imported into.
func (f *importLocalFlags) into() string {
	if f.data != "" {
		return f.data
	}
	return f.endpoint
}

// target opens what is imported into.
func (f *importLocalFlags) target(ctx context.Context, stderr io.Writer) (apply.Send, func() error, error) {
	if f.endpoint != "" {
		if u, err := url.Parse(f.endpoint); err != nil || u.Host == "" {
			return nil, nil, usageError{fmt.Errorf("--endpoint is %q, but must be a URL such as http://127.0.0.1:8000", f.endpoint)}
		}
		return clientOf(f.endpoint, f.region).Send, func() error { return nil }, nil
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	db, err := stator.Open(ctx, stator.Options{Dir: f.data, Log: log})
	if err != nil {
		return nil, nil, cannotOpen(f.data, err)
	}
	e := &apply.Endpoint{URL: "http://stator", Client: db.Client(), Sign: signFor(f.region)}
	return e.Send, db.Close, nil
}

// localFile is a file of DynamoDB Local.
type localFile struct {
	file   *os.File
	tables []sqlite.Table
}

func (l *localFile) close() { _ = l.file.Close() } // it was only read

// openLocalFile opens a file that no DynamoDB Local has open.
func openLocalFile(name string) (*localFile, error) {
	for _, suffix := range []string{"-journal", "-wal"} {
		if info, err := os.Stat(name + suffix); err == nil && info.Size() > 0 {
			return nil, fmt.Errorf("cannot import %s: DynamoDB Local has it open, or was killed: %s exists\n        start DynamoDB Local on it once more, and stop it with Control-C or kill", name, name+suffix)
		}
	}
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fileError{fmt.Errorf("cannot import %s: there is no such file; DynamoDB Local writes it to the folder of its -dbPath", name)}
	}
	if err != nil {
		return nil, fileError{fmt.Errorf("cannot import: %w", err)}
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("it is a folder; name the .db file in it")
	}
	var tables []sqlite.Table
	if err == nil {
		var db *sqlite.File
		if db, err = sqlite.Open(file, info.Size()); err == nil {
			tables, err = db.Tables()
		}
	}
	if err != nil {
		_ = file.Close() // it was only read
		return nil, fmt.Errorf("cannot import %s: %w", name, err)
	}
	return &localFile{file: file, tables: tables}, nil
}

// table finds a table of the file.
func (l *localFile) table(name string) (*sqlite.Table, error) {
	for i := range l.tables {
		if l.tables[i].Name == name {
			return &l.tables[i], nil
		}
	}
	return nil, fmt.Errorf("it has no table %q, as the files of DynamoDB Local have", name)
}

// rowsOf returns the values of some columns of a table.
func (l *localFile) rowsOf(table string, columns ...string) (rows [][]sqlite.Value, err error) {
	t, err := l.table(table)
	if err != nil {
		return nil, err
	}
	at := make([]int, len(columns))
	for i, c := range columns {
		if at[i] = t.Column(c); at[i] < 0 {
			return nil, fmt.Errorf("its table %s has no column %s; which version of DynamoDB Local has made it?", table, c)
		}
	}
	for row, err := range t.Rows() {
		if err != nil {
			return nil, err
		}
		chosen := make([]sqlite.Value, len(at))
		for i, c := range at {
			chosen[i] = row[c]
		}
		rows = append(rows, chosen)
	}
	return rows, nil
}

// localTable is a table of DynamoDB in a file.
type localTable struct {
	name   string
	create map[string]any
	ttl    string // the attribute; empty without one
	stream string // the view type; empty without one
	items  *sqlite.Table
}

// choose returns the tables of some names, or all.
func (l *localFile) choose(names []string) ([]localTable, error) {
	rows, err := l.rowsOf("dm", "TableName", "TableInfo", "BillingMode", "ReadCapacityUnits", "WriteCapacityUnits", "DeletionProtectionEnabled")
	if err != nil {
		return nil, err
	}
	streams, err := l.streams()
	if err != nil {
		return nil, err
	}
	var chosen []localTable
	for _, row := range rows {
		name, _ := row[0].(string)
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		t, err := describeLocal(name, row)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", name, err)
		}
		if t.items, err = l.table(name); err != nil {
			return nil, err
		}
		if t.items.Column("ObjectJSON") < 0 {
			return nil, fmt.Errorf("table %s has no column ObjectJSON; which version of DynamoDB Local has made it?", name)
		}
		t.stream = streams[name]
		chosen = append(chosen, t)
	}
	for _, name := range names {
		if !slices.ContainsFunc(chosen, func(t localTable) bool { return t.name == name }) {
			return nil, fmt.Errorf("it has no table %s", name)
		}
	}
	return chosen, nil
}

// streams returns the view types of the streams that are enabled, by table.
func (l *localFile) streams() (map[string]string, error) {
	rows, err := l.rowsOf("sm", "TableName", "StreamStatus", "StreamInfo")
	if err != nil {
		return nil, err
	}
	views := make(map[string]string)
	for _, row := range rows {
		var info struct{ StreamViewType string }
		if row[1] != "ENABLED" {
			continue
		}
		if err := json.Unmarshal(textOf(row[2]), &info); err != nil {
			return nil, fmt.Errorf("read the description of a stream: %w", err)
		}
		if table, ok := row[0].(string); ok {
			views[table] = info.StreamViewType
		}
	}
	return views, nil
}

// textOf returns the bytes of a text or a blob.
func textOf(v sqlite.Value) []byte {
	switch v := v.(type) {
	case string:
		return []byte(v)
	case []byte:
		return v
	}
	return nil
}

// describeLocal reads the description of a table.
func describeLocal(name string, row []sqlite.Value) (localTable, error) {
	type element struct {
		DynamoDBAttribute json.RawMessage
		KeyType           string
	}
	type attribute struct{ AttributeName, AttributeType string }
	var info struct {
		Attributes              []attribute
		LSIList, GSIList        []map[string]any
		TimeToLiveAttributeName string
		SQLiteIndex             map[string][]element
	}
	if err := json.Unmarshal(textOf(row[1]), &info); err != nil {
		return localTable{}, fmt.Errorf("read its description: %w", err)
	}
	if slices.ContainsFunc(slices.Concat(info.LSIList, info.GSIList), func(x map[string]any) bool { return x == nil }) {
		return localTable{}, fmt.Errorf("%w: an index has no description", sqlite.ErrCorrupt)
	}
	var key []any
	for _, e := range info.SQLiteIndex[""] {
		var a attribute
		if err := json.Unmarshal(e.DynamoDBAttribute, &a); err != nil {
			return localTable{}, fmt.Errorf("read its key: %w", err)
		}
		key = append(key, map[string]string{"AttributeName": a.AttributeName, "KeyType": e.KeyType})
	}
	create := map[string]any{"TableName": name, "AttributeDefinitions": info.Attributes, "KeySchema": key}
	if row[2] == int64(1) {
		create["BillingMode"] = "PAY_PER_REQUEST"
	} else {
		units := map[string]any{"ReadCapacityUnits": row[3], "WriteCapacityUnits": row[4]}
		create["ProvisionedThroughput"] = units
		for _, x := range info.GSIList {
			if x["ProvisionedThroughput"] == nil {
				x["ProvisionedThroughput"] = units
			}
		}
	}
	if string(textOf(row[5])) == "true" {
		create["DeletionProtectionEnabled"] = true
	}
	if len(info.LSIList) > 0 {
		create["LocalSecondaryIndexes"] = info.LSIList
	}
	if len(info.GSIList) > 0 {
		create["GlobalSecondaryIndexes"] = info.GSIList
	}
	return localTable{name: name, create: create, ttl: info.TimeToLiveAttributeName}, nil
}

// The size of a batch of items.
const (
	importBatchItems = 25
	importBatchBytes = 4 << 20
)

// importInto creates the table, writes its items, and then enables time to live and the stream, so
// that nothing expires meanwhile and the import is not in the stream.
func (t *localTable) importInto(ctx context.Context, send apply.Send, progress *progressLine) (importedTable, error) {
	done := importedTable{Table: t.name}
	if _, err := send(ctx, "CreateTable", t.create); err != nil {
		return done, err
	}
	if err := apply.WaitUntilActive(ctx, send, t.name); err != nil {
		return done, err
	}
	var batch []any
	var bytes int
	write := func() error {
		if len(batch) == 0 {
			return nil
		}
		if err := apply.WriteBatch(ctx, send, map[string][]any{t.name: batch}); err != nil {
			return err
		}
		done.Items += len(batch)
		done.Bytes += int64(bytes)
		batch, bytes = nil, 0
		progress.update("importing table %s: %d items", t.name, done.Items)
		return nil
	}
	column := t.items.Column("ObjectJSON")
	for row, err := range t.items.Rows() {
		if err != nil {
			return done, err
		}
		text := textOf(row[column])
		if !json.Valid(text) {
			return done, fmt.Errorf("%w: item %d is not JSON", sqlite.ErrCorrupt, done.Items+len(batch)+1)
		}
		if len(batch) == importBatchItems || bytes+len(text) > importBatchBytes {
			if err := write(); err != nil {
				return done, err
			}
		}
		batch = append(batch, map[string]any{"PutRequest": map[string]any{"Item": json.RawMessage(text)}})
		bytes += len(text)
	}
	if err := write(); err != nil {
		return done, err
	}
	return done, t.finish(ctx, send)
}

// finish enables what must not be on during the import.
func (t *localTable) finish(ctx context.Context, send apply.Send) error {
	if t.stream != "" {
		body := map[string]any{"TableName": t.name, "StreamSpecification": map[string]any{"StreamEnabled": true, "StreamViewType": t.stream}}
		if _, err := send(ctx, "UpdateTable", body); err != nil {
			return fmt.Errorf("enable its stream: %w", err)
		}
		if err := apply.WaitUntilActive(ctx, send, t.name); err != nil {
			return err
		}
	}
	if t.ttl != "" {
		body := map[string]any{"TableName": t.name, "TimeToLiveSpecification": map[string]any{"Enabled": true, "AttributeName": t.ttl}}
		if _, err := send(ctx, "UpdateTimeToLive", body); err != nil {
			return fmt.Errorf("enable its time to live: %w", err)
		}
	}
	return nil
}
