package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model/drift"
	"github.com/stator-db/stator/internal/model/infer"
	"github.com/stator-db/stator/internal/model/match"
	"github.com/stator-db/stator/internal/past"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/workload"
)

func (s *Server) addReads() {
	add(s, tool{name: "overview", title: "Overview of the tables", group: Read,
		description: "All tables with keys, indexes, sizes, billing and streams; what is allowed here; the forks. With table: that table, with TTL and recovery too."},
		func(ctx context.Context, c *call, in overviewIn) (any, error) { return c.overview(ctx, in) })
	add(s, tool{name: "get", title: "Read an item", group: Read,
		description: "One item by its whole key, as it is or with at as it was at a time."},
		func(ctx context.Context, c *call, in getIn) (any, error) { return c.get(ctx, in) })
	add(s, tool{name: "query", title: "Read items by conditions", group: Read,
		description: `Items by conditions, such as {"customer":"ada","placed":{"begins_with":"2026"}}. Chooses the table or index that serves them; the answer has the items, the exact request, the items looked at, the units and the key of the next page. What no key serves is a scan, refused unless allow_scan is set.`},
		func(ctx context.Context, c *call, in queryIn) (any, error) { return c.query(ctx, in) })
	add(s, tool{name: "sample", title: "What items of a table look like", group: Read,
		description: "Kinds of items, key templates, attributes with types, sizes and frequency, from a sample that costs about 50 read units."},
		func(ctx context.Context, c *call, in sampleIn) (any, error) { return c.sample(ctx, in) })
	add(s, tool{name: "explain", title: "How a request is served", group: Read,
		description: "How a request or a PartiQL statement would be served, without running it: by which key or index, whether it is a scan, what bounds its cost, which access pattern of the model it is. It is checked on an empty private copy of the tables, so it finds faults of expressions too."},
		func(ctx context.Context, c *call, in explainIn) (any, error) { return c.explain(ctx, in) })
	add(s, tool{name: "history", title: "Changes of an item", group: Read,
		description: "The changes of one item, newest first: when, by whom, what. The table needs point-in-time recovery or a stream."},
		func(ctx context.Context, c *call, in historyIn) (any, error) { return c.history(ctx, in) })
	add(s, tool{name: "traffic", title: "What the server is asked", group: Read,
		description: "Requests by shape (operation, table, index, form of the key, never values) with counts, items looked at and units since the server started; and at present: rates, throttles, hottest keys."},
		func(ctx context.Context, c *call, in trafficIn) (any, error) { return c.traffic(ctx, in) })
	add(s, tool{name: "why_denied", title: "Why a request was denied", group: Read,
		description: "Which policy statement denied a request, by the request id of the AccessDeniedException."},
		func(ctx context.Context, c *call, in deniedIn) (any, error) { return c.whyDenied(ctx, in) })
	add(s, tool{name: "request", title: "Any operation by its name", group: Read,
		destructive: s.lists(Forks) || s.lists(Tables),
		description: "Any operation with its JSON body, such as DescribeTimeToLive, or Stator.ListForks for those that only a stator has. Operations that change something are refused unless their group is allowed, and need confirmation."},
		func(ctx context.Context, c *call, in requestIn) (any, error) { return c.anyRequest(ctx, in) })
}

type overviewIn struct {
	Table string `json:"table,omitempty"`
	Fork  string `json:"fork,omitempty" jsonschema:"fork to read"`
}

type overviewTable struct {
	Name     string          `json:"name"`
	Key      string          `json:"key"` // partition key, sort key
	Types    string          `json:"types"`
	Items    int64           `json:"items"` // as the server reports it: it may be some hours old on AWS
	Bytes    int64           `json:"bytes"`
	Billing  string          `json:"billing"`
	Status   string          `json:"status"`
	Stream   string          `json:"stream,omitempty"`
	Indexes  []overviewIndex `json:"indexes,omitempty"`
	TTL      string          `json:"ttl_attribute,omitempty"`
	Recovery string          `json:"point_in_time_recovery,omitempty"`
}

type overviewIndex struct {
	Name       string `json:"name"`
	Key        string `json:"key"`
	Global     bool   `json:"global"`
	Projection string `json:"projection"`
	Status     string `json:"status,omitempty"`
}

// maxTables is how many tables an overview describes.
const maxTables = 40

