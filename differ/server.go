package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// A server answers requests over HTTP.
type server struct {
	name    string
	url     string
	client  *http.Client
	region  string   // in its ARNs
	plays   int      // sequences of steps so far
	suffix  string   // follows tableWord in the names of tables on the wire
	process *process // nil if it was not started by this program
}

func newServer(name, url string) *server {
	return &server{name: name, url: url, region: regions[name], client: &http.Client{Timeout: 30 * time.Second}}
}

// regions are the regions in the ARNs of the servers. Requests and compared
// replies have regionWord in their place.
var regions = map[string]string{nameStator: "us-east-1", nameLocal: "ddblocal", nameDynoxide: "dynoxide"}

const (
	arnPrefix  = "arn:aws:dynamodb:"
	regionWord = "REGION"
)

// tableWord begins the names of all tables. On the wire it is followed by a
// suffix of its own for each sequence of steps, since some servers remember
// streams and tags of a table that was deleted.
const tableWord = "Orders"

const (
	signature = "AWS4-HMAC-SHA256 Credential=differ/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, " +
		"Signature=0000000000000000000000000000000000000000000000000000000000000000"
	maxReply = 64 << 20
	maxPages = 200
)

// send sends one request.
func (s *server) send(ctx context.Context, op string, body object) (answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return answer{}, err
	}
	text = bytes.ReplaceAll(text, []byte(tableWord), []byte(tableWord+s.suffix))
	text = bytes.ReplaceAll(text, []byte(arnPrefix+regionWord), []byte(arnPrefix+s.region))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(text))
	if err != nil {
		return answer{}, err
	}
	target := "DynamoDB_20120810."
	if streamOperations[op] {
		target = "DynamoDBStreams_20120810."
	}
	req.Header = http.Header{
		"X-Amz-Target": {target + op}, "Content-Type": {"application/x-amz-json-1.0"}, "Authorization": {signature},
		"X-Amz-Date": {time.Now().UTC().Format("20060102T150405Z")},
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %s: %w", s.name, op, err)
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return answer{}, fmt.Errorf("%s: %s: %w", s.name, op, err)
	}
	reply = bytes.ReplaceAll(reply, []byte(tableWord+s.suffix), []byte(tableWord))
	reply = bytes.ReplaceAll(reply, []byte(arnPrefix+s.region), []byte(arnPrefix+regionWord))
	var parsed object
	if len(reply) > 0 {
		if err := json.Unmarshal(reply, &parsed); err != nil {
			parsed = object{"__type": "not JSON", "message": string(reply[:min(len(reply), 200)])}
		}
	}
	return makeAnswer(resp.StatusCode, parsed), nil
}

var streamOperations = map[string]bool{"DescribeStream": true, "GetShardIterator": true, "GetRecords": true, "ListStreams": true}

// do runs a step: one request, or as many as there are pages.
func (s *server) do(ctx context.Context, st step) (answer, error) {
	if st.Op == readStream {
		return s.readStream(ctx, st)
	}
	if st.Segments > 0 {
		return s.parallelScan(ctx, st)
	}
	a, err := s.send(ctx, st.Op, st.Body)
	if err != nil || !st.Pages || !a.ok() {
		return a, err
	}
	member, next := "LastEvaluatedKey", "ExclusiveStartKey"
	if st.Op == "ExecuteStatement" {
		member, next = "NextToken", "NextToken"
	}
	whole, pages := a, 1
	for token := a.Body[member]; token != nil && pages < maxPages; pages++ {
		body := cloneJSON(st.Body).(object)
		body[next] = token
		if a, err = s.send(ctx, st.Op, body); err != nil || !a.ok() {
			return a, err
		}
		appendPage(whole.Body, a.Body)
		token = a.Body[member]
	}
	delete(whole.Body, "LastEvaluatedKey")
	delete(whole.Body, "NextToken")
	// The units of pages depend on where they end.
	if pages > 1 {
		delete(whole.Body, "ConsumedCapacity")
	}
	return whole, nil
}

// parallelScan reads all segments of a scan.
func (s *server) parallelScan(ctx context.Context, st step) (whole answer, err error) {
	segments := st.Segments
	st.Segments = 0
	for i := range segments {
		st.Body = cloneJSON(st.Body).(object)
		st.Body["TotalSegments"], st.Body["Segment"] = segments, i
		a, err := s.do(ctx, st)
		if err != nil || !a.ok() {
			return a, err
		}
		delete(a.Body, "ConsumedCapacity") // depends on which segment an item is in
		if i == 0 {
			whole = a
			continue
		}
		appendPage(whole.Body, a.Body)
	}
	return whole, nil
}

func appendPage(whole, page object) {
	for _, member := range []string{"Count", "ScannedCount"} {
		a, _ := whole[member].(float64)
		b, _ := page[member].(float64)
		if _, ok := whole[member]; ok {
			whole[member] = a + b
		}
	}
	a, _ := whole["Items"].([]any)
	b, _ := page["Items"].([]any)
	if _, ok := whole["Items"]; ok {
		whole["Items"] = append(a, b...)
	}
}
