package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/virtualtime"
)

// The structures of ExportTraceServiceRequest, as its specification has them in JSON.
type (
	otlpRequest struct {
		ResourceSpans []struct {
			Resource struct {
				Attributes []otlpAttribute `json:"attributes"`
			} `json:"resource"`
			ScopeSpans []struct {
				Scope struct {
					Name string `json:"name"`
				} `json:"scope"`
				Spans []otlpSpan `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
	}
	otlpSpan struct {
		TraceID      string          `json:"traceId"`
		SpanID       string          `json:"spanId"`
		ParentSpanID string          `json:"parentSpanId"`
		TraceState   string          `json:"traceState"`
		Name         string          `json:"name"`
		Kind         int             `json:"kind"`
		Start        int64           `json:"startTimeUnixNano,string"`
		End          int64           `json:"endTimeUnixNano,string"`
		Attributes   []otlpAttribute `json:"attributes"`
		Status       struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"status"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpValue struct {
		StringValue *string `json:"stringValue"`
		IntValue    *int64  `json:"intValue,string"`
		ArrayValue  *struct {
			Values []otlpValue `json:"values"`
		} `json:"arrayValue"`
	}
)

func (v otlpValue) String() string {
	switch {
	case v.StringValue != nil:
		return *v.StringValue
	case v.IntValue != nil:
		return fmt.Sprint(*v.IntValue)
	case v.ArrayValue != nil:
		return fmt.Sprint(v.ArrayValue.Values)
	}
	return "nothing"
}

// receiver decodes what it gets, and answers as it is told to.
type receiver struct {
	*testing.T
	answer func(attempt int) (status int, reply string, err error)
	after  string // the header Retry-After

	mu       sync.Mutex
	attempts int
	spans    []otlpSpan
	resource []otlpAttribute
}

func (r *receiver) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		r.Error(err)
	}
	r.mu.Lock()
	r.attempts++
	attempt := r.attempts
	r.mu.Unlock()
	status, reply := http.StatusOK, "{}"
	if r.answer != nil {
		if status, reply, err = r.answer(attempt); err != nil {
			return nil, err
		}
	}
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	if status == http.StatusOK {
		if request.Method != http.MethodPost || request.URL.Path != "/base/v1/traces" || request.Header.Get("Content-Type") != "application/json" {
			r.Errorf("%s %s, %s", request.Method, request.URL, request.Header.Get("Content-Type"))
		}
		var all otlpRequest
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&all); err != nil {
			r.Errorf("%v: %s", err, body)
		}
		r.mu.Lock()
		for _, of := range all.ResourceSpans {
			r.resource = of.Resource.Attributes
			for _, scope := range of.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
		r.mu.Unlock()
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(reply)), Header: http.Header{"Retry-After": {r.after}}}, nil
}

func (r *receiver) tracer(sample float64) *Tracer {
	t, err := New(Options{Endpoint: "http://receiver:4318/base", Sample: sample, Version: "v1", Transport: r})
	if err != nil {
		r.Fatal(err)
	}
	return t
}

func counts(t *Tracer) string {
	text := string(metrics.Append(nil, t.Metrics()...))
	var exported, queue, export int
	for line := range strings.Lines(text) {
		_, _ = fmt.Sscanf(line, "stator_trace_spans_exported_total %d", &exported)
		_, _ = fmt.Sscanf(line, `stator_trace_spans_dropped_total{reason="queue"} %d`, &queue)
		_, _ = fmt.Sscanf(line, `stator_trace_spans_dropped_total{reason="export"} %d`, &export)
	}
	return fmt.Sprintf("%d exported, %d and %d dropped", exported, queue, export)
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A receiver that decodes OTLP gets the spans as they were made.
func TestSpans(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		r := &receiver{T: t}
		tracer := r.tracer(1)
		begun := time.Now()
		child := tracer.Start(begun, []byte(parent), []byte("vendor=x"))
		child.Name = "DynamoDB.GetItem"
		child.SetText("db.system.name", "aws.dynamodb")
		child.SetNumber("http.response.status_code", 500)
		child.SetTexts("aws.dynamodb.table_names", []string{"a", "\"quoted\"\n"})
		child.Fail("InternalServerError")
		child.End(begun.Add(3 * time.Millisecond))
		root := tracer.Start(begun, nil, nil)
		root.Name = "DynamoDB.Scan"
		root.End(begun)
		time.Sleep(2 * exportInterval)
		synctest.Wait()
		if len(r.spans) != 2 || r.attempts != 1 {
			t.Fatalf("%d spans in %d exports", len(r.spans), r.attempts)
		}
		got := r.spans[0]
		if got.TraceID != "0af7651916cd43dd8448eb211c80319c" || got.ParentSpanID != "b7ad6b7169203331" || len(got.SpanID) != 16 || got.SpanID == got.ParentSpanID || got.TraceState != "vendor=x" {
			t.Errorf("the ids are %+v", got)
		}
		if got.Name != "DynamoDB.GetItem" || got.Kind != 2 || got.Start != begun.UnixNano() || got.End != begun.UnixNano()+3e6 || got.Status.Code != 2 || got.Status.Message != "InternalServerError" {
			t.Errorf("the span is %+v", got)
		}
		if text := fmt.Sprint(got.Attributes); text != "[{db.system.name aws.dynamodb} {http.response.status_code 500} {aws.dynamodb.table_names [a \"quoted\"\n]}]" {
			t.Errorf("the attributes are %s", text)
		}
		if got := r.spans[1]; got.ParentSpanID != "" || len(got.TraceID) != 32 || got.TraceID == r.spans[0].TraceID || got.Status.Code != 0 {
			t.Errorf("the span without a parent is %+v", got)
		}
		if text := fmt.Sprint(r.resource); !strings.Contains(text, "{service.name stator} {service.instance.id ") || !strings.Contains(text, "{service.version v1}") {
			t.Errorf("the resource is %s", text)
		}
		tracer.Close(t.Context())
		if got := counts(tracer); got != "2 exported, 0 and 0 dropped" {
			t.Error(got)
		}
	})
}

// The client decides whether its requests are traced; of the others, the share is.
func TestSampling(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		r := &receiver{T: t}
		for _, c := range []struct {
			name, parent string
			sample       float64
			traced       bool
		}{
			{"the client traces", parent, 0, true},
			{"the client does not", parent[:53] + "00", 1, false},
			{"other flags", parent[:53] + "ff", 0, true},
			{"no client, no share", "", 0, false},
			{"no client, all", "", 1, true},
			{"a later version", "01" + parent[2:] + "-more", 0, true},
			{"this version with more", parent + "-more", 0, false},
			{"a later version with other text", "01" + parent[2:] + "more", 0, false},
			{"an invalid version", "ff" + parent[2:], 0, false},
			{"capitals", strings.ToUpper(parent), 0, false},
			{"no trace", "00-" + strings.Repeat("0", 32) + parent[35:], 0, false},
			{"no span", parent[:36] + strings.Repeat("0", 16) + "-01", 0, false},
			{"too short", parent[:54], 0, false},
			{"other bytes", strings.Repeat("-", 55), 0, false},
			{"an invalid one is as none", "x", 1, true},
		} {
			tracer := r.tracer(c.sample)
			if s := tracer.Start(time.Now(), []byte(c.parent), nil); (s != nil) != c.traced {
				t.Errorf("%s: traced %v, want %v", c.name, s != nil, c.traced)
			}
			tracer.Close(t.Context())
		}
		tracer := r.tracer(0.1)
		traced := 0
		for range 10_000 {
			if tracer.Start(time.Now(), nil, nil) != nil {
				traced++
			}
		}
		tracer.Close(t.Context())
		if traced < 800 || traced > 1200 {
			t.Errorf("%d of 10,000 are traced, want about 1,000", traced)
		}
	})
}

// Whatever the receiver does, spans end at once, the queue is bounded, and what is lost is
// counted.
func TestHostileReceivers(t *testing.T) {
	status := func(code int) func(int) (int, string, error) {
		return func(int) (int, string, error) { return code, "", nil }
	}
	for _, c := range []struct {
		name     string
		answer   func(attempt int) (int, string, error)
		spans    int
		attempts int
		want     string
	}{
		{"accepts", status(200), 3, 1, "3 exported, 0 and 0 dropped"},
		{"accepts a part", func(int) (int, string, error) {
			return 200, `{"partialSuccess":{"rejectedSpans":"2","errorMessage":"no"}}`, nil
		}, 3, 1, "1 exported, 0 and 2 dropped"},
		{"lies", func(int) (int, string, error) { return 200, `{"partialSuccess":{"rejectedSpans":99}}`, nil }, 3, 1, "0 exported, 0 and 3 dropped"},
		{"replies with other text", func(int) (int, string, error) { return 200, "<html>", nil }, 3, 1, "3 exported, 0 and 0 dropped"},
		{"rejects", status(400), 3, 1, "0 exported, 0 and 3 dropped"},
		{"redirects", status(307), 3, 1, "0 exported, 0 and 3 dropped"},
		{"fails", status(500), 3, 1, "0 exported, 0 and 3 dropped"},
		{"is overloaded", status(503), 3, exportAttempts, "0 exported, 0 and 3 dropped"},
		{"is away", func(int) (int, string, error) { return 0, "", errors.New("connection refused") }, 3, exportAttempts, "0 exported, 0 and 3 dropped"},
		{"is away at first", func(attempt int) (int, string, error) {
			if attempt < 3 {
				return 0, "", errors.New("connection refused")
			}
			return 200, "", nil
		}, 3, 3, "3 exported, 0 and 0 dropped"},
		{"is slow", func(int) (int, string, error) { time.Sleep(time.Hour); return 200, "", nil }, maxQueued + maxBatch + 100, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				r := &receiver{T: t, answer: c.answer}
				tracer := r.tracer(1)
				begun := time.Now()
				for i := range c.spans {
					if i == maxBatch { // the first batch is being sent
						time.Sleep(2 * exportInterval)
						begun = begun.Add(2 * exportInterval)
					}
					tracer.Start(begun, nil, nil).End(begun)
				}
				if passed := time.Since(begun); passed != 0 {
					t.Errorf("the spans waited for %v", passed)
				}
				if c.name == "is slow" {
					if got := counts(tracer); got != "0 exported, 100 and 0 dropped" {
						t.Error(got)
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					tracer.Close(ctx)
					return
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := counts(tracer); got != c.want || r.attempts != c.attempts {
					t.Errorf("%s in %d attempts, want %s in %d", got, r.attempts, c.want, c.attempts)
				}
				tracer.Close(t.Context())
			})
		})
	}
}

// Close exports what waits.
func TestCloseFlushes(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		r := &receiver{T: t}
		tracer := r.tracer(1)
		for range maxBatch + 10 {
			tracer.Start(time.Now(), nil, nil).End(time.Now())
		}
		tracer.Close(t.Context())
		if len(r.spans) != maxBatch+10 {
			t.Errorf("%d spans were exported", len(r.spans))
		}
	})
}

// Failed exports are logged, without the password of the URL.
func TestFailedExportsAreLogged(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		r := &receiver{T: t, answer: func(int) (int, string, error) { return 403, "", nil }}
		tracer, err := New(Options{Endpoint: "http://user:secret@receiver", Sample: 1, Transport: r, Log: slog.New(slog.NewTextHandler(&text, nil))})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			tracer.Start(time.Now(), nil, nil).End(time.Now())
			time.Sleep(2 * exportInterval)
		}
		tracer.Close(t.Context())
		if n := strings.Count(text.String(), "status 403"); n != 1 || strings.Contains(text.String(), "secret") {
			t.Errorf("%d lines:\n%s", n, text.String())
		}
	})
}

// Over real connections, a receiver that closes them and one that is not there.
func TestReceiversOverHTTP(t *testing.T) {
	closes := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer closes.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, url := range map[string]string{"closes": closes.URL, "gone": gone.URL} {
		tracer, err := New(Options{Endpoint: url, Sample: 1})
		if err != nil {
			t.Fatal(err)
		}
		tracer.Start(time.Now(), nil, nil).End(time.Now())
		tracer.Close(t.Context()) // one attempt
		if got := counts(tracer); got != "0 exported, 0 and 1 dropped" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		endpoint string
		sample   float64
	}{{"", 1}, {"127.0.0.1:4318", 1}, {"ftp://a", 1}, {"http://", 1}, {"http://a", -0.1}, {"http://a", 1.1}} {
		if tracer, err := New(Options{Endpoint: c.endpoint, Sample: c.sample}); err == nil {
			tracer.Close(t.Context())
			t.Errorf("%+v is accepted", c)
		}
	}
}

// A request that is not traced costs no memory.
func TestUntracedRequestsAllocateNothing(t *testing.T) {
	tracer, err := New(Options{Endpoint: "http://127.0.0.1:1", Sample: 0})
	if err != nil {
		t.Fatal(err)
	}
	defer tracer.Close(t.Context())
	now, unsampled := time.Now(), []byte(parent[:53]+"00")
	if n := testing.AllocsPerRun(100, func() {
		tracer.Start(now, nil, nil)
		tracer.Start(now, unsampled, nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Neither the endpoint in the log nor an error has the query, which may hold a token.
func TestQueryIsNotLogged(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		for _, answer := range []func(int) (int, string, error){
			func(int) (int, string, error) { return 403, "", nil },
			func(int) (int, string, error) { return 0, "", errors.New("connection refused") },
		} {
			var text bytes.Buffer
			r := &receiver{T: t, answer: answer}
			tracer, err := New(Options{Endpoint: "http://receiver/base?token=secret", Sample: 1, Transport: r, Log: slog.New(slog.NewTextHandler(&text, nil))})
			if err != nil {
				t.Fatal(err)
			}
			tracer.Start(time.Now(), nil, nil).End(time.Now())
			time.Sleep(time.Minute)
			tracer.Close(t.Context())
			if got := text.String(); strings.Contains(got, "secret") || !strings.Contains(got, "http://receiver/base") {
				t.Errorf("the log is %s", got)
			}
		}
	})
	if _, err := New(Options{Endpoint: "receiver?token=secret"}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

// A receiver that is overloaded says when it is asked again.
func TestRetryAfter(t *testing.T) {
	for after, want := range map[string]time.Duration{
		"":                              exportBackoff,
		"7":                             7 * time.Second,
		"0":                             exportBackoff,
		"-5":                            exportBackoff,
		"soon":                          exportBackoff,
		"99999999":                      maxRetryAfter,
		"99999999999999999999":          exportBackoff,
		"Sat, 01 Jan 2000 00:00:21 GMT": 20 * time.Second, // a second after the start
	} {
		virtualtime.Test(t, func(t *testing.T) {
			r := &receiver{T: t, after: after}
			var times []time.Time
			r.answer = func(attempt int) (int, string, error) {
				times = append(times, time.Now())
				if attempt == 1 {
					return 429, "", nil
				}
				return 200, "{}", nil
			}
			tracer := r.tracer(1)
			tracer.Start(time.Now(), nil, nil).End(time.Now())
			time.Sleep(2 * time.Minute)
			tracer.Close(t.Context())
			if len(times) != 2 || times[1].Sub(times[0]) != want {
				t.Errorf("after %q it is asked at %v, want %v later", after, times, want)
			}
		})
	}
}
