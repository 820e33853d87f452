package stator

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/standby"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// primaryServer is a server that is reached over HTTP, and can be restarted.
type primaryServer struct {
	t   *testing.T
	dir string
	web *httptest.Server
	db  atomic.Pointer[DB]
	mu  sync.RWMutex // held to restart

	// cut ends replies to the standby after some bytes; 0 does not.
	cut atomic.Int64

	replies atomic.Int64 // with changes
}

func startPrimary(t *testing.T) *primaryServer {
	p := &primaryServer{t: t, dir: filepath.Join(t.TempDir(), "primary")}
	p.open()
	p.web = httptest.NewServer(p)
	t.Cleanup(func() {
		p.web.Close()
		if err := p.db.Load().Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *primaryServer) open() {
	d, err := Open(p.t.Context(), Options{Dir: p.dir})
	if err != nil {
		p.t.Fatal(err)
	}
	p.db.Store(d)
}

func (p *primaryServer) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.db.Load().Close(); err != nil {
		p.t.Error(err)
	}
	p.open()
}

func (p *primaryServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if cut := p.cut.Load(); cut > 0 && strings.HasPrefix(r.Header.Get("X-Amz-Target"), "Stator.C") {
		w = &cutWriter{w, cut}
	}
	p.db.Load().Handler().ServeHTTP(w, r)
	if r.Header.Get("X-Amz-Target") == standby.TargetChanges {
		p.replies.Add(1)
	}
}

// cutWriter ends the connection after some bytes.
type cutWriter struct {
	http.ResponseWriter
	left int64
}

func (w *cutWriter) Write(b []byte) (int, error) {
	if w.left -= int64(len(b)); w.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return w.ResponseWriter.Write(b)
}

func (p *primaryServer) engine() *pebble.Engine { return p.db.Load().engine.(*pebble.Engine) }

// signTest signs a request as far as servers look at it.
func signTest(r *http.Request, _ []byte) error {
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=00")
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	return nil
}

func openTestStandby(t *testing.T, dir, of string, log *logtest.Log) *Standby {
	t.Helper()
	s, err := OpenStandby(t.Context(), StandbyOptions{Options: Options{Dir: dir, Log: log.Logger()}, Of: of, Sign: signTest})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wholeBodies sends copies of the bodies of requests. The SDK closes a body when it has the
// header of the reply; if the transport is still about to look for the end of that body, it
// closes the connection, and the SDK cannot read the rest of the reply.
type wholeBodies struct{ http.RoundTripper }

func (b wholeBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return b.RoundTripper.RoundTrip(r)
}

// sdkClient returns a client without retries. The transport is nil for HTTP.
func sdkClient(endpoint string, transport aws.HTTPClient) *dynamodb.Client {
	if transport == nil {
		transport = &http.Client{Transport: wholeBodies{http.DefaultTransport}}
	}
	return dynamodb.New(dynamodb.Options{BaseEndpoint: &endpoint, Region: "us-east-1", HTTPClient: transport, RetryMaxAttempts: 1, Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")})
}

// keys returns all keys and values of an engine that are not its own.
func keys(t *testing.T, e store.Engine) map[string]string {
	t.Helper()
	snap, err := e.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	all := make(map[string]string)
	for p, err := range snap.Scan(t.Context(), store.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		all[string(p.Key)] = string(p.Value)
	}
	return all
}

// workload sends seeded requests of all kinds that write.
type workload struct {
	t *testing.T
	r *rand.Rand
	*dynamodb.Client
	tables int
}

func (w *workload) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

func (w *workload) createTable(name string) {
	s := types.ScalarAttributeTypeS
	w.must(w.CreateTable(w.t.Context(), &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: s}, {AttributeName: aws.String("a"), AttributeType: s}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{IndexName: aws.String("by-a"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
			KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("a"), KeyType: types.KeyTypeHash}}}},
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	}))
}

func (w *workload) key() map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: fmt.Sprint(w.r.IntN(200))}}
}

func (w *workload) item() map[string]types.AttributeValue {
	it := w.key()
	it["a"] = &types.AttributeValueMemberS{Value: fmt.Sprint(w.r.IntN(5))}
	it["n"] = &types.AttributeValueMemberN{Value: fmt.Sprint(w.r.Uint64())}
	return it
}

// step sends one request.
func (w *workload) step(i int) {
	ctx, orders := w.t.Context(), aws.String("Orders")
	switch w.r.IntN(12) {
	case 0, 1, 2:
		w.must(w.PutItem(ctx, &dynamodb.PutItemInput{TableName: orders, Item: w.item()}))
	case 3, 4:
		w.must(w.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: orders, Key: w.key(), UpdateExpression: aws.String("ADD c :one"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}}}))
	case 5:
		w.must(w.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: orders, Key: w.key()}))
	case 6:
		w.must(w.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"Orders": {{PutRequest: &types.PutRequest{Item: w.item()}}}}}))
	case 7:
		w.must(w.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{ClientRequestToken: aws.String(fmt.Sprintf("token-%d", i)),
			TransactItems: []types.TransactWriteItem{{Put: &types.Put{TableName: orders, Item: w.item()}}}}))
	case 8:
		_, _ = w.PutItem(ctx, &dynamodb.PutItemInput{TableName: orders, Item: w.item(), ConditionExpression: aws.String("attribute_exists(nothing)")})
	case 9:
		w.must(w.TagResource(ctx, &dynamodb.TagResourceInput{ResourceArn: aws.String("arn:aws:dynamodb:us-east-1:000000000000:table/Orders"),
			Tags: []types.Tag{{Key: aws.String("k"), Value: aws.String(fmt.Sprint(i))}}}))
	case 10:
		w.must(w.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{TableName: orders,
			PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(w.r.IntN(4) > 0)}}))
	case 11:
		w.tables++
		name := fmt.Sprintf("Extra%d", w.tables)
		w.createTable(name)
		w.must(w.PutItem(ctx, &dynamodb.PutItemInput{TableName: &name, Item: w.item()}))
		if w.r.IntN(2) == 0 {
			w.must(w.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name}))
		}
	}
}

// waitEqual waits until the standby has everything that the primary has.
func waitEqual(t *testing.T, p *primaryServer, s *Standby) {
	t.Helper()
	for asked := time.Now(); ; time.Sleep(time.Millisecond) {
		st := s.Status()
		if st.State == standby.Following && !st.LagUnknown && time.Duration(st.LagSeconds*float64(time.Second)) < time.Since(asked) {
			return
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	reply, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// copyDir copies the files of a folder that no engine has open.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
		t.Fatal(err)
	}
}
