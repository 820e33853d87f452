package dax

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/protocol/cbor"
	protocol "github.com/stator-db/stator/internal/protocol/dax"
	"github.com/stator-db/stator/internal/protocol/keys"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/store/pebble"
)

// nodeTest is a node with a table Orders, whose key is id.
type nodeTest struct {
	testing.TB
	node    *Node
	service *ops.Service
	address string
	log     *logtest.Log
}

const (
	accessKey = "AKIADAX"
	secret    = "the secret of the tests"
)

func newNodeTest(tb testing.TB, verified bool, change ...func(*NodeOptions)) *nodeTest {
	tb.Helper()
	engine, err := pebble.Open(pebble.InMemory())
	if err != nil {
		tb.Fatal(err)
	}
	d, err := db.Open(tb.Context(), engine, db.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	service := ops.New(ops.Parts{DB: d})
	log := new(logtest.Log)
	handler := server.New(service, log.Logger(), 0)
	o := NodeOptions{Handler: handler, Cluster: "arn:aws:dax:us-east-1:000000000000:cache/test", Now: time.Now, Log: log.Logger()}
	for _, c := range change {
		c(&o)
	}
	if verified {
		o.Handler = handler.Verified(auth.NewVerifier(testKeys(tb), o.Now, slog.New(slog.DiscardHandler)))
	}
	n := &nodeTest{TB: tb, node: NewNode(o), service: service, log: log}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	n.address = listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- n.node.Serve(listener) }()
	tb.Cleanup(func() {
		_ = n.node.Close()
		if text := log.String(); strings.Contains(text, "panic") {
			tb.Error(text)
		}
		if err := <-served; !errors.Is(err, ErrClosed) {
			tb.Errorf("Serve returned %v", err)
		}
		if err := errors.Join(d.Close(), engine.Close()); err != nil {
			tb.Error(err)
		}
	})
	n.http("CreateTable", `{"TableName":"Orders","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],"KeySchema":[{"AttributeName":"id","KeyType":"HASH"}]}`)
	return n
}

