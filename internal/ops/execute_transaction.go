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
	"github.com/stator-db/stator/internal/workload"
)

func (s *Service) executeTransaction(ctx context.Context, in *api.ExecuteTransaction) (*api.ExecuteTransactionReply, usage, error) {
	statements := make([]partiql.Statement, len(in.TransactStatements))
	reads := 0
	for i := range in.TransactStatements {
		var err error
		if statements[i], err = s.transactStatement(&in.TransactStatements[i]); err != nil {
			return nil, usage{}, inTransaction(i, err)
		}
		if _, ok := statements[i].(*partiql.Select); ok {
			reads++
		}
	}
	switch reads {
	case 0:
		return s.transactStatements(ctx, in, statements)
	case len(statements):
		return s.transactSelects(ctx, in, statements)
	}
	return nil, usage{}, apierror.Validation("ExecuteTransaction API does not support both read and write operations in the same request.")
}

// syntaxFault is a fault of a statement's text, which is reported without the
// statement's number.
type syntaxFault struct{ error }

func (f syntaxFault) Unwrap() error { return f.error }

// inTransaction turns the fault of a statement into that of its transaction.
func inTransaction(i int, err error) error {
	var syntax syntaxFault
	if errors.As(err, &syntax) {
		return syntax.error
	}
	var fault *apierror.Error
	if !errors.As(err, &fault) {
		return err
	}
	reworded := *fault
	reworded.Message = fmt.Sprintf("Validation failed in TransactStatements[%d]: %s", i, fault.Message)
	return &reworded
}

// transactStatement parses and binds a statement, and checks that transactions
// support it.
func (s *Service) transactStatement(in *api.ParameterizedStatement) (partiql.Statement, error) {
	parsed, err := s.parseStatement(*in.Statement)
	if err != nil {
		return nil, syntaxFault{err}
	}
	st, err := bindStatement(parsed, in.Parameters)
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
		if st.Select == nil {
			return nil, syntaxFault{apierror.Validation("Unsupported operation in transaction.")}
		}
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
func (s *Service) transactStatements(ctx context.Context, in *api.ExecuteTransaction, statements []partiql.Statement) (*api.ExecuteTransactionReply, usage, error) {
	actions := make([]action, len(statements))
	faults := make([]error, len(statements))
	for i, st := range statements {
		plan, err := s.planWrite(st)
		if _, ok := st.(*partiql.Exists); ok && (errors.Is(err, errNoStatementKey) || errors.Is(err, errNotConditional)) {
			return nil, usage{}, inTransaction(i, errNotConditional)
		}
		faults[i] = err
		actions[i] = action{plan.Write, isSet(in.TransactStatements[i].ReturnValuesOnConditionCheckFailure, "ALL_OLD")}
	}
	if err := cancelledFor(faults); err != nil {
		return nil, usage{}, err
	}
	if err := s.checkTargets(actions); err != nil {
		return nil, usage{}, err
	}
	if err := checkTransactionSize(actions); err != nil {
		return nil, usage{}, err
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
		return reply, used.total(), nil
	}
	if err != nil {
		return nil, usage{}, err
	}
	used := transactionUsage(actions, done)
	reply.ConsumedCapacity = perTable(in.ReturnConsumedCapacity, used, writeUnits)
	return reply, used.total(), nil
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
func (s *Service) transactSelects(ctx context.Context, in *api.ExecuteTransaction, statements []partiql.Statement) (*api.ExecuteTransactionReply, usage, error) {
	gets := make([]db.GetKey, len(statements))
	faults := make([]error, len(statements))
	for i, st := range statements {
		st := st.(*partiql.Select)
		var key item.Item
		key, faults[i] = s.singleItem(st)
		if errors.Is(faults[i], errManyItems) {
			return nil, usage{}, inTransaction(i, apierror.Validation("Select statements within ExecuteTransaction must specify the primary key in the where clause."))
		}
		gets[i] = db.GetKey{Table: st.Table, Key: key}
	}
	if err := cancelledFor(faults); err != nil {
		return nil, usage{}, err
	}
	items, err := s.getSnapshot(ctx, gets)
	if err != nil {
		return nil, usage{}, err
	}
	used := snapshotUsage(gets, items)
	reply := &api.ExecuteTransactionReply{ConsumedCapacity: perTable(in.ReturnConsumedCapacity, used, readUnits)}
	for i, it := range items {
		shown := shownColumns(it, statements[i].(*partiql.Select).Columns)
		reply.Responses = append(reply.Responses, api.ItemResponse{Item: shown})
	}
	return reply, used.total(), nil
}

var executeTransactionShape = shaping[api.ExecuteTransaction]{shape: func(*api.ExecuteTransaction) workload.Shape {
	return workload.Shape{Operation: "ExecuteTransaction"}
}}
