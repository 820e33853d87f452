package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/model/apply"
)

// StateTable is the table of the endpoint that holds the states of migrations.
const StateTable = "stator-migrations"

// Phase is how far a migration has come.
type Phase string

// The phases, in order.
const (
	Create   Phase = "create"
	Backfill Phase = "backfill"
	Verify   Phase = "verify"
	Ready    Phase = "ready"    // the new tables follow the old ones
	Switched Phase = "switched" // the old tables follow the new ones
	Dropping Phase = "dropping" // the old tables are being removed
	Dropped  Phase = "dropped"
	Aborting Phase = "aborting" // the new tables are being removed
	Aborted  Phase = "aborted"
)

// State is the stored state of a migration.
type State struct {
	ID         string        `json:"id"`
	Phase      Phase         `json:"phase"`
	Revision   int64         `json:"revision"`           // the number of changes of the phase
	Request    Request       `json:"request,omitzero"`   // the last command, which any process stores
	Answered   string        `json:"answered,omitempty"` // the last request that was executed or rejected
	Owner      string        `json:"owner,omitempty"`    // the process that runs it
	Lease      time.Duration `json:"lease,omitempty"`    // of the owner
	Until      time.Time     `json:"until,omitzero"`     // when its lease ends, by its clock
	Segments   int           `json:"segments"`
	Unmatched  string        `json:"unmatched"`          // what happens to items that match no entity
	Sources    []string      `json:"sources"`            // the tables that are read
	Targets    []string      `json:"targets,omitempty"`  // the tables that are written
	Created    []string      `json:"created,omitempty"`  // names of the tables that the migration creates
	TableIDs   stringMap     `json:"tableIds,omitempty"` // of these tables, when they are created
	Added      []AddedIndex  `json:"added,omitempty"`
	Enabled    []string      `json:"enabled,omitempty"` // tables whose stream the migration enabled
	ARNs       stringMap     `json:"arns,omitempty"`    // the streams that are read, by table
	Followed   time.Time     `json:"followed,omitzero"` // all changes before this time are handled
	Began      time.Time     `json:"began"`
	Since      time.Time     `json:"since,omitzero"`       // when the phase began
	Counts     Counts        `json:"counts"`               // of all runs together
	Verified   *Verification `json:"verified,omitempty"`   // the last verification
	RolledBack bool          `json:"rolledBack,omitempty"` // since the last verification, which repairs what differs
	Late       int64         `json:"late,omitempty"`       // writes to tables that the application does not use, which were not copied
	LateKeys   []string      `json:"lateKeys,omitempty"`   // the first of their keys
	Expiring   []string      `json:"expiring,omitempty"`   // tables whose time to live the migration has changed
	Unfinished string        `json:"unfinished,omitempty"` // why time to live or recovery of the tables is not as it should be
	Problem    string        `json:"problem,omitempty"`    // why the last request was rejected
}

// followed returns the time before which all changes are handled. The items are
// read after the streams have begun, so earlier changes need not be followed. A state
// of an earlier version has no such time before the first round.
func (st *State) followed() time.Time {
	if st.Followed.IsZero() {
		return st.Began
	}
	return st.Followed
}

type stringMap = map[string]string

// Counts is what a migration has done.
type Counts struct {
	Copied     int64   `json:"copied"`     // items written by the backfill
	Records    int64   `json:"records"`    // records read from streams
	Followed   int64   `json:"followed"`   // writes and deletes that they caused
	ReadUnits  float64 `json:"readUnits"`  // consumed by the migration
	WriteUnits float64 `json:"writeUnits"` // the same
}

// stateStore reads and writes the state of one migration.
type stateStore struct {
	c     *endpointClient
	id    string
	owner string
	lease time.Duration
	now   func() time.Time
}

func text(s string) map[string]string { return stringMap{"S": s} }

func millis(t time.Time) map[string]string {
	return stringMap{"N": strconv.FormatInt(t.UnixMilli(), 10)}
}

func (s *stateStore) key(part string) map[string]any {
	return map[string]any{"id": text(s.id), "part": text(part)}
}

const mainPart = "migration"

// create creates the table of states if it does not exist.
func (s *stateStore) create(ctx context.Context) error {
	body := map[string]any{
		"TableName": StateTable, "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": []any{stringMap{"AttributeName": "id", "AttributeType": "S"}, stringMap{"AttributeName": "part", "AttributeType": "S"}},
		"KeySchema":            []any{stringMap{"AttributeName": "id", "KeyType": "HASH"}, stringMap{"AttributeName": "part", "KeyType": "RANGE"}},
	}
	var ignored any
	if err := s.c.ask(ctx, "CreateTable", body, &ignored); err != nil && !isFault(err, "ResourceInUseException") {
		return fmt.Errorf("create the table %s: %w", StateTable, err)
	}
	return waitActive(ctx, s.c, StateTable)
}

