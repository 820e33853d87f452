package ops

import (
	"context"
	"errors"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/workload"
)

// action is the plan of one action of a transaction.
type action struct {
	db.Write
	kind        workload.Writes
	conditional bool
	returnOld   bool // return the item if its condition fails
}

func (s *Service) transactWriteItems(ctx context.Context, in *api.TransactWriteItems) (*api.TransactWriteItemsReply, usages, error) {
	actions := make([]action, len(in.TransactItems))
	for i := range in.TransactItems {
		var err error
		if actions[i], err = s.action(&in.TransactItems[i]); err != nil {
			return nil, nil, err
		}
	}
	if err := s.checkTargets(actions); err != nil {
		return nil, nil, err
	}
	if err := checkTransactionSize(actions); err != nil {
		return nil, nil, err
	}
	var token *db.Token
	if in.ClientRequestToken != nil {
		token = &db.Token{Scope: "TransactWriteItems", Value: *in.ClientRequestToken, Request: transactionDigest(in.TransactItems)}
	}
	done, err := s.transactCached(ctx, token, actions)
	var replayed *db.Replayed
	if errors.As(err, &replayed) {
		used := replayUsage(actions, replayed).as("TransactWriteItems", false)
		return &api.TransactWriteItemsReply{ConsumedCapacity: perTable(in.ReturnConsumedCapacity, used, readUnits)}, used, nil
	}
	if err != nil {
		return nil, nil, err
	}
	used := transactionUsage(actions, done).as("TransactWriteItems", false)
	reply := &api.TransactWriteItemsReply{ConsumedCapacity: perTable(in.ReturnConsumedCapacity, used, writeUnits)}
	for i, a := range actions {
		if in.TransactItems[i].ConditionCheck != nil {
			continue // it changes no collection
		}
		m := collectionMetrics(in.ReturnItemCollectionMetrics, a.Key, done[i])
		reply.ItemCollectionMetrics = addMetrics(reply.ItemCollectionMetrics, a.Table, m)
	}
	return reply, used, nil
}

// transact executes a transaction. token is nil for one that is not idempotent.
func (s *Service) transact(ctx context.Context, token *db.Token, actions []action) ([]db.Outcome, error) {
	writes := make([]db.Write, len(actions))
	for i := range actions {
		writes[i] = actions[i].Write
	}
	done, err := s.DB.Transact(ctx, token, writes...)
	if err == nil {
		return done, nil
	}
	var cancelled *db.Cancelled
	switch {
	case errors.As(err, &cancelled):
		return nil, cancellation(cancelled, func(i int) bool { return actions[i].returnOld })
	case errors.Is(err, db.ErrTokenReused):
		return nil, apierror.TokenMismatch()
	}
	return nil, err
}

// action checks and plans one action.
func (s *Service) action(in *api.TransactWriteItem) (action, error) {
	switch {
	case count(in.ConditionCheck != nil, in.Put != nil, in.Delete != nil, in.Update != nil) != 1:
		return action{}, apierror.Validation("TransactItems can only contain one of Check, Put, Update or Delete")
	case in.Put != nil:
		return s.putAction(in.Put)
	case in.Delete != nil:
		c := &in.Delete.ActionCondition
		return s.keyAction(workload.Delete, *in.Delete.TableName, in.Delete.Key, c, db.Remove)
	case in.ConditionCheck != nil:
		c := &api.ActionCondition{
			ConditionExpression:                 in.ConditionCheck.ConditionExpression,
			ReturnValuesOnConditionCheckFailure: in.ConditionCheck.ReturnValuesOnConditionCheckFailure,
			Expressions:                         in.ConditionCheck.Expressions,
			Compiled:                            in.ConditionCheck.Compiled,
		}
		return s.keyAction(workload.ConditionCheck, *in.ConditionCheck.TableName, in.ConditionCheck.Key, c, db.Keep)
	}
	return s.updateAction(in.Update)
}

func count(conditions ...bool) (n int) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

