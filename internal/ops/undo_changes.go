package ops

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/db/stream"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/workload"
)

// An undo is planned and executed page by page. A page is one transaction, and a plan is
// not stored: it is computed again when it is confirmed, and must then be the same. The
// changes of a window stay what they are, whatever is written after it, so that an undo
// that was interrupted continues with the pages that are left.

// undoChecks run in the order in which faults are reported.
var undoChecks = []func(*api.UndoChanges) error{
	func(in *api.UndoChanges) error { return faultOf(in.Key) },
	func(in *api.UndoChanges) error { return faultOf(in.ExclusiveStartKey) },
	func(in *api.UndoChanges) error {
		window := in.From != nil || in.To != nil
		switch {
		case in.SequenceNumber != nil && (window || in.Key.Item == nil || in.ExclusiveStartKey.Item != nil):
			return apierror.Validation("SequenceNumber needs the Key of its item, and excludes From, To and ExclusiveStartKey")
		case in.SequenceNumber == nil && (in.From == nil || in.To == nil):
			return apierror.Validation("Either From and To, or SequenceNumber must be specified")
		case window && second(in.To).Before(second(in.From)):
			return apierror.Validation("To must not be before From")
		case in.Key.Item != nil && in.ExclusiveStartKey.Item != nil:
			return apierror.Validation("Key and ExclusiveStartKey exclude each other")
		}
		return nil
	},
}

// undoBytes is the memory that a plan needs, with its text.
func undoBytes(*api.UndoChanges) int64 { return readBytes(2*db.MaxUndone, 2*db.MaxTransactionBytes) }

func (s *Service) undoChanges(ctx context.Context, in *api.UndoChanges) (*api.UndoChangesReply, usages, error) {
	if err := firstFault(in, undoChecks); err != nil {
		return nil, nil, err
	}
	plan := db.Undo{Table: in.TableName, Key: in.Key.Item, After: in.ExclusiveStartKey.Item, Limit: db.MaxUndone}
	if in.SequenceNumber != nil {
		at, ok := stream.ParseSequence(*in.SequenceNumber)
		if !ok {
			return nil, nil, apierror.Validation("SequenceNumber is not valid")
		}
		plan.Change = &history.Revision{Stamp: at.Stamp, N: at.N}
	} else {
		plan.From, plan.To = second(in.From), second(in.To)
	}
	page, err := s.DB.FindUndone(ctx, plan)
	if err != nil {
		return nil, nil, err
	}
	reply, actions := s.planUndo(in.TableName, &page)
	if err := s.permitUndo(ctx, in.TableName, page.Table, actions); err != nil {
		return nil, nil, err
	}
	used := usages{{asked: asked{table: in.TableName}, consumed: page.Consumed}}
	if in.Confirm != nil {
		if *in.Confirm != reply.PlanId {
			return nil, nil, apierror.Validation("The plan has changed since %s: items were written in the meantime. Ask for the plan again", *in.Confirm)
		}
		if len(actions) > 0 {
			done, err := s.transactCached(ctx, nil, actions)
			if err != nil {
				return nil, nil, err
			}
			buffer.Commit(ctx) // for the reply
			for i := range done {
				used[0].consumed.Add(done[i].Consumed.Transactional())
			}
		}
		reply.Executed = true
	}
	used[0].ofPast = true
	reply.ConsumedCapacity = consumed(in.ReturnConsumedCapacity, in.TableName, used[0].consumed)
	return reply, used, nil
}

// planUndo returns the plan of a page, and the actions that execute it.
func (s *Service) planUndo(table string, page *db.UndonePage) (*api.UndoChangesReply, []action) {
	reply := &api.UndoChangesReply{AlreadyUndone: page.Already, LastEvaluatedKey: page.Last, Writes: []api.UndoWrite{}, Conflicts: []api.UndoConflict{}}
	var actions []action
	digest := sha256.New()
	part := func(it item.Item) {
		digest.Write(binary.AppendUvarint(nil, uint64(len(it))))
		digest.Write(it)
	}
	part(item.Item(page.Table.UUID))
	for i := range page.Items {
		u := &page.Items[i]
		image := u.Before
		if image == nil {
			image = u.After
		}
		if image == nil {
			image = u.Now
		}
		key := page.Table.Key.Of(image)
		if !u.Unchanged() {
			reply.Conflicts = append(reply.Conflicts, api.UndoConflict{Key: key, ChangedAt: api.TimeOf(u.At), OldImage: u.Before, NewImage: u.After, CurrentItem: u.Now})
			continue
		}
		part(key)
		part(u.Before)
		part(u.After)
		w := api.UndoWrite{Key: key, Action: "Delete", ChangedAt: api.TimeOf(u.At), Item: u.Before, CurrentItem: u.Now}
		a := action{kind: workload.Delete, conditional: true,
			Write: db.Write{Table: table, Key: key, Fit: (*schema.Table).CheckKey, If: u.If(), Effect: db.Remove, Deletes: true}}
		if u.Before != nil {
			w.Action, w.Expired = "Put", page.Table.Expired(u.Before, s.DB.Now())
			a.kind = workload.Put
			a.Write = db.Write{Table: table, Key: u.Before, Fit: (*schema.Table).CheckItem, If: u.If(), Effect: db.Replace(u.Before)}
		}
		reply.Writes, actions = append(reply.Writes, w), append(actions, a)
	}
	part(page.Last)
	reply.PlanId = hex.EncodeToString(digest.Sum(nil)[:16])
	return reply, actions
}

// permitUndo checks that the caller may do the writes of a plan: their keys are not known
// before it is made.
func (s *Service) permitUndo(ctx context.Context, table string, t *schema.Table, actions []action) error {
	c := carriedBy(ctx)
	if c == nil || c.Identity == nil {
		return nil
	}
	for i := range actions {
		a := &actions[i]
		name := "DeleteItem"
		if a.kind == workload.Put {
			name = "PutItem"
		}
		p := s.itemPermission(ctx, name, table, "", func(*schema.Table) (details, error) {
			d := newDetails(nil)
			d.keyed(t, a.Key)
			d.one[returnValues] = "NONE"
			return d.with(enclosingOperation, "TransactWriteItems"), nil
		})
		if err := s.permit(ctx, c, &p); err != nil {
			return err
		}
	}
	return nil
}