func testKeys(tb testing.TB) *keys.Set {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "keys.yaml")
	if err := os.WriteFile(file, []byte("keys:\n  - access_key: "+accessKey+"\n    secret: "+secret+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	set, err := keys.Read(file)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

// http executes a request as if it came over HTTP.
func (n *nodeTest) http(operation, body string) string {
	n.Helper()
	r, err := ops.Read(operation, []byte(body))
	if err != nil {
		n.Fatal(err)
	}
	reply, err := n.service.Do(n.Context(), r, new(buffer.Scratch))
	if err != nil {
		n.Fatal(err)
	}
	return string(reply)
}

// testClient is a connection of a client.
type testClient struct {
	testing.TB
	net.Conn
	in *bufio.Reader
}

func (n *nodeTest) dial() *testClient {
	n.Helper()
	c, err := net.Dial("tcp", n.address)
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		n.Fatal(err)
	}
	out := &testClient{n.TB, c, bufio.NewReader(c)}
	out.send(hello())
	return out
}

func hello() []byte {
	b := cbor.AppendText(nil, "J7yne5G")
	b = cbor.AppendInt(b, 0)
	b = cbor.AppendText(b, "1")
	b = cbor.AppendText(cbor.AppendText(cbor.AppendMap(b, 1), "UserAgent"), "test")
	return cbor.AppendInt(b, 0)
}

func (c *testClient) send(b []byte) {
	c.Helper()
	if _, err := c.Write(b); err != nil {
		c.Fatal(err)
	}
}

// The ids of methods.
const (
	methodAuthorize = 1489122155
	methodEndpoints = 455855874
	methodKeySchema = -742646399
	methodListID    = -1230579644
	methodList      = 670678385
	methodGetItem   = 263244906
	methodPutItem   = -2106490455

	methodQuery              = -931250863
	methodScan               = -1875390620
	methodTransactGetItems   = 1866287579
	methodTransactWriteItems = -1160037738
)

// call sends a request of encoded arguments, and returns the codes of the error that it is
// answered with, its message, and the next values of the reply.
func (c *testClient) call(method int64, args []byte, values int) (codes []int64, message string, reply []byte) {
	c.Helper()
	c.send(append(cbor.AppendInt(cbor.AppendInt(nil, 1), method), args...))
	d := cbor.NewDecoder(c.read(1))
	list, err := d.Array()
	if err != nil {
		c.Fatal(err)
	}
	for {
		more, err := d.Next(&list)
		if err != nil {
			c.Fatal(err)
		}
		if !more {
			break
		}
		code, err := d.Int()
		if err != nil {
			c.Fatal(err)
		}
		codes = append(codes, code)
	}
	if len(codes) == 0 {
		return nil, "", c.read(values)
	}
	d = cbor.NewDecoder(c.read(2))
	text, err := d.Text()
	if err != nil {
		c.Fatal(err)
	}
	return codes, string(text), nil
}

// read reads values of a reply.
func (c *testClient) read(n int) []byte {
	c.Helper()
	s := cbor.Stream{In: c.in, Limit: 1 << 20, ErrLimit: io.ErrShortBuffer}
	for range n {
		if err := s.Read(); err != nil {
			c.Fatalf("read a reply: %v", err)
		}
	}
	return s.Buffer
}

func bytesOf(text string) []byte { return cbor.AppendBytes(nil, []byte(text)) }

func (c *testClient) getItem(id string) (codes []int64, message string, reply []byte) {
	c.Helper()
	return c.call(methodGetItem, slices.Concat(bytesOf("Orders"), bytesOf(id), cbor.AppendMap(nil, 0)), 1)
}

// authorization returns the arguments of an authorizeConnection.
func authorization(key, secret, region string, at time.Time, token string) []byte {
	date := at.UTC().Format("20060102T150405Z")
	empty := sha256.Sum256(nil)
	canonical := sha256.Sum256(fmt.Appendf(nil, "POST\n/\n\nhost:dax.amazonaws.com\nx-amz-date:%s\n\nhost;x-amz-date\n%x", date, empty))
	text := fmt.Sprintf("AWS4-HMAC-SHA256\n%s\n%s/%s/dax/aws4_request\n%x", date, date[:8], region, canonical)
	signing := []byte("AWS4" + secret)
	for _, part := range []string{date[:8], region, "dax", "aws4_request", text} {
		mac := hmac.New(sha256.New, signing)
		mac.Write([]byte(part))
		signing = mac.Sum(nil)
	}
	b := cbor.AppendText(nil, key)
	b = cbor.AppendText(b, hex.EncodeToString(signing))
	b = cbor.AppendBytes(b, []byte(text))
	if token == "" {
		b = cbor.AppendNull(b)
	} else {
		b = cbor.AppendText(b, token)
	}
	return cbor.AppendText(b, "agent")
}

func (c *testClient) authorize(args []byte) {
	c.Helper()
	c.send(append(cbor.AppendInt(cbor.AppendInt(nil, 1), methodAuthorize), args...))
}

func TestItems(t *testing.T) {
	n := newNodeTest(t, false)
	c := n.dial()
	n.http("PutItem", `{"TableName":"Orders","Item":{"id":{"S":"a"},"total":{"N":"5"}}}`)
	if codes, message, reply := c.getItem("a"); codes != nil || !bytes.Contains(reply, []byte{5}) {
		t.Errorf("getItem: %v %s, reply %x", codes, message, reply)
	}
	if codes, message, _ := c.call(methodGetItem, slices.Concat(bytesOf("Missing"), bytesOf("a"), cbor.AppendMap(nil, 0)), 1); len(codes) == 0 || codes[len(codes)-1] != 41 {
		t.Errorf("getItem of no table: %v %s", codes, message)
	}
	// After an error the connection goes on.
	_, _, list := c.call(methodListID, cbor.AppendText(cbor.AppendArray(nil, 1), "total"), 1)
	put := slices.Concat(bytesOf("Orders"), bytesOf("b"), cbor.AppendBytes(nil, cbor.AppendInt(slices.Clone(list), 7)), cbor.AppendMap(nil, 0))
	if codes, message, _ := c.call(methodPutItem, put, 1); codes != nil {
		t.Fatalf("putItem: %v %s", codes, message)
	}
	if got := n.http("GetItem", `{"TableName":"Orders","Key":{"id":{"S":"b"}}}`); got != `{"Item":{"id":{"S":"b"},"total":{"N":"7"}}}` {
		t.Errorf("the item is %s", got)
	}
	if _, _, reply := c.call(methodKeySchema, bytesOf("Orders"), 1); !bytes.Contains(reply, []byte("id")) {
		t.Errorf("the key is %x", reply)
	}
	if _, _, names := c.call(methodList, list, 1); !bytes.Contains(names, []byte("total")) {
		t.Errorf("the names are %x", names)
	}
	if shapes := n.service.Shapes().Shapes; len(shapes) < 2 {
		t.Errorf("requests are not counted by their shape: %+v", shapes)
	}
}

// Faults that need no table are reported before that there is none, and an empty list is not an absent one, as over HTTP.
func TestFaultsBeforeTables(t *testing.T) {
	c := newNodeTest(t, false).dial()
	option := func(name, value int64) []byte {
		return cbor.AppendInt(cbor.AppendInt(cbor.AppendMap(nil, 1), name), value)
	}
	empty, none := cbor.AppendArray(nil, 0), cbor.AppendNull(nil)
	for _, r := range []struct {
		name   string
		method int64
		args   []byte
		want   string
	}{
		{"scan of no items", methodScan, slices.Concat(bytesOf("Missing"), option(13, 0)), "Member must have value greater than or equal to 1"},
		{"query of no items", methodQuery, slices.Concat(bytesOf("Missing"), none, option(13, 0)), "Member must have value greater than or equal to 1"},
		{"scan", methodScan, slices.Concat(bytesOf("Missing"), none), "Requested resource not found"},
		{"scan from a key", methodScan, slices.Concat(bytesOf("Missing"), cbor.AppendBytes(cbor.AppendInt(cbor.AppendMap(nil, 1), 9), []byte("a"))), "Requested resource not found"},
		{"gets of nothing", methodTransactGetItems, slices.Concat(empty, empty, empty, none), "Member must have length greater than or equal to 1"},
		{"gets of null", methodTransactGetItems, slices.Concat(none, none, none, none), "Value null at 'transactItems'"},
		{"actions of nothing", methodTransactWriteItems, slices.Concat(empty, empty, empty, empty, none, empty, empty, empty, none), "Member must have length greater than or equal to 1"},
	} {
		if _, message, _ := c.call(r.method, r.args, 1); !strings.Contains(message, r.want) {
			t.Errorf("%s: %q, want %q", r.name, message, r.want)
		}
	}
}

func TestAuthentication(t *testing.T) {
	now := time.Now()
	wrong := func(args []byte, at int) []byte { args[at] ^= 1; return args }
	for _, c := range []struct {
		name string
		args []byte // nil: the client does not authenticate
		want int64  // the last code; 0 if there is none
	}{
		{"the right key", authorization(accessKey, secret, "us-east-1", now, ""), 0},
		{"another region", authorization(accessKey, secret, "eu-west-1", now, ""), 0},
		{"no authentication", nil, 33},
		{"another secret", authorization(accessKey, "wrong", "us-east-1", now, ""), 32},
		{"an unknown key", authorization("AKIANOBODY", secret, "us-east-1", now, ""), 32},
		{"an old date", authorization(accessKey, secret, "us-east-1", now.Add(-16*time.Minute), ""), 32},
		{"a future date", authorization(accessKey, secret, "us-east-1", now.Add(16*time.Minute), ""), 32},
		{"a changed string", wrong(authorization(accessKey, secret, "us-east-1", now, ""), 150), 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNodeTest(t, true)
			conn := n.dial()
			if c.args != nil {
				conn.authorize(c.args)
			}
			for _, call := range []func() ([]int64, string, []byte){
				func() ([]int64, string, []byte) { return conn.getItem("a") },
				func() ([]int64, string, []byte) { return conn.call(methodEndpoints, nil, 1) },
			} {
				codes, message, _ := call()
				got := int64(0)
				if len(codes) > 0 {
					got = codes[len(codes)-1]
				}
				if got != c.want {
					t.Errorf("codes %v (%s), want %d", codes, message, c.want)
				}
			}
			if c.want != 0 { // another attempt helps
				conn.authorize(authorization(accessKey, secret, "us-east-1", now, ""))
				if codes, message, _ := conn.getItem("a"); codes != nil {
					t.Errorf("after another attempt: %v %s", codes, message)
				}
			}
		})
	}
}