func (c *call) overview(ctx context.Context, in overviewIn) (any, error) {
	if err := c.use(in.Table, in.Fork); err != nil {
		return nil, err
	}
	if in.Table != "" {
		t, err := c.describe(ctx, in.Table)
		if err != nil {
			return nil, err
		}
		out := overviewOf(t)
		out.TTL, out.Recovery = c.timeToLive(ctx, in.Table), c.recovery(ctx, in.Table)
		return out, nil
	}
	var listed struct {
		TableNames             []string
		LastEvaluatedTableName string
	}
	if err := c.ask(ctx, "ListTables", struct{}{}, &listed); err != nil {
		return nil, fmt.Errorf("cannot list the tables: %w", err)
	}
	allowed := []Group{Read}
	for _, g := range Groups {
		if c.server.lists(g) {
			allowed = append(allowed, g)
		}
	}
	tables := []overviewTable{}
	for _, name := range listed.TableNames[:min(maxTables, len(listed.TableNames))] {
		t, err := c.describe(ctx, name)
		if err != nil {
			return nil, err
		}
		tables = append(tables, overviewOf(t))
	}
	out := map[string]any{"endpoint": c.server.Endpoint.URL, "allowed": allowed, "tables": tables, "forks": c.server.session.names()}
	if c.server.ReadModel != nil {
		out["model"] = "the tools model_* read the model of these tables"
	}
	if len(listed.TableNames) > maxTables {
		out["more_tables"] = listed.TableNames[maxTables:]
	}
	if listed.LastEvaluatedTableName != "" {
		out["note"] = "there are more tables: request ListTables with ExclusiveStartTableName " + listed.LastEvaluatedTableName
	}
	return out, nil
}

func overviewOf(t *past.Table) overviewTable {
	out := overviewTable{Name: t.Name, Key: keyText(t.Key), Items: t.Items, Bytes: t.Bytes, Billing: t.Billing, Status: t.Status, Stream: t.Stream}
	var types []string
	for _, name := range slices.Sorted(maps.Keys(t.Types)) {
		types = append(types, name+" "+t.Types[name])
	}
	out.Types = strings.Join(types, ", ")
	for _, x := range t.Indexes {
		projection := x.Projection
		if len(x.Includes) > 0 {
			projection += " " + strings.Join(x.Includes, ", ")
		}
		out.Indexes = append(out.Indexes, overviewIndex{x.Name, keyText(x.Key), x.Global, projection, x.Status})
	}
	return out
}

// timeToLive returns the attribute of the time to live; empty if there is none, or it is not
// known.
func (c *call) timeToLive(ctx context.Context, table string) string {
	var reply struct {
		TimeToLiveDescription struct{ AttributeName, TimeToLiveStatus string }
	}
	if c.ask(ctx, "DescribeTimeToLive", map[string]string{"TableName": table}, &reply) != nil || reply.TimeToLiveDescription.TimeToLiveStatus == "DISABLED" {
		return ""
	}
	return reply.TimeToLiveDescription.AttributeName
}

// recovery returns ENABLED or DISABLED, or unknown.
func (c *call) recovery(ctx context.Context, table string) string {
	var reply struct {
		ContinuousBackupsDescription struct {
			PointInTimeRecoveryDescription struct{ PointInTimeRecoveryStatus string }
		}
	}
	if err := c.ask(ctx, "DescribeContinuousBackups", map[string]string{"TableName": table}, &reply); err != nil {
		return "unknown"
	}
	return reply.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus
}

type getIn struct {
	Table      string         `json:"table"`
	Key        map[string]any `json:"key" jsonschema:"the whole key"`
	Consistent bool           `json:"consistent,omitempty"`
	At         string         `json:"at,omitempty" jsonschema:"a time such as 2026-11-18T14:03:07Z, or 5m for five minutes ago"`
	Fork       string         `json:"fork,omitempty" jsonschema:"fork to read"`
}

func (c *call) get(ctx context.Context, in getIn) (any, error) {
	if err := c.use(in.Table, in.Fork); err != nil {
		return nil, err
	}
	at, err := c.parseTime("at", in.At)
	if err != nil {
		return nil, err
	}
	t, err := c.describe(ctx, in.Table)
	if err != nil {
		return nil, err
	}
	key, err := keyOf(t, in.Key)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"TableName": in.Table, "Key": key, "ReturnConsumedCapacity": "TOTAL"}
	if in.Consistent {
		body["ConsistentRead"] = true
	}
	text, err := c.read(ctx, "GetItem", at, body)
	if err != nil {
		return nil, fmt.Errorf("cannot read the item of table %s: %w", in.Table, err)
	}
	var reply struct{ Item past.Item }
	if err := json.Unmarshal(text, &reply); err != nil {
		return nil, fmt.Errorf("read the reply: %w", err)
	}
	var plain plainer
	out := map[string]any{"found": reply.Item != nil, "item": plain.item(reply.Item), "units": c.units}
	if plain.cut > 0 {
		out["cut_strings"] = plain.cut
	}
	return out, nil
}

