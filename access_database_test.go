package stator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/standby"
	"github.com/stator-db/stator/internal/store/tikv"
	"github.com/stator-db/stator/internal/store/tikv/tikvtest"
)

// accessServer is a server with keys and policies in its database.
type accessServer struct {
	t   *testing.T
	db  *DB
	log *logtest.Log
}

// testKey is a key with its secret.
type testKey struct{ AccessKey, Secret string }

// rootKey is in the file of each server.
var rootKey = testKey{"ROOTKEY", "planted-secret-of-root"}

// rootFile writes a file with the root user's key.
func rootFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, []byte("keys:\n  - {access_key: ROOTKEY, secret: planted-secret-of-root, principal: \"arn:aws:iam::000000000000:root\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// databaseAccess returns the access of a server whose keys and policies are in the database, and in a
// file, if one is named.
func databaseAccess(t *testing.T, file string, log *logtest.Log) *Access {
	t.Helper()
	a, err := OpenAccess(AccessOptions{Keys: file, DatabaseKeys: true, DatabasePolicies: true, Log: log.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// openFleet opens servers on one cluster. Each has the root user's key in a file.
func openFleet(t *testing.T, n int) []*accessServer {
	t.Helper()
	cluster := tikvtest.New(t)
	return openFleetOn(t, n, func(o tikv.Options) *tikv.Engine { return cluster.Open(t, o) })
}

// openFleetOn opens servers on the engines that open returns.
func openFleetOn(t *testing.T, n int, open func(tikv.Options) *tikv.Engine) []*accessServer {
	t.Helper()
	file, backups := rootFile(t), t.TempDir()
	var servers []*accessServer
	for i := range n {
		log := new(logtest.Log)
		engine := open(tikv.Options{Log: log.Logger()})
		o := Options{Backups: backups, Log: log.Logger(), Access: databaseAccess(t, file, log), Audit: filepath.Join(backups, fmt.Sprint("audit", i))}
		d, err := openOn(context.Background(), engine, o, o.clock(engine))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		servers = append(servers, &accessServer{t, d, log})
	}
	return servers
}

// openAccessServer opens a server on a folder. The caller closes it.
func openAccessServer(t *testing.T, o Options, file string) *accessServer {
	t.Helper()
	s := &accessServer{t: t, log: new(logtest.Log)}
	o.Log, o.Access = s.log.Logger(), databaseAccess(t, file, s.log)
	var err error
	if s.db, err = Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *accessServer) close() {
	s.t.Helper()
	if err := s.db.Close(); err != nil {
		s.t.Error(err)
	}
}

// send sends a request that is signed with a key.
func (s *accessServer) send(with testKey, target, body string) (int, string) {
	s.t.Helper()
	return sendSigned(s.t, s.db.Handler(), with, target, body)
}

func sendSigned(t *testing.T, h http.Handler, with testKey, target, body string) (int, string) {
	t.Helper()
	return sendSignedUntil(t.Context(), t, h, with, target, body)
}

func sendSignedUntil(ctx context.Context, t *testing.T, h http.Handler, with testKey, target, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	sum := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: with.AccessKey, SecretAccessKey: with.Secret}, r, hex.EncodeToString(sum[:]), "dynamodb", "us-east-1", time.Now()); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// must sends a request of stator's own, which succeeds.
func (s *accessServer) must(with testKey, operation, body string) string {
	s.t.Helper()
	status, reply := s.send(with, "Stator."+operation, body)
	if status != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", operation, body, status, reply)
	}
	return reply
}

// fails sends a request of stator's own, and checks its error.
func (s *accessServer) fails(with testKey, operation, body, want string) {
	s.t.Helper()
	if status, reply := s.send(with, "Stator."+operation, body); status != http.StatusBadRequest || !strings.Contains(reply, want) {
		s.t.Errorf("%s %s: %d %s, want %s", operation, body, status, reply, want)
	}
}

func (s *accessServer) newKey(with testKey, user string) (k testKey) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.must(with, "CreateAccessKey", `{"Principal":"`+userARN(user)+`"}`)), &k); err != nil {
		s.t.Fatal(err)
	}
	return k
}

func userARN(user string) string { return "arn:aws:iam::000000000000:user/" + user }

