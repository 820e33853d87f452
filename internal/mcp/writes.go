package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/past"
	"github.com/stator-db/stator/internal/protocol/effect"
)

func (s *Server) addWrites() {
	add(s, tool{name: "write", title: "Write items in one transaction", group: Forks, destructive: true,
		description: "Puts, updates, deletes and checks of items as one transaction. dry_run shows each item before and after, and changes nothing. What changes or deletes existing items needs confirmation, except on a fork."},
		func(ctx context.Context, c *call, in writeIn) (any, error) { return c.write(ctx, in) })
	add(s, tool{name: "fork", title: "Work on a copy", group: Forks,
		description: "A fork is a copy of the whole database in milliseconds, to try changes on: create it, give its name as fork to other tools, diff shows what differs from the base now, drop ends it."},
		func(ctx context.Context, c *call, in forkIn) (any, error) { return c.manageFork(ctx, in) })
	add(s, tool{name: "undo", title: "Undo changes", group: Forks, destructive: true,
		description: "Undoes the changes of a table between two seconds, or one change of an item (sequence of history): up to 100 items as one transaction. Items that were changed again later stay. Needs confirmation, except on a fork."},
		func(ctx context.Context, c *call, in undoIn) (any, error) { return c.undo(ctx, in) })
}

type writeIn struct {
	Actions []writeAction `json:"actions" jsonschema:"up to 25"`
	DryRun  bool          `json:"dry_run,omitempty"`
	Confirm string        `json:"confirm,omitempty" jsonschema:"the token of the plan"`
	Fork    string        `json:"fork,omitempty" jsonschema:"fork to write to"`
}

type writeAction struct {
	Action string         `json:"action" jsonschema:"put, update, delete or check"`
	Table  string         `json:"table"`
	Item   map[string]any `json:"item,omitempty" jsonschema:"of a put"`
	Key    map[string]any `json:"key,omitempty" jsonschema:"of the others"`
	Set    map[string]any `json:"set,omitempty" jsonschema:"attributes that an update sets"`
	Add    map[string]any `json:"add,omitempty" jsonschema:"numbers that an update adds"`
	Remove []string       `json:"remove,omitempty"`
	If     map[string]any `json:"if,omitempty" jsonschema:"conditions, as the where of query"`
}

// maxActions is how many actions a write has.
const maxActions = 25

// preparedWrite is an action as the API has it, with the item before it.
type preparedWrite struct {
	verb   string // Put, Update, Delete or ConditionCheck
	table  *past.Table
	key    past.Item
	body   map[string]any
	before past.Item
}

// prepared is a whole transaction.
type prepared []*preparedWrite

func (p prepared) body(token string) map[string]any {
	var items []any
	for _, w := range p {
		items = append(items, map[string]any{w.verb: w.body})
	}
	return map[string]any{"TransactItems": items, "ClientRequestToken": token, "ReturnConsumedCapacity": "TOTAL"}
}

// writeChange is what an action does to an item.
type writeChange struct {
	Action  string            `json:"action"`
	Table   string            `json:"table"`
	Key     map[string]any    `json:"key"`
	Exists  bool              `json:"exists"` // before
	Changed map[string][2]any `json:"changed,omitempty"`
}

type writeOut struct {
	Done    bool          `json:"done"`
	Changes []writeChange `json:"changes"`
	Units   float64       `json:"units,omitempty"` // of the transaction
	Fault   string        `json:"fault,omitempty"` // of a dry run
	Undo    string        `json:"undo,omitempty"`
	Note    string        `json:"note,omitempty"`
}

