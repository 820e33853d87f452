package ops

import (
	"context"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/api"
)

// updateItemChecks run in the order in which DynamoDB reports faults, which
// conformance/update_item/order.txt verifies.
var updateItemChecks = []func(*api.UpdateItem) error{
	func(in *api.UpdateItem) error { p := updateParameters(in); return p.combine() },
	func(in *api.UpdateItem) error { return faultOf(in.Key) },
	func(in *api.UpdateItem) error { p := updateParameters(in); return p.checkPlaceholders() },
}

func updateParameters(in *api.UpdateItem) parameters {
	return parameters{
		legacy: []parameter{
			{"AttributeUpdates", in.AttributeUpdates != nil},
			{"Expected", in.Expected != nil},
			{"ConditionalOperator", in.ConditionalOperator != nil},
		},
		expressions: []parameter{
			{"UpdateExpression", in.UpdateExpression != nil},
			{"ConditionExpression", in.ConditionExpression != nil},
		},
		names:  in.ExpressionAttributeNames,
		values: in.ExpressionAttributeValues,
		write:  true,
	}
}

func (s *Service) updateItem(ctx context.Context, in *api.UpdateItem) (*api.UpdateItemReply, usage, error) {
	if err := firstFault(in, updateItemChecks); err != nil {
		return nil, usage{}, err
	}
	b := bindings(in.ExpressionAttributeNames, in.ExpressionAttributeValues)
	update, err := s.update(in, b)
	if err != nil {
		return nil, usage{}, err
	}
	cond, err := s.writeCondition(&in.Conditional, b)
	if err != nil {
		return nil, usage{}, err
	}
	if err := b.Unused(); err != nil {
		return nil, usage{}, err
	}
	done, err := s.write(ctx, updateOne(in.TableName, in.Key.Item, cond, update))
	if err != nil {
		return nil, usage{}, conditionFault(err, &in.Conditional)
	}
	reply := &api.UpdateItemReply{ConsumedCapacity: consumed(in.ReturnConsumedCapacity, in.TableName, done[0].Consumed)}
	if reply.Attributes, err = updated(in, update, done[0]); err != nil {
		return nil, usage{}, err
	}
	reply.ItemCollectionMetrics = collectionMetrics(in.ReturnItemCollectionMetrics, in.Key.Item, done[0])
	return reply, usage{consumed: done[0].Consumed, asked: asked{
		operation: "UpdateItem", table: in.TableName, schema: done[0].Table, key: in.Key.Item, condition: cond, update: update,
		expressions: [3]*string{in.UpdateExpression, in.ConditionExpression}, names: in.ExpressionAttributeNames,
		legacy: in.AttributeUpdates != nil || in.Expected != nil || in.Compiled != nil,
	}}, nil
}

// update binds the update, an expression or a legacy AttributeUpdates. Without
// either, the item is created with its key alone, or left as it is.
func (s *Service) update(in *api.UpdateItem, b *expr.Bindings) (*expr.Update, error) {
	if c := in.Compiled; c != nil && c.Update != nil {
		return c.Update, c.Update.CheckExpression()
	}
	if in.UpdateExpression == nil {
		return attributeUpdates(in.AttributeUpdates)
	}
	parsed, err := s.parsed.ParseUpdate(*in.UpdateExpression)
	if err != nil {
		return nil, err
	}
	return parsed.Bind(b)
}

// What DynamoDB adds to an item's size when it checks the limit for an update
// (measured on AWS by the authors of dynoxide).
const (
	bytesPerUpdate     = 3
	bytesPerWrite      = 19
	bytesPerClear      = 2
	bytesPerIndexed    = 1
	bytesPerArithmetic = 50
)

// updateWrite plans an update.
func updateWrite(table string, key item.Item, cond *expr.Condition, u *expr.Update) db.Write {
	n := u.Counts()
	return db.Write{
		Table: table,
		Key:   key,
		Fit: func(t *schema.Table, key item.Item) error {
			return fitsUpdate(t, key, cond, u, func(item.Path) bool { return true })
		},
		If: holds(cond),
		Effect: func(before item.Item) (item.Item, error) {
			// An update that only removes does not create an item, although one
			// without any action does, and its paths may lead anywhere
			// (conformance/update_item/results.txt).
			if before == nil && n.Clears > 0 && n.Writes == 0 {
				return nil, nil
			}
			return u.Apply(orKey(before, key))
		},
		Update: true,
		ActionBytes: bytesPerUpdate + n.Writes*bytesPerWrite + n.Clears*bytesPerClear +
			n.Indexed*bytesPerIndexed + n.Arithmetic*bytesPerArithmetic,
	}
}

// fitsUpdate checks an update against its table: the key, the condition, and those paths of the update that
// checked selects.
func fitsUpdate(t *schema.Table, key item.Item, cond *expr.Condition, u *expr.Update, checked func(item.Path) bool) error {
	if err := fitting((*schema.Table).CheckKey, cond)(t, key); err != nil {
		return err
	}
	if err := leavesKey(t, u); err != nil {
		return err
	}
	for _, p := range u.Nested() {
		if !checked(p) {
			continue
		}
		if err := t.CheckPaths([]item.Path{p}); err != nil {
			return err
		}
	}
	return nil
}

// updateOne is updateWrite for an update that is not part of a transaction: whether it leads into the key of an
// index is reported after its condition (conformance/update_item/order.txt).
func updateOne(table string, key item.Item, cond *expr.Condition, u *expr.Update) db.Write {
	w := updateWrite(table, key, cond, u)
	if cond == nil || len(u.Nested()) == 0 {
		return w
	}
	effect := w.Effect
	var intoIndex error
	w.Fit = func(t *schema.Table, key item.Item) error {
		intoIndex = t.CheckIndexPaths(u.Nested())
		return fitsUpdate(t, key, cond, u, func(p item.Path) bool { return t.CheckIndexPaths([]item.Path{p}) == nil })
	}
	w.Effect = func(before item.Item) (item.Item, error) {
		if intoIndex != nil {
			return nil, intoIndex
		}
		return effect(before)
	}
	return w
}

// orKey returns the item, or its key alone if it does not exist yet.
func orKey(before, key item.Item) item.Item {
	if before == nil {
		return key
	}
	return before
}

func leavesKey(t *schema.Table, u *expr.Update) error {
	for i := range u.Actions {
		if name := u.Actions[i].Path[0].Name; t.Key.Has(name) {
			return apierror.InvalidValues("Cannot update attribute %s. This attribute is part of the key", name)
		}
	}
	return nil
}

// updated returns the attributes that ReturnValues asks for; nil for none.
func updated(in *api.UpdateItem, u *expr.Update, o db.Outcome) (item.Item, error) {
	var shown item.Item
	var err error
	switch {
	case in.ReturnValues == nil:
	case *in.ReturnValues == "ALL_OLD":
		shown = o.Before
	case *in.ReturnValues == "ALL_NEW":
		shown = o.After
	case *in.ReturnValues == "UPDATED_OLD" && o.Before != nil:
		shown = u.UpdatedOld(o.Before)
	case *in.ReturnValues == "UPDATED_NEW" && o.After != nil:
		shown, err = u.UpdatedNew(orKey(o.Before, in.Key.Item))
	}
	if shown.Len() == 0 {
		shown = nil
	}
	return shown, err
}