// An authentication has few bytes, so that a client without a key cannot make the server keep many.
func TestLargeAuthentication(t *testing.T) {
	n := newNodeTest(t, true)
	c := n.dial()
	args := authorization(accessKey, secret, "us-east-1", time.Now(), strings.Repeat("t", 1<<20))
	c.authorize(args)
	for range 2 {
		if codes, message, _ := c.getItem("a"); codes == nil || len(message) > 1000 {
			t.Errorf("codes %v, a message of %d bytes", codes, len(message))
		}
	}
}

// When the keys are replaced, connections must authenticate again, and fail if their key is removed.
func TestRevokedKeys(t *testing.T) {
	set := testKeys(t)
	verifier := auth.NewVerifier(set, time.Now, slog.New(slog.DiscardHandler))
	n := newNodeTest(t, false, func(o *NodeOptions) { o.Handler = o.Handler.Verified(verifier) })
	c := n.dial()
	c.authorize(authorization(accessKey, secret, "us-east-1", time.Now(), ""))
	if codes, message, _ := c.getItem("a"); codes != nil {
		t.Fatalf("%v %s", codes, message)
	}
	verifier.Replace(testKeys(t), nil) // the same keys
	if codes, _, _ := c.getItem("a"); !slices.Equal(codes, []int64{4, 23, 31, 33}) {
		t.Errorf("after the keys were replaced: %v", codes)
	}
	c.authorize(authorization(accessKey, secret, "us-east-1", time.Now(), ""))
	if codes, message, _ := c.getItem("a"); codes != nil {
		t.Errorf("after it authenticated again: %v %s", codes, message)
	}
	verifier.Replace(verifier.Keys(), nil) // with other policies, for example
	if codes, _, _ := c.getItem("a"); !slices.Equal(codes, []int64{4, 23, 31, 33}) {
		t.Errorf("after the policies were replaced: %v", codes)
	}
	verifier.Replace(keys.NewSet(), nil)
	c.authorize(authorization(accessKey, secret, "us-east-1", time.Now(), ""))
	if codes, _, _ := c.getItem("a"); codes == nil || codes[len(codes)-1] != 32 {
		t.Errorf("with a key that was removed: %v", codes)
	}
}

