package ops

import (
	"testing"

	"github.com/stator-db/stator/internal/buffer"
)

func TestDescribeLimits(t *testing.T) {
	newTableTest(t, 0).want("DescribeLimits", `{}`,
		`{"AccountMaxReadCapacityUnits":80000,"AccountMaxWriteCapacityUnits":80000,"TableMaxReadCapacityUnits":40000,"TableMaxWriteCapacityUnits":40000}`)
}

func TestEndpointIsInTheCallersRegion(t *testing.T) {
	tt := newTableTest(t, 0)
	reply, err := answer(WithCaller(t.Context(), Caller{Region: "eu-west-2"}), tt.s, "DescribeEndpoints", []byte(`{}`), new(buffer.Scratch))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"Endpoints":[{"Address":"dynamodb.eu-west-2.amazonaws.com","CachePeriodInMinutes":1440}]}`
	if got := string(reply); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
