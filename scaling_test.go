package stator

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/virtualtime"
)

// Units follow the load of requests: a load that doubles leads to new units after two
// minutes above the target, and back after fifteen below.
func TestUnitsFollowTheLoad(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		d, err := Open(t.Context(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		ask := func(target, body string) string {
			t.Helper()
			r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(body))
			r.Header.Set("X-Amz-Target", target)
			r.Header.Set("Content-Type", "application/x-amz-json-1.0")
			if strings.HasPrefix(target, "AnyScale") {
				r.Header.Set("Content-Type", "application/x-amz-json-1.1")
			}
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20261101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=b")
			r.Header.Set("X-Amz-Date", "20261101T000000Z")
			w := httptest.NewRecorder()
			d.Handler().ServeHTTP(w, r)
			text, _ := io.ReadAll(w.Body)
			if w.Code != http.StatusOK {
				t.Fatalf("%s %s: %s", target, body, text)
			}
			return string(text)
		}
		ask("DynamoDB_20120810.CreateTable", `{"TableName": "Orders", "ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5},
			"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}`)
		const of = `"ServiceNamespace": "dynamodb", "ResourceId": "table/Orders", "ScalableDimension": "dynamodb:table:WriteCapacityUnits"`
		ask("AnyScaleFrontendService.RegisterScalableTarget", `{`+of+`, "MinCapacity": 5, "MaxCapacity": 100}`)
		ask("AnyScaleFrontendService.PutScalingPolicy", `{`+of+`, "PolicyName": "half", "PolicyType": "TargetTrackingScaling", "TargetTrackingScalingPolicyConfiguration":
			{"TargetValue": 50, "PredefinedMetricSpecification": {"PredefinedMetricType": "DynamoDBWriteCapacityUtilization"}}}`)
		units := func() (n int) {
			t.Helper()
			text := ask("DynamoDB_20120810.DescribeTable", `{"TableName": "Orders"}`)
			_, text, _ = strings.Cut(text, `"WriteCapacityUnits":`)
			fmt.Sscan(strings.Split(text, "}")[0], &n)
			return n
		}
		// load writes this many items a second, for some minutes.
		load := func(perSecond, minutes int) {
			t.Helper()
			for range 60 * minutes {
				for i := range perSecond {
					ask("DynamoDB_20120810.PutItem", fmt.Sprintf(`{"TableName": "Orders", "Item": {"id": {"S": "%d"}}}`, i))
				}
				time.Sleep(time.Second)
			}
		}
		// Half a second after a minute has begun: writes in the moment at which one ends may
		// count for either.
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + time.Second/2)))
		load(2, 4)
		if n := units(); n != 5 {
			t.Errorf("%d units at 40 %% of 5, want 5", n)
		}
		load(4, 1)
		if n := units(); n != 5 {
			t.Errorf("%d units after one minute with twice the load, want 5", n)
		}
		load(4, 2)
		if n := units(); n != 8 {
			t.Errorf("%d units after two minutes with twice the load, want 8", n)
		}
		load(1, 14)
		if n := units(); n != 8 {
			t.Errorf("%d units after fourteen minutes with little load, want 8", n)
		}
		load(1, 2)
		if n := units(); n != 5 {
			t.Errorf("%d units after fifteen minutes with little load, want 5", n)
		}
		text := ask("AnyScaleFrontendService.DescribeScalingActivities", `{"ServiceNamespace": "dynamodb"}`)
		for _, want := range []string{"Setting write capacity units to 8.", "Setting write capacity units to 5."} {
			if !strings.Contains(text, want) {
				t.Errorf("no activity %q in %s", want, text)
			}
		}
	})
}