// An authentication is valid for five minutes.
func TestAuthenticationExpires(t *testing.T) {
	start := time.Now()
	clock := start
	n := newNodeTest(t, true, func(o *NodeOptions) { o.Now = func() time.Time { return clock } })
	c := n.dial()
	c.authorize(authorization(accessKey, secret, "us-east-1", start, ""))
	if codes, message, _ := c.getItem("a"); codes != nil {
		t.Fatalf("%v %s", codes, message)
	}
	clock = start.Add(5*time.Minute - time.Second)
	if codes, message, _ := c.getItem("a"); codes != nil {
		t.Fatalf("%v %s", codes, message)
	}
	clock = start.Add(5 * time.Minute)
	if codes, _, _ := c.getItem("a"); !slices.Equal(codes, []int64{4, 23, 31, 33}) {
		t.Errorf("after five minutes: %v", codes)
	}
	c.authorize(authorization(accessKey, secret, "us-east-1", clock, ""))
	if codes, message, _ := c.getItem("a"); codes != nil {
		t.Errorf("%v %s", codes, message)
	}
}

// The authentication with a temporary key ends when that expires, by the clock by which keys do.
func TestAuthenticationEndsWithItsKey(t *testing.T) {
	start := time.Now()
	clock := start
	n := newNodeTest(t, false, func(o *NodeOptions) {
		set := keys.NewSet(&keys.Key{AccessKey: accessKey, Secret: keys.NewSecret(secret), Token: keys.NewSecret("the token"), Expires: start.Add(-time.Hour)})
		v := auth.NewVerifier(set, time.Now, slog.New(slog.DiscardHandler))
		v.Follow(func() time.Time { return clock }, false)
		o.Handler = o.Handler.Verified(v)
	})
	c := n.dial()
	clock = start.Add(-2 * time.Hour) // before the key expires, which it has by the clock of the system
	c.authorize(authorization(accessKey, secret, "us-east-1", start, "the token"))
	if codes, message, _ := c.getItem("a"); codes != nil {
		t.Errorf("before the key expires: %v %s", codes, message)
	}
	clock = start.Add(-time.Hour)
	if codes, _, _ := c.getItem("a"); !slices.Equal(codes, []int64{4, 23, 31, 33}) {
		t.Errorf("after the key has expired: %v", codes)
	}
}

