package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/stator-db/stator"
)

// The files of the tests of stator policy explain. Each statement of the policies is for one
// of the tests.
const (
	explainedOrders = `{"TableName": "Orders", "BillingMode": "PAY_PER_REQUEST", "Tags": [{"Key": "stage", "Value": "prod"}],
	"AttributeDefinitions": [{"AttributeName": "tenant", "AttributeType": "S"}, {"AttributeName": "id", "AttributeType": "S"}],
	"KeySchema": [{"AttributeName": "tenant", "KeyType": "HASH"}, {"AttributeName": "id", "KeyType": "RANGE"}]}`

	explainedPrincipals = `principals:
  - arn: arn:aws:iam::000000000000:user/ana
    policies: [app.json]
    tags: {tenant: t1}
  - arn: arn:aws:iam::000000000000:user/eve
    policies: [all.json]
    boundary: boundary.json
  - arn: arn:aws:iam::000000000000:user/joe
    policies: [all.json]
  - arn: arn:aws:iam::000000000000:role/batch
    policies: [all.json]
    sessions:
      - {name: nightly, policies: [session.json]}
`
	explainedApp = `{"Version": "2012-10-17", "Statement": [
  {"Sid": "Tenant", "Effect": "Allow", "Action": ["dynamodb:PutItem", "dynamodb:DeleteItem"], "Resource": "arn:aws:dynamodb:us-east-1:000000000000:table/Orders",
   "Condition": {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": "${aws:PrincipalTag/tenant}"}}},
  {"Sid": "Columns", "Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": "*",
   "Condition": {"ForAllValues:StringEquals": {"dynamodb:Attributes": ["tenant", "id", "amount"]}, "StringEquals": {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"}}},
  {"Sid": "NoDrop", "Effect": "Deny", "Action": "dynamodb:DeleteTable", "Resource": "*"},
  {"Sid": "Select", "Effect": "Allow", "Action": "dynamodb:PartiQLSelect", "Resource": "*"},
  {"Sid": "NoScan", "Effect": "Deny", "Action": "dynamodb:PartiQLSelect", "Resource": "*", "Condition": {"Bool": {"dynamodb:FullTableScan": ["true"]}}},
  {"Sid": "Office", "Effect": "Allow", "Action": "dynamodb:Query", "Resource": "*", "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}},
  {"Sid": "TestsOnly", "Effect": "Allow", "Action": "dynamodb:Scan", "Resource": "*", "Condition": {"StringEquals": {"aws:ResourceTag/stage": "test"}}},
  {"Sid": "Freeze", "Effect": "Deny", "Action": "dynamodb:UpdateTable", "Resource": "*", "Condition": {"DateGreaterThan": {"aws:CurrentTime": "2026-12-20T00:00:00Z"}}},
  {"Sid": "Tags", "Effect": "Allow", "Action": "dynamodb:TagResource", "Resource": "*", "Condition": {"ForAllValues:StringEquals": {"aws:TagKeys": ["team"]}}}
]}`
	explainedAll      = `{"Version": "2012-10-17", "Statement": {"Sid": "All", "Effect": "Allow", "Action": "*", "Resource": "*"}}`
	explainedBoundary = `{"Version": "2012-10-17", "Statement": {"Sid": "ReadOnly", "Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": "*"}}`
	explainedSession  = `{"Version": "2012-10-17", "Statement": [
  {"Sid": "Night", "Effect": "Allow", "Action": "dynamodb:*", "Resource": "*", "Condition": {"StringEquals": {"dynamodb:ReturnValues": "NONE"}}}]}`
	explainedTable = `{"Version": "2012-10-17", "Statement": [
  {"Sid": "NotJoe", "Effect": "Deny", "Principal": {"AWS": "arn:aws:iam::000000000000:user/joe"}, "Action": "dynamodb:GetItem", "Resource": "arn:aws:dynamodb:us-east-1:000000000000:table/Orders"}]}`
)

