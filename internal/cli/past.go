package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model/apply"
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

// typedItem is the attributes of an item, or of a key, as the API has them.
type typedItem map[string]json.RawMessage

// tableKeys has the keys of a table and of its indexes.
type tableKeys struct {
	types   map[string]string // of attributes
	table   []string          // the partition key, then the sort key
	indexes map[string][]string
}

func describeKeys(ctx context.Context, server *apply.Endpoint, table string) (*tableKeys, error) {
	text, err := server.Send(ctx, "DescribeTable", map[string]string{"TableName": table})
	if err != nil {
		return nil, fmt.Errorf("cannot describe table %s on %s: %w", table, server.URL, err)
	}
	type keySchema []struct{ AttributeName string }
	type index struct {
		IndexName string
		KeySchema keySchema
	}
	var reply struct {
		Table struct {
			AttributeDefinitions   []struct{ AttributeName, AttributeType string }
			KeySchema              keySchema
			GlobalSecondaryIndexes []index
			LocalSecondaryIndexes  []index
		}
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return nil, fmt.Errorf("read the description of table %s: %w", table, err)
	}
	names := func(s keySchema) (names []string) {
		for _, a := range s {
			names = append(names, a.AttributeName)
		}
		return names
	}
	k := &tableKeys{types: make(map[string]string), table: names(reply.Table.KeySchema), indexes: make(map[string][]string)}
	for _, a := range reply.Table.AttributeDefinitions {
		k.types[a.AttributeName] = a.AttributeType
	}
	for _, x := range append(reply.Table.GlobalSecondaryIndexes, reply.Table.LocalSecondaryIndexes...) {
		k.indexes[x.IndexName] = names(x.KeySchema)
	}
	return k, nil
}

// parse reads attributes of keys from arguments such as id=7, or from one in DynamoDB's
// JSON.
func (k *tableKeys) parse(args []string) (typedItem, error) {
	key := make(typedItem)
	if len(args) == 1 && strings.HasPrefix(args[0], "{") {
		if err := json.Unmarshal([]byte(args[0]), &key); err != nil {
			return nil, usageError{fmt.Errorf("the key is not in DynamoDB's JSON: %w", err)}
		}
		return key, nil
	}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, usageError{fmt.Errorf("%q is not an attribute of a key: write name=value", arg)}
		}
		t, ok := k.types[name]
		if !ok {
			return nil, usageError{fmt.Errorf("%s is in no key; those of the table are %s", name, strings.Join(k.table, " and "))}
		}
		text, err := json.Marshal(map[string]string{t: value})
		if err != nil {
			return nil, err
		}
		key[name] = text
	}
	return key, nil
}

// parseTime reads a time: RFC 3339, a date with a time of this machine's zone, seconds
// since 1970, or how long ago it was. Empty is the zero time.
func parseTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(-d.Abs()), nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Unix(n, 0), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02T15:04:05"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usageError{fmt.Errorf("%s is %q, but must be a time such as 2026-11-18T14:03:07Z, 1794924187, or 5m for five minutes ago", flag, text)}
}

// readAgain is how long a command waits before it repeats a request to the past that the
// server was too busy for.
const readAgain = 200 * time.Millisecond

// sendPast sends a request to the past, again and again while the server has not read all
// changes.
func sendPast(ctx context.Context, server *apply.Endpoint, operation string, body any, stderr io.Writer) ([]byte, error) {
	progress := newProgressLine(stderr)
	defer progress.end()
	for {
		reply, err := server.SendOwn(ctx, operation, body)
		fault, ok := errors.AsType[*apierror.Error](err)
		if !ok || fault.Code != apierror.PastNotRead("").Code {
			return reply, err
		}
		progress.update("reading the past: %s", fault.Message)
		select {
		case <-time.After(readAgain):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
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
	server, err := f.open()
	if err != nil {
		return err
	}
	keys, err := describeKeys(ctx, server, table)
	if err != nil {
		return err
	}
	key, err := keys.parse(args)
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
	var reply struct{ Item typedItem }
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
	server, err := f.open()
	if err != nil {
		return err
	}
	keys, err := describeKeys(ctx, server, table)
	if err != nil {
		return err
	}
	key, err := keys.parse(args)
	if err != nil {
		return err
	}
	operation, body := keys.request(table, f.index, key)
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

// request returns a Query for a key, or a Scan without one.
func (k *tableKeys) request(table, index string, key typedItem) (operation string, body map[string]any) {
	body = map[string]any{"TableName": table}
	if index != "" {
		body["IndexName"] = index
	}
	if len(key) == 0 {
		return "Scan", body
	}
	var terms []string
	names, values := make(map[string]string), make(typedItem)
	for i, name := range slices.Sorted(maps.Keys(key)) {
		terms = append(terms, fmt.Sprintf("#k%d = :k%d", i, i))
		names[fmt.Sprintf("#k%d", i)], values[fmt.Sprintf(":k%d", i)] = name, key[name]
	}
	body["KeyConditionExpression"] = strings.Join(terms, " AND ")
	body["ExpressionAttributeNames"], body["ExpressionAttributeValues"] = names, values
	return "Query", body
}

// revision is a change in the reply of an ItemHistory.
type revision struct {
	SequenceNumber, EventName, Actor, Principal string
	At                                          float64
	OldImage, NewImage                          typedItem
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
	server, err := f.open()
	if err != nil {
		return err
	}
	keys, err := describeKeys(ctx, server, table)
	if err != nil {
		return err
	}
	key, err := keys.parse(args)
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
		var reply struct {
			Changes          []json.RawMessage
			NextToken        string
			KeptFrom, ReadTo float64
			LookedAt         int
		}
		if err := json.Unmarshal(text, &reply); err != nil {
			return fmt.Errorf("read the reply of %s: %w", f.endpoint, err)
		}
		for _, change := range reply.Changes {
			if err := f.printRevision(stdout, change); err != nil {
				return err
			}
		}
		printed, looked = printed+len(reply.Changes), looked+reply.LookedAt
		progress.update("looked at %d changes of the table, back to %s", looked, timeText(reply.ReadTo))
		switch {
		case limit > 0 && printed >= limit:
			return nil
		case reply.NextToken != "":
			body["NextToken"] = reply.NextToken
			continue
		case !f.json:
			progress.end()
			_, err = fmt.Fprintf(stderr, "%d changes; changes before %s are not kept\n", printed, timeText(reply.KeptFrom))
		}
		return err
	}
}

func timeText(seconds float64) string {
	return time.UnixMilli(int64(seconds*1000 + 0.5)).UTC().Format("2006-01-02T15:04:05.000Z")
}

// printRevision prints a change with the attributes that differ.
func (f *pastFlags) printRevision(w io.Writer, text json.RawMessage) error {
	if f.json {
		_, err := fmt.Fprintln(w, string(text))
		return err
	}
	var r revision
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("read a change: %w", err)
	}
	by := r.Principal
	if by == "" {
		by = r.Actor
	}
	fmt.Fprintf(w, "%s  %s  %s  %s\n", timeText(r.At), r.EventName, r.SequenceNumber, by)
	return printChange(w, r.OldImage, r.NewImage)
}

// printChange prints the attributes of two images that differ.
func printChange(w io.Writer, before, after typedItem) error {
	names := make(map[string]bool)
	for _, image := range []typedItem{before, after} {
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
