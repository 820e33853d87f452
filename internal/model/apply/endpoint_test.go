package apply_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model/apply"
)

// roundTrip answers requests in place of a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// On AWS, streams, CloudWatch and Application Auto Scaling have hosts of their own; elsewhere they
// are on the same one, or where they are said to be.
func TestHostsOfServices(t *testing.T) {
	for _, c := range []struct{ url, watch, scaling, want string }{
		{"https://dynamodb.eu-west-1.amazonaws.com", "", "", "dynamodb.eu-west-1.amazonaws.com streams.dynamodb.eu-west-1.amazonaws.com monitoring.eu-west-1.amazonaws.com application-autoscaling.eu-west-1.amazonaws.com"},
		{"https://dynamodb.cn-north-1.amazonaws.com.cn/", "", "", "dynamodb.cn-north-1.amazonaws.com.cn streams.dynamodb.cn-north-1.amazonaws.com.cn monitoring.cn-north-1.amazonaws.com.cn application-autoscaling.cn-north-1.amazonaws.com.cn"},
		{"http://127.0.0.1:8000", "", "", "127.0.0.1:8000 127.0.0.1:8000 127.0.0.1:8000 127.0.0.1:8000"},
		{"http://127.0.0.1:8000", "http://127.0.0.1:9000", "http://127.0.0.1:9001", "127.0.0.1:8000 127.0.0.1:8000 127.0.0.1:9000 127.0.0.1:9001"},
	} {
		var hosts []string
		e := &apply.Endpoint{URL: c.url, WatchURL: c.watch, ScalingURL: c.scaling, Sign: func(*http.Request, []byte) error { return nil }, Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			hosts = append(hosts, r.URL.Host)
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		})}}
		for _, send := range []apply.Send{e.Send, e.SendStreams, e.SendWatch} {
			if _, err := send(t.Context(), "Operation", struct{}{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := e.Send(t.Context(), "DescribeScalableTargets", struct{}{}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(hosts, " "); got != c.want {
			t.Errorf("the hosts of %s are %s, want %s", c.url, got, c.want)
		}
	}
}
