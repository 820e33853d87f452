package conformance_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/conformance"
)

var rewrite = flag.Bool("rewrite", false, "update the replies of the transcripts")

// engines has the options of every engine. Signatures are verified on the first, and not on the
// other: the replies are the same.
var engines = map[string]func(t *testing.T) stator.Options{
	"memory": func(t *testing.T) stator.Options { return stator.Options{Access: testKeys(t)} },
	"disk":   func(t *testing.T) stator.Options { return stator.Options{Dir: t.TempDir()} },
}

func TestTranscripts(t *testing.T) {
	all, err := conformance.All()
	if err != nil {
		t.Fatal(err)
	}
	for name, options := range engines {
		t.Run(name, func(t *testing.T) {
			if name != "memory" && *rewrite {
				t.Skip("the replies are updated by the first engine")
			}
			server := open(t, options(t))
			t.Run("all", func(t *testing.T) { // returns after the parallel subtests
				for _, transcript := range all {
					t.Run(transcript.Topic(), func(t *testing.T) {
						t.Parallel()
						check(t, server, transcript)
					})
				}
			})
		})
	}
}

// The control: in a transcript with a wrong reply only that step fails, and
// the failure has its line, the request, the wanted reply and the answer.
func TestWrongReplyIsFound(t *testing.T) {
	transcript, err := conformance.Parse("planted.txt", `> CreateTable {"TableName": "Orders", "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}
< …
> PutItem {"TableName": "Orders", "Item": {"id": {"S": "1"}}}
< {}
> GetItem {"TableName": "Orders", "Key": {"id": {"S": "1"}}}
< {"Item": {"id": {"S": "2"}}}
> GetItem {"TableName": "Orders", "Key": {"id": {"S": "1"}}}
< {"Item": {"id": {"S": "1"}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	failures, err := open(t, stator.Options{}).Run(t.Context(), transcript)
	if err != nil {
		t.Fatal(err)
	}
	if len(failures) != 1 {
		t.Fatalf("%d steps failed, want 1: %v", len(failures), failures)
	}
	want := `7: Item.id.S is "1", not "2"
  > GetItem {"TableName": "Orders", "Key": {"id": {"S": "1"}}}
  want {"Item": {"id": {"S": "2"}}}
  got  {"Item": {"id": {"S": "1"}}}`
	if got := failures[0].String(); got != want {
		t.Errorf("the failure is\n%s\nwant\n%s", got, want)
	}
}

func check(t *testing.T, server *conformance.Server, transcript *conformance.Transcript) {
	failures, err := server.Run(t.Context(), transcript)
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite && len(failures) > 0 {
		if err := os.WriteFile(filepath.FromSlash(transcript.Name), []byte(transcript.Rewrite(failures)), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("updated %d replies", len(failures))
		return
	}
	for _, f := range failures {
		t.Errorf("%s:%s", transcript.Name, f)
	}
}

const accessKey, secret = "AKIACONFORMANCE", "the secret of the transcripts"

// testKeys returns the access with one key.
func testKeys(t *testing.T) *stator.Access {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(file, []byte("keys:\n  - access_key: "+accessKey+"\n    secret: "+secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	access, err := stator.OpenAccess(stator.AccessOptions{Keys: file})
	if err != nil {
		t.Fatal(err)
	}
	return access
}

// sign signs a request with the key of testKeys.
func sign(r *http.Request, body []byte) error {
	service := "dynamodb"
	switch target, _, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); target {
	case "AnyScaleFrontendService":
		service = "application-autoscaling"
	case "AmazonDAXV3":
		service = "dax"
	}
	sum := sha256.Sum256(body)
	credentials := aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secret}
	return v4.NewSigner().SignHTTP(r.Context(), credentials, r, hex.EncodeToString(sum[:]), service, "us-east-1", time.Now())
}

// handlerClient is a transport that calls a handler.
type handlerClient struct{ http.Handler }

func (c handlerClient) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w.Result(), nil
}

// The control: with another secret nothing is answered.
func TestTranscriptsNeedTheKey(t *testing.T) {
	server := open(t, stator.Options{Access: testKeys(t)})
	signed := server.Sign
	server.Sign = func(r *http.Request, body []byte) error { return signed(r, append(body, ' ')) }
	transcript, err := conformance.Parse("planted.txt", "> ListTables {}\n< {\"TableNames\": []}\n")
	if err != nil {
		t.Fatal(err)
	}
	failures, err := server.Run(t.Context(), transcript)
	if err != nil || len(failures) != 1 || !strings.Contains(failures[0].Got.Body, "InvalidSignatureException") {
		t.Errorf("%v, %v", failures, err)
	}
}

// open opens a database to run transcripts on.
func open(t *testing.T, o stator.Options) *conformance.Server {
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
	if o.Access != nil {
		return &conformance.Server{Client: &http.Client{Transport: handlerClient{s.Handler()}}, Endpoint: "http://stator.invalid/", Sign: sign}
	}
	return &conformance.Server{
		Client:   s.Client(),
		Endpoint: "http://stator.invalid/",
		Sign: func(r *http.Request, _ []byte) error {
			r.Header.Set("X-Amz-Date", "20260101T000000Z")
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
			return nil
		},
	}
}
