package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/language/partiql"
	"github.com/stator-db/stator/internal/protocol/api"
)

func (s *Service) executeTransaction(ctx context.Context, in *api.ExecuteTransaction) (*api.ExecuteTransactionReply, usages, error) {
	parsed := make([]*partiql.Parsed, len(in.TransactStatements))
	var kinds statementKinds
	for i := range in.TransactStatements {
		var err error
		if parsed[i], err = s.parseTransact(&in.TransactStatements[i], &kinds); err != nil {
			return nil, nil, err
		}
	}
	statements := make([]partiql.Statement, len(parsed))
	for i := range parsed {
		var err error
		if statements[i], err = transactStatement(parsed[i], in.TransactStatements[i].Parameters); err != nil {
			return nil, nil, inTransaction(i, err)
		}
	}
	if kinds.reads {
		return s.transactSelects(ctx, in, statements)
	}
	return s.transactStatements(ctx, in, statements)
}

var errMixedTransaction = apierror.Validation("ExecuteTransaction API does not support both read and write operations in the same request.")

// parseTransact parses a statement. Its faults are reported without the number of
// the statement.
func (s *Service) parseTransact(in *api.ParameterizedStatement, kinds *statementKinds) (*partiql.Parsed, error) {
	parsed, err := s.parseStatement(*in.Statement)
	if err != nil {
		return nil, err
	}
	switch parsed.Kind() {
	case partiql.Other:
		return nil, apierror.Validation("Unsupported operation in transaction.")
	case partiql.Checks:
		kinds.writes = true
	}
	return parsed, kinds.open(parsed, in.Parameters, errMixedTransaction)
}

// inTransaction turns the fault of a statement into that of its transaction.
func inTransaction(i int, err error) error {
	var fault *apierror.Error
	if !errors.As(err, &fault) {
		return err
	}
	reworded := *fault
	reworded.Message = fmt.Sprintf("Validation failed in TransactStatements[%d]: %s", i, fault.Message)
	return &reworded
}

// transactStatement binds a statement, and checks that transactions support it.
func transactStatement(parsed *partiql.Parsed, parameters []api.Value) (partiql.Statement, error) {
	st, err := bindStatement(parsed, parameters)
	if err != nil {
		return nil, err
	}
	returning := apierror.Validation("RETURNING clause is not supported in ExecuteTransaction.")
	switch st := st.(type) {
	case *partiql.Select:
		if st.Index != "" {
			return nil, apierror.Validation("Reads on indices are not supported within transactions.")
		}
	case *partiql.Exists:
		if st.Select.Index != "" {
			return nil, apierror.Validation("Operations on indices are not supported in transactions")
		}
	case *partiql.Update:
		if st.Returning != "" {
			return nil, returning
		}
	case *partiql.Delete:
		if st.Returning != "" {
			return nil, returning
		}
	}
	return st, nil
}

// transactStatements makes the writes of a transaction, all or none.
func (s *Service) transactStatements(ctx context.Context, in *api.ExecuteTransaction, statements []partiql.Statement) (*api.ExecuteTransactionReply, usages, error) {
	actions := make([]action, len(statements))
	faults := make([]error, len(statements))
	for i, st := range statements {
		plan, err := s.planWrite(st)
		if _, ok := st.(*partiql.Exists); ok && (errors.Is(err, errNoStatementKey) || errors.Is(err, errNotConditional)) {
			return nil, nil, inTransaction(i, errNotConditional)
		}
		if kind := (keyKindFault{}); errors.As(err, &kind) {
			return nil, nil, inTransaction(i, err)
		}
		faults[i] = err
		actions[i] = action{
			Write: plan.Write, kind: plan.kind, conditional: plan.conditional,
			returnOld: isSet(in.TransactStatements[i].ReturnValuesOnConditionCheckFailure, "ALL_OLD"),
		}
	}
	if err := cancelledFor(faults); err != nil {
		return nil, nil, err
	}
	if err := s.checkTargets(actions); err != nil {
		return nil, nil, err
	}
	if err := checkTransactionSize(actions); err != nil {
		return nil, nil, err
	}
	var token *db.Token
	if in.ClientRequestToken != nil {
		token = &db.Token{Scope: "ExecuteTransaction", Value: *in.ClientRequestToken, Request: jsonDigest(in.TransactStatements)}
	}
	done, err := s.transact(ctx, token, actions)
	reply := &api.ExecuteTransactionReply{Responses: []api.ItemResponse{}}
	var replayed *db.Replayed
	if errors.As(err, &replayed) {
		used := replayUsage(actions, replayed)
		reply.ConsumedCapacity = perTable(in.ReturnConsumedCapacity, used, readUnits)
		return reply, used.as("TransactWriteItems", true), nil
	}
	if err != nil {
		return nil, nil, err
	}
	used := transactionUsage(actions, done)
	reply.ConsumedCapacity = perTable(in.ReturnConsumedCapacity, used, writeUnits)
	return reply, used.as("TransactWriteItems", true), nil
}

// cancelledFor returns the cancellation of a transaction for the faults of its
// statements, or a fault that concerns the whole transaction.
func cancelledFor(faults []error) error {
	some := false
	for _, err := range faults {
		var fault *apierror.Error
		switch {
		case err == nil:
		case !errors.As(err, &fault) || fault.Whole || fault.Code != "ValidationException":
			return err
		default:
			some = true
		}
	}
	if !some {
		return nil
	}
	return cancellation(&db.Cancelled{Reasons: faults}, func(int) bool { return false })
}

// transactSelects reads items from one snapshot.
func (s *Service) transactSelects(ctx context.Context, in *api.ExecuteTransaction, statements []partiql.Statement) (*api.ExecuteTransactionReply, usages, error) {
	gets := make([]db.GetKey, len(statements))
	faults := make([]error, len(statements))
	for i, st := range statements {
		st := st.(*partiql.Select)
		var key item.Item
		key, faults[i] = s.singleItem(st)
		if errors.Is(faults[i], errManyItems) {
			return nil, nil, inTransaction(i, apierror.Validation("Select statements within ExecuteTransaction must specify the primary key in the where clause."))
		}
		gets[i] = db.GetKey{Table: st.Table, Key: key}
	}
	if err := cancelledFor(faults); err != nil {
		return nil, nil, err
	}
	// Unlike those of TransactGetItems, reads of one item come before an empty key,
	// which the read reports (conformance/execute_transaction/transaction.txt).
	if err := checkDistinct(gets); err != nil {
		return nil, nil, err
	}
	items, err := s.getSnapshot(ctx, gets)
	if err != nil {
		return nil, nil, err
	}
	used := snapshotUsage(gets, items)
	reply := &api.ExecuteTransactionReply{ConsumedCapacity: perTable(in.ReturnConsumedCapacity, used, readUnits)}
	for i, it := range items {
		if it != nil {
			u := used.of(gets[i].Table)
			u.returned, u.scanned = u.returned+1, u.scanned+1
		}
		shown := shownColumns(it, statements[i].(*partiql.Select).Columns)
		reply.Responses = append(reply.Responses, api.ItemResponse{Item: shown})
	}
	return reply, used.as("TransactGetItems", true), nil
}
