package hometest

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/internal/home"
)

const model = `
model: 1
name: shop
tables:
  orders:
    key: {partition: id}
entities:
  order:
    keys: {id: "{number}"}
    attributes:
      number: {type: S, size: 8}
patterns: []
`

// recorder is a test that counts its failures.
type recorder struct {
	testing.TB
	failures int
}

func (l *recorder) Errorf(string, ...any) { l.failures++ }

// The control: a scan is found, in both of its forms, and a read by key is not one.
func TestNoScanSeesScans(t *testing.T) {
	h, err := home.Open(t.Context(), home.Options{Model: []byte(model)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	seen := func() int {
		l := &recorder{TB: t}
		NoScan(l, h.Stator.Client(), "http://stator.invalid")
		return l.failures
	}
	if _, err := h.DB.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("orders"), Key: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "1"}}}); err != nil {
		t.Fatal(err)
	}
	if n := seen(); n != 0 {
		t.Errorf("%d scans are found, want none", n)
	}
	if _, err := h.DB.ExecuteStatement(t.Context(), &dynamodb.ExecuteStatementInput{Statement: aws.String(`SELECT * FROM orders`)}); err != nil {
		t.Fatal(err)
	}
	if n := seen(); n != 1 {
		t.Errorf("%d scans are seen after a statement", n)
	}
	if _, err := h.DB.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("orders")}); err != nil {
		t.Fatal(err)
	}
	if n := seen(); n == 0 {
		t.Error("a Scan is not seen")
	}
}

// A grant that is removed is the only one that is missing.
func TestRemovedGrants(t *testing.T) {
	read := func() *policy {
		p, err := readPolicy("../../downloads/downloads.policy.json")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	all := read().grants()
	for _, removed := range all {
		p := read()
		p.remove(removed)
		want := slices.DeleteFunc(slices.Clone(all), func(g string) bool { return g == removed })
		if got := p.grants(); len(want) != len(all)-1 || !slices.Equal(got, want) {
			t.Errorf("without %s the policy grants %q", removed, got)
		}
	}
}