func TestEndpoints(t *testing.T) {
	lookups := 0
	lookup := func(_ context.Context, host string) ([]net.IP, error) {
		lookups++
		if host == "nowhere.internal" {
			return nil, errors.New("no such host")
		}
		return []net.IP{net.ParseIP("fd00::1"), net.ParseIP("10.1.2.3")}, nil
	}
	local := &net.TCPAddr{IP: net.ParseIP("127.0.0.1"), Port: 8111}
	for _, c := range []struct {
		name, advertise string
		others          []string
		want            string
	}{
		{"the address that was dialed", "", nil, "127.0.0.1/7f000001:8111 leader"},
		{"a host and a port", "dax.internal:9000", nil, "dax.internal/0a010203:9000 leader"},
		{"a host alone", "dax.internal", nil, "dax.internal/0a010203:8111 leader"},
		{"an IPv6 address", "[::1]:9000", nil, "::1/00000000000000000000000000000001:9000 leader"},
		{"other nodes", "", []string{"10.0.0.2:8111", "127.0.0.1:8111", "nowhere.internal:1"}, "127.0.0.1/7f000001:8111 leader, 10.0.0.2/0a000002:8111"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := NewNode(NodeOptions{Advertise: c.advertise, Others: c.others, Lookup: lookup})
			reply, err := n.endpoints(t.Context(), local)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range reply.Nodes {
				text := fmt.Sprintf("%s/%x:%d", e.Hostname, e.Address, e.Port)
				if e.Leader {
					text += " leader"
				}
				got = append(got, text)
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("nodes are %s, want %s", strings.Join(got, ", "), c.want)
			}
		})
	}
	n := NewNode(NodeOptions{Advertise: "dax.internal:9000", Lookup: lookup})
	lookups = 0
	for range 5 {
		if _, err := n.endpoints(t.Context(), local); err != nil {
			t.Fatal(err)
		}
	}
	if lookups != 1 {
		t.Errorf("%d lookups of one name, want 1", lookups)
	}
}

func names(texts ...string) (list [][]byte) {
	for _, text := range texts {
		list = append(list, []byte(text))
	}
	return list
}

func TestAttributeLists(t *testing.T) {
	a := newAttributeLists(nil, time.Now)
	one, err := a.id(names("a", "bc"))
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range [][]string{{"ab", "c"}, {"bc", "a"}, {"a"}} {
		if id, err := a.id(names(other...)); err != nil || id == one {
			t.Errorf("the id of %q is %d, %v", other, id, err)
		}
	}
	if id, err := a.id(names("a", "bc")); err != nil || id != one {
		t.Errorf("the id has changed from %d to %d, %v", one, id, err)
	}
	if names, err := a.find(t.Context(), one); err != nil || !slices.Equal(names, []string{"a", "bc"}) {
		t.Errorf("the names are %q, %v", names, err)
	}
	for _, id := range []int64{-1, 0, 1, 99} {
		if _, err := a.find(t.Context(), id); err == nil {
			t.Errorf("there is a list %d", id)
		}
	}
	if _, err := a.id(names("")); err == nil {
		t.Error("an empty name is accepted")
	}
}