func (c *call) write(ctx context.Context, in writeIn) (any, error) {
	if err := c.use("", in.Fork); err != nil {
		return nil, err
	}
	if !in.DryRun {
		if err := c.server.check("TransactWriteItems", nil, c.fork.name); err != nil {
			return nil, err
		}
	}
	writes, err := c.prepare(ctx, in.Actions)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return c.dryRun(ctx, writes)
	}
	if c.fork.name == "" && slices.ContainsFunc(writes, (*preparedWrite).destroys) {
		answer, err := c.confirmWrite(ctx, in, writes)
		if answer != nil || err != nil {
			return answer, err
		}
	} else if c.fork.name == "" {
		for _, w := range writes {
			w.requireAbsent()
		}
	}
	begun := c.server.Now()
	c.units = 0
	if _, err := c.send(ctx, "TransactWriteItems", writes.body(rand.Text())); err != nil {
		if fault, ok := errors.AsType[*apierror.Error](err); ok && fault.Status < http.StatusInternalServerError {
			return nil, fmt.Errorf("nothing was written: %w", err)
		}
		return nil, fmt.Errorf("it is not known whether it was written: read the items before you try again: %w", err)
	}
	out := &writeOut{Done: true, Units: c.units}
	if err := c.after(ctx, writes, out); err != nil {
		return nil, fmt.Errorf("it was written, but cannot be read again: %w", err)
	}
	out.Undo = c.howToUndo(ctx, writes, begun)
	return out, nil
}

// confirmWrite returns the answer to a write that is not confirmed yet.
func (c *call) confirmWrite(ctx context.Context, in writeIn, writes prepared) (answer any, err error) {
	token := in.Confirm
	in.Confirm = ""
	var shown any
	if !c.isConfirmation(token) {
		if shown, err = c.dryRun(ctx, writes); err != nil {
			return nil, err
		}
	}
	var lines []string
	for _, w := range writes {
		key, err := json.Marshal(w.key)
		if err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("%s %s of table %s", strings.ToLower(w.verb), shorten(string(key), 120), w.table.Name))
	}
	sum, err := c.digest(imagesBefore(writes))
	if err != nil {
		return nil, err
	}
	state, answer, err := c.confirm(in, token, fmt.Sprintf("Write to %s?\n%s", c.server.Endpoint.URL, strings.Join(lines, "\n")), shown, string(sum[:]))
	if err == nil && answer == nil && state != string(sum[:]) {
		err = errors.New("the items have changed since the plan; nothing was written: repeat the call without confirm")
	}
	return answer, err
}

// destroys reports whether a write changes or deletes an item that exists.
func (w *preparedWrite) destroys() bool { return w.before != nil && w.verb != "ConditionCheck" }

// requireAbsent lets the write fail if its item has been created meanwhile.
func (w *preparedWrite) requireAbsent() {
	if w.verb == "ConditionCheck" {
		return
	}
	names, _ := w.body["ExpressionAttributeNames"].(map[string]string)
	if names == nil {
		names = make(map[string]string)
		w.body["ExpressionAttributeNames"] = names
	}
	names["#absent"] = w.table.Key.Partition[0]
	condition := "attribute_not_exists(#absent)"
	if is, ok := w.body["ConditionExpression"].(string); ok {
		condition += " AND " + is
	}
	w.body["ConditionExpression"] = condition
}

// prepare makes a transaction of plain actions, and reads the items before it.
func (c *call) prepare(ctx context.Context, actions []writeAction) (prepared, error) {
	if len(actions) == 0 || len(actions) > maxActions {
		return nil, fmt.Errorf("a write has 1 to %d actions, but this one has %d", maxActions, len(actions))
	}
	tables := make(map[string]*past.Table)
	var writes prepared
	for i, a := range actions {
		t := tables[a.Table]
		if t == nil {
			if a.Table == "" {
				return nil, fmt.Errorf("action %d: %w", i, errNoTable)
			}
			var err error
			if t, err = c.describe(ctx, a.Table); err != nil {
				return nil, err
			}
			tables[a.Table] = t
		}
		w, err := a.prepare(t)
		if err != nil {
			return nil, fmt.Errorf("action %d: %w", i, err)
		}
		writes = append(writes, w)
	}
	c.table = tableList(slices.Sorted(maps.Keys(tables)))
	before, err := c.images(ctx, writes)
	for i, w := range writes {
		if err == nil {
			w.before = before[i]
		}
	}
	return writes, err
}

