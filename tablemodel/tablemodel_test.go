package tablemodel_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
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
    write: {units: 6, min: 6, max: 60}
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
		"units: 5", "units: 8", "max: 60", "max: 90, target: 50", "byTime", "byDate", "ttl: expires", "ttl: until",
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
	if completed != len(plan.Changes) || completed < 10 {
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
		{"scaling that the model no longer has", ", min: 6, max: 60", "", "would lose something"},
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

// plain hides the configuration of a client.
type plain struct{ tablemodel.Client }

// A client that does not tell its configuration creates the table, and the plan says what is left out.
func TestClientWithoutOptions(t *testing.T) { virtualtime.Test(t, clientWithoutOptions) }

func clientWithoutOptions(t *testing.T) {
	client, m := plain{statortest.Start(t)}, parse(t, full)
	if err := tablemodel.Ensure(t.Context(), client, m); err != nil {
		t.Fatal(err)
	}
	plan, err := tablemodel.Compare(t.Context(), client, m)
	if err != nil || len(plan.Changes) > 0 || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "no Application Auto Scaling") {
		t.Errorf("the plan is %+v, %v", plan, err)
	}
}

// doer answers in place of a network.
type doer func(*http.Request) (*http.Response, error)

func (f doer) Do(r *http.Request) (*http.Response, error) { return f(r) }

// Requests of Application Auto Scaling go to its host in the region, signed for it.
func TestScalingOnAWS(t *testing.T) {
	for _, c := range []struct {
		region   string
		endpoint *string
		options  []tablemodel.Option
		want     string
	}{
		{"eu-west-1", nil, nil, "https://application-autoscaling.eu-west-1.amazonaws.com/"},
		{"cn-north-1", nil, nil, "https://application-autoscaling.cn-north-1.amazonaws.com.cn/"},
		{"us-east-1", aws.String("https://dynamodb.us-east-1.amazonaws.com"), nil, "https://application-autoscaling.us-east-1.amazonaws.com/"},
		{"us-east-1", aws.String("http://127.0.0.1:8000"), nil, "http://127.0.0.1:8000/"},
		{"us-east-1", aws.String("http://127.0.0.1:8000"), []tablemodel.Option{tablemodel.ScalingEndpoint("http://127.0.0.1:9000")}, "http://127.0.0.1:9000/"},
	} {
		var urls []string
		client := dynamodb.New(dynamodb.Options{
			Region: c.region, BaseEndpoint: c.endpoint, Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", "token"),
			HTTPClient: doer(func(r *http.Request) (*http.Response, error) {
				text := `{"__type":"ResourceNotFoundException","message":"none"}`
				status := http.StatusBadRequest
				if strings.HasPrefix(r.Header.Get("X-Amz-Target"), "AnyScaleFrontendService.") {
					urls = append(urls, r.URL.String())
					if auth := r.Header.Get("Authorization"); !strings.Contains(auth, "/"+c.region+"/application-autoscaling/aws4_request") || r.Header.Get("X-Amz-Security-Token") != "token" {
						t.Errorf("signed as %s", auth)
					}
					text, status = "{}", http.StatusOK
				}
				return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}, nil
			}),
		})
		if _, err := tablemodel.Compare(t.Context(), client, parse(t, full), c.options...); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(urls, []string{c.want}) {
			t.Errorf("the requests go to %q, want %s", urls, c.want)
		}
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
