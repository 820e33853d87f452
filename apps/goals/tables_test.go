package goals_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// The tables are those of the design: one item for each person, which does not expire, and
// one for each person and goal, which does.
func TestTables(t *testing.T) {
	db := hometest.Examine(tablesThen(t).DB)
	for table, want := range map[string]struct{ key, ttl string }{
		goals.BatchTable: {"personId", "DISABLED"},
		goals.NRTTable:   {"personId goalId", "ENABLED ttl"},
	} {
		answer, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(table)})
		if err != nil {
			t.Fatal(err)
		}
		key := ""
		for _, k := range answer.Table.KeySchema {
			key += " " + *k.AttributeName
		}
		if d := answer.Table; key != " "+want.key || len(d.GlobalSecondaryIndexes) != 0 || d.BillingModeSummary.BillingMode != "PAY_PER_REQUEST" {
			t.Errorf("%s has the key%s, %d indexes, billing %v", table, key, len(d.GlobalSecondaryIndexes), d.BillingModeSummary)
		}
		expiry, err := db.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: aws.String(table)})
		if err != nil {
			t.Fatal(err)
		}
		got := string(expiry.TimeToLiveDescription.TimeToLiveStatus)
		if name := expiry.TimeToLiveDescription.AttributeName; name != nil {
			got += " " + *name
		}
		if got != want.ttl {
			t.Errorf("the time to live of %s is %s, want %s", table, got, want.ttl)
		}
	}
}