// waitActive waits until a table is active.
func waitActive(ctx context.Context, c *endpointClient, table string) error {
	for {
		var reply struct{ Table struct{ TableStatus string } }
		err := c.ask(ctx, "DescribeTable", map[string]any{"TableName": table}, &reply)
		if err == nil && reply.Table.TableStatus == "ACTIVE" {
			return nil
		}
		if err != nil && !isFault(err, "ResourceNotFoundException") {
			return err
		}
		if err := apply.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// load returns the state, nil if the migration has not begun.
func (s *stateStore) load(ctx context.Context) (*State, error) {
	var reply struct {
		Item struct {
			Data, Request, Owner   struct{ S string }
			Until, Lease, Revision struct{ N string }
		}
	}
	body := map[string]any{"TableName": StateTable, "Key": s.key(mainPart), "ConsistentRead": true}
	err := s.c.ask(ctx, "GetItem", body, &reply)
	if isFault(err, "ResourceNotFoundException") || err == nil && reply.Item.Data.S == "" {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of the migration: %w", err)
	}
	st := new(State)
	if err := json.Unmarshal([]byte(reply.Item.Data.S), st); err != nil {
		return nil, fmt.Errorf("decode the state of the migration: %w", err)
	}
	st.Request, st.Owner = Request{}, reply.Item.Owner.S
	if text := reply.Item.Request.S; text != "" {
		if err := json.Unmarshal([]byte(text), &st.Request); err != nil {
			return nil, fmt.Errorf("decode the request for the migration: %w", err)
		}
	}
	if ms, err := strconv.ParseInt(reply.Item.Until.N, 10, 64); err == nil {
		st.Until = time.UnixMilli(ms)
	}
	ms, _ := strconv.ParseInt(reply.Item.Lease.N, 10, 64)
	st.Lease = time.Duration(ms) * time.Millisecond
	st.Revision, _ = strconv.ParseInt(reply.Item.Revision.N, 10, 64)
	return st, nil
}

// begin stores the state of a new migration, unless there is one.
func (s *stateStore) begin(ctx context.Context, st *State) error {
	data, err := json.Marshal(st)
	if err != nil {
		return err
	}
	it := s.key(mainPart)
	it["data"], it["until"] = text(string(data)), stringMap{"N": "0"}
	var ignored any
	err = s.c.ask(ctx, "PutItem", map[string]any{"TableName": StateTable, "Item": it, "ConditionExpression": "attribute_not_exists(id)"}, &ignored)
	if err != nil && !isFault(err, "ConditionalCheckFailedException") {
		return fmt.Errorf("store the state of the migration: %w", err)
	}
	return nil
}

// withdraw removes the state of a migration that no process has run.
func (s *stateStore) withdraw(ctx context.Context) error {
	var ignored any
	err := s.c.ask(ctx, "DeleteItem", map[string]any{
		"TableName": StateTable, "Key": s.key(mainPart), "ConditionExpression": "attribute_not_exists(#o)", "ExpressionAttributeNames": stringMap{"#o": "owner"},
	}, &ignored)
	if err != nil && !isFault(err, "ConditionalCheckFailedException") {
		return fmt.Errorf("remove the state of the migration: %w", err)
	}
	return nil
}

// save stores the state if this process is the owner.
func (s *stateStore) save(ctx context.Context, st *State) error {
	return s.saveAs(ctx, st, st.Revision, st.Revision)
}

// saveAs stores the state with the next revision, if this process is the owner
// and the stored revision is the present one.
func (s *stateStore) saveAs(ctx context.Context, st *State, is, next int64) error {
	data, err := json.Marshal(st)
	if err != nil {
		return err
	}
	number := func(n int64) map[string]string { return stringMap{"N": strconv.FormatInt(n, 10)} }
	err = s.update(ctx, "SET #d = :d, #r = :next", "#o = :me AND (attribute_not_exists(#r) OR #r = :is)",
		map[string]any{":me": text(s.owner), ":d": text(string(data)), ":is": number(is), ":next": number(next)}, stringMap{"#o": "owner", "#d": "data", "#r": "revision"})
	if isFault(err, "ConditionalCheckFailedException") {
		return errLost
	}
	return err
}

// enter stores a state with another phase. If that fails, and the request was
// not executed, it makes sure that it will not be executed later: the stored
// revision is another one then.
func (s *stateStore) enter(ctx context.Context, before, next *State) error {
	err := s.saveAs(ctx, next, before.Revision, before.Revision+1)
	if err != nil {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.lease/4)
		defer cancel()
		err = s.undo(limited, before, next, err)
	}
	if err == nil {
		next.Revision = before.Revision + 1
	}
	return err
}

// undo returns nil if the next state is stored after all. Otherwise it returns
// the reason why it is not.
func (s *stateStore) undo(ctx context.Context, before, next *State, reason error) error {
	err := s.saveAs(ctx, before, before.Revision, before.Revision+1)
	if err == nil {
		before.Revision++
		return reason
	}
	var st *State
	if errors.Is(err, errLost) {
		st, err = s.load(ctx)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w\n        it is not known whether the phase is %s or %s: status shows it", errors.Join(reason, err), before.Phase, next.Phase)
	case st == nil || st.Owner != s.owner || st.Revision != before.Revision+1:
		return errLost
	case st.Phase == next.Phase && st.Since.Equal(next.Since):
		return nil
	}
	before.Revision++
	return reason
}

// setRequest stores a request, which any process may do.
func (s *stateStore) setRequest(ctx context.Context, q Request) error {
	data, err := json.Marshal(q)
	if err != nil {
		return err
	}
	return s.update(ctx, "SET #r = :r", "attribute_exists(id)", map[string]any{":r": text(string(data))}, stringMap{"#r": "request"})
}

func (s *stateStore) update(ctx context.Context, update, condition string, values map[string]any, names map[string]string) error {
	var ignored any
	err := s.c.ask(ctx, "UpdateItem", map[string]any{
		"TableName": StateTable, "Key": s.key(mainPart), "UpdateExpression": update, "ConditionExpression": condition,
		"ExpressionAttributeNames": names, "ExpressionAttributeValues": values,
	}, &ignored)
	if err != nil {
		return fmt.Errorf("store the state of the migration: %w", err)
	}
	return nil
}

// positions returns the stored positions of a kind, such as "scan#", by the rest
// of their names.
func (s *stateStore) positions(ctx context.Context, kind string) (map[string]string, error) {
	all := make(map[string]string)
	body := map[string]any{
		"TableName": StateTable, "ConsistentRead": true, "KeyConditionExpression": "id = :id AND begins_with(part, :kind)",
		"ExpressionAttributeValues": map[string]any{":id": text(s.id), ":kind": text(kind)},
	}
	for {
		var reply struct {
			Items            []struct{ Part, At struct{ S string } }
			LastEvaluatedKey json.RawMessage
		}
		if err := s.c.ask(ctx, "Query", body, &reply); err != nil {
			return nil, fmt.Errorf("read the positions of the migration: %w", err)
		}
		for _, it := range reply.Items {
			all[strings.TrimPrefix(it.Part.S, kind)] = it.At.S
		}
		if reply.LastEvaluatedKey == nil {
			return all, nil
		}
		body["ExclusiveStartKey"] = reply.LastEvaluatedKey
	}
}

// setPosition stores a position. The work up to it is done, whichever process
// did it, so there is no condition.
func (s *stateStore) setPosition(ctx context.Context, part, at string) error {
	it := s.key(part)
	it["at"] = text(at)
	var ignored any
	if err := s.c.ask(ctx, "PutItem", map[string]any{"TableName": StateTable, "Item": it}, &ignored); err != nil {
		return fmt.Errorf("store the position %s: %w", part, err)
	}
	return nil
}

// removePosition removes a position.
func (s *stateStore) removePosition(ctx context.Context, part string) error {
	var ignored any
	if err := s.c.ask(ctx, "DeleteItem", map[string]any{"TableName": StateTable, "Key": s.key(part)}, &ignored); err != nil {
		return fmt.Errorf("remove the position %s: %w", part, err)
	}
	return nil
}

// clear removes the positions of some kinds.
func (s *stateStore) clear(ctx context.Context, kinds ...string) error {
	for _, kind := range kinds {
		all, err := s.positions(ctx, kind)
		if err != nil {
			return err
		}
		for part := range all {
			if err := s.removePosition(ctx, kind+part); err != nil {
				return err
			}
		}
	}
	return nil
}

// The kinds of positions.
const (
	scanKind  = "scan#"
	shardKind = "shard#"
	lateKind  = "late#" // items that may be late writes
)

var allKinds = []string{scanKind, shardKind, lateKind}

// others returns the unfinished migrations that use one of the tables.
func (s *stateStore) others(ctx context.Context, tables []string) ([]string, error) {
	var found []string
	body := map[string]any{"TableName": StateTable, "ConsistentRead": true}
	for {
		var reply struct {
			Items []struct {
				ID   struct{ S string } `json:"id"`
				Data struct{ S string }
			}
			LastEvaluatedKey json.RawMessage
		}
		if err := s.c.ask(ctx, "Scan", body, &reply); err != nil {
			return nil, err
		}
		for _, it := range reply.Items {
			var st State
			if it.ID.S != s.id && it.Data.S != "" && json.Unmarshal([]byte(it.Data.S), &st) == nil && st.shares(tables) {
				found = append(found, it.ID.S)
			}
		}
		if reply.LastEvaluatedKey == nil {
			return found, nil
		}
		body["ExclusiveStartKey"] = reply.LastEvaluatedKey
	}
}

// shares reports whether an unfinished migration uses one of the tables.
func (st *State) shares(tables []string) bool {
	if st.Phase == Dropped || st.Phase == Aborted {
		return false
	}
	return slices.ContainsFunc(tables, func(table string) bool {
		return slices.Contains(st.Sources, table) || slices.Contains(st.Targets, table)
	})
}
