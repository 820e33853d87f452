//go:build linux && cluster

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"
)

// object is a JSON object.
type object = map[string]any

// image is an item whose attributes are strings and numbers.
type image map[string]map[string]string

func (i image) text(attribute string) string { return i[attribute]["S"] }

func (i image) number(attribute string) (n int) {
	fmt.Sscan(i[attribute]["N"], &n)
	return n
}

func (i image) String() string {
	if i == nil {
		return ""
	}
	text, err := json.Marshal(i)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func str(s string) object { return object{"S": s} }
func num(n int) object    { return object{"N": fmt.Sprint(n)} }

// fault is a reply with a status other than 200.
type fault struct {
	Status              int
	Type                string `json:"__type"`
	Message             string
	CancellationReasons []struct{ Code string }
}

func (f *fault) Error() string { return fmt.Sprintf("%d %s: %s", f.Status, f.code(), f.Message) }

// code is the type without its prefix.
func (f *fault) code() string { return f.Type[strings.LastIndexByte(f.Type, '#')+1:] }

// codeOf is the code of a fault; empty for other errors.
func codeOf(err error) string {
	var f *fault
	if errors.As(err, &f) {
		return f.code()
	}
	return ""
}

// client waits longer than a server does for the cluster.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 40 * time.Second}

// call sends one request. An error is a *fault, or one of the network.
func (s *server) call(ctx context.Context, operation string, body, reply any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.address(), bytes.NewReader(b))
	if err != nil {
		return err
	}
	if !strings.Contains(operation, ".") {
		operation = "DynamoDB_20120810." + operation
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", operation)
	if err := sign(r, nil); err != nil {
		return err
	}
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK:
		f := &fault{Status: res.StatusCode}
		if json.Unmarshal(answer, f) != nil {
			f.Message = string(answer)
		}
		return f
	case reply == nil:
		return nil
	}
	return json.Unmarshal(answer, reply)
}

// sign adds a well-formed but invalid signature to a request.
func sign(r *http.Request, _ []byte) error {
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	return nil
}

// must is call for requests that have to succeed.
func (s *server) must(t *testing.T, operation string, body, reply any) {
	t.Helper()
	if err := s.call(t.Context(), operation, body, reply); err != nil {
		t.Fatalf("%s: %v", operation, err)
	}
}

// mayPass reports whether the SDKs would retry a request after this error.
func mayPass(err error) bool {
	var f *fault
	if !errors.As(err, &f) {
		return true
	}
	switch f.code() {
	case "TransactionConflictException", "TransactionInProgressException", "ThrottlingException", "ProvisionedThroughputExceededException":
		return true
	case "TransactionCanceledException":
		for _, r := range f.CancellationReasons {
			if r.Code == "TransactionConflict" {
				return true
			}
		}
	}
	return f.Status >= 500
}

// persist sends a request to any server, up to tries times while the error is
// retryable. It calls miss for each failed attempt.
func (f fleet) persist(ctx context.Context, tries int, operation string, body, reply any, miss func(error)) (err error) {
	for i := range tries {
		if err = f.any().call(ctx, operation, body, reply); err == nil || !mayPass(err) {
			return err
		}
		miss(err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(20 * time.Millisecond << min(i, 6))):
		}
	}
	return err
}

// scan reads a whole table, or an index of it.
func (f fleet) scan(t *testing.T, table, index string) (items []image) {
	t.Helper()
	body := object{"TableName": table}
	if index == "" {
		body["ConsistentRead"] = true
	} else {
		body["IndexName"] = index
	}
	for {
		var page struct {
			Items            []image
			LastEvaluatedKey any
		}
		f.any().must(t, "Scan", body, &page)
		items = append(items, page.Items...)
		if page.LastEvaluatedKey == nil {
			return items
		}
		body["ExclusiveStartKey"] = page.LastEvaluatedKey
	}
}

// by maps items by a string attribute.
func by(attribute string, items []image) map[string]image {
	found := make(map[string]image, len(items))
	for _, it := range items {
		found[it.text(attribute)] = it
	}
	return found
}