// explainFiles writes the files into a folder.
func explainFiles(t *testing.T) (file func(name string) string) {
	t.Helper()
	dir := t.TempDir()
	file = func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"orders.json": explainedOrders, "policies.yaml": explainedPrincipals, "app.json": explainedApp, "all.json": explainedAll,
		"boundary.json": explainedBoundary, "session.json": explainedSession, "table.json": explainedTable,
	} {
		writePrivate(t, file(name), text)
	}
	return file
}

// explained runs the command with --json.
func explained(t *testing.T, args ...string) (code int, r explainedRequest, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(append([]string{"policy", "explain", "--json"}, args...), &out, &errs)
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatalf("%v in %s", err, out.String())
		}
	}
	return code, r, errs.String()
}

// What a server does that is no operation of the API is explained by its action, and has no request.
func TestPolicyExplainOfOwnActions(t *testing.T) {
	file := explainFiles(t)
	writePrivate(t, file("model.json"), `{"Version": "2012-10-17", "Statement": {"Sid": "Model", "Effect": "Allow", "Action": "stator:GetModel", "Resource": "*"}}`)
	for _, c := range []struct {
		policy, operation string
		code              int
		want              string
	}{
		{"model.json", "GetModel", 0, ""},
		{"all.json", "GetModel", 0, ""},
		{"app.json", "GetModel", 1, "not authorized to perform: stator:GetModel on resource: * because no identity-based policy allows the stator:GetModel action"},
		{"model.json", "GetMetrics", 1, "because no identity-based policy allows the stator:GetMetrics action"},
		{"model.json", "GetShapes", 2, "a request has --principal, --operation and --request"}, // it is an operation
		{"model.json", "GetModels", 2, `there is no operation "GetModels"`},
	} {
		code, r, stderr := explained(t, "--principal", "arn:aws:iam::000000000000:user/ana", "--policy", file(c.policy), "--operation", c.operation)
		if code != c.code || !strings.Contains(r.Message+stderr, c.want) {
			t.Errorf("%s with %s: %d %+v %s", c.operation, c.policy, code, r, stderr)
		}
		if c.code != 2 && (len(r.Permissions) != 1 || r.Permissions[0].Action != "stator:"+c.operation || r.Permissions[0].Resource != "*" || r.Allowed != (c.code == 0)) {
			t.Errorf("%s with %s needs %+v", c.operation, c.policy, r)
		}
	}
	if code, _, stderr := explained(t, "--principal", "arn:aws:iam::000000000000:user/ana", "--policy", file("all.json"), "--operation", "GetModel", "--request", file("all.json")); code != 2 || !strings.Contains(stderr, "GetModel has no --request") {
		t.Errorf("with a request: %d %s", code, stderr)
	}
}