type sampleIn struct {
	Table string `json:"table"`
	Fork  string `json:"fork,omitempty" jsonschema:"fork to read"`
}

const sampleUnits = 50

func (c *call) sample(ctx context.Context, in sampleIn) (any, error) {
	if err := c.use(in.Table, in.Fork); err != nil {
		return nil, err
	}
	samples, err := infer.ReadServer(ctx, c.send, infer.Options{Tables: []string{in.Table}, Units: sampleUnits, Endpoint: c.server.Endpoint.URL, Seed: 1})
	if err != nil {
		return nil, fmt.Errorf("cannot sample table %s: %w", in.Table, err)
	}
	r := infer.From("sample", "a sample", samples)
	return map[string]any{"tables": r.Tables, "entities": r.Entities}, nil
}

type historyIn struct {
	Table string         `json:"table"`
	Key   map[string]any `json:"key" jsonschema:"the whole key"`
	Limit int            `json:"limit,omitempty" jsonschema:"changes, up to 50; 10 by default"`
	Next  string         `json:"next,omitempty" jsonschema:"the next of the page before"`
	Fork  string         `json:"fork,omitempty" jsonschema:"fork to read"`
}

type historyChange struct {
	At       string            `json:"at"`
	Event    string            `json:"event"`
	By       string            `json:"by"`
	Sequence string            `json:"sequence"` // which undo takes
	Changed  map[string][2]any `json:"changed"`  // before and after; null if absent
}

func (c *call) history(ctx context.Context, in historyIn) (any, error) {
	if err := c.use(in.Table, in.Fork); err != nil {
		return nil, err
	}
	if in.Limit < 0 || in.Limit > maxItems {
		return nil, fmt.Errorf("limit is %d, but must be from 1 to %d", in.Limit, maxItems)
	}
	if in.Limit == 0 {
		in.Limit = 10
	}
	t, err := c.describe(ctx, in.Table)
	if err != nil {
		return nil, err
	}
	key, err := keyOf(t, in.Key)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"TableName": in.Table, "Key": key, "Limit": in.Limit, "ReturnConsumedCapacity": "TOTAL"}
	if in.Next != "" {
		body["NextToken"] = in.Next
	}
	text, err := past.Send(ctx, c.sendOwn, "ItemHistory", body, func(string) {})
	if err != nil {
		return nil, fmt.Errorf("cannot read the history of the item: %w", err)
	}
	var reply past.History
	if err := json.Unmarshal(text, &reply); err != nil {
		return nil, fmt.Errorf("read the reply: %w", err)
	}
	changes := []historyChange{}
	for _, text := range reply.Changes {
		var r past.Revision
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("read a change: %w", err)
		}
		changes = append(changes, historyChange{past.TimeText(r.At), r.EventName, r.By(), r.SequenceNumber, changed(r.OldImage, r.NewImage)})
	}
	out := map[string]any{"changes": changes, "kept_from": past.TimeText(reply.KeptFrom), "units": c.units}
	if reply.NextToken != "" {
		out["next"] = reply.NextToken
	}
	return out, nil
}

// changed returns the attributes that differ, before and after.
func changed(before, after past.Item) map[string][2]any {
	var plain plainer
	out := make(map[string][2]any)
	for _, image := range []past.Item{before, after} {
		for name := range image {
			if string(before[name]) == string(after[name]) {
				continue
			}
			var pair [2]any
			if v, ok := before[name]; ok {
				pair[0] = plain.value(v)
			}
			if v, ok := after[name]; ok {
				pair[1] = plain.value(v)
			}
			out[name] = pair
		}
	}
	return out
}

type trafficIn struct {
	Table string `json:"table,omitempty" jsonschema:"only this table"`
	Limit int    `json:"limit,omitempty" jsonschema:"shapes, up to 50; 20 by default"`
}

