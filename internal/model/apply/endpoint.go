package apply

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/workload"
)

// Endpoint is a client of a server of the API.
type Endpoint struct {
	URL        string
	StreamsURL string // of the API of streams; defaults to that of AWS for URL, or to URL
	WatchURL   string // of the API of CloudWatch; defaults to that of AWS for URL, or to URL
	ScalingURL string // of Application Auto Scaling; defaults to that of AWS for URL, or to URL
	Client     Doer
	Sign       func(r *http.Request, body []byte) error

	// Uncounted asks a stator not to count the requests of this client as traffic.
	Uncounted bool
}

// Doer executes HTTP requests, as an *http.Client does.
type Doer interface {
	Do(r *http.Request) (*http.Response, error)
}

// maxReplyBytes is more than any reply has.
const maxReplyBytes = 32 << 20

// Send sends one request of the API, or of Application Auto Scaling. A json.RawMessage is sent
// as it is.
func (e *Endpoint) Send(ctx context.Context, operation string, body any) ([]byte, error) {
	if IsScaling(operation) {
		return e.send(ctx, cmp.Or(e.ScalingURL, scalingURL(e.URL)), TargetScaling+operation, body)
	}
	return e.send(ctx, e.URL, "DynamoDB_20120810."+operation, body)
}

// SendStreams sends one request of the API of streams. On AWS it has a host of
// its own.
func (e *Endpoint) SendStreams(ctx context.Context, operation string, body any) ([]byte, error) {
	return e.send(ctx, cmp.Or(e.StreamsURL, streamsURL(e.URL)), "DynamoDBStreams_20120810."+operation, body)
}

// SendWatch sends a request of the API of CloudWatch, which a stator has on the same URL. On
// AWS it has a host of its own.
func (e *Endpoint) SendWatch(ctx context.Context, operation string, body any) ([]byte, error) {
	return e.send(ctx, cmp.Or(e.WatchURL, watchURL(e.URL)), TargetWatch+operation, body)
}

// What X-Amz-Target begins with in requests to services other than DynamoDB.
const (
	TargetScaling = "AnyScaleFrontendService."
	TargetWatch   = "GraniteServiceVersion20100801."
)

// SendOwn sends a request of an operation that only stator has.
func (e *Endpoint) SendOwn(ctx context.Context, operation string, body any) ([]byte, error) {
	return e.send(ctx, e.URL, "Stator."+operation, body)
}

// streamsURL returns the URL of the streams of an endpoint.
func streamsURL(endpoint string) string {
	u, ok := parseAWS(endpoint)
	if !ok {
		return endpoint
	}
	u.Host = "streams." + u.Host
	return u.String()
}

// watchURL returns the URL of the CloudWatch of an endpoint.
func watchURL(endpoint string) string { return serviceURL(endpoint, "monitoring.") }

// scalingURL returns the URL of the Application Auto Scaling of an endpoint.
func scalingURL(endpoint string) string { return serviceURL(endpoint, "application-autoscaling.") }

// serviceURL returns the URL of another service in the region of an endpoint.
func serviceURL(endpoint, service string) string {
	u, ok := parseAWS(endpoint)
	if !ok {
		return endpoint
	}
	u.Host = service + strings.TrimPrefix(u.Host, "dynamodb.")
	return u.String()
}

// parseAWS parses an endpoint; not ok if it is not the one of a region of AWS.
func parseAWS(endpoint string) (u *url.URL, ok bool) {
	u, err := url.Parse(endpoint)
	return u, err == nil && strings.HasPrefix(u.Host, "dynamodb.") && strings.Contains(u.Host, ".amazonaws.com")
}

func (e *Endpoint) send(ctx context.Context, to, target string, body any) ([]byte, error) {
	text, ok := body.(json.RawMessage)
	if !ok {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encode the request %s: %w", target, err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(to, "/")+"/", bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	if strings.HasPrefix(target, TargetScaling) {
		r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	}
	if e.Uncounted {
		r.Header.Set(workload.UncountedHeader, "true")
	}
	return e.do(r, text)
}

// Get reads a path of the server that is not an operation of the API.
func (e *Endpoint) Get(ctx context.Context, path string) ([]byte, error) {
	return e.request(ctx, http.MethodGet, path)
}

// Delete deletes what is at a path of the server that is not an operation of the API.
func (e *Endpoint) Delete(ctx context.Context, path string) ([]byte, error) {
	return e.request(ctx, http.MethodDelete, path)
}

func (e *Endpoint) request(ctx context.Context, method, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(e.URL, "/")+path, nil)
	if err != nil {
		return nil, err
	}
	return e.do(r, nil)
}

func (e *Endpoint) do(r *http.Request, body []byte) ([]byte, error) {
	if err := e.Sign(r, body); err != nil {
		return nil, fmt.Errorf("sign a request: %w", err)
	}
	reply, err := e.Client.Do(r)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxReplyBytes))
	if err != nil {
		return nil, fmt.Errorf("read the reply of %s: %w", r.URL.Host, err)
	}
	if reply.StatusCode != http.StatusOK {
		return nil, faultOf(reply.StatusCode, text)
	}
	return text, nil
}

// unknownReply is an error reply that is not one of the API.
type unknownReply struct {
	status int
	text   []byte
}

func (r *unknownReply) Error() string {
	return fmt.Sprintf("the endpoint answers %d: %.200s", r.status, bytes.TrimSpace(r.text))
}

// CancellationCodes is the Detail of a TransactionCanceledException: the code of each
// action, "None" for those that were not the reason.
type CancellationCodes []string

// faultOf decodes an error reply.
func faultOf(status int, text []byte) error {
	var reply struct {
		Type                string `json:"__type"`
		Message             string `json:"message"` // or Message: names are compared without case
		CancellationReasons []struct{ Code string }
	}
	if json.Unmarshal(text, &reply) != nil || reply.Type == "" {
		return &unknownReply{status, text}
	}
	_, code, ok := strings.Cut(reply.Type, "#")
	if !ok {
		code = reply.Type
	}
	fault := &apierror.Error{Code: code, Status: status, Message: reply.Message}
	if reply.CancellationReasons != nil {
		codes := make(CancellationCodes, len(reply.CancellationReasons))
		for i, r := range reply.CancellationReasons {
			codes[i] = r.Code
		}
		fault.Detail = codes
	}
	return fault
}