// allowing is the request to store a principal that may do some actions.
func allowing(user, actions, more string) string {
	document, err := json.Marshal(allows(actions))
	if err != nil {
		panic(err)
	}
	return `{"PrincipalArn":"` + userARN(user) + `","Policies":[{"Name":"` + user + `.json","Document":` + string(document) + `}]` + more + `}`
}

// listTables is the code of the error with which a server answers ListTables; empty for none.
func (s *accessServer) listTables(with testKey) string {
	s.t.Helper()
	status, reply := s.send(with, "DynamoDB_20120810.ListTables", "{}")
	if status == http.StatusOK {
		return ""
	}
	var fault struct {
		Type string `json:"__type"`
	}
	if err := json.Unmarshal([]byte(reply), &fault); err != nil {
		s.t.Fatalf("%d %s: %v", status, reply, err)
	}
	return fault.Type[strings.IndexByte(fault.Type, '#')+1:]
}

// unlike returns the servers that answer ListTables in another way.
func unlike(servers []*accessServer, with testKey, want string) (found []int) {
	for i, s := range servers {
		if s.listTables(with) != want {
			found = append(found, i)
		}
	}
	return found
}

const (
	denied  = "AccessDeniedException"
	unknown = "UnrecognizedClientException"
)

// When a change of keys or policies is answered, all servers of a cluster use it. The control is a
// server that does not follow.
func TestAccessOfFleet(t *testing.T) {
	servers := openFleet(t, 3)
	check := func(what string, with testKey, want string) {
		t.Helper()
		if found := unlike(servers, with, want); found != nil {
			t.Errorf("%s: servers %v do not answer with %q", what, found, want)
		}
	}
	alice := servers[0].newKey(rootKey, "alice")
	check("a key without policies", alice, denied)
	for i, s := range servers { // through each of them
		s.must(rootKey, "PutPrincipal", allowing("alice", `"dynamodb:ListTables"`, ""))
		check("a policy", alice, "")
		s.must(rootKey, "PutPrincipal", allowing("alice", fmt.Sprintf(`"dynamodb:GetItem","dynamodb:%d"`, i), ""))
		check("another policy", alice, denied)
	}
	servers[1].must(rootKey, "PutPrincipal", allowing("alice", `"dynamodb:ListTables"`, ""))
	servers[2].must(rootKey, "DeletePrincipal", `{"PrincipalArn":"`+userARN("alice")+`"}`)
	check("a principal that was deleted", alice, denied)
	servers[0].must(rootKey, "PutPrincipal", allowing("alice", `"dynamodb:ListTables"`, ""))
	servers[2].must(rootKey, "DeleteAccessKey", `{"AccessKey":"`+alice.AccessKey+`"}`)
	check("a key that was revoked", alice, unknown)
	check("the key of the file", rootKey, "")

	bob := servers[1].newKey(rootKey, "bob")
	servers[1].must(rootKey, "PutPrincipal", allowing("bob", `"dynamodb:ListTables"`, ""))
	check("another key", bob, "")
	servers[2].db.db.Subscribe("access", func(context.Context, string) error { return nil })
	servers[0].must(rootKey, "DeleteAccessKey", `{"AccessKey":"`+bob.AccessKey+`"}`)
	if found := unlike(servers, bob, unknown); !slices.Equal(found, []int{2}) {
		t.Errorf("the control: servers %v accept a revoked key", found)
	}
}

// A server that is cut off from the cluster may have missed a change that was answered meanwhile. It
// decides about no request until it has read what is stored.
func TestAccessOfServerThatIsCutOff(t *testing.T) {
	cluster := tikvtest.New(t)
	var cables []*cable
	servers := openFleetOn(t, 2, func(o tikv.Options) *tikv.Engine {
		cables = append(cables, &cable{Client: cluster.Client()})
		o.Lease, o.Beat = time.Second, 100*time.Millisecond
		return cluster.OpenOver(t, cables[len(cables)-1], o)
	})
	away := servers[1]
	alice, bob := servers[0].newKey(rootKey, "alice"), servers[0].newKey(rootKey, "bob")
	for _, user := range []string{"alice", "bob"} {
		servers[0].must(rootKey, "PutPrincipal", allowing(user, `"dynamodb:ListTables","stator:GetMetrics"`, ""))
	}
	if got := away.listTables(alice) + away.listTables(bob); got != "" {
		t.Fatal(got)
	}
	cables[1].off.Store(true)
	servers[0].must(rootKey, "DeleteAccessKey", `{"AccessKey":"`+alice.AccessKey+`"}`)
	servers[0].must(rootKey, "PutPrincipal", allowing("bob", `"dynamodb:GetItem"`, ""))
	for _, with := range []testKey{alice, bob} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, reply := sendSignedUntil(ctx, t, away.db.Handler(), with, "DynamoDB_20120810.ListTables", `{}`); strings.Contains(reply, "TableNames") {
			t.Errorf("tables are listed: %s", reply)
		}
		cancel()
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil)
		ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		r.SetBasicAuth(with.AccessKey, with.Secret)
		w := httptest.NewRecorder()
		if away.db.Handler().ServeHTTP(w, r.WithContext(ctx)); strings.Contains(w.Body.String(), "# HELP") {
			t.Error("metrics are shown")
		}
		cancel()
	}
	cables[1].off.Store(false)
	if got := away.listTables(alice); got != unknown {
		t.Errorf("a key that was revoked gets %q", got)
	}
	if got := away.listTables(bob); got != denied {
		t.Errorf("a principal whose policy was changed gets %q", got)
	}
}

