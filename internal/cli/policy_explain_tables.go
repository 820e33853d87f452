package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/language/policy"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// decider decides about requests as a server does that has the tables of the flags. Its
// tables are in memory, and empty.
type decider struct {
	flags   *explainFlags
	engine  store.Engine
	db      *db.DB
	service *ops.Service

	files map[explainedTarget]string // of the resource policies
}

// explainedTarget is a table or a stream, which may have a policy.
type explainedTarget struct {
	table string
	label string // of the stream
	arn   string // of the table or stream
}

// targetOf returns what the policy belongs to that decides about a permission. The one of a
// table also decides about its indexes and backups.
func targetOf(e *ops.Explained) explainedTarget {
	before, rest, _ := strings.Cut(e.Resource, ":table/")
	to := explainedTarget{table: e.Table, arn: before + ":table/" + e.Table}
	if label, ok := strings.CutPrefix(rest, e.Table+"/stream/"); ok {
		to.label, to.arn = label, e.Resource
	}
	return to
}

func openDecider(ctx context.Context, f *explainFlags, now func() time.Time) (*decider, error) {
	engine, err := pebble.Open(pebble.InMemory())
	if err != nil {
		return nil, err
	}
	opened, err := db.Open(ctx, engine, db.Options{Clock: clock.Given(now)})
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	d := &decider{flags: f, engine: engine, db: opened, files: make(map[explainedTarget]string),
		service: ops.New(ops.Parts{DB: opened, Account: f.account})}
	if err := d.declareTables(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Close closes the database. Nothing in it is kept.
func (d *decider) Close() { _ = errors.Join(d.db.Close(), d.engine.Close()) }

// declareTables creates the tables of the files.
func (d *decider) declareTables(ctx context.Context) error {
	if d.flags.schema != "" {
		m, err := readModel(d.flags.schema)
		if err != nil {
			return err
		}
		for _, t := range m.Tables {
			body, err := json.Marshal(apply.Body(t))
			if err == nil {
				err = d.create(ctx, body)
			}
			if err != nil {
				return fileError{fmt.Errorf("%s: cannot create table %s: %w", d.flags.schema, t.Name, err)}
			}
		}
	}
	for _, file := range d.flags.definitions {
		body, err := os.ReadFile(file) //nolint:gosec // the user names it
		if err == nil {
			body, err = asCreateTable(body)
		}
		if err == nil {
			err = d.create(ctx, body)
		}
		if err != nil {
			return fileError{fmt.Errorf("cannot use --table-definition %s: %w", file, err)}
		}
	}
	return nil
}

func (d *decider) create(ctx context.Context, body []byte) error {
	r, err := ops.Read("CreateTable", body)
	if err == nil {
		_, err = d.service.Do(ctx, r, new(buffer.Scratch))
	}
	return err
}

// explainedIndex is what decides about a request in the description of an index.
type explainedIndex struct {
	IndexName  string
	KeySchema  json.RawMessage
	Projection json.RawMessage
}

// asCreateTable returns a reply of DescribeTable as a CreateTable request, and anything
// else as it is.
func asCreateTable(text []byte) ([]byte, error) {
	var described struct {
		Table *struct {
			TableName              string
			AttributeDefinitions   json.RawMessage
			KeySchema              json.RawMessage
			GlobalSecondaryIndexes []explainedIndex `json:",omitempty"`
			LocalSecondaryIndexes  []explainedIndex `json:",omitempty"`
			BillingMode            string
		}
	}
	if err := json.Unmarshal(text, &described); err != nil {
		return nil, err
	}
	if described.Table == nil {
		return text, nil
	}
	described.Table.BillingMode = "PAY_PER_REQUEST" // it decides nothing
	return json.Marshal(described.Table)
}

// explain decides about a request of a caller.
func (d *decider) explain(ctx context.Context, c ops.Caller, r ops.Request) (*explainedRequest, error) {
	asked := ops.WithCaller(ctx, c)
	result := &explainedRequest{Operation: d.flags.operation, Principal: d.flags.principal, Permissions: []explainedPermission{}}
	needed, err := d.service.Explain(asked, r)
	if err == nil && (d.flags.endpoint != "" || len(d.flags.resource) > 0) {
		// The first decision says which tables the request names.
		if err := d.complete(ctx, namedTargets(needed)); err != nil {
			return nil, err
		}
		needed, err = d.service.Explain(asked, r)
	}
	if fault, ok := errors.AsType[*apierror.Error](err); ok && fault.Code == "AccessDeniedException" {
		result.Message = fault.Message
		return result, nil
	}
	if err != nil {
		return nil, d.flags.rejected(err)
	}
	result.Allowed = true
	for i := range needed {
		e := &needed[i]
		switch {
		case e.Fault == nil:
			result.add(d.permission(e))
		case result.Allowed:
			return nil, d.flags.rejected(e.Fault)
		default:
			result.note("%s on %s is not decided: the server has denied the request before, and its values are invalid: %v", e.Action, e.Resource, e.Fault)
		}
	}
	return result, d.checkKnown(result, needed)
}

// permission returns a permission with the files of resource policies.
func (d *decider) permission(e *ops.Explained) explainedPermission {
	p := explainedPermission{Action: e.Action, Resource: e.Resource, Allowed: e.Explanation.Allowed, Reason: e.Explanation.Reason, Message: e.Message,
		Statements: append([]policy.StatementTrace{}, e.Explanation.Statements...)}
	for i := range p.Statements {
		if s := &p.Statements[i]; s.Policy == policy.Resource.String() {
			s.File = d.files[targetOf(e)]
		}
	}
	return p
}

// add adds a permission. The first one that is denied is the server's answer.
func (r *explainedRequest) add(p explainedPermission) {
	if r.Allowed && !p.Allowed {
		r.Allowed, r.Message = false, p.Message
	}
	r.Permissions = append(r.Permissions, p)
}

func (r *explainedRequest) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.Notes, text) {
		r.Notes = append(r.Notes, text)
	}
}

