package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/protocol/keys"
	"github.com/stator-db/stator/internal/protocol/principals"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/server/admission"
	"github.com/stator-db/stator/internal/server/door"
	"github.com/stator-db/stator/internal/standby"
)

func testVerifier() *auth.Verifier {
	set := keys.NewSet(&keys.Key{AccessKey: "AKID", Secret: keys.NewSecret("the secret")})
	return auth.NewVerifier(set, time.Now, slog.New(slog.DiscardHandler))
}

// signRequest signs a request with the key of testVerifier.
func signRequest(t testing.TB, r *http.Request, body []byte, service string) {
	t.Helper()
	sum := sha256.Sum256(body)
	credentials := aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "the secret"}
	if err := v4.NewSigner().SignHTTP(context.Background(), credentials, r, hex.EncodeToString(sum[:]), service, "eu-west-1", time.Now()); err != nil {
		t.Fatal(err)
	}
}

// serveDoor serves a handler behind the door, and returns its URL.
func serveDoor(t *testing.T, h *server.Handler) (*countingDoorHandler, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counted := &countingDoorHandler{Handler: h}
	s := door.New(counted, &http.Server{Handler: h}, slog.New(slog.DiscardHandler))
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-served })
	return counted, "http://" + l.Addr().String()
}

// The signature is that of the body as it was sent, however that arrives and whoever reads it; with
// another body it is rejected.
func TestSignedBodies(t *testing.T) {
	counted, url := serveDoor(t, newHandler(t).Verified(testVerifier()))
	for _, c := range []struct {
		name, path, coding string
		size               int
		chunked, door      bool
	}{
		{"a small body", "/", "", 2, false, true},
		{"a body that does not fit in the buffer", "/", "", 20_000, false, true},
		{"a large body", "/", "", admission.LargeBytes + 10, false, true},
		{"chunks", "/", "", 20, true, true},
		{"large chunks, which net/http reads", "/", "", 20_000, true, false},
		{"a request with a query, which net/http reads", "/?a=b&A=%20", "", 2, false, false},
		{"gzip", "/", "gzip", 2000, false, true},
		{"large, in gzip", "/", "gzip", 3_000_000, false, true},
		{"deflate", "/", "deflate", 2000, false, true},
		{"chunks in gzip", "/", "gzip", 2000, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := encode(t, c.coding, spaces(c.size))
			transport := new(http.Transport) // net/http keeps connections that it got
			defer transport.CloseIdleConnections()
			for _, wrong := range []bool{false, true} {
				sent := bytes.Clone(body)
				if wrong {
					sent[len(sent)-1] ^= 1
				}
				var reader io.Reader = bytes.NewReader(sent)
				if c.chunked {
					reader = io.MultiReader(reader) // of unknown length
				}
				r, err := http.NewRequest(http.MethodPost, url+c.path, reader)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/x-amz-json-1.0")
				r.Header.Set("X-Amz-Target", listTables)
				if c.coding != "" {
					r.Header.Set("Content-Encoding", c.coding)
				}
				signRequest(t, r, body, "dynamodb")
				before := counted.answered.Load()
				reply, err := transport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				text, _ := io.ReadAll(reply.Body)
				reply.Body.Close()
				if !wrong && (reply.StatusCode != 200 || string(text) != `{"TableNames":[]}`) || wrong && (reply.StatusCode != 400 || !strings.Contains(string(text), "InvalidSignatureException")) {
					t.Errorf("wrong is %v: %s %s", wrong, reply.Status, text)
				}
				if reply.Header.Get("Date") == "" {
					t.Error("the reply has no Date, from which clients correct their clocks")
				}
				if read := counted.answered.Load() > before; read != c.door {
					t.Errorf("read by the door: %v", read)
				}
			}
		})
	}
}