// Of changes that expect the same revision one succeeds; others are all stored. Equal definitions
// have one revision.
func TestConcurrentAccessChanges(t *testing.T) {
	servers := openFleet(t, 2)
	const most = 6
	all := func(body func(i int) string) (succeeded int, mismatched int) {
		var mu sync.Mutex
		var wait sync.WaitGroup
		for i := range most {
			wait.Go(func() {
				status, reply := servers[i%2].send(rootKey, "Stator.PutPrincipal", body(i))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case status == http.StatusOK:
					succeeded++
				case strings.Contains(reply, "RevisionMismatchException"):
					mismatched++
				default:
					t.Errorf("%d %s", status, reply)
				}
			})
		}
		wait.Wait()
		return succeeded, mismatched
	}
	action := func(i int) string { return fmt.Sprintf(`"dynamodb:%d"`, i) }
	if done, mismatched := all(func(i int) string { return allowing("alice", action(i), `,"ExpectedRevisionId":"NO_POLICY"`) }); done != 1 || mismatched != most-1 {
		t.Errorf("%d are stored as the first, %d are not", done, mismatched)
	}
	revision := func() string {
		var reply struct{ RevisionId string }
		if err := json.Unmarshal([]byte(servers[1].must(rootKey, "GetPrincipal", `{"PrincipalArn":"`+userARN("alice")+`"}`)), &reply); err != nil {
			t.Fatal(err)
		}
		return reply.RevisionId
	}
	first := revision()
	if done, mismatched := all(func(i int) string { return allowing("alice", action(most+i), `,"ExpectedRevisionId":"`+first+`"`) }); done != 1 || mismatched != most-1 {
		t.Errorf("%d replace the first, %d do not", done, mismatched)
	}
	if done, _ := all(func(i int) string { return allowing(fmt.Sprint("user", i), action(i), "") }); done != most {
		t.Errorf("%d of %d users are stored", done, most)
	}
	before := revision()
	equal := servers[0].must(rootKey, "GetPrincipal", `{"PrincipalArn":"`+userARN("user0")+`"}`)
	servers[0].must(rootKey, "PutPrincipal", allowing("user0", action(0), ""))
	if now := servers[1].must(rootKey, "GetPrincipal", `{"PrincipalArn":"`+userARN("user0")+`"}`); now != equal || revision() != before {
		t.Errorf("an equal definition changes\n%s\nto\n%s", equal, now)
	}
	servers[0].fails(rootKey, "DeletePrincipal", `{"PrincipalArn":"`+userARN("alice")+`","ExpectedRevisionId":"`+first+`"}`, "has the revision "+before+", not "+first)
	if list := servers[1].must(rootKey, "ListPrincipals", "{}"); strings.Count(list, `"PrincipalArn"`) != most+1 {
		t.Errorf("the principals are %s", list)
	}
}