// checkKnown checks that the tables are known whose keys or tags a condition asks for. A
// server that does not have the table decides without them, but rejects the request then.
func (d *decider) checkKnown(result *explainedRequest, needed []ops.Explained) error {
	for i := range needed {
		e := &needed[i]
		if e.Table == "" || e.Explanation == nil || d.has(e.Table) {
			continue
		}
		key := keyOfTable(e.Explanation)
		switch {
		case key != "" && d.flags.endpoint == "":
			return fileError{fmt.Errorf("table %s is not known, and the values of %s depend on it: give --schema, --table-definition or --endpoint", e.Table, key)}
		case key != "":
			result.note("%s does not have table %s, so that %s has no values", d.flags.endpoint, e.Table, key)
		}
	}
	return nil
}

// keyOfTable returns a condition key that the decision depends on and whose values depend on
// the table; "" if there is none. An explicit deny does not depend on other statements.
func keyOfTable(e *policy.Explanation) (found string) {
	for _, s := range e.Statements {
		key := ""
		for _, c := range s.Conditions {
			if ofTable(c.Key) {
				key = c.Key
			}
		}
		if s.Decided && s.Effect == policy.Deny.String() {
			return key
		}
		if s.Principal && s.Action && s.Resource && key != "" {
			found = key
		}
	}
	return found
}

// ofTable reports whether the values of a condition key depend on the keys or tags of a
// table.
func ofTable(key string) bool {
	key = strings.ToLower(key)
	return key == "dynamodb:leadingkeys" || key == "dynamodb:fulltablescan" || strings.HasSuffix(key, "partitionkeyvalues") || strings.HasPrefix(key, "aws:resourcetag/")
}

func (d *decider) has(table string) bool {
	_, err := d.db.Table(table)
	return err == nil
}

// namedTargets returns the tables and streams of permissions, in order, each once.
func namedTargets(needed []ops.Explained) (targets []explainedTarget) {
	for i := range needed {
		if to := targetOf(&needed[i]); to.table != "" && !slices.Contains(targets, to) {
			targets = append(targets, to)
		}
	}
	return targets
}