func (s *Service) putAction(in *api.Put) (action, error) {
	if err := faultOf(in.Item); err != nil {
		return action{}, err
	}
	cond, err := s.actionCondition(&in.ActionCondition, nil)
	if err != nil {
		return action{}, err
	}
	it := in.Item.Item
	return action{
		kind:        workload.Put,
		conditional: cond != nil,
		Write:       db.Write{Table: *in.TableName, Key: it, Fit: fitting((*schema.Table).CheckItem, cond), If: holds(cond), Effect: db.Replace(it)},
		returnOld:   isSet(in.ReturnValuesOnConditionCheckFailure, "ALL_OLD"),
	}, fitsSize(it)
}

// keyAction plans an action that needs only a key: a delete or a check of a condition.
func (s *Service) keyAction(kind workload.Writes, table string, key api.Attributes, c *api.ActionCondition, effect db.Effect) (action, error) {
	if err := faultOf(key); err != nil {
		return action{}, err
	}
	cond, err := s.actionCondition(c, nil)
	return action{
		kind:        kind,
		conditional: cond != nil,
		Write:       db.Write{Table: table, Key: key.Item, Fit: fitting((*schema.Table).CheckKey, cond), If: holds(cond), Effect: effect, Deletes: true},
		returnOld:   isSet(c.ReturnValuesOnConditionCheckFailure, "ALL_OLD"),
	}, err
}

func (s *Service) updateAction(in *api.Update) (action, error) {
	if err := faultOf(in.Key); err != nil {
		return action{}, err
	}
	var update *expr.Update
	cond, err := s.actionCondition(&in.ActionCondition, func(b *expr.Bindings) error {
		if c := in.Compiled; c != nil {
			update = c.Update
			return update.CheckExpression()
		}
		parsed, err := s.parsed.ParseUpdate(*in.UpdateExpression)
		if err != nil {
			return err
		}
		update, err = parsed.Bind(b)
		return err
	})
	if err != nil {
		return action{}, err
	}
	w := updateWrite(*in.TableName, in.Key.Item, cond, update)
	w.ActionBytes = 0 // in a transaction only the item counts towards the limit
	return action{kind: workload.Update, conditional: cond != nil, Write: w, returnOld: isSet(in.ReturnValuesOnConditionCheckFailure, "ALL_OLD")}, nil
}

