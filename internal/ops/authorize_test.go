package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/policy"
	"github.com/stator-db/stator/internal/protocol/principals"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// accessTest sends requests as a user with a policy.
type accessTest struct {
	*tableTest
	identity *principals.Identity
}

func newAccessTest(t *testing.T, statements string) *accessTest {
	t.Helper()
	parsed, err := policy.Parse(policy.Identity, []byte(`{"Version":"2012-10-17","Statement":[`+statements+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	principal, err := policy.NewPrincipal("arn:aws:iam::000000000000:user/me", "")
	if err != nil {
		t.Fatal(err)
	}
	tt := newTableTest(t, 0)
	for _, name := range []string{"Mine", "Secret"} {
		tt.make(`"TableName":"` + name + `","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"a","AttributeType":"S"},{"AttributeName":"b","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],
			"GlobalSecondaryIndexes":[{"IndexName":"two","KeySchema":[{"AttributeName":"a","KeyType":"HASH"},{"AttributeName":"b","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL"}}],"Tags":[{"Key":"owner","Value":"` + name + `"}]`)
	}
	return &accessTest{tt, &principals.Identity{Principal: principal, Policies: policy.Policies{Identity: []*policy.Document{parsed}}}}
}

// try sends a request, and returns its reply or its error with all members.
func (a *accessTest) try(operation, body string) (string, error) {
	a.Helper()
	caller := Caller{Region: "us-east-1", Identity: a.identity}
	if a.identity != nil {
		caller.Principal = a.identity.Principal.ARN
	}
	ctx := WithCaller(a.Context(), caller)
	reply, err := answer(ctx, a.s, operation, []byte(body), new(buffer.Scratch))
	var fault *apierror.Error
	if errors.As(err, &fault) {
		return string(wire.AppendError(nil, fault)), err
	}
	if err != nil {
		a.Errorf("%s %s: %v", operation, body, err)
	}
	return string(reply), err
}

func (a *accessTest) denied(operation, body string) {
	a.Helper()
	if reply, err := a.try(operation, body); err == nil || !strings.Contains(reply, "AccessDeniedException") {
		a.Errorf("%s %s: %s", operation, body, reply)
	}
}

func (a *accessTest) allowed(operation, body string) string {
	a.Helper()
	reply, err := a.try(operation, body)
	if err != nil {
		a.Errorf("%s %s: %s", operation, body, reply)
	}
	return reply
}

// A resource has one name in policies, whatever spelling of its ARN an operation accepts.
func TestSpellingsOfARNs(t *testing.T) {
	a := newAccessTest(t, `{"Effect":"Allow","Action":"dynamodb:*","Resource":"*"},
		{"Effect":"Deny","Action":"dynamodb:*","Resource":["arn:aws:dynamodb:*:*:table/Secret","arn:aws:dynamodb:*:*:table/Secret/*"]}`)
	for _, arn := range []string{"arn:aws:dynamodb:us-east-1:000000000000:table/Secret", "arn:x:dynamodb:us-east-1:000000000000:table/Secret",
		"arn::dynamodb:us-east-1:000000000000:table/Secret", "arn:table/Mine/x:dynamodb:us-east-1:000000000000:table/Secret"} {
		for operation, body := range map[string]string{
			"ListTagsOfResource": `{"ResourceArn":"%s"}`, "TagResource": `{"ResourceArn":"%s","Tags":[{"Key":"a","Value":"b"}]}`, "UntagResource": `{"ResourceArn":"%s","TagKeys":["a"]}`,
			"GetResourcePolicy": `{"ResourceArn":"%s"}`, "DeleteResourcePolicy": `{"ResourceArn":"%s"}`, "PutResourcePolicy": `{"ResourceArn":"%s","Policy":"{}"}`,
			"RestoreTableToPointInTime": `{"SourceTableArn":"%s","TargetTableName":"Copy","UseLatestRestorableTime":true}`, "ExportTableToPointInTime": `{"TableArn":"%s","S3Bucket":"bucket"}`,
			"DescribeBackup": `{"BackupArn":"%s/backup/01489173575360-b308cd7d"}`, "DescribeExport": `{"ExportArn":"%s/export/01489173575360-b308cd7d"}`,
		} {
			a.denied(operation, fmt.Sprintf(body, arn))
		}
	}
}

// Tags count for the table that a request uses, and a tag whose name occurs in several
// spellings has no value.
func TestTagsOfPermissions(t *testing.T) {
	a := newAccessTest(t, `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringEquals":{"aws:ResourceTag/owner":"Mine"}}},
		{"Effect":"Allow","Action":["dynamodb:CreateTable","dynamodb:TagResource"],"Resource":"*","Condition":{"StringEquals":{"aws:RequestTag/owner":"me"}}}`)
	a.denied("ListTagsOfResource", `{"ResourceArn":"arn:table/Mine/x:dynamodb:us-east-1:000000000000:table/Secret"}`)
	a.allowed("ListTagsOfResource", `{"ResourceArn":"arn:aws:dynamodb:us-east-1:000000000000:table/Mine"}`)
	for range 20 {
		a.denied("CreateTable", `{"TableName":"Other","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"Tags":[{"Key":"owner","Value":"boss"},{"Key":"OWNER","Value":"me"}]}`)
	}
	if err := a.s.DB.SetTags(t.Context(), "Mine", withOtherOwner); err != nil {
		t.Fatal(err)
	}
	a.denied("GetItem", `{"TableName":"Mine","Key":{"pk":{"S":"a"}}}`)
}

// A key of a type that no key has is a fault of the request, and not of the server.
func TestKeysOfOtherTypes(t *testing.T) {
	a := newAccessTest(t, `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"ForAllValues:StringEquals":{"dynamodb:LeadingKeys":"me"}}}`)
	for _, value := range []string{`{"NULL":true}`, `{"BOOL":true}`, `{"L":[]}`, `{"M":{}}`, `{"SS":["me"]}`, `{}`, `{"N":"x"}`, `{"S":""}`, `null`} {
		for operation, body := range map[string]string{
			"GetItem": `{"TableName":"Mine","Key":{"pk":%s}}`, "PutItem": `{"TableName":"Mine","Item":{"pk":%s}}`, "UpdateItem": `{"TableName":"Mine","Key":{"pk":%s}}`, "DeleteItem": `{"TableName":"Mine","Key":{"pk":%s}}`,
			"BatchGetItem": `{"RequestItems":{"Mine":{"Keys":[{"pk":%s}]}}}`, "BatchWriteItem": `{"RequestItems":{"Mine":[{"PutRequest":{"Item":{"pk":%s}}}]}}`,
			"TransactGetItems": `{"TransactItems":[{"Get":{"TableName":"Mine","Key":{"pk":%s}}}]}`, "TransactWriteItems": `{"TransactItems":[{"Put":{"TableName":"Mine","Item":{"pk":%s}}}]}`,
			"Query":            `{"TableName":"Mine","KeyConditionExpression":"pk = :v","ExpressionAttributeValues":{":v":%s}}`,
			"ExecuteStatement": `{"Statement":"SELECT * FROM Mine WHERE pk = ?","Parameters":[%s]}`,
		} {
			if reply, err := a.try(operation, fmt.Sprintf(body, value)); err == nil && !strings.Contains(reply, `"Items":[]`) {
				t.Errorf("%s of %s: %s", operation, value, reply)
			}
		}
	}
}

// What a failed condition returns counts as a returned value.
func TestReturnedOnFailure(t *testing.T) {
	a := newAccessTest(t, `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringEqualsIfExists":{"dynamodb:ReturnValues":["NONE","UPDATED_OLD","UPDATED_NEW"]}}}`)
	for _, returned := range []string{`"NONE"`, `"UPDATED_NEW"`, `"UPDATED_OLD"`} {
		a.denied("UpdateItem", `{"TableName":"Mine","Key":{"pk":{"S":"a"}},"UpdateExpression":"SET c = pk","ConditionExpression":"attribute_exists(x)","ReturnValues":`+returned+`,"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`)
	}
	a.denied("ExecuteStatement", `{"Statement":"UPDATE Mine SET c=1 WHERE pk='a' RETURNING MODIFIED NEW *","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`)
	a.denied("ExecuteTransaction", `{"TransactStatements":[{"Statement":"EXISTS(SELECT pk FROM Mine WHERE pk='a' AND x=1)","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}]}`)
}

// A statement that does not choose all parts of a partition key reads the whole index.
func TestPartOfAPartitionKey(t *testing.T) {
	a := newAccessTest(t, `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"ForAllValues:StringEquals":{"dynamodb:LeadingKeys":"me"},"Null":{"dynamodb:LeadingKeys":"false"}}}`)
	a.denied("ExecuteStatement", `{"Statement":"SELECT * FROM Mine.two WHERE a='me'"}`)
	a.allowed("ExecuteStatement", `{"Statement":"SELECT * FROM Mine.two WHERE a='me' AND b='x'"}`)
}

// Policies with conditions do not change how faults are reported.
func TestFaultsBesidePolicies(t *testing.T) {
	a := newAccessTest(t, `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"ForAllValues:StringEquals":{"dynamodb:LeadingKeys":"me"}}}`)
	for _, c := range []struct{ operation, body string }{
		{"BatchExecuteStatement", `{"Statements":[{"Statement":"SELECT"},{"Statement":"SELECT * FROM Mine WHERE pk='me'"}]}`},
		{"BatchExecuteStatement", `{"Statements":[{"Statement":"SELECT"}]}`},
		{"ExecuteStatement", `{"Statement":"SELECT * FROM"}`},
		{"ExecuteTransaction", `{"TransactStatements":[{"Statement":"UPDATE Mine SET a=1 WHERE pk='me'"},{"Statement":"UPDATE"}]}`},
		{"ExecuteTransaction", `{"TransactStatements":[{"Statement":"1+1"}]}`},
		{"UpdateItem", `{"TableName":"Mine","Key":{"pk":{"S":"me"}},"UpdateExpression":"SET a = :a","ExpressionAttributeValues":{":a":{"N":"x"},":b":{"S":"y"}}}`},
		{"Query", `{"TableName":"Mine","KeyConditionExpression":"pk = :v","ExpressionAttributeValues":{":v":{"S":"me"},":w":{"S":"x"}}}`},
		{"Scan", `{"TableName":"Mine","FilterExpression":"x = :v","ExpressionAttributeValues":{":v":{"N":"x"}}}`},
		{"GetItem", `{"TableName":"Missing","Key":{"pk":{"S":"me"}}}`},
	} {
		with, _ := a.try(c.operation, c.body)
		identity := a.identity
		a.identity = nil
		without, _ := a.try(c.operation, c.body)
		a.identity = identity
		if with != without {
			t.Errorf("%s %s\nwith a policy    %s\nwithout a policy %s", c.operation, c.body, with, without)
		}
	}
}

// What is kept of a denied request is bounded.
func TestDenialsAreBounded(t *testing.T) {
	a := newAccessTest(t, `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"ForAllValues:StringEquals":{"dynamodb:Attributes":"pk"}}}`)
	item := map[string]any{"pk": map[string]string{"S": "me"}}
	for i := range 900 {
		item[fmt.Sprint("attribute-with-a-long-name-", strings.Repeat("x", 300), i)] = map[string]bool{"NULL": true}
	}
	body, err := json.Marshal(map[string]any{"RequestItems": map[string]any{"Mine": []any{map[string]any{"PutRequest": map[string]any{"Item": item}}}}})
	if err != nil {
		t.Fatal(err)
	}
	a.denied("BatchWriteItem", string(body))
	kept, err := json.Marshal(a.s.denials.ring[0].Explanation)
	if err != nil || len(kept) > 20_000 {
		t.Errorf("%d bytes are kept: %v", len(kept), err)
	}
}

// The root user can remove any policy of a table.
func TestRootRemovesPolicies(t *testing.T) {
	a := newAccessTest(t, `{"Effect":"Allow","Action":"*","Resource":"*"}`)
	const arn = "arn:aws:dynamodb:us-east-1:000000000000:table/Mine"
	document, _ := json.Marshal(`{"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*","Action":"dynamodb:*","Resource":"*"}}`)
	a.allowed("PutResourcePolicy", `{"ResourceArn":"`+arn+`","Policy":`+string(document)+`,"ConfirmRemoveSelfResourceAccess":true}`)
	a.advance(policyInterval)
	a.denied("DeleteResourcePolicy", `{"ResourceArn":"`+arn+`"}`)
	root, err := policy.NewPrincipal("arn:aws:iam::000000000000:root", "")
	if err != nil {
		t.Fatal(err)
	}
	a.identity = &principals.Identity{Principal: root}
	a.denied("GetItem", `{"TableName":"Mine","Key":{"pk":{"S":"a"}}}`)
	a.allowed("DeleteResourcePolicy", `{"ResourceArn":"`+arn+`"}`)
	a.allowed("GetItem", `{"TableName":"Mine","Key":{"pk":{"S":"a"}}}`)
}

// The policy of a table says nothing about its backups, exports and imports, which are
// resources of their own without policies.
func TestTablePolicyAndBackups(t *testing.T) {
	a := newAccessTest(t, `{"Effect":"Allow","Action":"dynamodb:PutResourcePolicy","Resource":"*"}`)
	const arn = "arn:aws:dynamodb:us-east-1:000000000000:table/Mine"
	document, _ := json.Marshal(`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::000000000000:user/me"},"Action":"dynamodb:*","Resource":"*"}}`)
	a.allowed("PutResourcePolicy", `{"ResourceArn":"`+arn+`","Policy":`+string(document)+`}`)
	a.allowed("GetItem", `{"TableName":"Mine","Key":{"pk":{"S":"a"}}}`)
	a.allowed("Query", `{"TableName":"Mine","IndexName":"two","KeyConditionExpression":"a = :a AND b = :a","ExpressionAttributeValues":{":a":{"S":"x"}}}`)
	for operation, member := range map[string]string{"DescribeBackup": "BackupArn", "DeleteBackup": "BackupArn", "DescribeExport": "ExportArn", "DescribeImport": "ImportArn"} {
		kind := strings.ToLower(strings.TrimSuffix(member, "Arn"))
		a.denied(operation, `{"`+member+`":"`+arn+`/`+kind+`/01700000000000-aaaaaaaa"}`)
	}
}

// A policy that was accepted decides, also when its stored form is larger than a policy may be that is
// sent: account ids are stored as ARNs.
func TestStoredPolicyIsLarger(t *testing.T) {
	const n = 700
	accounts := make([]string, n)
	for i := range accounts {
		accounts[i] = fmt.Sprintf(`"%012d"`, 100_000_000_000+i)
	}
	document := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":[` + strings.Join(accounts, ",") + `]},"Action":"dynamodb:GetItem","Resource":"*"}}`
	text, _ := json.Marshal(document)
	a := newAccessTest(t, `{"Effect":"Allow","Action":"*","Resource":"*"}`)
	const arn = "arn:aws:dynamodb:us-east-1:000000000000:table/Mine"
	a.allowed("PutResourcePolicy", `{"ResourceArn":"`+arn+`","Policy":`+string(text)+`}`)
	if stored := a.allowed("GetResourcePolicy", `{"ResourceArn":"`+arn+`"}`); len(stored) <= policy.MaxResourceBytes {
		t.Fatalf("the stored policy has %d bytes only", len(stored))
	}
	a.allowed("CreateTable", `{"TableName":"Made","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"ResourcePolicy":`+string(text)+`}`)
	for _, table := range []string{"Mine", "Made"} {
		a.allowed("GetItem", `{"TableName":"`+table+`","Key":{"pk":{"S":"a"}}}`)
	}
}

// A request that could not be decoded is written down without a panic.
func TestAuditOfMalformedRequests(t *testing.T) {
	tt := newTableTest(t, 0)
	for _, all := range []map[string]*operation{operations, streamOperations, ownOperations} {
		for name := range maps.Keys(all) {
			request, err := Read(name, []byte(`{}`))
			if err == nil {
				continue
			}
			tt.s.Audit(t.Context(), request)
		}
	}
}

func withOtherOwner(tags []schema.Tag) ([]schema.Tag, error) {
	return append(tags, schema.Tag{Key: "OWNER", Value: "Mine"}), nil
}

// An identity of another account is permitted nothing that is not done to a resource, whatever its
// policies: no resource allows it.
func TestPermittedByOtherAccounts(t *testing.T) {
	a := newAccessTest(t, `{"Effect":"Allow","Action":"stator:*","Resource":"*"}`)
	for arn, want := range map[string]bool{
		"arn:aws:iam::000000000000:user/me": true, "arn:aws:iam::000000000000:root": true,
		"arn:aws:iam::111122223333:user/me": false, "arn:aws:iam::111122223333:root": false,
	} {
		principal, err := policy.NewPrincipal(arn, "")
		if err != nil {
			t.Fatal(err)
		}
		identity := &principals.Identity{Principal: principal, Policies: a.identity.Policies}
		ctx := WithCaller(t.Context(), Caller{Region: "us-east-1", Identity: identity})
		if err := a.s.Permit(ctx, "stator:Promote"); (err == nil) != want {
			t.Errorf("a server with a database: %s may promote: %v", arn, err)
		}
		if err := Permitted(&Caller{Identity: identity}, DefaultAccount, "stator:Promote", a.s.DB.Now()); (err == nil) != want {
			t.Errorf("a server without a database: %s may promote: %v", arn, err)
		}
		if got := a.s.administers(ctx)(identity); got != want {
			t.Errorf("%s is an administrator: %v", arn, got)
		}
	}
}