// What cannot be used is refused with the reason, and changes nothing; so is what would leave nobody
// who could change it.
func TestAccessFaults(t *testing.T) {
	dir := t.TempDir()
	s := openAccessServer(t, Options{Dir: dir}, rootFile(t))
	put := func(arn, rest string) string { return `{"PrincipalArn":"` + arn + `"` + rest + `}` }
	policies := func(document string) string {
		text, _ := json.Marshal(document)
		return `,"Policies":[{"Name":"a.json","Document":` + string(text) + `}]`
	}
	for _, c := range []struct{ operation, body, want string }{
		{"PutPrincipal", put(userARN("a"), policies(`{"Statement":`)), "a.json:1:"},
		{"PutPrincipal", put(userARN("a"), policies(`{"Statement":{"Effect":"Perhaps"}}`)), "a.json:1:"},
		{"PutPrincipal", put(userARN("a"), `,"Boundary":{"Name":"b.json","Document":"x"}`), "b.json:1:"},
		{"PutPrincipal", put("arn:aws:iam::000000000000:role/r", `,"Sessions":[{"Name":"s","Policies":[{"Name":"s.json","Document":"x"}]}]`), "s.json:1:"},
		{"PutPrincipal", put(userARN("a"), `,"Sessions":[{"Name":"s","Policies":[{"Name":"s.json","Document":"x"}]}]`), "only a role has sessions"},
		{"PutPrincipal", put("alice", policies(allows(`"dynamodb:*"`))), "alice"},
		{"PutPrincipal", put("arn:aws:sts::000000000000:assumed-role/r/s", ""), "the principal is the role"},
		{"PutPrincipal", put(userARN("a"), `,"Tags":{"team":"a","Team":"b"}`), "differ in case only"},
		{"PutPrincipal", put(userARN("a"), `,"Policies":[{"Name":"a.json"}]`), "policies.1.member.document"},
		{"PutPrincipal", put(userARN("a"), policies(strings.Repeat(" ", 300_000)+allows(`"dynamodb:*"`))), "LimitExceededException"},
		{"GetPrincipal", put(userARN("a"), ""), "ResourceNotFoundException"},
		{"DeletePrincipal", put(userARN("a"), ""), "ResourceNotFoundException"},
		{"CreateAccessKey", `{"Principal":"alice"}`, "must be the ARN of a user"},
		{"DeleteAccessKey", `{"AccessKey":"NONE"}`, "ResourceNotFoundException"},
		{"DeleteAccessKey", `{"AccessKey":"ROOTKEY"}`, "is in a file of the server"},
	} {
		s.fails(rootKey, c.operation, c.body, c.want)
	}
	if list := s.must(rootKey, "ListPrincipals", "{}"); list != `{"Principals":[]}` {
		t.Errorf("the principals are %s", list)
	}
	s.must(rootKey, "PutPrincipal", put("arn:aws:iam::000000000000:user/team/a", ""))
	s.fails(rootKey, "PutPrincipal", put(userARN("A"), ""), "names must differ")
	admin := s.newKey(rootKey, "admin")
	s.fails(admin, "ListAccessKeys", "{}", denied)
	s.must(rootKey, "PutPrincipal", allowing("admin", `"stator:*"`, ""))
	s.close()

	// Without the file, the administrator of the database is the last one.
	s = openAccessServer(t, Options{Dir: dir}, "")
	defer s.close()
	const last = "no access key of this server could change keys and policies any more"
	s.fails(admin, "DeleteAccessKey", `{"AccessKey":"`+admin.AccessKey+`"}`, last)
	s.fails(admin, "DeletePrincipal", put(userARN("admin"), ""), last)
	s.fails(admin, "PutPrincipal", allowing("admin", `"dynamodb:*"`, ""), last)
	s.fails(rootKey, "ListAccessKeys", "{}", unknown)
	second := s.newKey(admin, "second")
	s.fails(admin, "DeletePrincipal", put(userARN("admin"), ""), last) // a key alone is no administrator
	s.must(admin, "PutPrincipal", allowing("second", `"stator:*"`, ""))
	s.must(admin, "DeletePrincipal", put(userARN("admin"), ""))
	s.fails(admin, "ListAccessKeys", "{}", denied)
	s.must(second, "DeleteAccessKey", `{"AccessKey":"`+admin.AccessKey+`"}`)
	s.fails(admin, "ListAccessKeys", "{}", unknown)
}

