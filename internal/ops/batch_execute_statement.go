package ops

import (
	"context"
	"errors"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/language/partiql"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/workload"
)

// batchStatement is one statement of a batch: a read of one item, a write, or a
// fault.
type batchStatement struct {
	st     partiql.Statement // nil if the text is invalid
	target item.Item         // the key of the item
	write  statementWrite    // not set for a SELECT
	fault  error
}

// batchExecuteStatement runs each statement independently. The reply has the
// fault of each statement; the request fails only for a fault of the batch as a
// whole.
func (s *Service) batchExecuteStatement(ctx context.Context, in *api.BatchExecuteStatement) (*api.BatchExecuteStatementReply, usages, error) {
	statements := make([]batchStatement, len(in.Statements))
	parsed, err := s.parseBatch(in.Statements)
	if err != nil {
		return nil, nil, err
	}
	for i := range in.Statements {
		m, err := s.planStatement(parsed[i], in.Statements[i].Parameters)
		var fault *apierror.Error
		if err != nil && !errors.As(err, &fault) {
			return nil, nil, err
		}
		m.fault = err
		statements[i] = m
	}
	if err := checkBatchStatements(statements); err != nil {
		return nil, nil, err
	}
	returned, err := reserveReturned(ctx, returnedItems(statements))
	if err != nil {
		return nil, nil, err
	}
	defer returned.end()
	memory := buffer.TallyOf(ctx, len(statements), maxBatchBytes)
	reply := new(api.BatchExecuteStatementReply)
	cost := batchCost{failed: make(map[string]float64)}
	for i := range statements {
		m := &statements[i]
		consistent := in.Statements[i].ConsistentRead != nil && *in.Statements[i].ConsistentRead
		shown, failure := s.runStatement(ctx, m, consistent, &memory, &cost)
		response, err := batchResponse(m, shown, failure)
		if err != nil {
			return nil, nil, err
		}
		if failure != nil && !isThrottled(failure) && in.ReturnConsumedCapacity != nil {
			if err := s.chargeFailure(ctx, m, &cost); err != nil {
				return nil, nil, err
			}
		}
		reply.Responses = append(reply.Responses, response)
	}
	reply.ConsumedCapacity = cost.consumed(in.ReturnConsumedCapacity)
	return reply, cost.used(), nil
}

var errMixedBatch = apierror.Validation("Read and write requests together in the same batch is not supported.")

// parsedText is the text of a statement, parsed, or its syntax error.
type parsedText struct {
	*partiql.Parsed
	fault error
}