// Each operation needs a signature for the service that it belongs to; health checks need none.
func TestSignedPaths(t *testing.T) {
	h := newHandler(t).Verified(testVerifier())
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	post := func(target string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		if strings.HasPrefix(target, "AnyScale") {
			r.Header.Set("Content-Type", "application/x-amz-json-1.1")
			r.Body = io.NopCloser(strings.NewReader(`{"ServiceNamespace":"dynamodb"}`))
		}
		r.Header.Set("X-Amz-Target", target)
		return r
	}
	get := func(path string) *http.Request {
		return httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
	}
	for _, c := range []struct {
		name    string
		request func() *http.Request
		service string // that it is signed for; not signed if empty
		header  string
		status  int
		want    string
	}{
		{"DynamoDB", func() *http.Request { return post(listTables) }, "dynamodb", "", 200, "TableNames"},
		{"DynamoDB, not signed", func() *http.Request { return post(listTables) }, "", "", 400, "com.amazon.coral.service#MissingAuthenticationTokenException"},
		{"DynamoDB, for another service", func() *http.Request { return post(listTables) }, "monitoring", "", 400, "scoped to correct service: 'dynamodb'"},
		{"an unknown operation", func() *http.Request { return post("DynamoDB_20120810.None") }, "", "", 400, "UnknownOperationException"},
		{"streams", func() *http.Request { return post("DynamoDBStreams_20120810.ListStreams") }, "dynamodb", "", 200, "Streams"},
		{"Auto Scaling", func() *http.Request { return post("AnyScaleFrontendService.DescribeScalableTargets") }, "application-autoscaling", "", 0, ""},
		{"Auto Scaling, for DynamoDB", func() *http.Request { return post("AnyScaleFrontendService.DescribeScalableTargets") }, "dynamodb", "", 400, "scoped to correct service: 'application-autoscaling'"},
		{"CloudWatch", func() *http.Request { return post("GraniteServiceVersion20100801.ListMetrics") }, "monitoring", "", 200, "Metrics"},
		{"CloudWatch, for DynamoDB", func() *http.Request { return post("GraniteServiceVersion20100801.ListMetrics") }, "dynamodb", "", 400, "scoped to correct service: 'monitoring'"},
		{"a backup, not signed", func() *http.Request { return post(server.TargetBackup) }, "", "", 400, "MissingAuthenticationToken"},
		{"a verification", func() *http.Request { return post(server.TargetVerify) }, "dynamodb", "", 200, "reports"},
		{"a copy for a standby, not signed", func() *http.Request { return post(standby.TargetCopy) }, "", "", 400, "MissingAuthenticationToken"},
		{"changes for a standby, not signed", func() *http.Request { return post(standby.TargetChanges) }, "", "", 400, "MissingAuthenticationToken"},
		{"the root", func() *http.Request { return get("/") }, "", "", 200, "healthy"},
		{"whether it lives", func() *http.Request { return get("/livez") }, "", "", 200, "ok"},
		{"whether it is ready", func() *http.Request { return get("/readyz") }, "", "", 200, "ready"},
		{"its health", func() *http.Request { return get("/healthz") }, "", "", 200, "ok"},
		{"shapes", func() *http.Request { return get("/shapes") }, "dynamodb", "", 200, "shapes"},
		{"shapes, not signed", func() *http.Request { return get("/shapes") }, "", "", 400, "MissingAuthenticationToken"},
		{"shapes, with a password", func() *http.Request { return get("/shapes") }, "", basic("AKID:the secret"), 400, "MissingAuthenticationToken"},
		{"backups, not signed", func() *http.Request { return get("/backups") }, "", "", 400, "MissingAuthenticationToken"},
		{"metrics", func() *http.Request { return get("/metrics") }, "dynamodb", "", 200, "go_goroutines"},
		{"metrics, not signed", func() *http.Request { return get("/metrics") }, "", "", 400, "MissingAuthenticationToken"},
		{"metrics, with a password", func() *http.Request { return get("/metrics") }, "", basic("AKID:the secret"), 200, "go_goroutines"},
		{"metrics, with a wrong password", func() *http.Request { return get("/metrics") }, "", basic("AKID:another"), 400, "MissingAuthenticationToken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.request()
			if c.service != "" {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				signRequest(t, r, body, c.service)
			}
			if c.header != "" {
				r.Header.Set("Authorization", c.header)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if c.status == 0 && (strings.Contains(w.Body.String(), "Signature") || w.Code == 400) {
				t.Errorf("the reply is %d %s", w.Code, w.Body)
			}
			if c.status != 0 && (w.Code != c.status || !strings.Contains(w.Body.String(), c.want)) {
				t.Errorf("the reply is %d %.300s, want %d with %s", w.Code, w.Body, c.status, c.want)
			}
		})
	}
}