// A server that does not use the database for keys or policies says so; a file takes precedence over
// the database.
func TestAccessSources(t *testing.T) {
	dir, file := t.TempDir(), rootFile(t)
	s := openAccessServer(t, Options{Dir: dir}, file)
	alice := s.newKey(rootKey, "alice")
	s.must(rootKey, "PutPrincipal", allowing("alice", `"dynamodb:ListTables"`, ""))
	s.close()

	folder := filepath.Dir(file)
	for name, text := range map[string]string{
		"policies.yaml": "principals:\n  - {arn: \"" + userARN("alice") + "\", policies: [none.json]}\n",
		"none.json":     allows(`"dynamodb:GetItem"`),
		"both.yaml":     "keys:\n  - {access_key: ROOTKEY, secret: planted-secret-of-root, principal: \"arn:aws:iam::000000000000:root\"}\n  - {access_key: " + alice.AccessKey + ", secret: another}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open := func(o AccessOptions) *accessServer {
		t.Helper()
		s := &accessServer{t: t, log: new(logtest.Log)}
		o.Log = s.log.Logger()
		a, err := OpenAccess(o)
		if err != nil {
			t.Fatal(err)
		}
		if s.db, err = Open(t.Context(), Options{Dir: dir, Log: o.Log, Access: a}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		name              string
		o                 AccessOptions
		alice             string
		keys, policies    string // of the replies to ListAccessKeys and ListPrincipals
		put, delete, logs string
	}{
		{"files only", AccessOptions{Keys: file}, unknown, "start it with --keys database", "start it with --policies database", "start it with", "start it with", ""},
		{"keys of the database", AccessOptions{Keys: file, DatabaseKeys: true}, "", alice.AccessKey, "start it with --policies database", "start it with", "", ""},
		{"policies of the database", AccessOptions{Keys: file, DatabasePolicies: true}, unknown, "start it with --keys database", userARN("alice"), "", "start it with", ""},
		{"all of the database", AccessOptions{DatabaseKeys: true, DatabasePolicies: true}, "", "", "", "", "", ""},
		{"principals in both", AccessOptions{Keys: file, Policies: filepath.Join(folder, "policies.yaml"), DatabaseKeys: true, DatabasePolicies: true}, denied, alice.AccessKey, `"Source":"file"`, "which takes precedence", "", "the file of policies takes precedence"},
		{"keys in both", AccessOptions{Keys: filepath.Join(folder, "both.yaml"), DatabaseKeys: true, DatabasePolicies: true}, "InvalidSignatureException", `"Source":"file"`, userARN("alice"), "", "", "the file of access keys takes precedence"},
	} {
		s := open(c.o)
		if got := s.listTables(alice); got != c.alice {
			t.Errorf("%s: the key of the database is answered %q, want %q", c.name, got, c.alice)
		}
		for operation, want := range map[string]string{"ListAccessKeys": c.keys, "ListPrincipals": c.policies} {
			if _, reply := s.send(rootKey, "Stator."+operation, "{}"); !strings.Contains(reply, want) {
				t.Errorf("%s: %s is answered %s, want %s", c.name, operation, reply, want)
			}
		}
		if c.put != "" {
			s.fails(rootKey, "PutPrincipal", allowing("alice", `"dynamodb:ListTables"`, ""), c.put)
		}
		if c.delete != "" {
			s.fails(rootKey, "DeleteAccessKey", `{"AccessKey":"`+alice.AccessKey+`"}`, c.delete)
		}
		if !strings.Contains(s.log.String(), c.logs) || c.logs == "" && strings.Contains(s.log.String(), "precedence") {
			t.Errorf("%s: the log is %s", c.name, s.log)
		}
		s.close()
	}
	if _, err := OpenAccess(AccessOptions{DatabasePolicies: true}); err == nil || !strings.Contains(err.Error(), "policies require access keys") {
		t.Errorf("policies without keys: %v", err)
	}
}

// Keys and policies survive a restart. Their secrets are in the files of the data folder, unless that
// is encrypted; they are in no backup, and in no line of a log.
func TestStoredAccessOnDisk(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		dir, backups := t.TempDir(), t.TempDir()
		o := Options{Dir: dir, Backups: backups, Audit: filepath.Join(t.TempDir(), "audit")}
		if encrypted {
			o.EncryptionKey = keyFile(t)
		}
		s := openAccessServer(t, o, rootFile(t))
		alice := s.newKey(rootKey, "alice")
		s.must(rootKey, "PutPrincipal", allowing("alice", `"dynamodb:ListTables","stator:*"`, ""))
		logged := s.log
		s.close()
		s = openAccessServer(t, o, "")
		if got := s.listTables(alice); got != "" {
			t.Errorf("after a restart the key is answered %s", got)
		}
		reports, err := s.db.Verify(t.Context(), func(string, int64) {})
		if err != nil || slices.ContainsFunc(reports, func(r TableReport) bool { return r.Faults > 0 }) {
			t.Errorf("the data is verified with %+v, %v", reports, err)
		}
		var written bytes.Buffer
		for _, operation := range []string{"ListAccessKeys", "ListPrincipals"} {
			written.WriteString(s.must(alice, operation, "{}"))
		}
		for _, wrong := range []testKey{{alice.AccessKey, alice.Secret + "x"}, {"NONE", alice.Secret}} {
			_, reply := s.send(wrong, "Stator.ListAccessKeys", "{}")
			written.WriteString(reply)
		}
		s.close()
		audited, err := os.ReadFile(o.Audit)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"eventSource":"stator","eventName":"CreateAccessKey"`, `"eventName":"PutPrincipal"`, `"eventName":"ListPrincipals"`, userARN("alice"), `"readOnly":false`} {
			if !bytes.Contains(audited, []byte(want)) {
				t.Errorf("%s is not written down:\n%s", want, audited)
			}
		}
		for where, text := range map[string]string{"the audit log": string(audited), "the log": logged.String() + s.log.String(), "a reply": written.String()} {
			if strings.Contains(text, alice.Secret) || strings.Contains(text, rootKey.Secret) {
				t.Errorf("a secret is in %s:\n%s", where, text)
			}
		}
		// Compression may replace a few characters of the secret by a reference, and then two quarters
		// of it are not found.
		var stored, copied []string
		for quarter := range slices.Chunk([]byte(alice.Secret), 10) {
			stored = append(stored, filesWithText(t, dir, string(quarter))...)
			copied = append(copied, filesWithText(t, backups, string(quarter))...)
		}
		if (stored != nil) == encrypted {
			t.Errorf("encrypted %v: the secret is in the files %v", encrypted, stored)
		}
		if copied != nil {
			t.Errorf("the secret is in the backups %v", copied)
		}
	}
}

// A standby has the keys of its file, and once it is promoted those of the database, too.
func TestStoredAccessOfStandby(t *testing.T) {
	file := rootFile(t)
	s := openAccessServer(t, Options{Dir: filepath.Join(t.TempDir(), "primary")}, file)
	defer s.close()
	web := httptest.NewServer(s.db.Handler())
	defer web.Close()
	alice := s.newKey(rootKey, "alice")
	s.must(rootKey, "PutPrincipal", allowing("alice", `"stator:*"`, ""))
	log := new(logtest.Log)
	o := StandbyOptions{Options: Options{Dir: filepath.Join(t.TempDir(), "standby"), Log: log.Logger()}, Of: web.URL}
	o.Sign = func(r *http.Request, body []byte) error {
		sum := sha256.Sum256(body)
		return v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: alice.AccessKey, SecretAccessKey: alice.Secret}, r, hex.EncodeToString(sum[:]), "dynamodb", "us-east-1", time.Now())
	}
	o.Access = databaseAccess(t, "", log)
	if _, err := OpenStandby(t.Context(), o); err == nil || !strings.Contains(err.Error(), "a standby needs a file of access keys") {
		t.Fatalf("a standby without a file: %v", err)
	}
	o.Access = databaseAccess(t, file, log)
	follower, err := OpenStandby(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	for follower.Status().State != standby.Following {
		time.Sleep(time.Millisecond)
	}
	if status, reply := sendSigned(t, follower.Handler(), alice, "Stator.Promote", "{}"); status != http.StatusBadRequest || !strings.Contains(reply, unknown) {
		t.Errorf("the key of the database is answered %d %s", status, reply)
	}
	if status, reply := sendSigned(t, follower.Handler(), rootKey, "Stator.Promote", "{}"); status != http.StatusOK {
		t.Fatalf("%d %s", status, reply)
	}
	if status, reply := sendSigned(t, follower.Handler(), alice, "Stator.ListAccessKeys", "{}"); status != http.StatusOK || !strings.Contains(reply, alice.AccessKey) {
		t.Errorf("after the promotion the key of the database is answered %d %s", status, reply)
	}
}

// A database without any key says that nobody can use it.
func TestNoAccessKey(t *testing.T) {
	s := openAccessServer(t, Options{}, "")
	defer s.close()
	if !strings.Contains(s.log.String(), "there is no access key") {
		t.Errorf("the log is %s", s.log)
	}
}