// Clients keep ids when they connect again, to a server that was restarted or to another one: there an id is
// that of the same list, or of none.
func TestIDsOfAttributeListsAreThoseOfOtherServers(t *testing.T) {
	before, after := newAttributeLists(nil, time.Now), newAttributeLists(nil, time.Now)
	first, _ := before.define(t.Context(), names("a", "b"), "")
	second, _ := before.id(names("c"))
	if _, err := after.define(t.Context(), names("x", "y"), ""); err != nil {
		t.Fatal(err)
	}
	if found, err := after.find(t.Context(), first); err == nil {
		t.Errorf("an id from before a restart is that of the names %q", found)
	}
	for _, c := range []struct {
		names []string
		want  int64
	}{{[]string{"c"}, second}, {[]string{"a", "b"}, first}} {
		if id, err := after.define(t.Context(), names(c.names...), ""); err != nil || id != c.want {
			t.Errorf("the id of %q is %d, %v, on another server %d", c.names, id, err, c.want)
		}
	}
	if first >= 1<<53 {
		t.Errorf("JavaScript does not know the integer %d", first)
	}
}

func TestAttributeListsWithTheSameHash(t *testing.T) {
	a := newAttributeLists(nil, time.Now)
	a.hash = func(string) int64 { return 7 }
	one, _ := a.id(names("a"))
	two, _ := a.define(t.Context(), names("b"), "")
	if again, _ := a.id(names("a")); one == two || again != one {
		t.Errorf("the ids are %d and %d, later %d", one, two, again)
	}
	for id, want := range map[int64]string{one: "a", two: "b"} {
		if found, err := a.find(t.Context(), id); err != nil || !slices.Equal(found, []string{want}) {
			t.Errorf("the list %d has the names %q, %v, want %q", id, found, err, want)
		}
	}
}