// A denial names the statement that decided or that comes nearest, and the condition that
// made it do so.
func TestPolicyExplainDenials(t *testing.T) {
	file := explainFiles(t)
	const ordersARN = "arn:aws:dynamodb:us-east-1:000000000000:table/Orders"
	const key = `"tenant": {"S": "t1"}, "id": {"S": "1"}`
	for _, c := range []struct {
		name, principal, operation, request string
		flags                               []string
		denied                              string // the permission
		reason                              string // the end of the message
		where                               string // the statement
		condition                           string // of it, that decided
		values                              string // the values of the request for it
	}{
		{"leading keys", "user/ana", "PutItem", `{"TableName": "Orders", "Item": {"tenant": {"S": "t2"}, "id": {"S": "1"}}}`, nil,
			"dynamodb:PutItem", "because no identity-based policy allows the dynamodb:PutItem action", "app.json:2 (Tenant)", "dynamodb:LeadingKeys", `"t2"`},
		{"attributes", "user/ana", "GetItem", `{"TableName": "Orders", "Key": {` + key + `}, "ProjectionExpression": "amount, secret"}`, nil,
			"dynamodb:GetItem", "because no identity-based policy allows the dynamodb:GetItem action", "app.json:4 (Columns)", "dynamodb:Attributes", `"id" "tenant" "amount" "secret"`},
		{"all attributes", "user/ana", "GetItem", `{"TableName": "Orders", "Key": {` + key + `}}`, nil,
			"dynamodb:GetItem", "because no identity-based policy allows the dynamodb:GetItem action", "app.json:4 (Columns)", "dynamodb:Select", `"ALL_ATTRIBUTES"`},
		{"no policy", "user/nobody", "GetItem", `{"TableName": "Orders", "Key": {` + key + `}}`, nil,
			"dynamodb:GetItem", "because no identity-based policy allows the dynamodb:GetItem action", "", "", ""},
		{"explicit deny", "user/ana", "DeleteTable", `{"TableName": "Orders"}`, nil,
			"dynamodb:DeleteTable", "with an explicit deny in an identity-based policy", "app.json:6 (NoDrop)", "", ""},
		{"boundary", "user/eve", "PutItem", `{"TableName": "Orders", "Item": {` + key + `}}`, nil,
			"dynamodb:PutItem", "because no permissions boundary allows the dynamodb:PutItem action", "boundary.json:1 (ReadOnly)", "", ""},
		{"session policy", "batch/nightly", "PutItem", `{"TableName": "Orders", "Item": {` + key + `}, "ReturnValues": "ALL_OLD"}`, nil,
			"dynamodb:PutItem", "because no session policy allows the dynamodb:PutItem action", "session.json:2 (Night)", "dynamodb:ReturnValues", `"ALL_OLD"`},
		{"resource policy", "user/joe", "GetItem", `{"TableName": "Orders", "Key": {` + key + `}}`, []string{"--resource-policy", file("table.json")},
			"dynamodb:GetItem", "with an explicit deny in a resource-based policy", "table.json:2 (NotJoe)", "", ""},
		{"full table scan", "user/ana", "ExecuteStatement", `{"Statement": "SELECT * FROM Orders WHERE amount > 5"}`, nil,
			"dynamodb:PartiQLSelect", "with an explicit deny in an identity-based policy", "app.json:8 (NoScan)", "dynamodb:FullTableScan", `"true"`},
		{"second action of a transaction", "user/ana", "TransactWriteItems",
			`{"TransactItems": [{"Put": {"TableName": "Orders", "Item": {` + key + `}}}, {"Delete": {"TableName": "Orders", "Key": {"tenant": {"S": "t3"}, "id": {"S": "1"}}}}]}`, nil,
			"dynamodb:DeleteItem", "because no identity-based policy allows the dynamodb:DeleteItem action", "app.json:2 (Tenant)", "dynamodb:LeadingKeys", `"t3"`},
		{"address", "user/ana", "Query", `{"TableName": "Orders", "KeyConditionExpression": "tenant = :t", "ExpressionAttributeValues": {":t": {"S": "t1"}}}`, []string{"--source-ip", "192.0.2.7"},
			"dynamodb:Query", "because no identity-based policy allows the dynamodb:Query action", "app.json:9 (Office)", "aws:SourceIp", `"192.0.2.7"`},
		{"tags of the table", "user/ana", "Scan", `{"TableName": "Orders"}`, nil,
			"dynamodb:Scan", "because no identity-based policy allows the dynamodb:Scan action", "app.json:10 (TestsOnly)", "aws:ResourceTag/stage", `"prod"`},
		{"date", "user/ana", "UpdateTable", `{"TableName": "Orders", "DeletionProtectionEnabled": true}`, []string{"--time", "2026-12-24T18:00:00Z"},
			"dynamodb:UpdateTable", "with an explicit deny in an identity-based policy", "app.json:11 (Freeze)", "aws:CurrentTime", `"2026-12-24T18:00:00Z"`},
		{"tags of the request", "user/ana", "TagResource", `{"ResourceArn": "` + ordersARN + `", "Tags": [{"Key": "owner", "Value": "x"}]}`, nil,
			"dynamodb:TagResource", "because no identity-based policy allows the dynamodb:TagResource action", "app.json:12 (Tags)", "aws:TagKeys", `"owner"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			principal := "arn:aws:iam::000000000000:" + c.principal
			if !strings.HasPrefix(c.principal, "user/") {
				principal = "arn:aws:sts::000000000000:assumed-role/" + c.principal
			}
			body := filepath.Join(t.TempDir(), "request.json")
			writePrivate(t, body, c.request)
			args := append([]string{"--principal", principal, "--operation", c.operation, "--request", body, "--policies", file("policies.yaml"), "--table-definition", file("orders.json")}, c.flags...)
			code, r, stderr := explained(t, args...)
			if code != exitFailed || r.Allowed || len(r.Permissions) == 0 {
				t.Fatalf("code %d, %+v, %s", code, r, stderr)
			}
			p := r.Permissions[len(r.Permissions)-1]
			want := "User: " + principal + " is not authorized to perform: " + c.denied + " on resource: " + ordersARN + " " + c.reason
			if p.Allowed || p.Action != c.denied || p.Message != want || r.Message != want {
				t.Errorf("%s: %s", p.Action, p.Message)
			}
			where, condition, request := decidingPart(&p, filepath.Dir(file("x")))
			if where != c.where || condition != c.condition || request != c.values {
				t.Errorf("the statement is %s with %s %s, not %s with %s %s", where, condition, request, c.where, c.condition, c.values)
			}
			for _, before := range r.Permissions[:len(r.Permissions)-1] {
				if !before.Allowed || c.operation != "TransactWriteItems" {
					t.Errorf("the permission before it is %+v", before)
				}
			}
			if c.operation == "TransactWriteItems" && len(r.Permissions) != 2 {
				t.Errorf("%d permissions", len(r.Permissions))
			}
		})
	}
}

// decidingPart returns the statement that decided or that comes nearest, and its condition
// with the values of the request: of an Allow the one that is false, of a Deny the true one.
func decidingPart(p *explainedPermission, dir string) (where, key, request string) {
	for _, s := range p.Statements {
		if !s.Decided && !s.Nearest {
			continue
		}
		where = strings.TrimPrefix(whereOf(&s), dir+string(filepath.Separator))
		for _, c := range s.Conditions {
			if c.Holds == (s.Effect == "Deny") {
				key, request = c.Key, listed(c.Request)
			}
		}
	}
	return where, key, request
}

// The table names what decided, and the exit code says what was decided.
func TestPolicyExplainPrints(t *testing.T) {
	file := explainFiles(t)
	writePrivate(t, file("t1.json"), `{"TableName": "Orders", "Item": {"tenant": {"S": "t1"}, "id": {"S": "1"}}}`)
	writePrivate(t, file("t2.json"), `{"TableName": "Orders", "Item": {"tenant": {"S": "t2"}, "id": {"S": "1"}}}`)
	writePrivate(t, file("deny.json"), `{"Version": "2012-10-17", "Statement": {"Sid": "Deny", "Effect": "Deny", "Action": "dynamodb:PutItem", "Resource": "*"}}`)
	writePrivate(t, file("bad.json"), `{"TableName": "O"}`)
	writePrivate(t, file("half.json"), `{"TableName": "Orders",`)
	writePrivate(t, file("shop.model.yaml"), "model: 1\nname: shop\ntables:\n  Orders:\n    key: {partition: tenant, sort: id}\nentities:\n  order:\n    keys: {tenant: '{t}', id: '{i}'}\n    attributes:\n      t: {size: 2}\n      i: {size: 2}\npatterns:\n  - {name: add order, put: order, rate: 1/s}\n")
	put := func(request string, args ...string) []string {
		return append([]string{"--principal", "arn:aws:iam::000000000000:user/ana", "--operation", "PutItem", "--request", file(request)}, args...)
	}
	writePrivate(t, file("described.json"), `{"Table": {"TableName": "Orders", "TableStatus": "ACTIVE", "AttributeDefinitions": [{"AttributeName": "tenant", "AttributeType": "S"}],
		"KeySchema": [{"AttributeName": "tenant", "KeyType": "HASH"}], "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"}, "ItemCount": 5}}`)
	writePrivate(t, file("syntax.json"), `{"TransactItems": [{"Put": {"TableName": "Orders", "Item": {"tenant": {"S": "t1"}, "id": {"S": "1"}}}},
		{"Delete": {"TableName": "Orders", "Key": {"tenant": {"S": "t1"}, "id": {"S": "2"}}, "ConditionExpression": "amount >"}}]}`)
	writePrivate(t, file("denied.json"), `{"TransactItems": [{"Put": {"TableName": "Orders", "Item": {"tenant": {"S": "t2"}, "id": {"S": "1"}}}},
		{"Delete": {"TableName": "Orders", "Key": {"tenant": {"S": "t1"}, "id": {"S": "2"}}, "ConditionExpression": "amount >"}}]}`)
	const stream = "arn:aws:dynamodb:us-east-1:000000000000:table/Orders/stream/2026-01-01T00:00:00.000"
	writePrivate(t, file("describe.json"), `{"StreamArn": "`+stream+`"}`)
	writePrivate(t, file("stream.json"), `{"Version": "2012-10-17", "Statement": {"Sid": "NoStream", "Effect": "Deny", "Principal": "*", "Action": "dynamodb:DescribeStream", "Resource": "`+stream+`"}}`)
	principals, table := []string{"--policies", file("policies.yaml")}, []string{"--table-definition", file("orders.json")}
	known := append(principals, table...)
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"allowed", put("t1.json", known...), exitDone, "allowed  PutItem by arn:aws:iam::000000000000:user/ana"},
		{"the statement", put("t1.json", known...), exitDone, "allowed by " + file("app.json") + ":2 (Tenant)"},
		{"denied", put("t2.json", known...), exitFailed, "denied   PutItem by arn:aws:iam::000000000000:user/ana\n         AccessDeniedException: User: "},
		{"the reason", put("t2.json", known...), exitFailed, "denied   no identity-based policy allows it"},
		{"the nearest", put("t2.json", known...), exitFailed, file("app.json") + ":2 (Tenant), Allow in the identity-based policy: nearest to allow it, but does not match: 1 false condition"},
		{"the condition", put("t2.json", known...), exitFailed, `dynamodb:LeadingKeys  "t2"     "t1", from "${aws:PrincipalTag/tenant}"  no` + "\n"},
		{"others", put("t2.json", known...), exitFailed, "8 statements about other actions or resources: --all prints them"},
		{"all", put("t2.json", append(known, "--all")...), exitFailed, "(Freeze), Deny in the identity-based policy: does not match: another action"},
		{"a model", put("t2.json", append(principals, "--schema", file("shop.model.yaml"))...), exitFailed, "dynamodb:LeadingKeys  \"t2\""},
		{"policies without a file of principals", put("t1.json", append(table, "--policy", file("app.json"), "--principal-tag", "tenant=t1")...), exitDone, "allowed by"},
		{"a boundary without one", put("t1.json", append(table, "--policy", file("all.json"), "--boundary", file("boundary.json"))...), exitFailed, "no permissions boundary allows it"},
		{"a description of the table", put("t2.json", append(principals, "--table-definition", file("described.json"))...), exitFailed, "dynamodb:LeadingKeys  \"t2\""},
		{"a policy of the table by name", put("t1.json", append(known, "--all", "--resource-policy", "Orders="+file("table.json"))...), exitDone, file("table.json") + ":2 (NotJoe), Deny in the resource-based policy: does not match: another principal, another action"},
		{"a policy of another table", put("t1.json", append(known, "--resource-policy", "Other="+file("table.json"))...), exitUsage, "is for table Other, which the request does not name"},
		{"a policy of a stream", append(known, "--principal", "arn:aws:iam::000000000000:user/joe", "--operation", "DescribeStream", "--request", file("describe.json"), "--resource-policy", file("stream.json")),
			exitFailed, "explicitly denied by " + file("stream.json") + ":1 (NoStream)"},
		{"a policy of a table for a stream", append(known, "--principal", "arn:aws:iam::000000000000:user/joe", "--operation", "DescribeStream", "--request", file("describe.json"), "--resource-policy", file("table.json")),
			exitUsage, file("table.json") + ":2:"},
		{"another account", put("t1.json", append(table, "--policy", file("all.json"), "--account", "111122223333")...), exitFailed, "no resource-based policy allows it"},
		{"an unknown table", put("t2.json", principals...), exitUsage, "table Orders is not known, and the values of dynamodb:LeadingKeys depend on it"},
		{"an explicit deny on an unknown table", put("t2.json", "--policy", file("app.json"), "--policy", file("deny.json")), exitFailed, "explicitly denied by " + file("deny.json") + ":1 (Deny)"},
		{"a policy of an unknown table", put("t2.json", append(principals, "--resource-policy", file("table.json"))...), exitUsage, "is for table Orders, which is not known"},
		{"a request that is rejected", put("bad.json", known...), exitUsage, "a server rejects the request before it decides: ValidationException"},
		{"a condition that is rejected", put("syntax.json", append(known, "--operation", "TransactWriteItems")...), exitUsage, "a server rejects the request before it decides: ValidationException: Invalid ConditionExpression"},
		{"a condition that is rejected after a denial", put("denied.json", append(known, "--operation", "TransactWriteItems")...), exitFailed, "note     dynamodb:DeleteItem on arn:aws:dynamodb:us-east-1:000000000000:table/Orders is not decided: the server has denied the request before"},
		{"no request", put("none.json", known...), exitUsage, "cannot read the request"},
		{"a request that is not JSON", put("half.json", known...), exitUsage, file("half.json") + ": the request is not JSON: unexpected end of JSON input"},
		{"a principal that the file does not have", append(known, "--principal", "arn:aws:iam::000000000000:user/zoe", "--operation", "PutItem", "--request", file("t1.json")), exitFailed,
			"does not have the principal arn:aws:iam::000000000000:user/zoe: only policies of resources can allow something"},
		{"an invalid policy", put("t1.json", append(table, "--policy", file("orders.json"))...), exitUsage, file("orders.json") + ":1:2"},
		{"no policies", put("t1.json", table...), exitUsage, "give the policies"},
		{"two sets of policies", put("t1.json", append(known, "--policy", file("all.json"))...), exitUsage, "--policy is in place of --policies"},
		{"another operation", []string{"--principal", "x", "--operation", "PutItems", "--request", "x"}, exitUsage, `there is no operation "PutItems"`},
		{"another principal", append(known, "--principal", "ana", "--operation", "PutItem", "--request", file("t1.json")), exitUsage, `--principal: "ana" is not the ARN`},
		{"half a request", []string{"--principal", "x"}, exitUsage, "a request has --principal, --operation and --request"},
		{"no address", put("t1.json", append(known, "--source-ip", "office")...), exitUsage, `--source-ip is "office", but must be an address`},
		{"no account", put("t1.json", append(known, "--account", "1")...), exitUsage, `--account is "1", but must have twelve digits`},
		{"no time", put("t1.json", append(known, "--time", "noon")...), exitUsage, `--time is "noon", but must be a time`},
		{"both forms", put("t1.json", "--request-id", "X"), exitUsage, "--principal describes a request"},
		{"no server", []string{"--request-id", "X"}, exitUsage, "--endpoint must name the server"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if code := Run(append([]string{"policy", "explain"}, c.args...), &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
				t.Errorf("code %d, not %d, or %q is not in\n%s", code, c.code, c.want, out.String())
			}
			if regexp.MustCompile(`(?m) $`).MatchString(out.String()) {
				t.Error("a line ends with spaces")
			}
		})
	}
}

// A server explains what it has denied in the form of the command, and knows the tables,
// tags and policies that decide about other requests.
func TestPolicyExplainOfServer(t *testing.T) {
	file := explainFiles(t)
	writePrivate(t, file("keys.yaml"), "keys:\n"+
		"  - {access_key: AKIAROOTROOTROOTROOT, secret: "+testSecret+", principal: 'arn:aws:iam::000000000000:root'}\n"+
		"  - {access_key: AKIAANAANAANAANAANAA, secret: "+testSecret+", principal: 'arn:aws:iam::000000000000:user/ana'}\n")
	access, err := stator.OpenAccess(stator.AccessOptions{Keys: file("keys.yaml"), Policies: file("policies.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	db, err := stator.Open(t.Context(), stator.Options{Access: access})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(db.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	send := func(key, operation, body string) (status int, id string) {
		t.Helper()
		r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		if err := signRequest(r, []byte(body), aws.Credentials{AccessKeyID: key, SecretAccessKey: testSecret}, "us-east-1"); err != nil {
			t.Fatal(err)
		}
		reply, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close()
		return reply.StatusCode, reply.Header.Get("X-Amzn-Requestid")
	}
	if status, _ := send("AKIAROOTROOTROOTROOT", "CreateTable", explainedOrders); status != http.StatusOK {
		t.Fatalf("CreateTable answers %d", status)
	}
	const put = `{"TableName": "Orders", "Item": {"tenant": {"S": "t2"}, "id": {"S": "1"}}}`
	status, id := send("AKIAANAANAANAANAANAA", "PutItem", put)
	if status != http.StatusBadRequest || id == "" {
		t.Fatalf("PutItem answers %d with the id %q", status, id)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAROOTROOTROOTROOT")
	t.Setenv("AWS_SECRET_ACCESS_KEY", testSecret)
	t.Setenv("AWS_SESSION_TOKEN", "")
	code, denied, stderr := explained(t, "--request-id", id, "--endpoint", server.URL)
	if code != exitFailed || denied.RequestID != id || denied.Operation != "PutItem" || len(denied.Permissions) != 1 {
		t.Fatalf("code %d: %+v, %s", code, denied, stderr)
	}

	writePrivate(t, file("put.json"), put)
	code, offline, stderr := explained(t, "--principal", "arn:aws:iam::000000000000:user/ana", "--operation", "PutItem", "--request", file("put.json"),
		"--policies", file("policies.yaml"), "--endpoint", server.URL)
	if code != exitFailed || len(offline.Permissions) != 1 {
		t.Fatalf("code %d: %+v, %s", code, offline, stderr)
	}
	offline.RequestID, offline.Time = denied.RequestID, denied.Time
	inCommand, _ := json.Marshal(offline)
	inServer, _ := json.Marshal(denied)
	if !bytes.Equal(inCommand, inServer) {
		t.Errorf("the command decides\n%s\nand the server\n%s", inCommand, inServer)
	}

	writePrivate(t, file("scan.json"), `{"TableName": "Orders"}`)
	_, scan, stderr := explained(t, "--principal", "arn:aws:iam::000000000000:user/ana", "--operation", "Scan", "--request", file("scan.json"),
		"--policies", file("policies.yaml"), "--endpoint", server.URL)
	if len(scan.Permissions) != 1 {
		t.Fatalf("%+v, %s", scan, stderr)
	}
	if where, key, value := decidingPart(&scan.Permissions[0], filepath.Dir(file("x"))); key != "aws:ResourceTag/stage" || value != `"prod"` {
		t.Errorf("the tags of the server's table do not decide: %s %s %s", where, key, value)
	}
	if code, _, stderr := explained(t, "--request-id", "NONE", "--endpoint", server.URL); code != exitUsage || !strings.Contains(stderr, "No denied request with the id NONE is known") {
		t.Errorf("code %d: %s", code, stderr)
	}
}