// prepare makes one action of the API.
func (a *writeAction) prepare(t *past.Table) (*preparedWrite, error) {
	x := newExpression(t)
	w := &preparedWrite{table: t, body: map[string]any{"TableName": t.Name}}
	if a.Action != "update" && (a.Set != nil || a.Add != nil || a.Remove != nil) {
		return nil, errors.New("set, add and remove are for updates")
	}
	if (a.Action == "put") != (a.Item != nil) || (a.Action == "put") == (a.Key != nil) {
		return nil, errors.New("a put needs an item; update, delete and check need a key")
	}
	var err error
	if a.Action == "put" {
		item, err := typedItem(t, a.Item)
		if err != nil {
			return nil, err
		}
		key := make(map[string]any)
		for _, name := range t.Key.All() {
			if v, ok := a.Item[name]; ok {
				key[name] = v
			}
		}
		w.verb, w.body["Item"] = "Put", item
		if w.key, err = keyOf(t, key); err != nil {
			return nil, err
		}
	} else {
		if w.key, err = keyOf(t, a.Key); err != nil {
			return nil, err
		}
		w.body["Key"] = w.key
	}
	switch a.Action {
	case "put":
	case "delete":
		w.verb = "Delete"
	case "check":
		if w.verb = "ConditionCheck"; len(a.If) == 0 {
			return nil, errors.New("a check needs conditions in if")
		}
	case "update":
		w.verb = "Update"
		if w.body["UpdateExpression"], err = a.update(x); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("action is %q, but must be put, update, delete or check", a.Action)
	}
	terms, err := conditions(a.If)
	if err != nil {
		return nil, err
	}
	if len(terms) > 0 {
		if w.body["ConditionExpression"], err = x.all(terms); err != nil {
			return nil, err
		}
	}
	x.addTo(w.body)
	return w, nil
}

// update returns the expression of an update.
func (a *writeAction) update(x *expressionBuilder) (string, error) {
	var parts []string
	for _, part := range []struct {
		word, between string
		of            map[string]any
	}{{"SET", " = ", a.Set}, {"ADD", " ", a.Add}} {
		var terms []string
		for _, name := range slices.Sorted(maps.Keys(part.of)) {
			v, err := x.value(name, part.of[name])
			if err != nil {
				return "", err
			}
			terms = append(terms, x.name(name)+part.between+v)
		}
		if terms != nil {
			parts = append(parts, part.word+" "+strings.Join(terms, ", "))
		}
	}
	var removed []string
	for _, name := range a.Remove {
		removed = append(removed, x.name(name))
	}
	if removed != nil {
		parts = append(parts, "REMOVE "+strings.Join(removed, ", "))
	}
	if parts == nil {
		return "", errors.New("an update needs set, add or remove")
	}
	return strings.Join(parts, " "), nil
}

// images reads the items of a transaction.
func (c *call) images(ctx context.Context, writes prepared) ([]past.Item, error) {
	var items []any
	for _, w := range writes {
		items = append(items, map[string]any{"Get": map[string]any{"TableName": w.table.Name, "Key": w.key}})
	}
	var reply struct{ Responses []struct{ Item past.Item } }
	if err := c.ask(ctx, "TransactGetItems", map[string]any{"TransactItems": items, "ReturnConsumedCapacity": "TOTAL"}, &reply); err != nil {
		return nil, fmt.Errorf("cannot read the items: %w", err)
	}
	if len(reply.Responses) != len(writes) {
		return nil, errors.New("the server has not returned all items")
	}
	images := make([]past.Item, len(writes))
	for i := range images {
		images[i] = reply.Responses[i].Item
	}
	return images, nil
}

// after adds what was changed.
func (c *call) after(ctx context.Context, writes prepared, out *writeOut) error {
	images, err := c.images(ctx, writes)
	if err != nil {
		return err
	}
	out.Changes = writes.changes(images)
	return nil
}

// changes compares the items before with those after.
func (p prepared) changes(after []past.Item) (all []writeChange) {
	for i, w := range p {
		var plain plainer
		change := writeChange{Action: strings.ToLower(w.verb), Table: w.table.Name, Key: plain.item(w.key), Exists: w.before != nil}
		if w.verb != "ConditionCheck" {
			change.Changed = changed(w.before, after[i])
		}
		all = append(all, change)
	}
	return all
}