func (c *call) traffic(ctx context.Context, in trafficIn) (any, error) {
	c.table = in.Table
	if in.Limit <= 0 || in.Limit > maxItems {
		in.Limit = 20
	}
	e := c.endpoint()
	counted, err := drift.Traffic(ctx, e.URL, e.Get)
	if err != nil {
		return nil, err
	}
	shapes := slices.DeleteFunc(counted.Shapes, func(s workload.ShapeCount) bool { return in.Table != "" && s.Table != in.Table })
	out := map[string]any{"since": counted.Since, "shapes": shapes[:min(in.Limit, len(shapes))], "more_shapes": max(0, len(shapes)-in.Limit), "other_requests": counted.Other.Requests}
	if c.server.Activity != nil {
		now, err := c.server.Activity(ctx, e)
		if err != nil {
			now = map[string]string{"error": err.Error()}
		}
		out["now"] = now
	}
	return out, nil
}

type deniedIn struct {
	RequestID string `json:"request_id"`
}

func (c *call) whyDenied(ctx context.Context, in deniedIn) (any, error) {
	text, err := c.sendOwn(ctx, "ExplainDenial", map[string]string{"RequestId": in.RequestID})
	if err != nil {
		return nil, fmt.Errorf("the server does not explain the request: %w", err)
	}
	var reply api.ExplainDenialReply
	if err := json.Unmarshal(text, &reply); err != nil {
		return nil, fmt.Errorf("read the reply: %w", err)
	}
	return reply, nil
}

type explainIn struct {
	Statement  string         `json:"statement,omitempty" jsonschema:"PartiQL"`
	Parameters []any          `json:"parameters,omitempty" jsonschema:"of the statement, in plain JSON"`
	Operation  string         `json:"operation,omitempty" jsonschema:"such as Query, with body"`
	Body       map[string]any `json:"body,omitempty"`
}

type explainOut struct {
	ServedBy string           `json:"served_by,omitempty"`
	Scan     bool             `json:"scan"`
	Fault    string           `json:"fault,omitempty"`
	Shapes   []workload.Shape `json:"shapes,omitempty"` // operation, table, index and form of the key, as the server counts it
	Bounds   []string         `json:"bounds,omitempty"`
	Patterns []string         `json:"patterns,omitempty"` // of the model, with predicted units
	Notes    []string         `json:"notes,omitempty"`
}

