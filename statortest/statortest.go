// Package statortest gives a Go test a DynamoDB of its own.
//
//	func TestOrders(t *testing.T) {
//		client := statortest.Start(t)
//		…
//	}
//
// The database is in memory, private to the test, and gone when the test ends.
// No network port is opened: requests go straight to the handler.
package statortest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator"
)

// Start opens a database for a test and returns a client for it.
func Start(t testing.TB) *dynamodb.Client {
	t.Helper()
	return StartWith(t, stator.Options{})
}

// StartWith is Start for a test that wants a folder, a clock or delays.
func StartWith(t testing.TB, o stator.Options) *dynamodb.Client {
	t.Helper()
	s, err := stator.Open(context.Background(), o)
	if err != nil {
		t.Fatalf("open a database: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the database: %v", err)
		}
	})
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String("http://stator.invalid"),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:   Transport(s.Handler()),
	})
}

// Transport sends requests to a handler without a network. It can serve as the
// HTTP client of any AWS SDK client.
func Transport(h http.Handler) *http.Client { return &http.Client{Transport: direct{h}} }

// direct is a transport that calls a handler.
type direct struct{ handler http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	w := &response{header: make(http.Header), status: http.StatusOK}
	d.handler.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode:    w.status,
		Status:        http.StatusText(w.status),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        w.header,
		Body:          io.NopCloser(&w.body),
		ContentLength: int64(w.body.Len()),
		Request:       r,
	}, nil
}

// response collects what a handler answers.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *response) Header() http.Header         { return w.header }
func (w *response) WriteHeader(status int)      { w.status = status }
func (w *response) Write(b []byte) (int, error) { return w.body.Write(b) }