// dryRun writes to a fork that is dropped afterwards.
func (c *call) dryRun(ctx context.Context, writes prepared) (*writeOut, error) {
	out := new(writeOut)
	fork, _, err := c.makeFork(ctx, "")
	if err != nil {
		for _, w := range writes {
			var plain plainer
			change := writeChange{Action: strings.ToLower(w.verb), Table: w.table.Name, Key: plain.item(w.key), Exists: w.before != nil}
			switch after, ok := w.body["Item"].(past.Item); {
			case w.verb == "Put" && ok:
				change.Changed = changed(w.before, after)
			case w.verb == "Delete":
				change.Changed = changed(w.before, nil)
			}
			out.Changes = append(out.Changes, change)
		}
		out.Note = "the server has made no fork to try it on, so conditions are not checked, and updates not shown"
		return out, nil // the plan is made without a fork
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
		defer cancel()
		if _, err := c.sendOwn(ctx, "DeleteFork", map[string]string{"ForkName": fork.name}); err != nil {
			c.server.Log.Warn("fork of a dry run is left", "fork", fork.name, "error", err)
		}
	}()
	on := c.on(fork)
	if _, err := on.send(ctx, "TransactWriteItems", writes.body(rand.Text())); err != nil {
		out.Fault = err.Error()
		out.Changes = writes.changes(imagesBefore(writes))
		return out, nil // it is the answer
	}
	out.Units = on.units
	return out, on.after(ctx, writes, out)
}

func imagesBefore(writes prepared) (images []past.Item) {
	for _, w := range writes {
		images = append(images, w.before)
	}
	return images
}

// howToUndo says how a write can be undone.
func (c *call) howToUndo(ctx context.Context, writes prepared, at time.Time) string {
	if c.fork.name != "" {
		return "drop the fork"
	}
	var kept, lost []string
	seen := make(map[string]bool)
	for _, w := range writes {
		if name := w.table.Name; !seen[name] && w.verb != "ConditionCheck" {
			seen[name] = true
			if w.table.Stream != "" || c.recovery(ctx, name) == "ENABLED" {
				kept = append(kept, name)
			} else {
				lost = append(lost, name)
			}
		}
	}
	text := ""
	if kept != nil {
		text = fmt.Sprintf("undo of %s from %s", tableList(kept), at.UTC().Format(time.RFC3339))
	}
	if lost != nil {
		text = strings.TrimPrefix(fmt.Sprintf("%s; the past of %s is not kept: it has neither point-in-time recovery nor a stream", text, tableList(lost)), "; ")
	}
	return text
}

type undoIn struct {
	Table    string         `json:"table"`
	From     string         `json:"from,omitempty" jsonschema:"a time such as 2026-11-18T14:03:07Z, or 5m for five minutes ago"`
	To       string         `json:"to,omitempty"`
	Key      map[string]any `json:"key,omitempty" jsonschema:"only this item"`
	Sequence string         `json:"sequence,omitempty" jsonschema:"one change of the item, in place of from and to"`
	Next     map[string]any `json:"next,omitempty" jsonschema:"the next of the plan before"`
	Confirm  string         `json:"confirm,omitempty" jsonschema:"the token of the plan"`
	Fork     string         `json:"fork,omitempty" jsonschema:"fork to write to"`
}

type undoOut struct {
	Done          bool             `json:"done"`
	Writes        []undoChange     `json:"writes"`
	Conflicts     []map[string]any `json:"conflicts,omitempty"` // keys of items that were changed again
	AlreadyUndone int              `json:"already_undone,omitempty"`
	Next          json.RawMessage  `json:"next,omitempty"` // there is more to undo
}

type undoChange struct {
	Action  string            `json:"action"`
	Key     map[string]any    `json:"key"`
	Changed map[string][2]any `json:"changed"`
}