// actionCondition binds the condition of an action, after bind has bound its
// other expressions.
func (s *Service) actionCondition(c *api.ActionCondition, bind func(*expr.Bindings) error) (*expr.Condition, error) {
	p := parameters{
		expressions: []parameter{{"ConditionExpression", c.ConditionExpression != nil}},
		names:       c.ExpressionAttributeNames,
		values:      c.ExpressionAttributeValues,
	}
	if bind != nil { // an update has its expression always
		p.expressions = append(p.expressions, parameter{"UpdateExpression", true})
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	b := bindings(c.ExpressionAttributeNames, c.ExpressionAttributeValues)
	if bind != nil {
		if err := bind(b); err != nil {
			return nil, err
		}
	}
	if c.Compiled != nil {
		return compiledCondition(expr.ConditionExpression, c.Compiled.Condition)
	}
	cond, err := s.condition(expr.ConditionExpression, c.ConditionExpression, b)
	if err != nil {
		return nil, err
	}
	return cond, b.Unused()
}

// checkTargets returns a fault if two actions name the same item.
func (s *Service) checkTargets(actions []action) error {
	var row []byte // the table and the key of each action
	targets := make([][]byte, len(actions))
	for i := range actions {
		a := &actions[i]
		t, err := s.DB.Table(a.Table)
		if err != nil {
			return err
		}
		from := len(row)
		row = append(append(row, a.Table...), 0)
		row = append(row, t.Key.Of(a.Key)...)
		targets[i] = row[from:]
	}
	if !distinct(targets) {
		return apierror.Validation("Transaction request cannot include multiple operations on one item")
	}
	return nil
}

func checkTransactionSize(actions []action) error {
	size := 0
	for _, a := range actions {
		size += a.Key.Size()
	}
	if size > db.MaxTransactionBytes {
		return apierror.TransactionTooLarge()
	}
	return nil
}

// cancellation makes the fault of a cancelled transaction. returnOld reports
// whether action i returns its item.
func cancellation(c *db.Cancelled, returnOld func(i int) bool) error {
	detail := &api.TransactionCanceled{}
	var codes []string
	var throttled error
	for i, err := range c.Reasons {
		if throttled == nil && isThrottled(err) {
			throttled = err
		}
		r := reason(err, returnOld(i))
		detail.CancellationReasons = append(detail.CancellationReasons, r)
		codes = append(codes, r.Code)
	}
	fault := apierror.Cancelled(strings.Join(codes, ", "), detail)
	fault.Cause = throttled
	return fault
}

func reason(err error, returnOld bool) api.CancellationReason {
	var failed *db.ConditionFailed
	var fault *apierror.Error
	err = throughputFaultOf(err)
	switch {
	case err == nil:
		return api.CancellationReason{Code: "None"}
	case errors.As(err, &failed):
		r := api.CancellationReason{Code: "ConditionalCheckFailed", Message: "The conditional request failed"}
		if returnOld {
			r.Item = failed.Before
		}
		return r
	case !errors.As(err, &fault):
		panic("a transaction was cancelled by an error that is not a fault: " + err.Error())
	}
	code := shortCode(fault)
	if code == "RequestLimitExceeded" { // not a code of cancellations
		code = "ThrottlingError"
	}
	return api.CancellationReason{Code: code, Message: fault.Message}
}

// shortCode returns a fault's code as it is in CancellationReasons and in the
// responses of a batch.
func shortCode(fault *apierror.Error) string {
	code := strings.TrimSuffix(fault.Code, "Exception")
	if code == "Validation" || code == "Throttling" {
		return code + "Error"
	}
	return code
}

// transactionUsage returns what a transaction consumed by table.
func transactionUsage(actions []action, done []db.Outcome) (used usages) {
	for i, a := range actions {
		u := used.of(a.Table)
		u.schema = done[i].Table
		u.consumed.Add(done[i].Consumed.Transactional())
		u.addAction(len(actions), askedAction{a.kind, a.Key, a.conditional})
	}
	return used
}

// replayUsage returns what a repeated transaction consumes: a read of its
// items.
func replayUsage(actions []action, r *db.Replayed) (used usages) {
	for i, a := range actions {
		u := used.of(a.Table)
		u.consumed.Add(capacity.Consumed{Table: capacity.Read(r.Sizes[i], true)}.Transactional())
		u.addAction(len(actions), askedAction{a.kind, a.Key, a.conditional})
	}
	return used
}

// perTable makes the ConsumedCapacity of a reply; units fills in the members
// that distinguish reads from writes.
func perTable(mode *string, used usages, units func(*api.ConsumedCapacity)) (all []api.ConsumedCapacity) {
	for i := range used {
		if c := consumed(mode, used[i].table, used[i].consumed); c != nil {
			units(c)
			all = append(all, *c)
		}
	}
	return all
}

func readUnits(c *api.ConsumedCapacity) {
	c.ReadCapacityUnits = &c.CapacityUnits
	if c.Table != nil {
		c.Table.ReadCapacityUnits = &c.Table.CapacityUnits
	}
}

func writeUnits(c *api.ConsumedCapacity) {
	c.WriteCapacityUnits = &c.CapacityUnits
	if c.Table != nil {
		c.Table.WriteCapacityUnits = &c.Table.CapacityUnits
	}
	for _, indexes := range []map[string]api.Capacity{c.LocalSecondaryIndexes, c.GlobalSecondaryIndexes} {
		for name, index := range indexes {
			index.WriteCapacityUnits = &index.CapacityUnits
			indexes[name] = index
		}
	}
}
