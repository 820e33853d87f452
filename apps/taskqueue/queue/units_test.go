package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// units are write units of the table and of its indexes.
type units struct{ table, index float64 }

// meter sums up the write units of the requests of a server, as the replies report
// them, by part of a task's life.
type meter struct {
	mutex sync.Mutex
	parts map[string]*units
}

func (m *meter) options(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("meter", m.handle), middleware.Before)
	})
}

func (m *meter) handle(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
	switch x := in.Parameters.(type) {
	case *dynamodb.PutItemInput:
		x.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
	case *dynamodb.UpdateItemInput:
		x.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
	case *dynamodb.DeleteItemInput:
		x.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
	case *dynamodb.BatchWriteItemInput:
		x.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
	}
	out, meta, err := next.HandleInitialize(ctx, in)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	switch x := out.Result.(type) {
	case *dynamodb.PutItemOutput:
		m.add(partOf(in.Parameters.(*dynamodb.PutItemInput).Item), x.ConsumedCapacity, 1)
	case *dynamodb.UpdateItemOutput:
		part := "processing"
		if !updatesTask(in.Parameters) {
			part = "other"
		}
		m.add(part, x.ConsumedCapacity, 1)
	case *dynamodb.DeleteItemOutput:
		m.add("other", x.ConsumedCapacity, 1)
	case *dynamodb.BatchWriteItemOutput:
		all := in.Parameters.(*dynamodb.BatchWriteItemInput).RequestItems[table.Name]
		for _, r := range all { // items of a batch are of about the same size
			part := "claims"
			if r.PutRequest != nil {
				part = partOf(r.PutRequest.Item)
			}
			m.add(part, &x.ConsumedCapacity[0], 1/float64(len(all)))
		}
	}
	return out, meta, err
}

func partOf(i map[string]types.AttributeValue) string {
	pk, sk := textOf(i["PK"]), textOf(i["SK"])
	switch {
	case strings.HasPrefix(pk, "IDEM#"), sk == "META", sk == "EVENT#0001":
		return "submission"
	case strings.HasPrefix(sk, "EVENT#"):
		return "processing"
	case strings.HasPrefix(pk, "WORKER#"):
		return "claims"
	}
	return "other"
}

func (m *meter) add(part string, c *types.ConsumedCapacity, share float64) {
	if c == nil {
		return
	}
	if m.parts[part] == nil {
		m.parts[part] = new(units)
	}
	m.parts[part].table += *c.Table.CapacityUnits * share
	for _, x := range c.GlobalSecondaryIndexes {
		m.parts[part].index += *x.CapacityUnits * share
	}
}

// measured runs tasks of the model's sizes and returns the units of one.
func measured(t *testing.T) map[string]units {
	t.Helper()
	m := &meter{parts: make(map[string]*units)}
	const n = 100
	inWorld(t, func(w *world) {
		s, stop := w.start(Options{Table: &table.Table{DB: dynamodb.New(w.home.DB.Options(), m.options), Streams: w.home.Streams}})
		for range n {
			w.submit(s, "invoices", task.Submission{Type: "send-invoice", Key: task.NewID(s.now()), Payload: text(strings.Repeat("x", 298))})
			c := w.claim(s, "invoices", "worker-00001")
			w.good(s.Complete(w.Context(), c.ID, "worker-00001", c.Token, strings.Repeat("r", 40)))
		}
		stop()
	})
	each := make(map[string]units)
	for part, u := range m.parts {
		each[part] = units{u.table / n, u.index / n}
	}
	return each
}

// modelled returns the units of a task by the model, at its 500 tasks a second.
func modelled(t *testing.T) map[string]units {
	t.Helper()
	text, err := exec.Command("go", "run", "github.com/stator-db/stator/cmd/stator", "model", "cost", "../taskqueue.model.yaml", "--json").Output()
	if err != nil {
		t.Fatalf("stator model cost: %v", err)
	}
	var cost struct {
		Groups []struct {
			Name      string
			PerSecond struct{ TableWrite, IndexWrite float64 }
		}
	}
	if err := json.Unmarshal(text, &cost); err != nil {
		t.Fatal(err)
	}
	each := make(map[string]units)
	for _, g := range cost.Groups {
		each[g.Name] = units{g.PerSecond.TableWrite / 500, g.PerSecond.IndexWrite / 500}
	}
	return each
}

// The units of a task are those that the README says: by the document, by the model
// and as the server reports them. The model and the measurement differ by at most
// 5 %, and the document counts the table alone.
func TestUnits(t *testing.T) {
	document := map[string]float64{"submission": 3, "processing": 4, "claims": 0}
	model, real := modelled(t), measured(t)
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var whole [3]units
	row := func(part string, document float64, model, real units) {
		t.Helper()
		want := fmt.Sprintf("| %s | %.0f | %.0f + %.0f | %.1f + %.1f |", part, document, model.table, model.index, real.table, real.index)
		if !strings.Contains(string(readme), want) {
			t.Errorf("the README does not contain %s", want)
		}
		if off(model.table, real.table) > 0.05 || off(model.index, real.index) > 0.05 {
			t.Errorf("%s costs %v by the model and %v on the server", part, model, real)
		}
	}
	for _, part := range []string{"submission", "processing", "claims"} {
		row(part, document[part], model[part], real[part])
		if document[part] > 0 && off(document[part], real[part].table) > 0.05 {
			t.Errorf("%s costs %v by the document and %v on the table", part, document[part], real[part].table)
		}
		for i, u := range []units{{table: document[part]}, model[part], real[part]} {
			whole[i].table += u.table
			whole[i].index += u.index
		}
	}
	row("a task", whole[0].table, whole[1], whole[2])
	if other := real["other"]; other.table > 0.1 {
		t.Errorf("queues and workers cost %v for each task", other)
	}
}

// off returns the difference of two figures as a share; a few thousandths, as rare
// steps cost in the model, count as nothing.
func off(a, b float64) float64 {
	if math.Abs(a-b) < 0.01 {
		return 0
	}
	return math.Abs(a-b) / math.Max(a, b)
}
