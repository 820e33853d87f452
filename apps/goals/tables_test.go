package goals_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

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

// A balance whose write had no reply is written again by the SDK: it has been written, so that
// the open page is notified of it. An older one has not.
func TestSaveThatHadNoReply(t *testing.T) {
	db := tablesThen(t).DB
	again := dynamodb.New(db.Options(), func(o *dynamodb.Options) {
		o.APIOptions = append(slices.Clone(o.APIOptions), func(s *middleware.Stack) error {
			return s.Initialize.Add(middleware.InitializeMiddlewareFunc("again", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				if out, m, err := next.HandleInitialize(ctx, in); err != nil {
					return out, m, err
				}
				return next.HandleInitialize(ctx, in)
			}), middleware.Before)
		})
	})
	tables := &goals.Tables{DB: again, Now: time.Now}
	at := time.Now()
	for _, c := range []struct {
		version string
		wrote   bool
	}{{"2", true}, {"1", false}, {"3", true}} {
		p := goals.Pending{PersonID: "p", GoalID: "g", CurrentBalance: 100, Status: goals.PendingConfirmation, EventID: "e", UpdatedAt: goals.Instant(at), Version: c.version, TTL: at.Add(goals.Keep).Unix()}
		if wrote, err := tables.Save(t.Context(), p); err != nil || wrote != c.wrote {
			t.Errorf("version %s is written: %v, %v, want %v", c.version, wrote, err, c.wrote)
		}
	}
}