// CloudWatch's other two protocols are signed, too: the path of one, and the form of the other.
func TestSignedCloudWatchProtocols(t *testing.T) {
	h := newHandler(t).Verified(testVerifier())
	for _, c := range []struct{ path, contentType, body string }{
		{"/service/GraniteServiceVersion20100801/operation/ListMetrics", "application/cbor", "\xa0"},
		{"/", "application/x-www-form-urlencoded", "Action=ListMetrics&Version=2010-08-01"},
	} {
		for _, sign := range []bool{true, false} {
			r := httptest.NewRequest(http.MethodPost, "http://localhost"+c.path, strings.NewReader(c.body))
			r.Header.Set("Content-Type", c.contentType)
			if sign {
				signRequest(t, r, []byte(c.body), "monitoring")
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if sign != (w.Code == 200) {
				t.Errorf("%s, signed %v: %d %q", c.path, sign, w.Code, w.Body)
			}
		}
	}
}

// A standby is promoted, and shows its state, for principals that may do that.
func TestPermissionsOfStandby(t *testing.T) {
	promoted := 0
	var log bytes.Buffer
	h := &server.Standby{
		Status:   func() standby.Status { return standby.Status{Of: "http://primary", State: standby.Following} },
		Metrics:  func() []metrics.Metric { return nil },
		Promote:  func(context.Context) (standby.Status, error) { promoted++; return standby.Status{}, nil },
		Verifier: testVerifier(), Log: slog.New(slog.NewTextHandler(&log, nil)),
		Access: &server.Access{Region: "eu-west-1"},
	}
	allow := func(arn, actions string) {
		who, err := principals.Define([]principals.Definition{{ARN: arn, Policies: []principals.NamedPolicy{
			{Name: "me.json", Document: `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"` + actions + `","Resource":"*"}}`}}}})
		if err != nil {
			t.Fatal(err)
		}
		h.Verifier.Replace(keys.NewSet(&keys.Key{AccessKey: "AKID", Secret: keys.NewSecret("the secret"), Principal: arn}), who)
	}
	const me, other = "arn:aws:iam::000000000000:user/me", "arn:aws:iam::111122223333:user/me"
	for _, c := range []struct {
		principal, allowed string
		denied             []string
	}{
		{me, "dynamodb:*", []string{"stator:Promote", "stator:GetStandby", "stator:GetMetrics"}},
		{me, "stator:Get*", []string{"stator:Promote"}},
		{me, "stator:Promote", []string{"stator:GetStandby", "stator:GetMetrics"}},
		{me, "stator:*", nil},
		{other, "stator:*", []string{"stator:Promote", "stator:GetStandby", "stator:GetMetrics"}},
	} {
		allow(c.principal, c.allowed)
		before := promoted
		for _, action := range []string{"stator:Promote", "stator:GetStandby", "stator:GetMetrics"} {
			r := httptest.NewRequest(http.MethodPost, "http://localhost/", nil)
			switch action {
			case "stator:Promote":
				r.Header.Set("X-Amz-Target", server.TargetPromote)
			case "stator:GetStandby":
				r = httptest.NewRequest(http.MethodGet, "http://localhost/standby", nil)
			default:
				r = httptest.NewRequest(http.MethodGet, "http://localhost/metrics", nil)
			}
			signRequest(t, r, nil, "dynamodb")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			want := http.StatusOK
			if slices.Contains(c.denied, action) {
				want = http.StatusBadRequest
			}
			if w.Code != want || want != http.StatusOK && !strings.Contains(w.Body.String(), "is not authorized to perform: "+action+" on resource: *") {
				t.Errorf("%s with %s: %d %s", action, c.allowed, w.Code, w.Body)
			}
		}
		if want := !slices.Contains(c.denied, "stator:Promote"); want != (promoted > before) {
			t.Errorf("with %s the standby is promoted: %v", c.allowed, promoted > before)
		}
	}
	if strings.Count(log.String(), "promote this standby") != 2 || !strings.Contains(log.String(), "accessKey=AKID") {
		t.Errorf("the log does not say who has promoted it:\n%s", &log)
	}
}