// Lists that were used in replies only are evicted.
func TestAttributeListsOfRepliesAreEvicted(t *testing.T) {
	a := newAttributeLists(nil, time.Now)
	defined, err := a.define(t.Context(), names("defined"), "")
	if err != nil {
		t.Fatal(err)
	}
	a.maxBytes = a.bytes + 10_000
	used, _ := a.id(names("used"))
	first, _ := a.id(names("first"))
	for i := range 1000 {
		if _, err := a.id(names("n" + strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
		if _, err := a.find(t.Context(), used); err != nil {
			t.Fatalf("a list that is used again and again is evicted: %v", err)
		}
	}
	if lists, bytes, evicted := a.size(); bytes > a.maxBytes || evicted < 900 || lists != len(a.ids) {
		t.Errorf("%d lists of %d bytes, %d evicted", lists, bytes, evicted)
	}
	if _, err := a.find(t.Context(), first); err == nil {
		t.Error("an old list is not evicted")
	}
	if id, err := a.id(names("first")); err != nil || id != first {
		t.Errorf("a list that was evicted has the id %d, %v, before it was %d", id, err, first)
	}
	if names, err := a.find(t.Context(), defined); err != nil || !slices.Equal(names, []string{"defined"}) {
		t.Errorf("a list that was defined is evicted: %v", err)
	}
	// A list of a reply that is defined later keeps its id, and stays.
	last, _ := a.id(names("later"))
	if id, err := a.define(t.Context(), names("later"), ""); err != nil || id != last {
		t.Errorf("%d %v, want %d", id, err, last)
	}
	for i := range 1000 {
		_, _ = a.id(names("m" + strconv.Itoa(i)))
	}
	if _, err := a.find(t.Context(), last); err != nil {
		t.Error(err)
	}
}

// A principal that defines lists without end does not keep others from defining theirs.
func TestAttributeListsOfPrincipals(t *testing.T) {
	a := newAttributeLists(nil, time.Now)
	a.maxDefined, a.maxBytes = 1<<20, 2<<20
	last := 0
	fill := func(principal string) (n int) {
		for ; ; n++ {
			last++
			if _, err := a.define(t.Context(), names(strconv.Itoa(last)), principal); err != nil {
				if !strings.Contains(err.Error(), "LimitExceededException") {
					t.Fatal(err)
				}
				return n
			}
		}
	}
	before := 1 << 20
	for _, principal := range []string{"a", "b", "c", "d", "e"} {
		n := fill(principal)
		if n == 0 || n > before {
			t.Errorf("%s has %d lists, the one before %d", principal, n, before)
		}
		before = n
	}
	if fill("a") != 0 {
		t.Error("the first has more lists than before")
	}
	if _, err := a.define(t.Context(), names("1"), "f"); err != nil { // of another
		t.Error(err)
	}
	if _, err := a.define(t.Context(), names("f"), "f"); err != nil {
		t.Errorf("the last has none: %v", err)
	}
	if _, err := a.id(names("reply")); err != nil {
		t.Errorf("a reply has none: %v", err)
	}
	if _, bytes, _ := a.size(); bytes > a.maxBytes || a.pinned > a.maxDefined {
		t.Errorf("%d bytes, %d defined", bytes, a.pinned)
	}
}

// With too many connections an idle one makes room for the next.
func TestConnectionLimit(t *testing.T) {
	n := newNodeTest(t, false, func(o *NodeOptions) { o.MaxConns = 3 })
	var all []*testClient
	for range 6 {
		c := n.dial()
		if codes, message, _ := c.getItem("a"); codes != nil {
			t.Fatalf("%v %s", codes, message)
		}
		all = append(all, c)
		for deadline := time.Now().Add(time.Minute); n.node.idleConns() == 0 && time.Now().Before(deadline); {
			runtime.Gosched()
		}
	}
	if open := n.node.Connections(); open > 3 {
		t.Errorf("%d connections are open", open)
	}
	closed := 0
	for _, c := range all[:5] {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.in.ReadByte(); errors.Is(err, io.EOF) || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			closed++
		}
	}
	if closed != 3 {
		t.Errorf("%d idle connections were closed, want 3", closed)
	}
}

// idleConns counts the connections that wait for a request.
func (n *Node) idleConns() (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.state.Load() == idle {
			count++
		}
	}
	return count
}

// Shutdown closes idle connections, and does not wait for them.
func TestShutdown(t *testing.T) {
	n := newNodeTest(t, false)
	c := n.dial()
	if codes, message, _ := c.getItem("a"); codes != nil {
		t.Fatalf("%v %s", codes, message)
	}
	if err := n.node.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.in.ReadByte(); err == nil {
		t.Error("the connection is open")
	}
	if n.node.Connections() != 0 {
		t.Error("connections are left")
	}
}

// A request whose memory is not free is answered with an error, and its reservation ends.
func TestLargeRequestsAreReserved(t *testing.T) {
	n := newNodeTest(t, false)
	c := n.dial()
	large := bytes.Repeat([]byte{'x'}, 300_000)
	_, _, list := c.call(methodListID, cbor.AppendText(cbor.AppendArray(nil, 1), "text"), 1)
	value := cbor.AppendText(slices.Clone(list), string(large))
	for range 3 {
		if codes, message, _ := c.call(methodPutItem, slices.Concat(bytesOf("Orders"), bytesOf("big"), cbor.AppendBytes(nil, value), cbor.AppendMap(nil, 0)), 1); codes != nil {
			t.Fatalf("%v %s", codes, message)
		}
	}
	if codes, message, reply := c.getItem("big"); codes != nil || len(reply) < len(large) {
		t.Errorf("%v %s, %d bytes", codes, message, len(reply))
	}
}

var _ protocol.Catalog = nodeCatalog{}
