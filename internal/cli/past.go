package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/past"
)

// pastFlags are the flags of the commands that read items and their past.
type pastFlags struct {
	endpointFlags
	json bool
}

func (f *pastFlags) add(cmd *cobra.Command) {
	f.endpointFlags.add(cmd, "URL of the server")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
}

// openTable returns the server, and a key of one of its tables that is written in arguments.
func (f *pastFlags) openTable(ctx context.Context, table string, args []string) (*apply.Endpoint, past.Item, error) {
	server, err := f.open()
	if err != nil {
		return nil, nil, err
	}
	described, err := describeTable(ctx, server, table)
	if err != nil {
		return nil, nil, err
	}
	key, err := parseKey(described, args)
	return server, key, err
}

// describeTable describes a table of a server.
func describeTable(ctx context.Context, server *apply.Endpoint, table string) (*past.Table, error) {
	t, err := past.Describe(ctx, server.Send, table)
	if err != nil {
		return nil, fmt.Errorf("cannot describe table %s on %s: %w", table, server.URL, err)
	}
	return t, nil
}

// parseKey reads attributes of keys from arguments.
func parseKey(t *past.Table, args []string) (past.Item, error) {
	key, err := t.ParseKey(args)
	if err != nil {
		return nil, usageError{err}
	}
	return key, nil
}

// parseTime reads a time from a flag.
func parseTime(flag, text string, now time.Time) (time.Time, error) {
	t, err := past.ParseTime(flag, text, now)
	if err != nil {
		return t, usageError{err}
	}
	return t, nil
}

// sendPast sends a request to the past, and shows the progress.
func sendPast(ctx context.Context, server *apply.Endpoint, operation string, body any, stderr io.Writer) ([]byte, error) {
	progress := newProgressLine(stderr)
	defer progress.end()
	return past.Send(ctx, server.SendOwn, operation, body, func(message string) { progress.update("reading the past: %s", message) })
}

// atFlags are those of commands that read the present or the past.
type atFlags struct {
	pastFlags
	at, index string
	limit     int
}

const timeFormats = `TIME is a time such as 2026-11-18T14:03:07Z, a date with a time of this machine's zone,
seconds since 1970, or how long ago it was, such as 5m. A key is written as name=value for
each of its attributes, or in DynamoDB's JSON.`