// explain runs a request on an empty copy of the tables that it names, and reads how the copy
// has counted it.
func (c *call) explain(ctx context.Context, in explainIn) (any, error) {
	if (in.Statement == "") == (in.Operation == "") {
		return nil, errors.New("explain needs a statement, or an operation with its body")
	}
	if in.Statement != "" {
		in.Operation, in.Body = "ExecuteStatement", map[string]any{"Statement": in.Statement}
		var parameters []json.RawMessage
		for _, p := range in.Parameters {
			text, err := typed(p)
			if err != nil {
				return nil, err
			}
			parameters = append(parameters, text)
		}
		if parameters != nil {
			in.Body["Parameters"] = parameters
		}
	}
	if !slices.Contains(explained, in.Operation) {
		return nil, fmt.Errorf("%q cannot be explained; operations that read or write items can: %s", in.Operation, tableList(explained))
	}
	listed, err := c.listTables(ctx)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(in.Body)
	if err != nil {
		return nil, err
	}
	release, err := c.takePrivate(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	copied, stop, err := c.server.Private(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot start a private copy: %w", err)
	}
	defer func() { _ = stop() }()
	tables := make(map[string]*past.Table)
	for _, name := range listed {
		if !strings.Contains(string(body), name) {
			continue
		}
		if tables[name], err = c.copyTable(ctx, copied.Send, name); err != nil {
			return nil, err
		}
		c.table = name
	}
	if len(tables) == 0 {
		return nil, fmt.Errorf("the request names none of the %d tables", len(listed))
	}
	out := new(explainOut)
	_, err = copied.Send(ctx, in.Operation, json.RawMessage(body))
	if fault, ok := errors.AsType[*apierror.Error](err); ok {
		switch {
		case fault.Code == "ConditionalCheckFailedException" || fault.Code == "TransactionCanceledException":
			out.Notes = append(out.Notes, "the request is valid; whether its condition holds depends on the items")
		default:
			out.Fault = fault.Code + ": " + fault.Message
			return out, nil
		}
	} else if err != nil {
		return nil, err
	}
	counted, err := drift.Traffic(ctx, copied.URL, copied.Get)
	if err != nil {
		return nil, err
	}
	for _, s := range counted.Shapes {
		if t, ok := tables[s.Table]; ok {
			c.explainShape(out, t, s.Shape)
		}
	}
	return out, nil
}

// explained are the operations that can be explained.
var explained = []string{"GetItem", "BatchGetItem", "TransactGetItems", "Query", "Scan", "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems", "ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction"}

// copyTable creates a table with the keys and indexes of one of the endpoint.
func (c *call) copyTable(ctx context.Context, send func(context.Context, string, any) ([]byte, error), name string) (*past.Table, error) {
	t, err := c.describe(ctx, name)
	if err != nil {
		return nil, err
	}
	if _, err := send(ctx, "CreateTable", createBody(t)); err != nil {
		return nil, fmt.Errorf("copy table %s: %w", name, err)
	}
	for {
		is, err := past.Describe(ctx, send, name)
		if err != nil {
			return nil, fmt.Errorf("copy table %s: %w", name, err)
		}
		if is.Status == "ACTIVE" {
			return t, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// createBody returns a CreateTable with the keys and indexes of a table.
func createBody(t *past.Table) map[string]any {
	keySchema := func(k past.Key) (schema []map[string]string) {
		for _, name := range k.Partition {
			schema = append(schema, map[string]string{"AttributeName": name, "KeyType": "HASH"})
		}
		for _, name := range k.Sort {
			schema = append(schema, map[string]string{"AttributeName": name, "KeyType": "RANGE"})
		}
		return schema
	}
	var attributes []map[string]string
	for _, name := range slices.Sorted(maps.Keys(t.Types)) {
		attributes = append(attributes, map[string]string{"AttributeName": name, "AttributeType": t.Types[name]})
	}
	body := map[string]any{"TableName": t.Name, "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": attributes, "KeySchema": keySchema(t.Key)}
	for _, x := range t.Indexes {
		projection := map[string]any{"ProjectionType": x.Projection}
		if len(x.Includes) > 0 {
			projection["NonKeyAttributes"] = x.Includes
		}
		member := "LocalSecondaryIndexes"
		if x.Global {
			member = "GlobalSecondaryIndexes"
		}
		list, _ := body[member].([]any)
		body[member] = append(list, map[string]any{"IndexName": x.Name, "KeySchema": keySchema(x.Key), "Projection": projection})
	}
	return body
}

// explainShape adds what is known of a request with a shape.
func (c *call) explainShape(out *explainOut, t *past.Table, s workload.Shape) {
	out.Shapes = append(out.Shapes, s)
	on := "table " + t.Name
	if s.Index != "" {
		on = "index " + s.Index + " of " + on
	}
	out.ServedBy = s.Operation + " of " + on
	switch s.Operation {
	case "Scan":
		out.Scan = true
		out.Bounds = append(out.Bounds, fmt.Sprintf("it reads all of %s: about %d items, %d pages of 1 MB, and %.0f read units, eventually consistent", on, t.Items, t.Bytes/(1<<20)+1, max(1, float64(t.Bytes)/8192)))
		var keys []string
		for _, x := range t.Indexes {
			keys = append(keys, x.Name+" ("+keyText(x.Key)+")")
		}
		out.Notes = append(out.Notes, "a condition that gives the partition key makes it a Query; the table's is "+keyText(t.Key)+"; indexes: "+tableList(keys))
	case "Query":
		average := 0.0
		if t.Items > 0 {
			average = float64(t.Bytes) / float64(t.Items)
		}
		out.Bounds = append(out.Bounds, fmt.Sprintf("it reads the part of one partition that the key condition names (%s): items have %.0f bytes on average, a page has 1 MB at most and costs up to 128 read units, 256 if consistent", s.Form, average))
	case "GetItem", "BatchGetItem", "TransactGetItems":
		out.Bounds = append(out.Bounds, "it reads items by their whole keys: half a unit for each 4 KB, one if consistent, two in a transaction")
	default:
		out.Bounds = append(out.Bounds, fmt.Sprintf("it writes items by their whole keys: one unit for each KB, two in a transaction, and one for each entry of the %d indexes that changes", len(t.Indexes)))
	}
	if s.Filter {
		out.Notes = append(out.Notes, "the filter is applied after reading: units are paid for all items that it looks at")
	}
	if c.server.ReadModel == nil {
		return
	}
	m, err := c.server.ReadModel()
	if err != nil {
		out.Notes = append(out.Notes, "the model cannot be read: "+err.Error())
		return
	}
	for _, r := range match.New(m).Find(s) {
		out.Patterns = append(out.Patterns, r.Pattern.Name)
	}
	if len(out.Patterns) == 0 {
		out.Notes = append(out.Notes, "no access pattern of the model sends such a request")
	}
}