// complete adds what the endpoint knows about tables, and the resource policies.
func (d *decider) complete(ctx context.Context, targets []explainedTarget) error {
	if d.flags.endpoint != "" {
		server, err := d.flags.open()
		if err != nil {
			return err
		}
		for _, to := range targets {
			if err := d.copyTarget(ctx, server.Send, to); err != nil {
				return fileError{fmt.Errorf("cannot read table %s of %s: %w", to.table, d.flags.endpoint, err)}
			}
		}
	}
	for _, given := range d.flags.resource {
		to, file, err := choose(targets, given)
		if err == nil {
			err = d.attach(ctx, to, file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// choose returns which table or stream a --resource-policy is for, and its file.
func choose(targets []explainedTarget, given string) (to explainedTarget, file string, err error) {
	table, file, named := strings.Cut(given, "=")
	if !named {
		if len(targets) != 1 {
			return to, "", usageError{fmt.Errorf("--resource-policy is for one table, but the request names %d: write TABLE=%s", len(targets), given)}
		}
		return targets[0], given, nil
	}
	i := slices.IndexFunc(targets, func(to explainedTarget) bool { return to.table == table })
	if i < 0 {
		return to, "", usageError{fmt.Errorf("--resource-policy %s is for table %s, which the request does not name", file, table)}
	}
	return targets[i], file, nil
}

// attach gives a table or a stream the policy in a file. The text is stored as it is, so
// that statements keep their lines.
func (d *decider) attach(ctx context.Context, to explainedTarget, file string) error {
	if !d.has(to.table) {
		return usageError{fmt.Errorf("--resource-policy %s is for table %s, which is not known: give --schema, --table-definition or --endpoint", file, to.table)}
	}
	document, text, err := readPolicy(policy.Resource, file)
	if err != nil {
		return err
	}
	if err := document.CheckTarget(to.arn); err != nil {
		return fileError{fmt.Errorf("%s:%w", file, err)}
	}
	d.files[to] = file
	return d.setPolicy(ctx, to, string(text))
}

func (d *decider) setPolicy(ctx context.Context, to explainedTarget, text string) error {
	return d.db.SetPolicies(ctx, to.table, func(all map[string]schema.ResourcePolicy) (map[string]schema.ResourcePolicy, error) {
		if all == nil {
			all = make(map[string]schema.ResourcePolicy)
		}
		all[to.label] = schema.ResourcePolicy{Document: text, Changed: d.db.Now()}
		return all, nil
	})
}

// copyTarget copies a table as the endpoint describes it, unless a file declares it, and
// the policy of the table or stream. A table that the endpoint does not have is not
// created.
func (d *decider) copyTarget(ctx context.Context, send apply.Send, to explainedTarget) error {
	text, err := send(ctx, "DescribeTable", map[string]string{"TableName": to.table})
	if isCode(err, "ResourceNotFoundException") {
		return nil
	}
	if err != nil {
		return err
	}
	var described struct{ Table struct{ TableArn string } }
	if err := json.Unmarshal(text, &described); err != nil {
		return err
	}
	arn := described.Table.TableArn
	if err := d.checkAccount(arn); err != nil {
		return err
	}
	if !d.has(to.table) {
		if text, err = asCreateTable(text); err == nil {
			err = d.create(ctx, text)
		}
		if err == nil {
			err = d.copyTags(ctx, send, to.table, arn)
		}
		if err != nil {
			return err
		}
	}
	if to.label != "" {
		arn = to.arn
	}
	var attached struct{ Policy string }
	err = send.Ask(ctx, "GetResourcePolicy", map[string]string{"ResourceArn": arn}, &attached)
	if isCode(err, "PolicyNotFoundException") || isCode(err, "UnknownOperationException") {
		return nil
	}
	if err != nil {
		return err
	}
	return d.setPolicy(ctx, to, attached.Policy)
}

// checkAccount checks that a table belongs to the account that resources are named with.
func (d *decider) checkAccount(arn string) error {
	fields := strings.Split(arn, ":")
	if len(fields) < 6 || fields[4] == cmp.Or(d.flags.account, ops.DefaultAccount) {
		return nil
	}
	return fmt.Errorf("it belongs to the account %s: give --account %s", fields[4], fields[4])
}

func (d *decider) copyTags(ctx context.Context, send apply.Send, table, arn string) error {
	var all []schema.Tag
	body := map[string]string{"ResourceArn": arn}
	for {
		var page struct {
			Tags      []schema.Tag
			NextToken string
		}
		if err := send.Ask(ctx, "ListTagsOfResource", body, &page); err != nil && !isCode(err, "UnknownOperationException") {
			return err
		}
		all = append(all, page.Tags...)
		if page.NextToken == "" {
			break
		}
		body["NextToken"] = page.NextToken
	}
	return d.db.SetTags(ctx, table, func([]schema.Tag) ([]schema.Tag, error) { return all, nil })
}

// isCode reports whether an error of the API has a code.
func isCode(err error, code string) bool {
	fault, ok := errors.AsType[*apierror.Error](err)
	return ok && fault.Code == code
}