// parseBatch parses the statements. A text that cannot be parsed is a fault of its
// statement; texts that read and write, and malformed parameters, are faults of the
// batch.
func (s *Service) parseBatch(in []api.BatchStatementRequest) ([]parsedText, error) {
	texts := make([]parsedText, len(in))
	var kinds statementKinds
	for i := range in {
		p, err := s.parseStatement(*in[i].Statement)
		texts[i] = parsedText{p, err}
		if err != nil {
			continue
		}
		if err := kinds.open(p, in[i].Parameters, errMixedBatch); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// planStatement plans one statement.
func (s *Service) planStatement(text parsedText, parameters []api.Value) (m batchStatement, err error) {
	if text.fault != nil {
		return m, text.fault
	}
	if k := text.Kind(); k != partiql.Reads && k != partiql.Writes {
		return m, errExistsOutside
	}
	if m.st, err = bindStatement(text.Parsed, parameters); err != nil {
		return batchStatement{}, err
	}
	switch st := m.st.(type) {
	case *partiql.Select:
		m.target, err = s.singleItem(st)
	default:
		m.write, err = s.planWrite(st)
		if err == nil {
			m.target, err = s.keyOf(&m.write)
		}
	}
	return m, err
}

// keyOf returns the key of the item that a write changes.
func (s *Service) keyOf(w *statementWrite) (item.Item, error) {
	t, err := s.DB.Table(w.Table)
	if err != nil {
		return nil, err
	}
	return t.Key.Of(w.Key), nil
}

// singleItem returns the key of the item that a SELECT names in full and
// without other conditions, as batches and transactions require. The read of the
// item reports an empty key.
func (s *Service) singleItem(st *partiql.Select) (item.Item, error) {
	t, err := s.DB.Table(st.Table)
	if err != nil {
		return nil, err
	}
	if st.Index != "" {
		return nil, errManyItems
	}
	_, more, err := statementKey(t, st.Where, namesKeyAttribute)
	if more || errors.Is(err, errNoStatementKey) {
		return nil, errManyItems
	}
	key, _, err := statementKey(t, st.Where, hasKeyType)
	return key, err
}

var errManyItems = apierror.Validation("Select statements within BatchExecuteStatement must specify the primary key in the where clause.")

// checkBatchStatements checks that no two statements are for the same item.
func checkBatchStatements(statements []batchStatement) error {
	seen := make(map[string]bool)
	for i := range statements {
		m := &statements[i]
		if m.fault != nil {
			continue
		}
		target := m.st.On() + "\x00" + string(m.target)
		if seen[target] {
			return apierror.Validation("Provided list of item keys contains duplicates")
		}
		seen[target] = true
	}
	return nil
}

// returnedItems is how many items the statements of a batch return after they have
// written them.
func returnedItems(statements []batchStatement) (n int) {
	for i := range statements {
		n += statements[i].write.returnedItems()
	}
	return n
}

// runStatement runs one statement and adds what it consumed to cost.
func (s *Service) runStatement(ctx context.Context, m *batchStatement, consistent bool, memory *buffer.Tally, cost *batchCost) (item.Item, error) {
	if m.fault != nil {
		return nil, m.fault
	}
	if st, ok := m.st.(*partiql.Select); ok {
		found, err := s.DB.GetOne(ctx, db.Get{Table: st.Table, Consistent: consistent, Memory: memory}, m.target)
		if err != nil {
			return nil, err
		}
		u := cost.add(st.Table, capacity.Consumed{Table: capacity.Read(found.Size(), consistent)}, askedAction{kind: workload.Get, key: m.target})
		u.consistent = u.consistent || consistent
		if found != nil {
			u.returned, u.scanned = u.returned+1, u.scanned+1
		}
		return shownColumns(found, st.Columns), nil
	}
	done, err := s.DB.Write(ctx, m.write.Write)
	if errors.Is(err, buffer.ErrNoRoom) {
		return nil, err
	}
	buffer.Commit(ctx) // also after a failed condition, which costs units
	if err != nil {
		return nil, err
	}
	cost.add(m.write.Table, done[0].Consumed, askedAction{m.write.kind, m.target, m.write.conditional})
	return m.write.returned(done[0])
}

// batchResponse makes the response of one statement. The table is named unless
// the statement is invalid. An error that is not a fault of the statement is
// returned.
func batchResponse(m *batchStatement, shown item.Item, err error) (api.BatchStatementResponse, error) {
	var response api.BatchStatementResponse
	if m.st != nil {
		response.TableName = m.st.On()
	}
	if err == nil {
		response.Item = shown
		return response, nil
	}
	var failed *db.ConditionFailed
	if errors.As(err, &failed) {
		err = apierror.ConditionFailed(nil) // the item is never returned here
	}
	err = throughputFaultOf(err)
	var fault *apierror.Error
	if !errors.As(err, &fault) {
		return response, err
	}
	response.Error = &api.BatchStatementError{Code: shortCode(fault), Message: fault.Message}
	if response.Error.Code == "ValidationError" {
		response.TableName = ""
	}
	return response, nil
}

// batchCost is what a batch consumed, by table.
type batchCost struct {
	done   usages
	failed map[string]float64 // units of failed statements
}

// add adds a statement that succeeded.
func (c *batchCost) add(table string, cost capacity.Consumed, a askedAction) *usage {
	u := c.done.of(table)
	u.consumed.Add(cost)
	u.addAction(maxBatchWrites, a)
	return u
}

// chargeFailure adds what a failed write consumes: as much as writing the
// larger of the stored and the new item.
func (s *Service) chargeFailure(ctx context.Context, m *batchStatement, cost *batchCost) error {
	if m.fault != nil || m.write.Effect == nil {
		return nil
	}
	size := 0
	if insert, ok := m.st.(*partiql.Insert); ok {
		size = insert.Item.Size()
	}
	found, err := s.DB.GetOne(ctx, db.Get{Table: m.write.Table, Consistent: true, Free: true}, m.target)
	var fault *apierror.Error
	switch {
	case err == nil:
		size = max(size, found.Size())
	case !errors.As(err, &fault): // an invalid key: there is no such item
		return err
	}
	cost.failed[m.write.Table] += capacity.Write(size)
	return nil
}

// consumed makes the ConsumedCapacity of a batch. Failures count in the total
// of a table on which a statement succeeded, but not in its parts.
func (c *batchCost) consumed(mode *string) []api.ConsumedCapacity {
	return perTable(mode, c.done, func(cc *api.ConsumedCapacity) { cc.CapacityUnits += c.failed[cc.TableName] })
}

// used returns what the batch did in each table, as the batch of requests that does the
// same. Failures are included only if the customer asked for units: otherwise they are
// not computed.
func (c *batchCost) used() usages {
	for i := range c.done {
		u := &c.done[i]
		u.consumed.Table += c.failed[u.table]
		u.operation, u.statement = "BatchWriteItem", true
		if u.actions[0].kind == workload.Get {
			u.operation = "BatchGetItem"
		}
	}
	return c.done
}