func (c *call) undo(ctx context.Context, in undoIn) (any, error) {
	if err := c.use(in.Table, in.Fork); err != nil {
		return nil, err
	}
	from, err := c.parseTime("from", in.From)
	if err != nil {
		return nil, err
	}
	to, err := c.parseTime("to", in.To)
	if err != nil {
		return nil, err
	}
	if (in.Sequence == "") == (in.From == "" || in.To == "") || in.Sequence != "" && in.Key == nil {
		return nil, errors.New("undo needs from and to, or sequence and key")
	}
	body := map[string]any{"TableName": in.Table}
	if in.Sequence != "" {
		body["SequenceNumber"] = in.Sequence
	} else {
		body["From"], body["To"] = from.Unix(), to.Unix()
	}
	if in.Key != nil {
		t, err := c.describe(ctx, in.Table)
		if err != nil {
			return nil, err
		}
		if body["Key"], err = keyOf(t, in.Key); err != nil {
			return nil, err
		}
	}
	if in.Next != nil {
		body["ExclusiveStartKey"] = in.Next
	}
	plan, err := c.planUndo(ctx, body)
	if err != nil {
		return nil, err
	}
	out := undoOutOf(plan)
	if len(plan.Writes) == 0 {
		return out, nil
	}
	if c.fork.name == "" {
		token := in.Confirm
		in.Confirm = ""
		state, answer, err := c.confirm(in, token, fmt.Sprintf("Undo changes of %d items of table %s at %s? %d items that were changed again stay.", len(plan.Writes), in.Table, c.server.Endpoint.URL, len(plan.Conflicts)), out, plan.PlanId)
		if answer != nil || err != nil {
			return answer, err
		}
		plan.PlanId = state
	}
	body["Confirm"] = plan.PlanId
	done, err := c.planUndo(ctx, body)
	if err != nil {
		return nil, err
	}
	out = undoOutOf(done)
	out.Done = true
	return out, nil
}

func (c *call) planUndo(ctx context.Context, body map[string]any) (*past.UndoPlan, error) {
	text, err := past.Send(ctx, c.sendOwn, "UndoChanges", body, func(string) {})
	if err != nil {
		return nil, fmt.Errorf("cannot undo: %w", err)
	}
	plan := new(past.UndoPlan)
	if err := json.Unmarshal(text, plan); err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	return plan, nil
}

func undoOutOf(plan *past.UndoPlan) *undoOut {
	out := &undoOut{Writes: []undoChange{}, AlreadyUndone: plan.AlreadyUndone, Next: plan.LastEvaluatedKey}
	var plain plainer
	for _, w := range plan.Writes {
		out.Writes = append(out.Writes, undoChange{w.Action, plain.item(w.Key), changed(w.CurrentItem, w.Item)})
	}
	for _, x := range plan.Conflicts {
		out.Conflicts = append(out.Conflicts, plain.item(x.Key))
	}
	return out
}

type requestIn struct {
	Operation string         `json:"operation"`
	Body      map[string]any `json:"body,omitempty" jsonschema:"as the API has it, with typed values"`
	Confirm   string         `json:"confirm,omitempty" jsonschema:"the token of the plan"`
	Fork      string         `json:"fork,omitempty" jsonschema:"fork to send it to"`
}

// anyRequest sends any operation that is allowed.
func (c *call) anyRequest(ctx context.Context, in requestIn) (any, error) {
	table, _ := in.Body["TableName"].(string)
	if err := c.use(table, in.Fork); err != nil {
		return nil, err
	}
	if in.Body == nil {
		in.Body = make(map[string]any)
	}
	body, err := json.Marshal(in.Body)
	if err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(in.Operation, "Stator.")
	if name == "CreateFork" || name == "DeleteFork" {
		return nil, errors.New("forks are made and dropped by the tool fork")
	}
	if err := c.server.check(name, body, c.fork.name); err != nil {
		return nil, err
	}
	if c.fork.name == "" && effect.Of(name, body) != effect.Nothing {
		token := in.Confirm
		in.Confirm = ""
		_, answer, err := c.confirm(in, token, fmt.Sprintf("Send %s to %s?\n%s", name, c.server.Endpoint.URL, body), exactRequest{in.Operation, in.Body}, "")
		if answer != nil || err != nil {
			return answer, err
		}
	}
	reply, err := c.send(ctx, in.Operation, json.RawMessage(body))
	if err != nil {
		return nil, err
	}
	return map[string]any{"reply": json.RawMessage(reply), "units": c.units}, nil
}
