package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/language/policy"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/iam"
	"github.com/stator-db/stator/internal/model/prove"
)

// policyServer is a server with two keys: one may do everything, the other what a policy allows.
type policyServer struct {
	t          *testing.T
	access     *stator.Access
	file       string // of the policy
	admin, app *apply.Endpoint
}

// servedBy executes requests without a network.
type servedBy struct{ http.Handler }

func (s servedBy) Do(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody // as a server has it
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

func newPolicyServer(t *testing.T, tags string) *policyServer {
	t.Helper()
	dir := t.TempDir()
	s := &policyServer{t: t, file: filepath.Join(dir, "app.json")}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	everything := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}`
	write("admin.json", everything)
	write("app.json", everything)
	principals := write("policies.yaml", "principals:\n- {arn: 'arn:aws:iam::000000000000:user/admin', policies: [admin.json]}\n- {arn: 'arn:aws:iam::000000000000:user/app', policies: [app.json]"+tags+"}\n")
	keyFile := filepath.Join(dir, "keys.yaml")
	newKey := func(user string) aws.Credentials {
		code, out, errs := runStator(t, "key", "new", "--keys", keyFile, "--json", "--principal", "arn:aws:iam::000000000000:user/"+user)
		var k shownKey
		if err := json.Unmarshal([]byte(out), &k); err != nil || code != exitDone {
			t.Fatalf("key new exits with %d: %s%s %v", code, out, errs, err)
		}
		return aws.Credentials{AccessKeyID: k.AccessKey, SecretAccessKey: k.Secret}
	}
	admin, app := newKey("admin"), newKey("app")
	var err error
	if s.access, err = stator.OpenAccess(stator.AccessOptions{Keys: keyFile, Policies: principals}); err != nil {
		t.Fatal(err)
	}
	db, err := stator.Open(t.Context(), stator.Options{Access: s.access})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	endpoint := func(with aws.Credentials) *apply.Endpoint {
		return &apply.Endpoint{URL: "http://127.0.0.1:8000", Client: servedBy{db.Handler()}, Sign: func(r *http.Request, body []byte) error {
			return signRequest(r, body, with, "us-east-1")
		}}
	}
	s.admin, s.app = endpoint(admin), endpoint(app)
	return s
}

// allow replaces the policy of the application.
func (s *policyServer) allow(document any) {
	s.t.Helper()
	text, err := json.Marshal(document)
	if err == nil {
		err = os.WriteFile(s.file, text, 0o600)
	}
	if err == nil {
		_, err = s.access.Reload()
	}
	if err != nil {
		s.t.Fatalf("%v\n%s", err, text)
	}
}

// create makes the tables of a model, with their streams.
func (s *policyServer) create(m *model.Model) {
	s.t.Helper()
	if err := prove.Create(s.t.Context(), s.admin.Send, m, true, apply.Waiting{Every: time.Millisecond}); err != nil {
		s.t.Fatal(err)
	}
	for _, t := range m.Tables {
		if t.Stream == "" {
			continue
		}
		stream := map[string]any{"StreamEnabled": true, "StreamViewType": t.Stream}
		if _, err := s.admin.Send(s.t.Context(), "UpdateTable", map[string]any{"TableName": t.Name, "StreamSpecification": stream}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// send sends a request as the application.
func (s *policyServer) send(r sentRequest) ([]byte, error) {
	if r.operation == "DescribeStream" || r.operation == "GetShardIterator" || r.operation == "GetRecords" {
		return s.app.SendStreams(s.t.Context(), r.operation, r.body)
	}
	return s.app.Send(s.t.Context(), r.operation, r.body)
}

// sentRequest is a request that was sent as the application.
type sentRequest struct {
	operation string
	body      any
}

func (r sentRequest) String() string {
	text, _ := json.Marshal(r.body)
	return r.operation + " " + string(text)
}

func isDenied(err error) bool {
	var fault *apierror.Error
	return errors.As(err, &fault) && fault.Code == "AccessDeniedException"
}

// prove runs the patterns of a model: their requests as the application, and what prepares and clears them as the
// administrator. It returns one request for each pattern.
func (s *policyServer) prove(m *model.Model) (sent []sentRequest) {
	s.t.Helper()
	fresh := true
	send := func(ctx context.Context, operation string, body any) ([]byte, error) {
		// Only the requests of patterns ask what they consume.
		members, ok := body.(map[string]any)
		if !ok || members["ReturnConsumedCapacity"] == nil {
			return s.admin.Send(ctx, operation, body)
		}
		if fresh {
			text, err := json.Marshal(body)
			if err != nil {
				return nil, err
			}
			sent, fresh = append(sent, sentRequest{operation, json.RawMessage(text)}), false
		}
		return s.app.Send(ctx, operation, body)
	}
	r, err := prove.Run(s.t.Context(), send, m, prove.Options{Runs: 1, Progress: func(int) { fresh = true }})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range r.Patterns {
		if p.Error != "" {
			s.t.Errorf("%q with the policy of the model: %s", p.Name, p.Error)
		}
	}
	return sent
}

// reads returns the requests of a program that reads a stream, after it looked at the table.
func (s *policyServer) reads(table string) (all []sentRequest) {
	s.t.Helper()
	ask := func(operation string, body map[string]any) map[string]any {
		all = append(all, sentRequest{operation, body})
		text, err := s.send(all[len(all)-1])
		if err != nil {
			s.t.Fatalf("%s: %v", operation, err)
		}
		var reply map[string]any
		if err := json.Unmarshal(text, &reply); err != nil {
			s.t.Fatal(err)
		}
		return reply
	}
	arn := ask("DescribeTable", map[string]any{"TableName": table})["Table"].(map[string]any)["LatestStreamArn"]
	if arn == nil {
		return all
	}
	described := ask("DescribeStream", map[string]any{"StreamArn": arn})["StreamDescription"].(map[string]any)
	shard := described["Shards"].([]any)[0].(map[string]any)["ShardId"]
	iterator := ask("GetShardIterator", map[string]any{"StreamArn": arn, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"})["ShardIterator"]
	ask("GetRecords", map[string]any{"ShardIterator": iterator})
	return all
}

// denied returns the first request that the server refuses.
func (s *policyServer) denied(sent []sentRequest) *sentRequest {
	for i := range sent {
		if _, err := s.send(sent[i]); isDenied(err) {
			return &sent[i]
		}
	}
	return nil
}

// policyModels are the models of the four applications, the examples, and one of all kinds of patterns.
func policyModels(t *testing.T) []string {
	t.Helper()
	files := []string{"../model/testdata/shapes.model.yaml"}
	for _, pattern := range []string{"../../apps/*/*.model.yaml", "../../examples/models/*.model.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) < 4 {
			t.Fatalf("found the models %v, %v", found, err)
		}
		files = append(files, found...)
	}
	return files
}

// A server with the policy of a model permits each request of its patterns, and without one action or resource of
// the policy it refuses one.
func TestModelPolicyIsLeast(t *testing.T) {
	for _, file := range policyModels(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			m := readTestModel(t, file)
			g, err := iam.Generate(m, iam.PolicyOptions{Region: "us-east-1", Account: "000000000000", Role: iam.All, Setup: true})
			if err != nil {
				t.Fatal(err)
			}
			s := newPolicyServer(t, "")
			s.create(m)
			s.allow(g.Policy)
			sent := s.prove(m)
			for _, table := range m.Tables {
				if slices.ContainsFunc(g.Needs, func(n *iam.Need) bool { return strings.HasSuffix(n.Resource, ":table/"+table.Name) }) {
					sent = append(sent, s.reads(table.Name)...)
				}
			}
			if r := s.denied(sent); r != nil {
				t.Fatalf("the policy refuses %v", r)
			}
			for what, less := range reduced(g.Policy) {
				s.allow(less)
				if s.denied(sent) == nil {
					t.Errorf("without %s nothing is refused", what)
				}
			}
		})
	}
}

// reduced returns the policies that lack one action or one resource of a statement.
func reduced(p *iam.PolicyDocument) map[string]*iam.PolicyDocument {
	all := make(map[string]*iam.PolicyDocument)
	without := func(i int, what string, change func(*iam.AllowStatement)) {
		less := &iam.PolicyDocument{Version: p.Version, Statement: slices.Clone(p.Statement)}
		s := *p.Statement[i]
		change(&s)
		less.Statement[i] = &s
		if len(s.Action) == 0 || len(s.Resource) == 0 {
			less.Statement = slices.Delete(less.Statement, i, i+1)
		}
		if len(less.Statement) > 0 {
			all[fmt.Sprintf("%s of %s", what, p.Statement[i].Sid)] = less
		}
	}
	for i, s := range p.Statement {
		for j, action := range s.Action {
			without(i, action, func(s *iam.AllowStatement) { s.Action = slices.Delete(slices.Clone(s.Action), j, j+1) })
		}
		for j, resource := range s.Resource {
			without(i, resource, func(s *iam.AllowStatement) { s.Resource = slices.Delete(slices.Clone(s.Resource), j, j+1) })
		}
	}
	return all
}

// The conditions of a policy refuse what no pattern does.
func TestModelPolicyConditions(t *testing.T) {
	m := readTestModel(t, "../model/testdata/shapes.model.yaml")
	m.Patterns = slices.DeleteFunc(m.Patterns, func(p *model.Pattern) bool {
		return p.Name != "transaction" && p.Name != "transactional reads" && p.Name != "all shards"
	})
	g, err := iam.Generate(m, iam.PolicyOptions{Region: "*", Account: "*", Role: iam.All})
	if err != nil {
		t.Fatal(err)
	}
	s := newPolicyServer(t, "")
	s.create(m)
	s.allow(g.Policy)
	s.prove(m)
	const query = `{"TableName":"shop","IndexName":"byDay","KeyConditionExpression":"GSI1PK = :k","ExpressionAttributeValues":{":k":{"S":"DAY#1"}}`
	for _, c := range []struct {
		name, operation, body string
		allowed               bool
	}{
		{"a projection", "Query", query + `,"ProjectionExpression":"amount"}`, true},
		{"another projection", "Query", query + `,"ProjectionExpression":"#s","ExpressionAttributeNames":{"#s":"gift"}}`, false},
		{"a filter on another attribute", "Query", query + `,"ProjectionExpression":"amount","FilterExpression":"attribute_exists(#s)","ExpressionAttributeNames":{"#s":"gift"}}`, false},
		{"all attributes", "Query", query + `}`, false},
		{"a part of a transaction", "TransactGetItems", `{"TransactItems":[{"Get":{"TableName":"plain-table","Key":{"id":{"S":"1"}}}}]}`, true},
		{"the same alone", "GetItem", `{"TableName":"plain-table","Key":{"id":{"S":"1"}}}`, false},
		{"a write of a transaction alone", "DeleteItem", `{"TableName":"plain-table","Key":{"id":{"S":"1"}}}`, false},
		{"a scan", "Scan", `{"TableName":"shop"}`, false},
		{"a statement", "ExecuteStatement", `{"Statement":"SELECT * FROM \"shop\""}`, false},
	} {
		if _, err := s.app.Send(t.Context(), c.operation, json.RawMessage(c.body)); (err == nil) != c.allowed || err != nil && !isDenied(err) {
			t.Errorf("%s returns %v", c.name, err)
		}
	}
}

// With a tenant key, the partitions of other tenants are refused.
func TestModelPolicyOfTenant(t *testing.T) {
	m := readTestModel(t, "../../apps/documents/documents.model.yaml")
	g, err := iam.Generate(m, iam.PolicyOptions{Region: "*", Account: "*", Role: iam.All, Groups: []string{"projects"}, TenantKey: "tenantId", TenantVariable: iam.DefaultTenantVariable})
	if err != nil {
		t.Fatal(err)
	}
	s := newPolicyServer(t, ", tags: {tenant: a}")
	s.create(m)
	s.allow(g.Policy)
	for _, c := range []struct {
		key     string
		allowed bool
	}{
		{"TENANT#a", true}, {"TENANT#a#PROJECT#1", true},
		{"TENANT#ab", false}, {"TENANT#b", false}, {"TENANT#ab#PROJECT#1", false}, {"TENANT#a#OTHER#1", false}, {"USER#a", false}, {"TENANT#*", false},
	} {
		body := map[string]any{"TableName": "documents", "Key": map[string]any{"PK": map[string]any{"S": c.key}, "SK": map[string]any{"S": "x"}}}
		if _, err := s.app.Send(t.Context(), "GetItem", body); isDenied(err) == c.allowed {
			t.Errorf("GetItem of %s returns %v", c.key, err)
		}
	}
}

// The policies have no findings, and each option does what it says.
func TestModelPolicy(t *testing.T) {
	for _, file := range policyModels(t) {
		for _, args := range [][]string{nil, {"--with-setup"}, {"--role", "writer"}} {
			code, out, errs := runStator(t, append([]string{"model", "policy", file}, args...)...)
			doc, err := policy.Parse(policy.Identity, []byte(out))
			if err != nil || code != 0 {
				t.Fatalf("%s: exit code %d, %v\n%s%s", file, code, err, out, errs)
			}
			if found := policy.Check(doc); len(found) > 0 {
				t.Errorf("%s: %v", file, found[0].Text)
			}
		}
	}
	const shop, documents, taskqueue, shapes = "../../examples/models/shop.model.yaml", "../../apps/documents/documents.model.yaml",
		"../../apps/taskqueue/taskqueue.model.yaml", "../model/testdata/shapes.model.yaml"
	for _, c := range []struct {
		name  string
		args  []string
		code  int
		want  []string
		never []string
	}{
		{"resources", []string{shop, "--region", "eu-west-1", "--account", "111122223333"}, 0,
			[]string{`"arn:aws:dynamodb:eu-west-1:111122223333:table/shop/index/ByStatus"`, `"Sid": "ReadShopInvertedAndLeader"`}, []string{"Scan", "PartiQL", "DescribeTable", "EnclosingOperation"}},
		{"defaults", []string{shop}, 0, []string{`"arn:aws:dynamodb:*:000000000000:table/shop"`}, nil},
		{"setup", []string{shop, "--with-setup"}, 0, []string{`"dynamodb:DescribeTable"`, `"DescribeShop"`}, nil},
		{"attributes", []string{shop}, 0, []string{`"SPECIFIC_ATTRIBUTES"`, `"ReadShopByStatusAttributes"`}, nil},
		{"transactions", []string{documents}, 0, []string{`"dynamodb:EnclosingOperation"`, `"dynamodb:ConditionCheckItem"`}, nil},
		{"a scan", []string{shapes}, 0, []string{`"dynamodb:Scan"`, `note     "scan" needs dynamodb:Scan, which reads all items`}, nil},
		{"a stream", []string{taskqueue}, 0, []string{`"ReadStreamOfTasks"`, `table/tasks/stream/*"`}, []string{"ListStreams"}},
		{"a reader", []string{taskqueue, "--role", "reader"}, 0, []string{`"dynamodb:Query"`}, []string{"Stream", "PutItem"}},
		{"a writer", []string{shop, "--role", "writer"}, 0, []string{`"dynamodb:PutItem"`}, []string{"GetItem", "Query"}},
		{"a consumer", []string{taskqueue, "--role", "consumer"}, 0, []string{`"dynamodb:GetRecords"`}, []string{"Item", "Query"}},
		{"no consumer", []string{shop, "--role", "consumer"}, 1, []string{"nothing that a consumer asks for"}, nil},
		{"a group", []string{otherModel, "--group", "nightly load"}, 0, []string{`"dynamodb:BatchWriteItem"`}, []string{"GetItem", "PutItem"}},
		{"another group", []string{otherModel, "--group", "x"}, 2, []string{"its groups are request, app, nightly load, stream"}, nil},
		{"no groups", []string{shop, "--group", "x"}, 2, []string{"it has no groups"}, nil},
		{"a tenant", []string{documents, "--group", "projects", "--tenant-key", "tenantId", "--tenant-variable", "${aws:username}"}, 0,
			[]string{`"ForAllValues:StringLike"`, `"TENANT#${aws:username}#PROJECT#*"`}, nil},
		{"no tenant", []string{documents, "--tenant-key", "tenantId"}, 1, []string{`"get user": PK of user is "USER#{userId}", which does not begin with {tenantId}`}, []string{`"get tenant":`}},
		{"no such attribute", []string{documents, "--tenant-key", "tenantID"}, 2, []string{"no entity of the model has that attribute"}, nil},
		{"the stream of all tenants", []string{taskqueue, "--tenant-key", "taskId"}, 1, []string{"the stream of tasks: it has the items of all tenants"}, nil},
		{"the scan of all tenants", []string{shapes, "--tenant-key", "customerId"}, 1, []string{`"scan": a scan reads the items of all tenants`}, nil},
		{"why", []string{shop, "--explain"}, 0, []string{"open orders of a region  Query", "21 access patterns need 7 actions in 4 statements"}, []string{"Version"}},
		{"why as JSON", []string{shop, "--explain", "--json"}, 0, []string{`"statement": "ReadShopByStatusAttributes"`, `"Version"`}, nil},
		{"a pattern that is not served", []string{faulty}, 1, []string{"cannot be served"}, nil},
		{"another role", []string{shop, "--role", "root"}, 2, []string{"must be all, reader, writer or consumer"}, nil},
		{"another account", []string{shop, "--account", "me"}, 2, []string{"must have 12 digits"}, nil},
		{"another region", []string{shop, "--region", "here:"}, 2, []string{"must be a region such as us-east-1"}, nil},
		{"a variable alone", []string{shop, "--tenant-variable", "aws:username"}, 2, []string{"--tenant-variable requires --tenant-key"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := runStator(t, append([]string{"model", "policy"}, c.args...)...)
			for _, want := range c.want {
				if code != c.code || !strings.Contains(out+errs, want) {
					t.Errorf("exit code %d, want %d; the output is\n%s%s\nwithout %q", code, c.code, out, errs, want)
				}
			}
			for _, never := range c.never {
				if strings.Contains(out+errs, never) {
					t.Errorf("the output has %q:\n%s%s", never, out, errs)
				}
			}
		})
	}
}

// The policies of the applications, with which their tests run, are those of their models. After
// a change of a model:
//
//	stator model policy --with-setup -o apps/NAME/NAME.policy.json apps/NAME/NAME.model.yaml
func TestPoliciesOfApplications(t *testing.T) {
	files, err := filepath.Glob("../../apps/*/*.model.yaml")
	if err != nil || len(files) != 4 {
		t.Fatalf("the models are %q, %v", files, err)
	}
	for _, file := range files {
		code, out, errs := runStator(t, "model", "policy", "--with-setup", file)
		if code != exitDone {
			t.Fatalf("model policy %s exits with %d: %s", file, code, errs)
		}
		written, err := os.ReadFile(strings.TrimSuffix(file, ".model.yaml") + ".policy.json")
		if err != nil || string(written) != out {
			t.Errorf("the policy of %s is another one, or cannot be read: %v\n%s", file, err, out)
		}
	}
}

// A caller who may not read the counts of a server gets an error that says so.
func TestPolicyUnusedIsDenied(t *testing.T) {
	s := newPolicyServer(t, "")
	s.allow(json.RawMessage(`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"dynamodb:*","Resource":"*"}}`))
	f := &driftFlags{endpointFlags: endpointFlags{endpoint: "http://127.0.0.1:8000"}}
	_, err := f.serverTraffic(t.Context(), s.app)
	if err == nil || !strings.Contains(err.Error(), "stator:GetShapes") || !strings.Contains(err.Error(), "\n        the policies of the key must allow that") {
		t.Errorf("got %v", err)
	}
	if _, err := f.serverTraffic(t.Context(), s.admin); err != nil {
		t.Error(err)
	}
}
