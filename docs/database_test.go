package docs

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stator-db/stator"
)

// database is a database as a client sees it: requests and replies.
type database struct {
	t      *testing.T
	client *http.Client
	close  func()
}

// openDatabase opens a database that is closed when the test ends.
func openDatabase(t *testing.T, o stator.Options) *database {
	t.Helper()
	s, err := stator.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	d := &database{t: t, client: s.Client()}
	d.close = func() {
		if s == nil {
			return
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		s = nil
	}
	t.Cleanup(d.close)
	return d
}

// createTable is the body of a CreateTable with the key id, and further members.
func createTable(name string, members ...string) string {
	billing := "PAY_PER_REQUEST"
	if strings.Contains(strings.Join(members, ""), "ProvisionedThroughput") {
		billing = "PROVISIONED"
	}
	members = append(members, fmt.Sprintf(`"BillingMode": %q`, billing))
	return fmt.Sprintf(`{"TableName": %q, "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}], %s}`,
		name, strings.Join(members, ", "))
}

// ask sends a request that is signed for a region.
func (d *database) ask(region, operation, body string, header ...string) (status int, reply string) {
	d.t.Helper()
	service := "DynamoDB_20120810."
	if streamOperations[operation] {
		service = "DynamoDBStreams_20120810."
	}
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, "http://stator.invalid/", bytes.NewReader([]byte(body)))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", service+operation)
	r.Header.Set("X-Amz-Date", "20261115T120000Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=any/20261115/"+region+"/dynamodb/aws4_request, SignedHeaders=host, Signature=00")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := d.client.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

var streamOperations = map[string]bool{"DescribeStream": true, "GetRecords": true, "GetShardIterator": true, "ListStreams": true}

// must sends a request that succeeds.
func (d *database) must(operation, body string) string {
	d.t.Helper()
	status, reply := d.ask("us-east-1", operation, body)
	if status != http.StatusOK {
		d.t.Fatalf("%s %s answers %d %s", operation, body, status, reply)
	}
	return reply
}

// refused sends a request that is answered with an error that contains these texts.
func (d *database) refused(operation, body string, texts ...string) {
	d.t.Helper()
	status, reply := d.ask("us-east-1", operation, body)
	for _, text := range texts {
		if status == http.StatusOK || !strings.Contains(reply, text) {
			d.t.Errorf("%s %s answers %d %s, want an error with %q", operation, body, status, reply, text)
		}
	}
}
