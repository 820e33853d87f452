package tablemodel_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/internal/virtualtime"
	"github.com/stator-db/stator/statortest"
	"github.com/stator-db/stator/tablemodel"
)

// full describes a table with each property that a model can have.
const full = `
model: 1
tables:
  orders:
    key: {partition: customer, sort: number}
    types: {at: N}
    billing: provisioned
    read: {units: 5}
    write: {units: 6}
    indexes:
      byTime: {partition: customer, sort: at, projection: [amount]}
      byAmount: {local: true, partition: customer, sort: amount, projection: KEYS_ONLY}
    ttl: expires
    stream: NEW_AND_OLD_IMAGES
    recovery: true
entities:
  order:
    keys: {customer: "C#{name}", number: "{order}"}
    attributes: {name: S, order: S, at: N, amount: S}
patterns: []
`

func parse(t *testing.T, text string) *tablemodel.Model {
	t.Helper()
	m, err := tablemodel.Parse("test.model.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The SDK's inputs carry all members of all requests: a table with every
// property is created, and then needs no change.
func TestEnsureCreatesWholeTable(t *testing.T) { virtualtime.Test(t, ensureCreatesWholeTable) }

func ensureCreatesWholeTable(t *testing.T) {
	client, m := statortest.Start(t), parse(t, full)
	if err := tablemodel.Ensure(t.Context(), client, m); err != nil {
		t.Fatal(err)
	}
	plan, err := tablemodel.Compare(t.Context(), client, m)
	if err != nil || len(plan.Changes)+len(plan.Conflicts) > 0 {
		t.Fatalf("after Ensure the plan is %+v, %v", plan, err)
	}
	out, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("orders")})
	if err != nil {
		t.Fatal(err)
	}
	d := out.Table
	if len(d.GlobalSecondaryIndexes) != 1 || len(d.LocalSecondaryIndexes) != 1 || d.StreamSpecification.StreamViewType != types.StreamViewTypeNewAndOldImages ||
		*d.ProvisionedThroughput.WriteCapacityUnits != 6 || !slices.Equal(d.GlobalSecondaryIndexes[0].Projection.NonKeyAttributes, []string{"amount"}) {
		t.Errorf("the table is %+v", d)
	}
	if got := m.Tables(); !slices.Equal(got, []string{"orders"}) {
		t.Errorf("the model's tables are %v", got)
	}
}

// Each kind of change passes through the SDK.
func TestApplyChangesTable(t *testing.T) { virtualtime.Test(t, applyChangesTable) }

func applyChangesTable(t *testing.T) {
	client := statortest.Start(t)
	if err := tablemodel.Ensure(t.Context(), client, parse(t, full)); err != nil {
		t.Fatal(err)
	}
	changed := parse(t, strings.NewReplacer(
		"units: 6", "units: 7", "byTime", "byDate", "ttl: expires", "ttl: until",
		"NEW_AND_OLD_IMAGES", "KEYS_ONLY", "recovery: true", "recovery: false").Replace(full))
	plan, err := tablemodel.Compare(t.Context(), client, changed)
	if err != nil {
		t.Fatal(err)
	}
	completed := 0
	if err := plan.Apply(t.Context(), func(c tablemodel.Change, state string) {
		if state == "" {
			completed++
		}
	}); err != nil {
		t.Fatal(err)
	}
	if completed != len(plan.Changes) || completed < 7 {
		t.Errorf("progress reported %d of %d changes as complete", completed, len(plan.Changes))
	}
	if plan, err = tablemodel.Compare(t.Context(), client, changed); err != nil || len(plan.Changes) > 0 {
		t.Errorf("after Apply the plan is %+v, %v", plan, err)
	}
}

// Ensure changes nothing if a change would lose something or cannot be made.
func TestEnsureRefuses(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"an index that the model no longer has", "byTime", "byDate", "would lose something"},
		{"another key", "sort: number", "sort: code", "a table's key cannot be changed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := statortest.Start(t)
			if err := tablemodel.Ensure(t.Context(), client, parse(t, full)); err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(full, c.old, c.new)
			if c.old == "sort: number" {
				text = strings.ReplaceAll(text, `number: "{order}"`, `code: "{order}"`)
			}
			err := tablemodel.Ensure(t.Context(), client, parse(t, text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Ensure returns %v, want %q", err, c.want)
			}
			plan, err := tablemodel.Compare(t.Context(), client, parse(t, full))
			if err != nil || len(plan.Changes)+len(plan.Conflicts) > 0 {
				t.Errorf("afterwards the plan is %+v, %v", plan, err)
			}
		})
	}
}

// An error of the endpoint keeps the SDK's type.
func TestErrorKeepsType(t *testing.T) {
	client, m := statortest.Start(t), parse(t, full)
	plan, err := tablemodel.Compare(t.Context(), client, m)
	if err != nil {
		t.Fatal(err)
	}
	if err := tablemodel.Ensure(t.Context(), client, m); err != nil {
		t.Fatal(err)
	}
	err = plan.Apply(t.Context(), nil)
	var inUse *types.ResourceInUseException
	if !errors.As(err, &inUse) {
		t.Errorf("creating the table twice returns %v, want a ResourceInUseException", err)
	}
}

func TestParseReportsErrors(t *testing.T) {
	_, err := tablemodel.Parse("test.model.yaml", []byte("model: 1\ntables: {orders: {}}\n"))
	if err == nil || !strings.Contains(err.Error(), "test.model.yaml") {
		t.Errorf("Parse returns %v, want an error that names the file", err)
	}
}