func getCommand() *cobra.Command {
	var f atFlags
	cmd := &cobra.Command{
		Use:   "get TABLE KEY...",
		Short: "Print an item, as it is or as it was at a second",
		Long: `Print an item, as it is or with --at as it was at the end of a second.
` + timeFormats + `

  stator get Orders id=7 --at 5m --endpoint http://127.0.0.1:8000`,
		Args: minArguments(2, "a table and a key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.get(cmd.Context(), args[0], args[1:], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.at, "at", "", "`TIME` of the past to read; defaults to now")
	return cmd
}

func queryCommand() *cobra.Command {
	var f atFlags
	cmd := &cobra.Command{
		Use:   "query TABLE [KEY...]",
		Short: "Print the items of a key, or of a table, as they are or were at a second",
		Long: `Print the items with a partition key, or with a partition and a sort key; without a key
all items of the table, by a scan. With --at as they were at the end of a second. Each
item is a line in DynamoDB's JSON.
` + timeFormats + `

  stator query Orders id=7 --at 2h --endpoint http://127.0.0.1:8000`,
		Args: minArguments(1, "a table"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.query(cmd.Context(), args[0], args[1:], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.at, "at", "", "`TIME` of the past to read; defaults to now")
	cmd.Flags().StringVar(&f.index, "index", "", "index to read")
	cmd.Flags().IntVar(&f.limit, "limit", 0, "number of items to print; 0 for all")
	return cmd
}

// minArguments rejects fewer arguments than n.
func minArguments(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return usageError{fmt.Errorf("%s needs %s, but got %q", cmd.CommandPath(), what, args)}
		}
		return nil
	}
}

// read sends a read of the present, or with --at of the past.
func (f *atFlags) read(ctx context.Context, server *apply.Endpoint, operation string, at time.Time, body map[string]any, stderr io.Writer) ([]byte, error) {
	if at.IsZero() {
		return server.Send(ctx, operation, body)
	}
	body["AsOf"] = at.Unix()
	return sendPast(ctx, server, operation+"At", body, stderr)
}

func (f *atFlags) get(ctx context.Context, table string, args []string, stdout, stderr io.Writer) error {
	at, err := parseTime("--at", f.at, time.Now())
	if err != nil {
		return err
	}
	server, key, err := f.openTable(ctx, table, args)
	if err != nil {
		return err
	}
	text, err := f.read(ctx, server, "GetItem", at, map[string]any{"TableName": table, "Key": key}, stderr)
	if err != nil {
		return fmt.Errorf("cannot read the item of table %s on %s: %w", table, f.endpoint, err)
	}
	if f.json {
		_, err := fmt.Fprintln(stdout, string(text))
		return err
	}
	var reply struct{ Item past.Item }
	if err := json.Unmarshal(text, &reply); err != nil {
		return fmt.Errorf("read the reply of %s: %w", f.endpoint, err)
	}
	if reply.Item == nil {
		return fmt.Errorf("table %s has no item with this key%s", table, atText(at))
	}
	for _, name := range slices.Sorted(maps.Keys(reply.Item)) {
		if _, err := fmt.Fprintf(stdout, "%s  %s\n", name, reply.Item[name]); err != nil {
			return err
		}
	}
	return nil
}

func atText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " at " + at.UTC().Format(time.RFC3339)
}

func (f *atFlags) query(ctx context.Context, table string, args []string, stdout, stderr io.Writer) error {
	at, err := parseTime("--at", f.at, time.Now())
	if err != nil {
		return err
	}
	server, key, err := f.openTable(ctx, table, args)
	if err != nil {
		return err
	}
	operation, body := readRequest(table, f.index, key)
	printed := 0
	for {
		if f.limit > 0 {
			body["Limit"] = min(1000, f.limit-printed)
		}
		text, err := f.read(ctx, server, operation, at, body, stderr)
		if err != nil {
			return fmt.Errorf("cannot read table %s on %s: %w", table, f.endpoint, err)
		}
		var reply struct {
			Items            []json.RawMessage
			LastEvaluatedKey json.RawMessage
		}
		if err := json.Unmarshal(text, &reply); err != nil {
			return fmt.Errorf("read the reply of %s: %w", f.endpoint, err)
		}
		for _, it := range reply.Items {
			if _, err := fmt.Fprintln(stdout, string(it)); err != nil {
				return err
			}
		}
		printed += len(reply.Items)
		if reply.LastEvaluatedKey == nil || f.limit > 0 && printed >= f.limit {
			return nil
		}
		body["ExclusiveStartKey"] = reply.LastEvaluatedKey
	}
}

// readRequest returns a Query for a key, or a Scan without one.
func readRequest(table, index string, key past.Item) (operation string, body map[string]any) {
	body = map[string]any{"TableName": table}
	if index != "" {
		body["IndexName"] = index
	}
	if len(key) == 0 {
		return "Scan", body
	}
	var terms []string
	names, values := make(map[string]string), make(past.Item)
	for i, name := range slices.Sorted(maps.Keys(key)) {
		terms = append(terms, fmt.Sprintf("#k%d = :k%d", i, i))
		names[fmt.Sprintf("#k%d", i)], values[fmt.Sprintf(":k%d", i)] = name, key[name]
	}
	body["KeyConditionExpression"] = strings.Join(terms, " AND ")
	body["ExpressionAttributeNames"], body["ExpressionAttributeValues"] = names, values
	return "Query", body
}

func historyCommand() *cobra.Command {
	var f pastFlags
	limit := 0
	cmd := &cobra.Command{
		Use:   "history TABLE KEY...",
		Short: "Print the changes of an item, the newest first",
		Long: `Print who has changed an item, when and how, the newest change first. The table needs
point-in-time recovery, or a stream for the changes of the last 24 hours. A key is written
as name=value for each of its attributes, or in DynamoDB's JSON.

  stator history Orders id=7 --endpoint http://127.0.0.1:8000`,
		Args: minArguments(2, "a table and a key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.history(cmd.Context(), args[0], args[1:], limit, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.add(cmd)
	cmd.Flags().IntVar(&limit, "limit", 0, "number of changes to print; 0 for all")
	return cmd
}

func (f *pastFlags) history(ctx context.Context, table string, args []string, limit int, stdout, stderr io.Writer) error {
	server, key, err := f.openTable(ctx, table, args)
	if err != nil {
		return err
	}
	body := map[string]any{"TableName": table, "Key": key}
	progress := newProgressLine(stderr)
	defer progress.end()
	printed, looked := 0, 0
	for {
		if limit > 0 {
			body["Limit"] = min(100, limit-printed)
		}
		text, err := sendPast(ctx, server, "ItemHistory", body, stderr)
		if err != nil {
			return fmt.Errorf("cannot read the history of the item on %s: %w", f.endpoint, err)
		}
		var reply past.History
		if err := json.Unmarshal(text, &reply); err != nil {
			return fmt.Errorf("read the reply of %s: %w", f.endpoint, err)
		}
		for _, change := range reply.Changes {
			if err := f.printRevision(stdout, change); err != nil {
				return err
			}
		}
		printed, looked = printed+len(reply.Changes), looked+reply.LookedAt
		progress.update("looked at %d changes of the table, back to %s", looked, past.TimeText(reply.ReadTo))
		switch {
		case limit > 0 && printed >= limit:
			return nil
		case reply.NextToken != "":
			body["NextToken"] = reply.NextToken
			continue
		case !f.json:
			progress.end()
			_, err = fmt.Fprintf(stderr, "%d changes; changes before %s are not kept\n", printed, past.TimeText(reply.KeptFrom))
		}
		return err
	}
}

// printRevision prints a change with the attributes that differ.
func (f *pastFlags) printRevision(w io.Writer, text json.RawMessage) error {
	if f.json {
		_, err := fmt.Fprintln(w, string(text))
		return err
	}
	var r past.Revision
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("read a change: %w", err)
	}
	fmt.Fprintf(w, "%s  %s  %s  %s\n", past.TimeText(r.At), r.EventName, r.SequenceNumber, r.By())
	return printChange(w, r.OldImage, r.NewImage)
}

// printChange prints the attributes of two images that differ.
func printChange(w io.Writer, before, after past.Item) error {
	names := make(map[string]bool)
	for _, image := range []past.Item{before, after} {
		for name := range image {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, had := before[name]
		is, has := after[name]
		var err error
		switch {
		case had && has && bytes.Equal(was, is):
		case had && has:
			_, err = fmt.Fprintf(w, "  ~ %s  %s -> %s\n", name, was, is)
		case had:
			_, err = fmt.Fprintf(w, "  - %s  %s\n", name, was)
		default:
			_, err = fmt.Fprintf(w, "  + %s  %s\n", name, is)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
