package hometest

import (
	"context"
	"encoding/json"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
)

// Units are what requests consume.
type Units struct {
	Read  float64
	Table float64 // write units of tables
	Index float64 // write units of indexes
}

// Add returns the sum of units.
func (u Units) Add(other Units) Units {
	return Units{u.Read + other.Read, u.Table + other.Table, u.Index + other.Index}
}

// Over returns the units of each of n.
func (u Units) Over(n float64) Units { return Units{u.Read / n, u.Table / n, u.Index / n} }

// Meter adds up the units of the requests of a client, as the replies report them.
type Meter struct {
	mutex sync.Mutex
	sum   Units
}

// Client returns a client whose requests are measured.
func (m *Meter) Client(db *dynamodb.Client) *dynamodb.Client {
	return dynamodb.New(db.Options(), dynamodb.WithAPIOptions(func(s *middleware.Stack) error {
		return s.Initialize.Add(middleware.InitializeMiddlewareFunc("Meter", m.measure), middleware.Before)
	}))
}

// During returns what the requests consume that an action sends.
func (m *Meter) During(t testing.TB, act func() error) Units {
	t.Helper()
	before := m.total()
	if err := act(); err != nil {
		t.Fatal(err)
	}
	after := m.total()
	return Units{after.Read - before.Read, after.Table - before.Table, after.Index - before.Index}
}

func (m *Meter) total() Units {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.sum
}

func (m *Meter) measure(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
	asked := reflect.ValueOf(in.Parameters).Elem().FieldByName("ReturnConsumedCapacity")
	if asked.IsValid() {
		asked.SetString(string(types.ReturnConsumedCapacityIndexes))
	}
	out, meta, err := next.HandleInitialize(ctx, in)
	if err != nil || !asked.IsValid() {
		return out, meta, err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	result := reflect.ValueOf(out.Result).Elem()
	reads := strings.Contains(result.Type().Name(), "Get") || strings.HasPrefix(result.Type().Name(), "Query")
	switch c := result.FieldByName("ConsumedCapacity").Interface().(type) {
	case *types.ConsumedCapacity:
		m.sum = m.sum.Add(unitsOf(c, reads))
	case []types.ConsumedCapacity:
		for i := range c {
			m.sum = m.sum.Add(unitsOf(&c[i], reads))
		}
	}
	return out, meta, err
}

func unitsOf(c *types.ConsumedCapacity, reads bool) (u Units) {
	if reads {
		return Units{Read: *c.CapacityUnits}
	}
	if c.Table != nil {
		u.Table = *c.Table.CapacityUnits
	}
	u.Index = *c.CapacityUnits - u.Table
	return u
}

// ModelUnits returns what one run of each access pattern consumes by a model.
func ModelUnits(t testing.TB, file string) func(patterns ...string) Units {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not installed")
	}
	text, err := exec.Command("go", "run", "github.com/stator-db/stator/cmd/stator", "model", "cost", "--json", file).Output()
	if err != nil {
		t.Fatalf("compute the model's cost: %v", err)
	}
	var cost struct {
		Patterns []struct {
			Name string
			Run  struct{ TableRead, IndexRead, TableWrite, IndexWrite float64 }
		}
	}
	if err := json.Unmarshal(text, &cost); err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]Units)
	for _, p := range cost.Patterns {
		byName[p.Name] = Units{p.Run.TableRead + p.Run.IndexRead, p.Run.TableWrite, p.Run.IndexWrite}
	}
	return func(patterns ...string) (sum Units) {
		t.Helper()
		for _, name := range patterns {
			u, ok := byName[name]
			if !ok {
				t.Fatalf("%s has no access pattern %q", file, name)
			}
			sum = sum.Add(u)
		}
		return sum
	}
}
